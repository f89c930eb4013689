"""Applications whose `bootstrap.servers` names `fleetgauge serve`: the node's log, status and client list report them.

Their own texts are those that docs/operate/client-logs.md gives.
"""

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.brokers.kafka_broker import MISSING
from support.clients.java_clients import java_program
from support.clients.raw_client import RawClient, framed
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

REMEDY = "set the application's bootstrap.servers to your Kafka brokers"
PRODUCE, METADATA, FIND_COORDINATOR = 0, 3, 10


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(tmp_path) as node:
        yield node


def request(api_key: int, version: int, client_id: str, body: bytes = b"") -> bytes:
    """A request with a header of version 1, by hand."""
    name = client_id.encode()
    return framed(struct.pack(">hhih", api_key, version, 7, len(name)) + name + body)


def metadata_of(*topics: str) -> bytes:
    """The body of a Metadata request of version 1."""
    return struct.pack(">i", len(topics)) + b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)


def lines_of(node: Node, client_id: str) -> list[str]:
    return [line for line in node.log.read_text().splitlines() if REMEDY in line and client_id in line]


@pytest.mark.parametrize(("api_key", "name"), [(PRODUCE, "Produce"), (FIND_COORDINATOR, "FindCoordinator")])
def test_a_request_for_records_closes_its_connection_and_the_log_says_what_to_do(
    node: Node, api_key: int, name: str
) -> None:
    for _ in range(3):
        with RawClient(node.port) as client:
            client.api_versions()
            client.send(request(api_key, 3, "orders"))
            with pytest.raises(ConnectionError):
                client.receive_frame()
    status = node.wait_for(
        lambda s: (
            s["misdirected_clients"]["requests"] == 3 and s["connections"][0]["closed"].get("unknown_api_key") == 3
        ),
        what="three requests and the ends of their connections",
    )
    (latest,) = status["misdirected_clients"]["latest_clients"]
    assert (latest["client_id"], latest["client_source_address"]) == ("orders", "127.0.0.1")
    assert (latest["asked_for"], latest["requests"], latest["client_software"]) == (name, 3, "raw-client/1.0")
    (line,) = lines_of(node, "orders")
    assert name in line
    assert "malformed" not in node.output()


def test_a_client_that_asks_for_a_topic_is_answered_and_is_marked_among_the_clients(node: Node) -> None:
    with RawClient(node.port, client_id="orders") as client, RawClient(node.port, client_id="fine") as other:
        for each in (client, other):
            each.api_versions()
            assert each.push(each.get(), metrics_data()).error_code == 0
        other.send(request(METADATA, 1, "fine", metadata_of()))
        other.receive_frame()
        client.send(request(METADATA, 1, "orders", metadata_of("orders.events", "more")))
        assert b"orders.events" in client.receive_frame()
        rows = run_cli("clients", "--log-dirs", str(node.data)).stdout
        status = run_cli("status", "--log-dirs", str(node.data)).stdout
        listed = run_cli("clients", "--log-dirs", str(node.data), "--client-id", "fine").stdout
    assert "live, asks for records" in rows
    assert "asks for records" not in listed
    assert "1 requests of 1 clients: set their bootstrap.servers to your Kafka brokers" in status
    assert "orders (raw-client/1.0) at 127.0.0.1: Metadata of topic orders.events, 1 requests" in status
    assert len(lines_of(node, "orders")) == 1
    assert lines_of(node, "fine") == []


def test_a_name_that_would_command_a_terminal_is_escaped_in_log_and_status(node: Node) -> None:
    with RawClient(node.port) as client:
        client.send(request(PRODUCE, 3, "\x1b[2J\nfake line"))
        with pytest.raises(ConnectionError):
            client.receive_frame()
    node.wait_for(lambda s: s["misdirected_clients"]["requests"] == 1, what="the request")
    assert len(lines_of(node, "fake line")) == 1
    shown = run_cli("status", "--log-dirs", str(node.data)).stdout
    assert "\x1b[2J" not in shown + node.output()
    assert r"\x1b[2J\nfake line" in shown
    assert r"\u001b[2J\nfake line" in node.output()


def test_a_librdkafka_producer_is_logged_once(node: Node) -> None:
    producer = Producer(
        {"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0, "client.id": "rdkafka-producer"}
    )
    producer.produce("orders", b"value")
    asks: list[tuple[str, int]] = []

    def has_asked_twice(status: dict[str, Any]) -> bool:
        producer.poll(0)
        asks[:] = [(each["client_id"], each["requests"]) for each in status["misdirected_clients"]["latest_clients"]]
        return bool(asks) and asks[0][1] >= 2

    node.wait_for(has_asked_twice, what="Metadata of the topic, asked for again")
    producer.purge()
    assert [client_id for client_id, _ in asks] == ["rdkafka-producer"]
    assert len(lines_of(node, "rdkafka-producer")) == 1


@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_a_java_producer_and_consumer_fail_with_the_texts_of_the_documentation(node: Node) -> None:
    program = java_program("4.4.0", "RecordClients")
    done = subprocess.run(
        [*program, f"127.0.0.1:{node.port}", "orders"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    producer, consumer = done.stdout.splitlines()
    assert "TimeoutException: Topic orders not present in metadata after 10000 ms." in producer
    assert "UnsupportedVersionException: The node does not support FIND_COORDINATOR" in consumer
    for client_id in ("java-producer", "java-consumer"):
        assert len(lines_of(node, client_id)) == 1, node.output()
    for text in ("Topic orders not present in metadata", "The node does not support FIND_COORDINATOR"):
        assert text in (Path(__file__).resolve().parents[3] / "docs" / "operate" / "client-logs.md").read_text()
