"""The same limits on a broker, set by its own tool, and in a gateway before it: clients of both, side by side."""

import statistics
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.brokers.admin_client import AdminClient as WireAdmin
from support.brokers.kafka_broker import KafkaBroker
from support.gateway.gateway import GatewayBefore, make_topic
from support.waiting import PATIENCE_S, ticking, wait_for

pytestmark = pytest.mark.integration

PRODUCE_LIMIT, FETCH_LIMIT = 100_000, 200_000
WINDOWS_S = 10.0
VALUE = bytes(1_000)
MUTATION_LIMITS = {"admin": 0.1, "creator": 1}
"""Partitions a second, with a burst of eleven seconds."""
LIMITS: dict[str, tuple[str, float]] = {
    "producer": ("producer_byte_rate", PRODUCE_LIMIT),
    "consumer": ("consumer_byte_rate", FETCH_LIMIT),
    **{kind: ("controller_mutation_rate", limit) for kind, limit in MUTATION_LIMITS.items()},
}


@dataclass
class Seen:
    """Of one client: what it got through (bytes of values, or partitions), and its throttle times [ms]."""

    amount: int = 0
    throttle_ms: list[float] = field(default_factory=list)

    @property
    def mean_throttle_ms(self) -> float:
        told = [each for each in self.throttle_ms if each > 0]
        return sum(told) / len(told) if told else 0.0


@pytest.fixture(scope="module")
def gateway(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayBefore]:
    overrides = [f"quotas.clients/{kind}-gateway.{key}={limit}" for kind, (key, limit) in LIMITS.items()]
    directory = tmp_path_factory.mktemp("gateway")
    try:
        with GatewayBefore(directory, broker.port, *overrides) as started:
            for kind, (key, limit) in LIMITS.items():
                broker.tool(
                    *("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, "--alter"),
                    *("--entity-type", "clients", "--entity-name", f"{kind}-direct", "--add-config", f"{key}={limit}"),
                )
            yield started
    finally:  # other tests of the same run use this broker, and expect no limits
        removed = [([("client-id", f"{kind}-direct")], {key: None}) for kind, (key, _) in LIMITS.items()]
        with WireAdmin(broker.port) as admin:
            assert {code for code, _, _ in admin.alter_quotas(*removed)} == {0}
            wait_for(lambda: admin.quotas()[2], "the end of the broker's limits", until=lambda found: not found)


def settings(bootstrap: str, client_id: str, seen: Seen, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": client_id,
        "log_level": 0,
        "throttle_cb": lambda event: seen.throttle_ms.append(event.throttle_time * 1_000),
        **more,
    }


def produce(bootstrap: str, client_id: str, topic: str, seconds: float) -> Seen:
    seen = Seen()
    producer = Producer(
        settings(
            bootstrap, client_id, seen, **{"linger.ms": 5, "batch.size": 16_384, "queue.buffering.max.messages": 200}
        )
    )

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is None:
            seen.amount += len(message.value() or b"")

    for _ in ticking(seconds, every_s=0.0):
        try:
            producer.produce(topic, VALUE, on_delivery=delivered)
        except BufferError:
            producer.poll(0.05)
        producer.poll(0)
    producer.purge()
    return seen


def consume(bootstrap: str, client_id: str, topic: str, seconds: float) -> Seen:
    seen = Seen()
    group = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "fetch.message.max.bytes": 100_000}
    consumer = Consumer(settings(bootstrap, client_id, seen, **group))
    consumer.subscribe([topic])

    def read() -> int:
        for message in consumer.consume(500, 0.1):
            assert message.error() is None, message.error()
            seen.amount += len(message.value() or b"")
        return seen.amount

    wait_for(read, "the first records")
    for _ in ticking(seconds, every_s=0.0):
        read()
    consumer.close()
    return seen


def create(bootstrap: str, client_id: str, topic: str, seconds: float) -> Seen:
    """Makes topics one after the other, with a version of CreateTopics that is throttled, not refused."""
    seen = Seen()
    admin = AdminClient(settings(bootstrap, client_id, seen))
    for _ in ticking(seconds, every_s=0.0):
        for made in admin.create_topics([NewTopic(f"{topic}-{client_id}-{seen.amount}", 1)]).values():
            made.result(PATIENCE_S)
        seen.amount += 1
        admin.poll(0)
    seen.amount -= 1  # the last one was made after the end
    return seen


RUNS = {"producer": produce, "consumer": consume, "creator": create}


