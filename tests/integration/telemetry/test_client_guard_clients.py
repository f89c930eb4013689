"""The client guard with real clients: who would die does not, and an operator sees why it is asked otherwise."""

import contextlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from confluent_kafka import Producer
from integration.telemetry.old_client import old_python, polling_client
from support.clients.java_clients import clients_jars, java_program
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

WITHOUT_JAVA = pytest.mark.skipif(
    shutil.which("mvn") is None, reason="Maven is needed to get kafka-clients (Debian: apt-get install maven)"
)
SUBSCRIPTION = '[client-metrics.all]\nmetrics = "{metrics}"\n"interval.ms" = "200"\n'
UNGUARDED = "[client-guard.{rule}]\nenabled = false\n"


@pytest.fixture(scope="module")
def librdkafka_250() -> None:
    """Skips where the old client cannot be installed: PyPI may be out of reach."""
    try:
        old_python("2.5.0")
    except subprocess.SubprocessError as error:
        pytest.skip(f"confluent-kafka 2.5.0 cannot be installed here: {error}")


@contextlib.contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with Node(tmp_path_factory.mktemp("guard"), config=SUBSCRIPTION.format(metrics="*")) as running_node:
        yield running_node


def answered(status: dict[str, Any], what: str) -> int:
    return int(status["telemetry"][f"{what}_answers"].get("NONE", 0))


def wait_for_pushes(node: Node, number: int, *, polled: Producer | None = None) -> dict[str, Any]:
    """The status once so many pushes came after this call."""
    wanted = answered(node.status(), "push") + number

    def came(status: dict[str, Any]) -> bool:
        if polled is not None:
            polled.poll(0.05)
        return answered(status, "push") >= wanted

    return node.wait_for(came, what=f"{number} pushes")


def applied(status: dict[str, Any], rule: str) -> int:
    return int(status["telemetry"]["client_guard"].get(rule, {"subscriptions": 0})["subscriptions"])


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_librdkafka_2_5_0_lives_under_a_subscription_that_ends_it_without_the_guard(
    node: Node, kind: str, librdkafka_250: None
) -> None:
    # Meant for the other kind of client: harmless to all but this version.
    foreign = "org.apache.kafka.consumer." if kind == "producer" else "org.apache.kafka.producer."
    subscription = SUBSCRIPTION.format(metrics=foreign)
    node.reread(subscription)
    before = applied(node.status(), "librdkafka-crash")
    with running(polling_client("2.5.0", kind, node.port)) as client:
        status = wait_for_pushes(node, 3)
        assert client.poll() is None
    assert applied(status, "librdkafka-crash") == before + 1
    shown = '"rule": "librdkafka-crash", "action": "rewrite", "software_name": "confluent-kafka-python"'
    assert shown in node.log.read_text()

    node.reread(subscription + UNGUARDED.format(rule="librdkafka-crash"))
    with running(polling_client("2.5.0", kind, node.port)) as client:
        assert client.wait(PATIENCE_S) == -signal.SIGABRT


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_librdkafka_2_5_0_lives_when_several_prefixes_are_asked(node: Node, kind: str, librdkafka_250: None) -> None:
    node.reread(SUBSCRIPTION.format(metrics="org.apache.kafka.consumer.,org.apache.kafka.producer."))
    with running(polling_client("2.5.0", kind, node.port)) as client:
        wait_for_pushes(node, 3)
        assert client.poll() is None


def test_a_rule_of_ones_own_withholds_until_it_is_taken_back(node: Node) -> None:
    subscription = SUBSCRIPTION.format(metrics="*")
    rule = '[client-guard.mute]\nsoftware = "confluent-kafka-python"\naction = "withhold"\nreason = "it floods us"\n'
    node.reread(subscription + rule)
    start = node.status()
    producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 3})

    def asked_thrice(status: dict[str, Any]) -> bool:
        producer.poll(0.05)
        return answered(status, "get") >= answered(start, "get") + 3

    status = node.wait_for(asked_thrice, what="three Gets")
    assert answered(status, "push") == answered(start, "push")
    assert status["telemetry"]["client_guard"]["mute"]["action"] == "withhold"
    shown = run_cli("status", "--log-dirs", str(node.data)).stdout
    assert "client guard mute" in shown
    assert "withhold, 1 subscriptions: it floods us" in shown

    node.reread(subscription)
    wait_for_pushes(node, 2, polled=producer)


def test_prefixes_that_no_client_knows_are_said_at_the_start_and_once_for_each_change(tmp_path: Path) -> None:
    wrong = SUBSCRIPTION.format(metrics="producer.node.,org.apache.kafka.consumer.")
    with Node(tmp_path, config=wrong) as node:
        assert '"nearest": "org.apache.kafka.producer.node."' in node.log.read_text()
        shown = run_cli("status", "--log-dirs", str(node.data)).stdout
        assert "producer.node. of all; did you mean org.apache.kafka.producer.node.?" in shown
        node.reread(wrong + '[client-metrics.app]\nmetrics = "com.example."\n')
        assert node.status()["telemetry"]["unmatched_prefixes"] == {
            "all": {"producer.node.": "org.apache.kafka.producer.node."},
            "app": {"com.example.": ""},
        }
        assert node.log.read_text().count("telemetry.unknown_metric_prefix") == 2
        node.reread(SUBSCRIPTION.format(metrics="*"))
        assert node.status()["telemetry"]["unmatched_prefixes"] == {}


@WITHOUT_JAVA
def test_a_java_producer_without_zstd_keeps_its_network_thread(node: Node, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    shutil.copytree(clients_jars("4.0.0"), jars, ignore=shutil.ignore_patterns("zstd-*"))
    program = java_program("4.0.0", "IdleProducer", jars)
    subscription = SUBSCRIPTION.format(metrics="*")
    node.reread(subscription + UNGUARDED.format(rule="java-4.0.0-missing-codec"))
    unguarded = tmp_path / "unguarded.log"
    with unguarded.open("wb") as log, running(idle(program, node.port, log)):
        wait_for(
            unguarded.read_text,
            "the end of the producer's network thread",
            until=lambda text: "Uncaught exception in thread 'kafka-producer-network-thread" in text,
        )
    node.reread(subscription)
    guarded = tmp_path / "guarded.log"
    with guarded.open("wb") as log, running(idle(program, node.port, log)):
        wait_for_pushes(node, 3)
    assert "Uncaught" not in guarded.read_text()


def idle(program: list[str], port: int, log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*program, f"127.0.0.1:{port}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log
    )
