"""Real clients of a real broker through `fleetgauge gateway`: their records, and the telemetry that they push."""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from kafka.admin import KafkaAdminClient
from kafka.consumer import KafkaConsumer
from kafka.producer import KafkaProducer
from playwright.sync_api import expect
from support import chromium
from support.brokers.kafka_broker import KafkaBroker
from support.clients.java_clients import streams_command
from support.clients.telemetry_clients import FranzGoProcess
from support.gateway.gateway import GatewayBefore, ShareGroup, make_topic, rdkafka_round_trip, round_trip
from support.http import get_at
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def gateway(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayBefore]:
    with GatewayBefore(tmp_path_factory.mktemp("gateway"), broker.port) as started:
        yield started


@pytest.fixture
def topic(broker: KafkaBroker, gateway: GatewayBefore) -> str:
    name = f"through-{uuid.uuid4().hex[:8]}"
    make_topic(broker, gateway.bootstrap, name)
    return name


@pytest.mark.parametrize(
    ("version", "protocols"),
    [
        ("4.4.0", ["classic", "consumer"]),
        pytest.param("3.9.2", ["classic"], marks=pytest.mark.soak),
        pytest.param("3.7.2", ["classic"], marks=pytest.mark.soak),
    ],
)
def test_java_clients_get_their_records_once_and_in_order(
    gateway: GatewayBefore, topic: str, version: str, protocols: list[str]
) -> None:
    before = gateway.status()["telemetry"]["push_answers"].get("NONE", 0)
    printed = round_trip(version, gateway.bootstrap, topic, 1_000, *protocols)
    assert printed == [f"{protocol} all 1500" for protocol in protocols]
    gateway.wait_for(lambda status: status["telemetry"]["push_answers"]["NONE"] > before, what="a push")
    assert gateway.status()["telemetry"]["push_answers"].keys() == {"NONE"}


