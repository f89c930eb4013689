"""Changes by admin requests: durable, in force at all workers and for live clients, bounded, only where allowed."""

import random
import signal
import struct
import threading
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient as RdkafkaAdmin
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from support.admin_client import (
    BROKER,
    CLIENT_METRICS,
    DELETE,
    DESCRIBE,
    INCREMENTAL,
    LIST,
    SET,
    AdminClient,
)
from support.node import Node
from support.payloads import metrics_data
from support.raw_client import RawClient

from fleetgauge.listener.apis.configs import MAX_REFUSED_BYTES, MAX_REQUEST_BYTES

pytestmark = pytest.mark.integration

ALL = '[client-metrics.all]\nmetrics = "org.apache.kafka.producer."\ninterval.ms = 1000\n'
REFUSED = 31
STRANGE = "</script>\n\x1b[31m\x1f\u202e\0"
EVERY_KEY: list[tuple[str, int, str | None]] = [(key, DELETE, "") for key in ("interval.ms", "match", "metrics")]


def wait_for(client: RawClient, instance_id: uuid.UUID, metrics: list[str], within_s: float = 20.0) -> None:
    """Gets, as often as the interval allows, until the client is asked for these."""
    deadline = time.monotonic() + within_s
    found = client.get(instance_id)
    while found.requested_metrics != metrics:
        assert time.monotonic() < deadline, found
        time.sleep(0.3)
        found = client.get(instance_id)


def test_a_live_librdkafka_client_is_asked_for_more_after_an_alter_and_an_older_file_does_not_undo_it(
    tmp_path: Path,
) -> None:
    with Node(tmp_path, config=ALL) as node, AdminClient(node.port) as admin:
        producer = Producer({"bootstrap.servers": f"127.0.0.1:{node.port}", "client.id": "live"})
        node.wait_for(lambda status: status["push_log"]["logged"] >= 1, what="the client's first push")
        answers = node.status()["telemetry"]["push_answers"]
        assert admin.set("more", metrics="org.apache.kafka.consumer.", match="client_id=live") == (0, None)
        changed = node.wait_for(
            lambda status: (
                status["telemetry"]["push_answers"].get("UNKNOWN_SUBSCRIPTION_ID", 0)
                > answers.get("UNKNOWN_SUBSCRIPTION_ID", 0)
            ),
            what="the client to learn of it by a push that is refused",
        )
        logged = changed["push_log"]["logged"]
        node.wait_for(lambda status: status["push_log"]["logged"] > logged, what="pushes under the new subscription")
        assert admin.set("all", metrics="org.apache.kafka.admin.") == (0, None)
        node.reread(ALL.replace("1000", "2000"))
        producer.close()
        with RawClient(node.port, client_id="live") as other:
            found = other.get()
            assert found.requested_metrics == ["org.apache.kafka.admin.", "org.apache.kafka.consumer."]
            assert found.push_interval_ms == 2000
        assert "subscription.overridden" in node.output()
        node.stop()
        node.start()
        with AdminClient(node.port) as again:
            assert again.names() == ["all", "more"]
            assert [each.value for each in again.describe((CLIENT_METRICS, "all"))[0].configs] == [
                "2000",
                "",
                "org.apache.kafka.admin.",
            ]


def test_clients_that_a_change_does_not_concern_keep_their_subscription_and_their_pushes(tmp_path: Path) -> None:
    with Node(tmp_path, config=ALL) as node, AdminClient(node.port) as admin, RawClient(node.port) as client:
        before = client.get()
        assert admin.set("others", metrics="*", match="client_id=somebody-else") == (0, None)
        assert client.push(before, metrics_data(2)).error_code == 0
        time.sleep(1.1)
        assert client.get(before.client_instance_id).subscription_id == before.subscription_id


