"""Telemetry through the filter of `bridge/kroxylicious` in the real proxy: real clients, a real broker, a real node."""

import logging
import select
import signal
import struct
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from support.brokers.kafka_broker import KafkaBroker
from support.brokers.kafka_jars import kroxylicious_filter_jar
from support.brokers.kroxylicious import Kroxylicious
from support.certificates import Authority, Certificate
from support.clients.java_clients import JavaClients
from support.clients.raw_client import (
    API_VERSIONS,
    GET_TELEMETRY,
    RawClient,
    Subscription,
    framed,
    get_request,
    header,
    parse_get,
    parse_push,
    push_request,
    uvarint,
)
from support.fleet.landing import landed
from support.gateway.gateway import make_topic, rdkafka_round_trip, round_trip
from support.http import get_at
from support.jvm import QUICK
from support.payloads.payloads import metrics_data
from support.ports import free_port
from support.programs.node import Node
from support.waiting import PATIENCE_S, ticking, wait_for

pytestmark = pytest.mark.integration
HOURLY = "Z-hourly"
SUBSCRIPTIONS = f"""
[client-metrics.all]
metrics = "*"
"interval.ms" = "1000"
match = "client_id=[^Z].*"
[client-metrics.hourly]
metrics = "*"
"interval.ms" = "3600000"
match = "client_id={HOURLY}"
"""
TIMEOUT_MS = 3_000
"""Of the filter: long beside what a busy machine takes."""
RETRY_MS = 2_000
TRUSTED = ("proxy.protocol.enable=true", "proxy.protocol.trusted.addresses=127.0.0.1")
THROTTLING_QUOTA_EXCEEDED, TELEMETRY_TOO_LARGE = 89, 118
HUGE_GET = framed(header(GET_TELEMETRY, 0, 1, "hostile") + bytes(16) + b"\1\0" + uvarint(5_000_000) + bytes(5_000_000))
"""With a tagged field of 5 MB."""
API_VERSIONS_0 = framed(header(API_VERSIONS, 0, 99, "raw")[:-1])


class LandingNode(Node):
    """A node that takes connections with a PROXY header, and has a landing zone."""

    def __init__(self, directory: Path) -> None:
        self.landing = directory / "landing"
        exporter = f'[exporters.landing]\ntype = "landing"\npath = "{self.landing}"\n"linger.ms" = 200\n'
        super().__init__(directory, *TRUSTED, config=SUBSCRIPTIONS + exporter, port=free_port())

    def pushes(self) -> Counter[str]:
        """How many pushes of each client id have landed."""
        return Counter(row["client_id"] for row in landed(self.landing))

    def wait_for_pushes(self, client_ids: set[str], beyond: Counter[str] | None = None) -> None:
        """Waits until more have landed of each of these clients than there were."""
        before = beyond or Counter()

        def missing() -> set[str]:
            now = self.pushes()
            return {client for client in client_ids if now[client] <= before[client]}

        wait_for(missing, "pushes of each of these clients", until=lambda clients: not clients)

    def wait_for_connections(self, number: int) -> None:
        """Waits until so many are open, each of one client's."""
        self.wait_for(lambda status: status["connections"][0]["open"] == number, what=f"{number} connections")

    def fail(self, failure: signal.Signals) -> None:
        """Ends or stops the node."""
        assert self.process is not None
        if failure is signal.SIGKILL:
            self.kill()
        else:
            self.process.send_signal(failure)

    def recover(self) -> None:
        """Has it go on, on the same port."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
        else:
            self.start(self.port)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LandingNode]:
    with LandingNode(tmp_path_factory.mktemp("node")) as started:
        yield started


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def proxy_with_filter(
    directory: Path, broker: KafkaBroker, node: str, certificate: Certificate | None = None
) -> Kroxylicious:
    configuration = f"""
management:
  bindAddress: 127.0.0.1
  port: {{management_port}}
  endpoints:
    prometheus: {{{{}}}}
filterDefinitions:
  - name: telemetry
    type: FleetgaugeTelemetry
    config:
      node: {node}
      timeoutMs: {TIMEOUT_MS}
      retryMs: {RETRY_MS}