def fill(gateway: GatewayBefore, topic: str, size: int) -> None:
    """Batches are small against what a limit allows in a second: a Fetch returns whole ones."""
    unlimited = Producer(
        {"bootstrap.servers": gateway.bootstrap, "client.id": "unlimited", "log_level": 0, "batch.size": 16_384}
    )
    for _ in range(size // len(VALUE)):
        unlimited.produce(topic, VALUE)
    assert unlimited.flush(PATIENCE_S) == 0


def round_trips(bootstrap: str, topic: str, seconds: float) -> list[float]:
    """How long each record of a client without limits takes to be acknowledged, as the client reports it [s]."""
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": "free", "linger.ms": 0, "log_level": 0})
    took: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        took.append(message.latency() or 0.0)

    for _ in ticking(seconds, every_s=0.02):
        producer.produce(topic, VALUE, on_delivery=delivered)
        assert producer.flush(PATIENCE_S) == 0
    return took


def report(found: dict[str, Seen], trips: dict[str, list[float]], seconds: float) -> None:
    for name, seen in sorted(found.items()):
        print(f"{name}: {seen.amount / seconds:.4g}/s, throttle times {len(seen.throttle_ms)}, ", end="")
        print(f"mean {seen.mean_throttle_ms:.0f} ms, largest {max(seen.throttle_ms, default=0):.0f} ms")
    for name, took in trips.items():
        p50, p99 = (1e3 * sorted(took)[len(took) * percent // 100] for percent in (50, 99))
        print(f"a client without limits {name}: {len(took)} round trips, p50 {p50:.1f} ms, p99 {p99:.1f} ms")


@pytest.fixture
def topic(broker: KafkaBroker, gateway: GatewayBefore) -> str:
    name = f"quotas-{uuid.uuid4().hex[:8]}"
    make_topic(broker, broker.bootstrap, name)
    return name


# Midway between two bursts, of which the windows let one pass at the start and each eleven seconds later.
@pytest.mark.parametrize("seconds", [16.0, pytest.param(60.0, marks=pytest.mark.soak)])
def test_clients_get_through_as_much_as_at_a_broker_and_slow_no_other(
    broker: KafkaBroker, gateway: GatewayBefore, topic: str, seconds: float
) -> None:
    fill(gateway, topic, round(1.5 * FETCH_LIMIT * (seconds + WINDOWS_S)))
    other = f"{topic}-2"
    make_topic(broker, broker.bootstrap, other)
    found: dict[str, Seen] = {}
    trips = {"alone": round_trips(gateway.bootstrap, other, seconds / 4)}

    def start(kind: str, place: str, bootstrap: str) -> None:
        used = topic if kind == "consumer" else other
        found[f"{kind} {place}"] = RUNS[kind](bootstrap, f"{kind}-{place}", used, seconds)

    def beside() -> None:
        trips["beside them"] = round_trips(gateway.bootstrap, other, seconds)

    places = {"direct": broker.bootstrap, "gateway": gateway.bootstrap}
    threads = [threading.Thread(target=start, args=(kind, *place)) for kind in RUNS for place in places.items()]
    threads.append(threading.Thread(target=beside))
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    report(found, trips, seconds)
    for kind in RUNS:
        limit = LIMITS[kind][1]
        direct, through = found[f"{kind} direct"], found[f"{kind} gateway"]
        for seen in (direct, through):
            assert 0.3 * limit * (seconds + WINDOWS_S) < seen.amount < 1.5 * limit * (seconds + WINDOWS_S)
            assert seen.mean_throttle_ms > 0
        assert through.amount == pytest.approx(direct.amount, rel=0.15, abs=1)
    status = gateway.status()["gateway"]["traffic"]
    assert status["throttled"]["Produce"] > 0
    assert status["throttled"]["Fetch"] > 0
    assert status["throttled"]["ControllerMutation"] > 0
    assert status["by_api"]["Produce"]["records"] >= len(trips["beside them"])
    half_ms = found["producer gateway"].mean_throttle_ms / 2
    assert 1e3 * statistics.median(trips["beside them"]) < half_ms, "the mutes of the others do not reach it"


def test_an_admin_client_is_refused_as_at_a_broker(broker: KafkaBroker, gateway: GatewayBefore, tmp_path: Path) -> None:
    """Kafka's own tool, whose requests are of a strict version: once the burst is spent, nothing is created."""
    told: dict[str, str] = {}
    for place, bootstrap in {"direct": broker.bootstrap, "gateway": gateway.bootstrap}.items():
        client = tmp_path / f"{place}.properties"
        client.write_text(f"client.id=admin-{place}\n")
        command = (
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            bootstrap,
            "--command-config",
            str(client),
        )
        name = f"mutated-{place}-{uuid.uuid4().hex[:8]}"
        broker.tool(*command, "--create", "--topic", name, "--partitions", "20")
        with pytest.raises(AssertionError, match="quota") as refused:
            broker.tool(*command, "--create", "--topic", f"{name}-2", "--partitions", "1")
        told[place] = str(refused.value).partition("Error while executing")[2].splitlines()[0]
    assert "The throttling quota has been exceeded" in told["direct"]
    assert told["gateway"] == told["direct"]
