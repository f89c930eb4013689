"""The broker plugin in real Apache Kafka brokers: what clients push is on the topic, and no client notices it."""

import re
import shutil
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.brokers.kafka_broker import CLUSTER_ID, NODE_ID, KafkaBroker
from support.brokers.kafka_jars import bridge_jar
from support.clients.push_watch import PARTITIONS, PushWatch
from support.clients.raw_client import GZIP, RawClient
from support.payloads.payloads import metrics_data
from support.ports import free_ports
from support.waiting import PATIENCE_S, ticking, wait_for

from fleetgauge.telemetry.push_record import PushRecord, is_push_id

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka and build the plugin"),
]

TOPIC = "fleetgauge-pushes"
PACKAGE = "io.github.fleetgauge.bridge"
MBEAN = f"fleetgauge:type=bridge,node-id={NODE_ID}"
UNKNOWN_TO_A_PLUGIN = {"subscription_id", "compression_type", "payload_bytes"}


class Pushed(NamedTuple):
    """A record of the topic."""

    key: str
    value: bytes
    headers: dict[str, str]
    partition: int


class Form(NamedTuple):
    """A Kafka version and the entry class that its operators are told to name."""

    version: str
    reporter: str

    @property
    def says_push_interval(self) -> bool:
        return self.reporter == "FleetgaugeExporterReporter"


FORMS = [
    Form("4.3.1", "FleetgaugeExporterReporter"),
    Form("3.9.2", "FleetgaugeReporter"),
]


def broker_with_plugin(directory: Path, form: Form, **settings: str) -> KafkaBroker:
    reporters = f"org.apache.kafka.common.metrics.JmxReporter,{PACKAGE}.{form.reporter}"
    plugin = {f"fleetgauge.{key}": value for key, value in settings.items()}
    return KafkaBroker(
        directory, form.version, jars=[bridge_jar()], properties={"metric.reporters": reporters, **plugin}
    )


@pytest.fixture(params=FORMS, ids=lambda form: f"{form.version}-{form.reporter}")
def form(request: pytest.FixtureRequest) -> Form:
    form: Form = request.param
    return form


@pytest.fixture
def broker(tmp_path: Path, form: Form) -> Iterator[KafkaBroker]:
    settings = {"topic.partitions": str(PARTITIONS), "topic.retention.ms": "3600000"}
    with broker_with_plugin(tmp_path / "kafka", form, **settings) as broker:
        broker.subscribe(interval_ms=1000)
        yield broker


def delivered(broker: KafkaBroker) -> dict[str, int]:
    """The plugin's counts once everything that it received is on the topic or dropped, and no more comes."""
    counts: list[dict[str, int]] = [{}]

    def look() -> list[dict[str, int]]:
        """The counts at the last look, and now."""
        attributes = broker.mbean(MBEAN)
        counts.append({name: int(value) for name, value in attributes.items() if value.isdigit()})
        return counts[-2:]

    def is_at_rest(seen: list[dict[str, int]]) -> bool:
        before, now = seen
        return now["BufferedPushes"] == 0 and now == before

    return wait_for(look, "the plugin to have delivered everything", until=is_at_rest)[-1]


