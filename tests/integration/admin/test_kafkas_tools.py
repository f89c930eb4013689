"""kafka-client-metrics.sh and kafka-configs.sh: one session of commands, at a real broker and at a node."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from support.admin_client import CLIENT_METRICS, DELETE, AdminClient
from support.admin_tools import AdminTools, Printed
from support.kafka_broker import MISSING, KafkaBroker
from support.node import Node

pytestmark = pytest.mark.integration

PRODUCER = "org.apache.kafka.producer."
SESSION: Sequence[str] = (
    "cm --list",
    "cm --describe",
    (
        f"cm --alter --name S1 --metrics {PRODUCER},org.apache.kafka.consumer.coordinator.rebalance.latency.max "
        "--interval 30000 --match client_software_name=apache-kafka-java,client_id=orders.*"
    ),
    "cm --alter --name S2 --metrics *",
    "cm --list",
    "cm --describe",
    "cm --describe --name S1",
    "cm --describe --name nosuch",
    "cm --alter --name S1 --interval 45000",
    "cm --describe --name S1",
    "cm --alter --name S1 --interval '' --match ''",
    "cm --describe --name S1",
    "cm --alter --name S1 --interval 50",
    "cm --alter --name S1 --interval 3600001",
    "cm --alter --name S1 --interval soon",
    "cm --alter --name S1 --match nosuch=x",
    "cm --alter --name S1 --match client_id=*",
    "cm --alter --name S1 --match client_id",
    "cm --alter --name S1",
    "cm --describe --name S1",
    "cm --delete --name S2",
    "cm --delete --name nosuch",
    "cc --describe --entity-type client-metrics",
    "cc --describe --entity-type client-metrics --entity-name S1",
    "cc --describe --entity-type client-metrics --entity-name S1 --all",
    "cc --describe --entity-type client-metrics --entity-name nosuch",
    (
        "cc --alter --entity-type client-metrics --entity-name S3 --add-config "
        f"interval.ms=10000,metrics=[{PRODUCER},org.apache.kafka.admin.],match=[client_id=a,client_software_name=b]"
    ),
    "cc --describe --client-metrics S3",
    "cc --alter --client-metrics S3 --add-config interval.ms=7",
    "cc --alter --client-metrics S3 --add-config bogus=7",
    "cc --alter --entity-type client-metrics --entity-name S3 --delete-config interval.ms",
    "cc --describe --entity-type client-metrics --entity-name S3",
    "cc --alter --client-metrics S3 --add-config metrics=",
    "cc --describe --client-metrics S3",
    "cc --alter --client-metrics S3 --delete-config metrics,match",
    "cc --describe --entity-type client-metrics",
    "cc --alter --entity-type brokers --entity-name 1 --add-config log.dirs=/elsewhere",
    "cc --alter --entity-type brokers --entity-name 7 --add-config log.dirs=/elsewhere",
    "cc --describe --entity-type brokers --entity-name 1",
    "cm --delete --name S1",
    "cm --list",
)
"""Every command of shared transcripts for client metrics, and more bad input."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node without subscriptions, as a new broker is."""
    if MISSING:
        pytest.skip(MISSING)
    with Node(tmp_path_factory.mktemp("node")) as started:
        yield started


def words(command: str) -> list[str]:
    return ["" if word == "''" else word for word in command.split()]


def outcome(tools: AdminTools, port: int, command: str) -> Printed:
    """What a command prints; the order of resources, which Kafka leaves to a hash, is made alphabetical."""
    printed = tools.run(port, *words(command))
    if command == "cm --list":
        return Printed(printed.exit_code, tuple(sorted(printed.lines)))
    blocks: list[list[str]] = []
    for line in printed.lines:
        if line.startswith("  ") and blocks:
            blocks[-1].append(line)
        else:
            blocks.append([line])
    is_describe = "--describe" in command
    return Printed(
        printed.exit_code, tuple(line for block in (sorted(blocks) if is_describe else blocks) for line in block)
    )


@pytest.mark.parametrize("version", ["4.3.1", pytest.param("3.9.2", marks=pytest.mark.soak)])
def test_the_tools_print_the_same_at_a_node_as_at_a_broker(broker: KafkaBroker, node: Node, version: str) -> None:
    clear(broker.port)
    clear(node.port)  # its built-in subscription, too, which a broker does not have
    with AdminTools(version) as tools:
        for command in SESSION:
            there, here = outcome(tools, broker.port, command), outcome(tools, node.port, command)
            assert here == there, command
    assert clear(node.port) == clear(broker.port)


def clear(port: int) -> list[str]:
    """Deletes all subscriptions; returns their names."""
    with AdminClient(port) as admin:
        names = sorted(admin.names())
        keys: list[tuple[str, int, str | None]] = [(key, DELETE, "") for key in ("interval.ms", "match", "metrics")]
        for name in names:
            assert admin.incremental((CLIENT_METRICS, name, keys)) == [(0, None)]
    return names


def test_the_tools_show_the_files_subscriptions_and_are_refused_where_they_cannot_change_them(tmp_path: Path) -> None:
    if MISSING:
        pytest.skip(MISSING)
    config = '[client-metrics.S1]\nmetrics = "org.apache.kafka.consumer."\n'
    with Node(tmp_path, config=config) as node, AdminTools("4.3.1") as tools:
        assert tools.run(node.port, "cm", "--list").lines == ("S1",)
        refused = tools.run(node.port, "cm", "--delete", "--name", "S1")
        assert refused.exit_code == 1
        assert "S1 is declared in the configuration file of this node" in refused.lines[0]
        assert tools.run(node.port, "cm", "--alter", "--name", "S1", "--interval", "5000").exit_code == 0
        shown = tools.run(node.port, "cc", "--describe", "--client-metrics", "S1", "--all").lines
        assert shown[1:] == (
            "  interval.ms=5000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=5000}",
            "  match= sensitive=false synonyms={}",
            (
                "  metrics=org.apache.kafka.consumer. sensitive=false "
                "synonyms={STATIC_BROKER_CONFIG:metrics=org.apache.kafka.consumer.}"
            ),
        )
        everything = tools.run(node.port, "cc", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
        assert any(
            line.startswith("  log.dirs=") and "STATIC_BROKER_CONFIG:log.dirs=" in line for line in everything.lines
        )


def test_the_tools_are_refused_on_a_listener_that_does_not_serve_them(tmp_path: Path) -> None:
    if MISSING:
        pytest.skip(MISSING)
    with Node(tmp_path, "admin.listeners=") as node, AdminTools("4.3.1") as tools:
        listed = tools.run(node.port, "cm", "--list")
        assert (listed.exit_code, listed.lines[0].endswith("Cluster authorization failed.")) == (1, True), listed
        altered = tools.run(node.port, "cm", "--alter", "--name", "S1", "--metrics", "*")
        assert altered.exit_code == 1
        assert "this listener does not serve Kafka's admin APIs" in altered.lines[0]
        assert "admin.request_refused" in node.output()
        assert node.status()["telemetry"]["subscriptions"] == ["default"]