def test_a_change_reaches_all_workers_and_survives_the_end_of_one(tmp_path: Path) -> None:
    with Node(tmp_path, "workers=2", config=ALL) as node, ExitStack() as stack:
        admin = stack.enter_context(AdminClient(node.port))
        clients = [stack.enter_context(RawClient(node.port)) for _ in range(12)]  # some at each worker
        ids = [client.get().client_instance_id for client in clients]
        assert {each["connections"] > 0 for each in node.status()["workers"]} == {True}
        assert admin.set("more", metrics="org.apache.kafka.consumer.") == (0, None)
        for _ in range(6):
            with AdminClient(node.port) as any_worker:  # what was acknowledged is seen at once by admin requests
                assert any_worker.names() == ["all", "more"]
        for client, instance_id in zip(clients, ids, strict=True):
            wait_for(client, instance_id, ["org.apache.kafka.consumer.", "org.apache.kafka.producer."])
        threads = [threading.Thread(target=make_some, args=(node.port, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with AdminClient(node.port) as any_worker:  # changes at the same time at several workers lose none
            made = {f"t{number}-{each}" for number in range(4) for each in range(10)}
            assert set(any_worker.names()) == {"all", "more", *made}
        node.stop()
        node.start()
        with AdminClient(node.port) as any_worker:
            assert len(any_worker.names()) == 42


def make_some(port: int, number: int) -> None:
    for each in range(10):
        with AdminClient(port) as admin:
            assert admin.set(f"t{number}-{each}", metrics="a") == (0, None)


def kill_rounds(tmp_path: Path, rounds: int, *options: str) -> None:
    """Changes one resource without end, and kills the node at random: what was acknowledged is there, whole."""
    acknowledged = attempted = 0
    node = Node(tmp_path, *options, config='[client-metrics.none]\nmetrics = ""\n')
    for _ in range(rounds):
        with node, AdminClient(node.port) as admin:
            (found,) = admin.describe((CLIENT_METRICS, "counter"))
            metrics, match = found.configs[2].value, found.configs[1].value
            if attempted:
                assert int(metrics.removeprefix("m")) in (acknowledged, attempted), (metrics, acknowledged, attempted)
                assert match == f"client_id={metrics}", found
                acknowledged = int(metrics.removeprefix("m"))
            assert node.process is not None
            killer = threading.Timer(random.uniform(0.0, 0.5), node.process.send_signal, [signal.SIGKILL])
            killer.start()
            try:
                while True:
                    attempted = acknowledged + 1
                    assert admin.set("counter", metrics=f"m{attempted}", match=f"client_id=m{attempted}") == (0, None)
                    acknowledged = attempted
            except (ConnectionError, TimeoutError):
                killer.join()
    assert acknowledged > rounds


def test_a_kill_at_any_moment_loses_no_acknowledged_change(tmp_path: Path) -> None:
    kill_rounds(tmp_path, 4)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_in_a_hundred_rounds(tmp_path: Path, workers: int) -> None:
    kill_rounds(tmp_path, 100, f"workers={workers}")


def test_requests_beyond_the_bounds_are_refused_and_the_node_serves_on(tmp_path: Path) -> None:
    with Node(tmp_path, "client.metrics.resources.max=10", config=ALL) as node:
        with AdminClient(node.port) as admin:
            many = [(CLIENT_METRICS, f"r{number}", [("metrics", SET, "a")]) for number in range(1_000)]
            errors = [code for code, _ in admin.incremental(*many)]
            assert (errors.count(0), errors.count(44)) == (9, 991)
            assert len(admin.names()) == 10
            assert admin.set("n" * 300, metrics="a")[0] == 42
            assert admin.set("all", metrics="a" * 20_000)[0] == 40
            assert admin.incremental(*[(CLIENT_METRICS, f"r{number}", EVERY_KEY) for number in range(9)])[0] == (
                0,
                None,
            )
            assert admin.set(STRANGE, metrics="a") == (0, None)
            assert admin.names() == sorted([STRANGE, "all"])
        hundred_thousand = [(CLIENT_METRICS, f"r{number}", [("metrics", SET, "a")]) for number in range(100_000)]
        with AdminClient(node.port) as admin, pytest.raises(ConnectionError):
            admin.incremental(*hundred_thousand)
        for body in (b"", b"\xff" * 40, struct.pack(">i", 2**31 - 1) * 2, bytes(MAX_REQUEST_BYTES + 1)):
            for api_key, version in ((DESCRIBE, 1), (DESCRIBE, 4), (INCREMENTAL, 0), (INCREMENTAL, 1), (LIST, 1)):
                with AdminClient(node.port) as admin, pytest.raises(ConnectionError):
                    admin.send_body(api_key, version, body)
        with AdminClient(node.port) as admin:
            assert admin.names() == sorted([STRANGE, "all"])
        output = node.log.read_text()
        assert "\x1b" not in output
        assert "Traceback" not in output, output[-5000:]


def test_a_listener_that_does_not_serve_the_apis_refuses_each_of_them_at_once(tmp_path: Path) -> None:
    with Node(tmp_path, config='admin.listeners = ""\n' + ALL) as node:
        with AdminClient(node.port) as admin:
            assert admin.send(LIST, 1, resource_types=()).error_code.value == REFUSED
            (found,) = admin.describe((BROKER, "1"))
            assert (found.error_code.value, found.configs) == (REFUSED, ())
            assert "admin.listeners" in found.error_message
            assert admin.set("S", metrics="*")[0] == REFUSED
            assert admin.alter((CLIENT_METRICS, "S", {"metrics": "*"}))[0][0] == REFUSED
        with AdminClient(node.port) as admin, pytest.raises(ConnectionError):
            admin.send_body(INCREMENTAL, 1, b"\x02" * (MAX_REFUSED_BYTES + 1))
        assert node.status()["telemetry"]["admin_answers"]["INCREMENTAL_ALTER_CONFIGS: refused"] == 2
        node.reread('admin.listeners = "PLAINTEXT"\n' + ALL)
        with AdminClient(node.port) as admin:
            assert admin.names() == ["all"]


def test_admin_requests_count_against_the_request_quota(tmp_path: Path) -> None:
    quotas = '[quotas."users/<default>"]\nrequest_percentage = 0.01\n'
    with Node(tmp_path, config=ALL + quotas) as node, AdminClient(node.port) as admin:
        times = [admin.send(LIST, 1, resource_types=()).throttle_time.total_seconds() for _ in range(5)]
        assert any(times)


def test_confluent_kafkas_admin_client_reads_and_is_refused_as_by_a_broker(tmp_path: Path) -> None:
    with Node(tmp_path, config=ALL) as node:
        admin = RdkafkaAdmin({"bootstrap.servers": f"127.0.0.1:{node.port}"})
        cluster = admin.describe_cluster().result(30)
        assert [each.port for each in cluster.nodes] == [node.port]
        resource = ConfigResource(ResourceType.BROKER, "1")
        configs = admin.describe_configs([resource])[resource].result(30)
        assert configs["log.dirs"].value == str(node.data)
        assert configs["log.dirs"].is_read_only
        assert configs["ssl.key.password"].value is None
        assert configs["ssl.key.password"].is_sensitive
        change = ConfigResource(
            ResourceType.BROKER,
            "1",
            incremental_configs=[ConfigEntry("log.dirs", "/x", incremental_operation=AlterConfigOpType.SET)],
        )
        with pytest.raises(KafkaException, match=r"Cannot update these configs dynamically: \[log.dirs\]"):
            admin.incremental_alter_configs([change])[change].result(30)