def read_topic(broker: KafkaBroker, count: int) -> list[Pushed]:
    """`count` records of the topic by a consumer that pushes nothing itself, in the order of each partition."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "reader", "enable.metrics.push": False, "log_level": 3}
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    pushed: list[Pushed] = []

    def read_on() -> int:
        while (message := consumer.poll(0.2)) is not None:
            pushed.append(read_push(message))
        return len(pushed)

    try:
        wait_for(read_on, f"{count} records", until=lambda found: found >= count)
        assert consumer.poll(0.5) is None, "more records than pushes"
    finally:
        consumer.close()
    assert len(pushed) == count
    return pushed


def read_push(message: Message) -> Pushed:
    assert message.error() is None
    key, value, headers = message.key(), message.value(), message.headers() or []
    assert isinstance(headers, list)
    assert isinstance(key, bytes)
    assert isinstance(value, bytes), "empty, never null"
    texts = {name: content.decode() for name, content in headers if isinstance(content, bytes)}
    assert len(texts) == len(headers), "every header once, and none without a value"
    return Pushed(key.decode(), value, texts, int(message.partition() or 0))


def check_common_fields(pushed: Pushed, form: Form) -> None:
    """What must be right of every record, whoever pushed."""
    expected = set(PushRecord._fields) - {"metrics"} - UNKNOWN_TO_A_PLUGIN
    assert set(pushed.headers) == (expected if form.says_push_interval else expected - {"push_interval_ms"})
    headers = pushed.headers
    assert is_push_id(headers["push_id"])
    assert int(headers["push_id"][:16], 16) == int(headers["received_at"])
    assert abs(int(headers["received_at"]) / 1e6 - time.time()) < 300
    assert headers["receiver_node_id"] == str(NODE_ID)
    assert headers["cluster_id"] == CLUSTER_ID
    assert headers["listener"] == "PLAINTEXT"
    assert headers["principal"] == "User:ANONYMOUS"
    assert headers["client_source_address"] == "127.0.0.1"
    assert 0 < int(headers["client_source_port"]) < 65536
    assert headers["client_instance_id"] == pushed.key
    assert len(pushed.key) == 22
    assert headers["terminating"] in ("true", "false")
    assert headers["schema_version"] == "1"
    if form.says_push_interval:
        assert headers["push_interval_ms"] == "1000"


def test_every_push_of_real_clients_is_a_record_with_all_that_the_broker_knows(broker: KafkaBroker, form: Form) -> None:
    ports, answered = raw_pushes(broker)
    librdkafka_clients_push(broker, for_s=3.0)

    counts = delivered(broker)
    assert counts["DeliveredTotal"] == counts["ReceivedTotal"]
    assert {name: count for name, count in counts.items() if name.startswith("Dropped") and count} == {}
    records = read_topic(broker, counts["DeliveredTotal"])
    assert sum(len(record.value) for record in records) == counts["ReceivedBytesTotal"]
    assert len({record.headers["push_id"] for record in records}) == len(records)

    by_client: dict[str, list[Pushed]] = defaultdict(list)
    for record in records:
        check_common_fields(record, form)
        by_client[record.headers["client_id"]].append(record)
    assert set(by_client) == {"orders", "audit", "raw", "raw-große-id"}, "the plugin's own clients push nothing"
    for client_id in ("orders", "audit"):
        check_librdkafka(by_client[client_id])
    for client_id, payloads in answered.items():
        raw = by_client[client_id]
        assert [record.value for record in raw] == payloads
        assert [record.headers["terminating"] for record in raw] == ["false", "true"]
        assert {record.headers["client_software_name"] for record in raw} == {"raw-client"}
        assert {record.headers["client_software_version"] for record in raw} == {"1.0"}
        assert {record.headers["client_source_port"] for record in raw} == {str(ports[client_id])}
    check_topic(broker)
    assert broker.stop() == 143, broker.output()
    check_log(broker, starts=1)
    assert "pushes were dropped" not in broker.output_all()

    broker.start()
    raw_pushes(broker)
    counts = delivered(broker)
    check_log(broker, starts=2)
    everything = read_topic(broker, len(records) + counts["DeliveredTotal"])
    assert counts["DeliveredTotal"] == 4, "the restarted broker goes on with its topic"
    assert len({pushed.headers["push_id"][16:24] for pushed in everything}) == 2, "each start has a writer of its own"


def check_log(broker: KafkaBroker, *, starts: int) -> None:
    """The plugin reports its load, the topic and the first push, once per start; its clients find an open listener.

    The node has both roles: Kafka loads the class for its controller too, which starts nothing. The line on the first
    push follows its acknowledgement, which the MBean counts already.
    """
    written = f"Client telemetry pushes are written to the topic {TOPIC}."
    wait_for(
        lambda: broker.output_all().count(written), f"line {starts} on written pushes", until=lambda n: n >= starts
    )
    log = broker.output_all()
    loaded = rf"Fleetgauge plugin [0-9.]+ loaded: .* node {NODE_ID} accepts are written to the topic {TOPIC}\."
    assert len(re.findall(loaded, log)) == starts, log
    assert log.count(f"Connected to the topic {TOPIC}") == starts
    assert log.count(written) == starts
    assert [line for line in log.splitlines() if " WARN " in line and "node -1" in line] == []


def raw_pushes(broker: KafkaBroker) -> tuple[dict[str, int], dict[str, list[bytes]]]:
    """Two clients that push bytes of ours: their source ports, and what was answered NONE."""
    ports, answered = {}, {}
    for client_id in ("raw", "raw-große-id"):
        with RawClient(broker.port, client_id=client_id) as client:
            client.api_versions()
            ports[client_id] = client.socket.getsockname()[1]
            instance_id = uuid.uuid4()
            subscription = client.get(instance_id)
            first, last = metrics_data(3), metrics_data(200)
            zipped = zlib.compressobj(wbits=31)
            assert (
                client.push(subscription, zipped.compress(first) + zipped.flush(), compression_type=GZIP).error_code
                == 0
            )
            assert client.push(client.get(uuid.uuid4()), b"").error_code == 0, "a heartbeat, which a plugin never sees"
            # A terminating push may come before its time; a large one travels as it is.
            assert client.push(subscription, last, terminating=True).error_code == 0
            answered[client_id] = [first, last]
    return ports, answered


def librdkafka_clients_push(broker: KafkaBroker, *, for_s: float) -> None:
    """A producer and a consumer at work, closed in the end."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "enable.metrics.push": False, "log_level": 3})
    admin.create_topics([NewTopic("orders.events", 1, 1)])["orders.events"].result(PATIENCE_S)
    common = {"bootstrap.servers": broker.bootstrap, "log_level": 3}
    producer = Producer({**common, "client.id": "orders"})
    consumer = Consumer({**common, "client.id": "audit", "group.id": "auditors", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders.events"])
    for _ in ticking(for_s):
        producer.produce("orders.events", b"one")
        producer.poll(0)
        consumer.poll(0.05)
    producer.flush(PATIENCE_S)
    with PushWatch(broker.bootstrap, TOPIC) as watch:
        watch.close_after_a_push("audit", consumer)
        watch.close_after_a_push("orders", producer)


def check_librdkafka(records: list[Pushed]) -> None:
    records = sorted(records, key=lambda record: record.headers["push_id"])
    assert len(records) >= 2
    assert len({(record.key, record.partition) for record in records}) == 1, "an instance keeps its partition"
    assert [record.headers["terminating"] for record in records] == ["false"] * (len(records) - 1) + ["true"]
    assert {record.headers["client_software_name"] for record in records} == {"confluent-kafka-python"}
    assert all("rdkafka" in record.headers["client_software_version"] for record in records)
    for earlier, later in pairwise(records):
        assert int(earlier.headers["received_at"]) < int(later.headers["received_at"])
    for record in records:
        assert MetricsData.FromString(record.value).resource_metrics, "decompressed"


def check_topic(broker: KafkaBroker) -> None:
    """The topic is as it was asked for, and takes the largest payloads."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "enable.metrics.push": False, "log_level": 3})
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    settings = {
        name: entry.value for name, entry in admin.describe_configs([resource])[resource].result(PATIENCE_S).items()
    }
    assert settings["retention.ms"] == "3600000"
    assert settings["cleanup.policy"] == "delete"
    assert settings["compression.type"] == "producer"
    assert int(settings["max.message.bytes"]) > 16 * 1024 * 1024
    assert len(admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions) == PARTITIONS


def test_a_topic_that_is_away_costs_the_client_nothing_and_drops_are_counted(tmp_path: Path) -> None:
    settings = {
        "bootstrap.servers": "127.0.0.1:1",
        "telemetry.max.decompressed.bytes": str(1024 * 1024),
        "buffer.bytes": str(2 * 1024 * 1024),
        "close.timeout.ms": "1000",
        "admin.default.api.timeout.ms": "500",
        "admin.request.timeout.ms": "500",
    }
    with broker_with_plugin(tmp_path / "kafka", FORMS[0], **settings) as broker:
        broker.subscribe(interval_ms=1000)
        payload = metrics_data(8000)
        fit = 2 * 1024 * 1024 // (len(payload) + 2048)
        with RawClient(broker.port) as client:
            client.api_versions()
            for _ in range(fit + 3):
                answer = client.push(client.get(uuid.uuid4()), payload)
                assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
        attributes = broker.mbean(MBEAN)
        assert attributes["State"] == "CONNECTING"
        assert int(attributes["DroppedBufferFullTotal"]) == 3
        assert int(attributes["BufferedPushes"]) == fit
        assert int(attributes["BufferedBytes"]) <= int(attributes["BufferMaxBytes"])
        assert broker.stop() == 143, "it closes although its topic is away"
        log = broker.output_all()
    assert f"closed {fit}" in log
    told = "wait, since the topic fleetgauge-pushes cannot be written to"
    warned = [logged_at(line) for line in log.splitlines() if told in line]
    assert warned
    assert all(later - earlier > timedelta(seconds=59) for earlier, later in pairwise(warned)), "one warning a minute"


def logged_at(line: str) -> datetime:
    """The time at the beginning of a line of the broker's log."""
    return datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f")  # noqa: DTZ007  # only differences are of interest


def test_a_controller_loads_the_plugin_and_starts_nothing(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    listener = f"CONTROLLER://127.0.0.1:{port}"
    roles = {
        "process.roles": "controller",
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{port}",
        "listeners": listener,
        "advertised.listeners": listener,
        "metric.reporters": f"{PACKAGE}.{FORMS[0].reporter}",
    }
    with KafkaBroker(tmp_path / "kafka", FORMS[0].version, jars=[bridge_jar()], properties=roles) as controller:
        assert controller.stop() == 143, controller.output()
        log = controller.output_all()
    assert log.count(f"Fleetgauge plugin loaded on node {NODE_ID}, a controller: it takes no pushes.") == 1
    assert "clientId=fleetgauge-bridge" not in log


def test_a_mistyped_key_stops_the_start_and_is_named(tmp_path: Path) -> None:
    broker = broker_with_plugin(tmp_path / "kafka", FORMS[0], topc="pushes")
    try:
        broker.launch()
        assert broker.process is not None
        assert broker.process.wait(PATIENCE_S) != 0
    finally:
        broker.kill()
    assert "Unknown configuration fleetgauge.topc; allowed are " in broker.output_all()
