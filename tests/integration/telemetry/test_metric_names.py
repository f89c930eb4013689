"""The rule that derives telemetry names, against what real Java clients call a metric and what they push."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from support.clients.java_clients import java_program
from support.payloads.payloads import metric_names, metrics_of
from support.programs.node import Node
from support.waiting import wait_for

from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.inspect import tail
from fleetgauge.telemetry.catalogue.standard_metrics import attribute_name, known_metrics, telemetry_name

pytestmark = pytest.mark.integration

CONFIG = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "300"\n'
ROLES = ("producer", "consumer", "share-consumer")
KNOWN = {metric.name: metric for metric in known_metrics()}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path, config=CONFIG) as running:
        yield running


def payloads(node: Node) -> dict[str, list[bytes]]:
    """What was pushed so far, by client id."""
    found: dict[str, list[bytes]] = {}
    for _, record in tail(DataDirectory(node.data).push_log, 500):
        found.setdefault(record.client_id, []).append(record.metrics)
    return found


def wait_for_pushes(node: Node, wanted: dict[str, int]) -> None:
    """Returns once each of these clients has pushed so often."""

    def pushed() -> dict[str, int]:
        found = payloads(node)
        return {role: len(found.get(role, ())) for role in wanted}

    wait_for(pushed, f"pushes: {wanted}", until=lambda counts: all(counts[role] >= wanted[role] for role in wanted))


def own_metrics(process: subprocess.Popen[str]) -> dict[str, dict[tuple[str, str], set[str]]]:
    """By client id: Kafka's group and name of every numeric metric, and its tags but for the client id."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("s")
    process.stdin.flush()
    found: dict[str, dict[tuple[str, str], set[str]]] = {}
    for line in iter(process.stdout.readline, ""):
        if line == "end\n":
            return found
        client_id, group, name, tags = line.rstrip("\n").split("\t")
        found.setdefault(client_id, {}).setdefault((group, name), set()).update(
            attribute_name(tag) for tag in tags.split(",") if tag not in ("", "client-id")
        )
    raise AssertionError("the Java clients ended early")


@pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get kafka-clients")
@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_java_pushes_each_of_its_metrics_under_the_derived_name(node: Node, tmp_path: Path, version: str) -> None:
    command = [*java_program(version, "OwnMetrics"), f"127.0.0.1:{node.port}"]
    with (
        (tmp_path / "java.log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            wait_for_pushes(node, dict.fromkeys(ROLES, 2))
            own_by_role = own_metrics(process)
            seen = {role: len(pushed) for role, pushed in payloads(node).items()}
            wait_for_pushes(node, {role: seen[role] + 2 for role in ROLES})
        finally:
            process.kill()
    pushed = payloads(node)
    for role in ROLES:
        own = {telemetry_name(group, name): tags for (group, name), tags in own_by_role[role].items()}
        metrics = {metric.name: metric for payload in pushed[role][seen[role] :] for metric in metrics_of(payload)}
        assert metrics.keys() >= own.keys()
        assert own.keys() - KNOWN.keys() == set(), "fleetgauge/telemetry/catalogue/java_metrics.py is to name these"
        for name, metric in metrics.items():
            known = KNOWN[name]
            assert metric.WhichOneof("data") == known.type, name
            points = metric.sum.data_points if known.type == "sum" else metric.gauge.data_points
            assert {pair.key for point in points for pair in point.attributes} <= set(known.attributes), name
            assert role in known.roles, name


def test_librdkafka_pushes_what_the_table_says_of_it(node: Node) -> None:
    common = {"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0}
    producer = Producer({**common, "client.id": "producer"})
    consumer = Consumer({**common, "client.id": "consumer", "group.id": "g"})
    consumer.subscribe(["topic"])

    def both_pushed(_: object) -> bool:
        producer.poll(0.05)
        consumer.poll(0.05)
        return all(len(payloads(node).get(role, ())) >= 2 for role in ("producer", "consumer"))

    node.wait_for(both_pushed, what="two pushes each")
    for role, pushed in payloads(node).items():
        expected = {m.name for m in known_metrics() if "librdkafka" in m.clients and m.name.split(".")[3] == role}
        expected = {name for name in expected if ".share." not in name}
        assert metric_names(pushed[-1]) == expected
    consumer.close()