defaultFilters:
  - telemetry
"""
    return Kroxylicious(
        directory,
        broker.port,
        options=["-Xmx256m", *QUICK],
        jars=[kroxylicious_filter_jar()],
        configuration=configuration,
        login_port=broker.ports["LOGIN"],
        certificate=certificate,
    )


@pytest.fixture(scope="module")
def proxy(
    broker: KafkaBroker, node: Node, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kroxylicious]:
    directory, certificate = tmp_path_factory.mktemp("kroxylicious"), authority.issue("proxy", "/CN=proxy")
    with proxy_with_filter(directory, broker, f"127.0.0.1:{node.port}", certificate) as started:
        yield started


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"kroxylicious-{uuid.uuid4().hex[:8]}"
    make_topic(broker, broker.bootstrap, name)
    return name


def subscribed(client: RawClient) -> Subscription:
    """The node's answer to a Get; for some seconds after a failure, which may be another test's, it is not asked."""
    return wait_for(client.get, "the node's answer", until=lambda found: found.requested_metrics)


def test_both_apis_are_offered_for_a_broker_that_has_neither(broker: KafkaBroker, proxy: Kroxylicious) -> None:
    tool = "org.apache.kafka.tools.BrokerApiVersionsCommand"
    assert "PushTelemetry(72): UNSUPPORTED" in broker.tool(tool, "--bootstrap-server", broker.bootstrap)
    printed = broker.tool(tool, "--bootstrap-server", proxy.bootstrap)
    assert "GetTelemetrySubscriptions(71): 0 " in printed
    assert "PushTelemetry(72): 0 " in printed


def test_a_wrong_key_stops_the_start_with_a_sentence(broker: KafkaBroker, tmp_path: Path) -> None:
    proxy = proxy_with_filter(tmp_path, broker, "nowhere")
    with (
        pytest.raises(AssertionError, match="node must be HOST:PORT of a fleetgauge serve listener, not nowhere"),
        proxy,
    ):
        pass


def test_records_of_java_clients_pass_unharmed(proxy: Kroxylicious, topic: str) -> None:
    assert round_trip("4.4.0", proxy.bootstrap, topic, 1_000, "classic", "consumer") == [
        "classic all 1500",
        "consumer all 1500",
    ]


@pytest.mark.parametrize("version", ["4.4.0", "3.9.2"])
def test_what_java_clients_push_lands_with_their_ids_and_software(
    proxy: Kroxylicious, node: LandingNode, topic: str, tmp_path: Path, version: str
) -> None:
    before = node.pushes()
    clients = JavaClients(version, proxy.bootstrap, topic, tmp_path)
    try:
        ids = clients.instance_ids()
        node.wait_for_pushes(set(ids), before)
        clients.close()
    finally:
        clients.kill()
    rows = [row for row in landed(node.landing) if row["client_instance_id"] in ids.values()]
    assert {row["client_id"]: row["client_instance_id"] for row in rows} == ids
    assert {(row["client_software_name"], row["client_software_version"]) for row in rows} == {
        ("apache-kafka-java", version)
    }
    assert {(row["client_source_address"], row["principal"]) for row in rows} == {("127.0.0.1", "User:ANONYMOUS")}
    node.wait_for_connections(0)


def test_librdkafka_gets_its_records_and_pushes(proxy: Kroxylicious, node: LandingNode, topic: str) -> None:
    before = node.pushes()
    producer = rdkafka_round_trip(topic, **{"bootstrap.servers": proxy.bootstrap})
    node.wait_for_pushes({"rd-producer"}, before)
    producer.close()
    rows = [row for row in landed(node.landing) if row["client_id"] == "rd-producer"]
    assert {row["client_software_name"] for row in rows} == {"confluent-kafka-python"}


def test_clients_that_log_in_at_the_broker_push_behind_tls_of_the_proxy(
    proxy: Kroxylicious, node: LandingNode, topic: str, authority: Authority
) -> None:
    """They log in again every three seconds."""
    settings = {
        "bootstrap.servers": f"127.0.0.1:{proxy.tls_port}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.certificate),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "gateway",
        "sasl.password": "gateway-secret",
    }
    producer = rdkafka_round_trip(topic, **settings)
    for _ in ticking(7.0):
        node.wait_for_pushes({"rd-producer"}, node.pushes())
    producer.close()
    node.wait_for_connections(0)


def test_a_push_has_its_clients_own_address_and_port(proxy: Kroxylicious, node: LandingNode) -> None:
    name = uuid.uuid4().hex
    with RawClient(proxy.port, client_id=name, source="127.0.0.9") as client:
        client.api_versions(name="raw", software_version="7.1")
        answer = client.push(subscribed(client), metrics_data())
        assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
        port = client.socket.getsockname()[1]
        node.wait_for_pushes({name})
    (row,) = [row for row in landed(node.landing) if row["client_id"] == name]
    assert (row["client_source_address"], row["client_source_port"]) == ("127.0.0.9", port)
    assert (row["client_software_name"], row["client_software_version"]) == ("raw", "7.1")


def test_the_nodes_error_codes_reach_the_client(proxy: Kroxylicious) -> None:
    with RawClient(proxy.port, client_id=HOURLY) as client:
        client.api_versions()
        subscription = subscribed(client)
        push = partial(
            push_request,
            instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            metrics=metrics_data(),
            client_id=HOURLY,
        )
        client.send(push(1) + push(2))
        codes = [parse_push(client.receive_frame()[5:]).error_code for _ in range(2)]
        assert codes == [0, THROTTLING_QUOTA_EXCEEDED]
    with RawClient(proxy.port) as client:
        client.api_versions()
        subscription = subscribed(client)
        largest = subscription.telemetry_max_bytes
        assert (
            client.push(client.get(uuid.uuid4()), bytes(largest + 1)).error_code == TELEMETRY_TOO_LARGE
        )  # by the node
        assert client.push(subscription, bytes(2 * largest)).error_code == TELEMETRY_TOO_LARGE  # by the filter
        client.send(HUGE_GET)  # not passed to the node
        answer = parse_get(client.receive_frame()[5:])
        assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (0, [], RETRY_MS)
        assert subscribed(client).error_code == 0


@pytest.mark.parametrize("failure", [signal.SIGKILL, signal.SIGSTOP])
def test_clients_go_on_without_a_node_and_push_again_when_it_is_back(
    proxy: Kroxylicious, node: LandingNode, topic: str, tmp_path: Path, failure: signal.Signals
) -> None:
    """A node that is stopped is connected to by its system, and answers nothing."""
    before = node.pushes()
    errors: list[object] = []
    lines: list[str] = []
    logger = logging.Logger("rd-steady", logging.WARNING)

    def keep(record: logging.LogRecord) -> bool:
        lines.append(record.getMessage())
        return False

    logger.addFilter(keep)

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    settings = {"bootstrap.servers": proxy.bootstrap, "client.id": "rd-steady", "error_cb": errors.append}
    producer = Producer(settings, logger=logger)
    java = JavaClients("4.4.0", proxy.bootstrap, topic, tmp_path)
    clients = {"rd-steady", *java.instance_ids()}

    def produce_for(seconds: float) -> int:
        """How many records are delivered, each before the next is sent."""
        number = 0
        for _ in ticking(seconds, every_s=0.02):
            producer.produce(topic, b"value", on_delivery=delivered)
            assert producer.flush(PATIENCE_S) == 0
            number += 1
        return number

    try:
        usual = produce_for(3)
        node.wait_for_pushes(clients, before)
        node.fail(failure)
        assert produce_for(10) > usual / 2, "records wait for the node"
        landed_before = node.pushes()
        node.recover()
        produce_for(3)
        node.wait_for_pushes(clients, landed_before)
        java.close()
    finally:
        java.kill()
        node.recover()
        producer.close()
    assert (errors, lines) == ([], [])
    assert [line for line in java.log.read_text().splitlines() if "WARN" in line or "ERROR" in line] == []
    assert f"The Fleetgauge node 127.0.0.1:{node.port} did not answer" in proxy.output()
    metrics = get_at("127.0.0.1", proxy.management_port, "/metrics").body.decode().splitlines()
    counted = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in metrics
        if line.startswith("fleetgauge_telemetry_requests_total{")
    }
    for answered_by in ("node", "filter"):
        labels = f'answered_by="{answered_by}",api="PushTelemetry"'
        assert any(labels in name and count > 0 for name, count in counted.items()), metrics


def round_trips(client: RawClient, until: RawClient) -> int:
    """Round trips of one client that end before the other has an answer."""
    ended: list[bytes] = []

    def is_answered() -> bool:
        if select.select([until.socket], [], [], 0)[0]:
            return True
        client.send(API_VERSIONS_0)
        ended.append(client.receive_frame())
        return False

    wait_for(is_answered, "an answer of the filter")
    return len(ended)


def test_a_silent_node_delays_one_connection_by_the_time_limit_and_no_other(
    proxy: Kroxylicious, node: LandingNode
) -> None:
    with RawClient(proxy.port) as first, RawClient(proxy.port) as second, RawClient(proxy.port) as third:
        for client in (first, second, third):
            client.api_versions()
        with RawClient(proxy.port) as earlier:
            subscribed(earlier)
        node.fail(signal.SIGSTOP)
        try:
            first.send(get_request(7, None) + API_VERSIONS_0)
            beside_first = round_trips(second, until=first)
            subscription = parse_get(first.receive_frame()[5:])
            assert first.receive_frame()[:4] == struct.pack(">i", 99), "what the client sent behind it"
            third.send(get_request(8, None))
            beside_third = round_trips(second, until=third)
            assert parse_get(third.receive_frame()[5:]).error_code == 0
        finally:
            node.recover()
        assert beside_first > 1, "the second connection waited, too"
        assert beside_third < beside_first / 2, "one connection tries at a time"
        assert (subscription.error_code, subscription.requested_metrics) == (0, [])
        assert subscription.push_interval_ms == RETRY_MS
        assert subscription.client_instance_id.int != 0
        subscribed(first)


def test_pipelined_pushes_are_answered_in_their_order(proxy: Kroxylicious) -> None:
    with RawClient(proxy.port, client_id=HOURLY) as client:
        client.api_versions()
        subscription = subscribed(client)
        push = partial(
            push_request,
            instance_id=subscription.client_instance_id,
            subscription_id=subscription.subscription_id,
            metrics=metrics_data(),
            client_id=HOURLY,
        )
        client.send(b"".join(map(push, range(50))) + API_VERSIONS_0)
        frames = [client.receive_frame() for _ in range(50)]
        assert [struct.unpack_from(">i", frame)[0] for frame in frames] == list(range(50))
        codes = Counter(parse_push(frame[5:]).error_code for frame in frames)
        assert codes == {0: 1, THROTTLING_QUOTA_EXCEEDED: 49}
        assert client.receive_frame()[:4] == struct.pack(">i", 99)


def test_hostile_connections_harm_nobody_and_end_at_the_node_too(proxy: Kroxylicious, node: LandingNode) -> None:
    node.wait_for_connections(0)
    with RawClient(proxy.port) as well:
        well.api_versions()
        subscribed(well)
        for garbage in (
            HUGE_GET,
            HUGE_GET[:40],
            framed(HUGE_GET[4:40]),
            framed(header(GET_TELEMETRY, 9, 1, "hostile") + bytes(17)),
        ):
            with RawClient(proxy.port) as client:
                client.send(garbage)
        with RawClient(proxy.port) as client:
            client.send(get_request(1, uuid.uuid4())[:-5])
        with RawClient(proxy.port) as client:
            client.api_versions()
            subscribed(client)
            client.socket.shutdown(1)
            with pytest.raises(ConnectionError):
                client.receive_frame()
            node.wait_for_connections(1)
        with RawClient(proxy.port) as client:
            client.send(get_request(1, uuid.uuid4()) * 3)
        assert well.get().error_code in (0, THROTTLING_QUOTA_EXCEEDED)
    node.wait_for_connections(0)