@contextmanager
def started(command: Sequence[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that is killed at the end, if it still runs."""
    with log.open("ab") as errors, subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors) as process:
        follow(log)
        try:
            yield process
        finally:
            unfollow(log)
            process.kill()


def test_a_streams_application_that_is_killed_counts_every_record_once(
    broker: KafkaBroker, gateway: GatewayBefore, topic: str, tmp_path: Path
) -> None:
    counts = f"{topic}-counts"
    make_topic(broker, gateway.bootstrap, counts)
    log = tmp_path / "log"
    command = [*streams_command("4.4.0", "StreamsCount"), gateway.bootstrap, topic, counts, str(tmp_path)]
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "log_level": 0})
    before = gateway.status()["telemetry"]["push_answers"].get("NONE", 0)
    seen: dict[bytes, list[int]] = {}

    left = 102_000

    def add(records: int) -> None:
        nonlocal left
        left -= records
        for number in range(records):
            producer.produce(topic, str(number % 5))
        producer.poll(0)

    def latest(process: "subprocess.Popen[bytes]") -> set[int]:
        """The latest counts of the five values that were read."""
        for message in reader.consume(500, 0.2):
            if message.error() is None:
                seen.setdefault(bytes(message.key() or b""), []).append(int(message.value() or 0))
        assert process.poll() is None, log.read_text()[-4000:]
        return {each[-1] for each in seen.values()}

    def latest_while_more_comes(process: "subprocess.Popen[bytes]") -> set[int]:
        if left > 50_000:
            add(1_000)
        return latest(process)

    def are_all(count: int) -> Callable[[set[int]], bool]:
        return lambda counts: len(seen) == 5 and counts == {count}

    reader = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": counts,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    reader.subscribe([counts])
    with started(command, log) as first:
        add(2_000)
        wait_for(partial(latest, first), "400 of each value", until=are_all(400))
        wait_for(
            partial(latest_while_more_comes, first), "more than 400 of a value", until=lambda counts: max(counts) > 400
        )
    add(left)
    assert producer.flush(PATIENCE_S) == 0
    assert max(each[-1] for each in seen.values()) < 20_400, "it was killed amid its work"
    with started(command, log) as second:
        wait_for(partial(latest, second), "20,400 of each value", until=are_all(20_400))
        second.communicate(timeout=PATIENCE_S)
    reader.close()
    assert all(each == list(range(1, 20_401)) for each in seen.values())
    gateway.wait_for(lambda status: status["telemetry"]["push_answers"]["NONE"] > before, what="a push")


def test_a_share_group_gets_its_records(gateway: GatewayBefore, topic: str) -> None:
    producer = Producer({"bootstrap.servers": gateway.bootstrap, "log_level": 0})
    for number in range(1_000):
        producer.produce(topic, str(number))
    assert producer.flush(PATIENCE_S) == 0
    with ShareGroup(gateway.bootstrap, topic, 1_000) as group:
        assert group.wait() == "share 1000"


def test_librdkafka_gets_its_records_and_pushes(gateway: GatewayBefore, topic: str) -> None:
    before = gateway.status()["telemetry"]["push_answers"].get("NONE", 0)
    producer = rdkafka_round_trip(topic, **{"bootstrap.servers": gateway.bootstrap})
    status = gateway.wait_for(
        lambda status: status["telemetry"]["push_answers"].get("NONE", 0) > before, what="a push of librdkafka"
    )
    assert status["gateway"]["requests"]["Produce"] > 0
    producer.close()


def test_a_producer_its_traffic_and_its_use_of_a_limit_are_on_the_gateways_page(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    keys = (f"http.listeners=http://127.0.0.1:{port}", "quotas.clients/busy.producer_byte_rate=100000")
    with GatewayBefore(tmp_path, broker.port, *keys) as gateway:
        producer = Producer({"bootstrap.servers": gateway.bootstrap, "client.id": "busy", "log_level": 0})

        def shown(path: str, rows: str) -> list[dict[str, Any]]:
            producer.produce(topic, bytes(1_000))
            producer.poll(0)
            try:
                answer = get_at("127.0.0.1", port, path)
            except OSError:  # its process is not there yet
                return []
            listed: list[dict[str, Any]] = json.loads(answer.body).get(rows, [])
            return listed

        wait_for(
            lambda: [(each["client_id"], each["state"]) for each in shown("/api/clients", "clients")],
            "the client on the page",
            until=lambda clients: clients == [("busy", "live")],
        )
        (quota,) = wait_for(
            lambda: [each for each in shown("/api/quotas", "quotas") if each["observed"]], "its use of the limit"
        )
        assert quota["entity"] == {"client-id": "busy"}
        assert quota["limit"] == 100_000
        (produced,) = wait_for(
            lambda: [
                each
                for each in shown("/api/traffic", "traffic")
                if (each["client_id"], each["api"]) == ("busy", "Produce") and each["per_s"] and each["records"]
            ],
            "its traffic",
        )
        assert produced["principal"] == "ANONYMOUS"
        assert produced["request_bytes"] > produced["record_bytes"] > 1_000
        assert 0 < produced["per_s"]["requests"] < produced["per_s"]["request_bytes"]
        assert producer.flush(PATIENCE_S) == 0
        if chromium.MISSING:
            return
        with (
            chromium.chromium() as browser,
            chromium.visited(browser, f"http://127.0.0.1:{port}", "/#/traffic?q=busy") as visit,
        ):
            row = visit.page.locator("tbody tr", has_text="Produce")
            expect(row).to_contain_text("busy")
            expect(row).to_contain_text("kB")
            assert visit.faults == []


def test_kafka_python_gets_its_records(gateway: GatewayBefore, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=gateway.bootstrap, acks="all")
    for number in range(200):
        producer.send(topic, str(number).encode())
    producer.flush(PATIENCE_S)
    unanswered = KafkaProducer(bootstrap_servers=gateway.bootstrap, acks=0)
    for number in range(200, 300):
        unanswered.send(topic, str(number).encode())
    unanswered.flush(PATIENCE_S)
    unanswered.close()
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=gateway.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(PATIENCE_S * 1_000),
    )
    got = [next(consumer).value for _ in range(300)]
    consumer.close()
    assert got == [str(number).encode() for number in range(300)]


def test_franz_go_works_and_pushes(broker: KafkaBroker, gateway: GatewayBefore, tmp_path: Path) -> None:
    process = FranzGoProcess("1.22.2", gateway.bootstrap, tmp_path)
    try:
        (client,) = process.clients
        wait_for(client.acknowledged, "two pushes of franz-go", until=lambda pushes: pushes >= 2)
        assert client.says_off() == []
    finally:
        process.kill()


def test_kafkas_tools_see_the_cluster_through_the_gateway(
    broker: KafkaBroker, gateway: GatewayBefore, topic: str
) -> None:
    admin = KafkaAdminClient(bootstrap_servers=gateway.bootstrap)
    described = admin.describe_cluster()
    admin.close()
    assert [(each["broker_id"], each["port"]) for each in described["brokers"]] == [(1, gateway.port)]
    versions = broker.tool("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", gateway.bootstrap)
    assert f"{gateway.bootstrap} (id: 1" in versions
    assert "PushTelemetry(72): 0 " in versions
    assert "Fetch(1): 4 to 18" in versions


@pytest.mark.soak
def test_no_record_is_lost_or_doubled_when_the_gateway_restarts(gateway: GatewayBefore, topic: str) -> None:
    settings = {"bootstrap.servers": gateway.bootstrap, "log_level": 0}
    producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 5})
    expected = [str(number).encode() for number in range(30_000)]
    for number, value in enumerate(expected):
        producer.produce(topic, value)
        producer.poll(0)
        if number % 10_000 == 5_000:
            if number > 20_000:
                gateway.kill()
            else:
                assert gateway.stop() == 0
            gateway.start()
    assert producer.flush(PATIENCE_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    got: list[bytes | None] = []

    def count() -> int:
        got.extend(message.value() for message in consumer.consume(500, 0.5) if message.error() is None)
        return len(got)

    wait_for(count, "the first records")
    gateway.kill()
    gateway.start()
    wait_for(count, "all records", until=lambda number: number >= len(expected))
    consumer.close()
    assert got == expected
