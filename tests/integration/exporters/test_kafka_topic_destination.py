"""A Kafka topic as destination, at a real Apache Kafka broker."""

import os
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message
from structlog.processors import TimeStamper
from structlog.testing import capture_logs
from support.brokers.consumed import consumed
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.certificates import Authority
from support.ports import free_ports
from support.programs.delivery import Delivery, real_records
from support.programs.push_log import push_record
from support.waiting import wait_for

from fleetgauge.exporters.exporter import Retry
from fleetgauge.exporters.kafka.exporter import kafka_topic_exporter
from fleetgauge.exporters.labels import Labeller, LabelSettings
from fleetgauge.push_log.kafka_topic.record_codec import decode_record
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord

pytestmark = pytest.mark.integration

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ana="right";'


class Broker(KafkaBroker):
    """With a listener that wants a password, and one that wants a certificate."""

    def __init__(self, directory: Path) -> None:
        self.sasl_port, self.tls_port = free_ports(2)
        self.authority = Authority(directory / "certificates")
        super().__init__(directory, "4.3.1", heap="384m")

    def _defaults(self) -> dict[str, str]:
        usual = super()._defaults()
        secure = f",SASL://127.0.0.1:{self.sasl_port},TLS://127.0.0.1:{self.tls_port}"
        return {
            **usual,
            "listeners": usual["listeners"] + secure,
            "advertised.listeners": usual["advertised.listeners"] + secure,
            "listener.security.protocol.map": usual["listener.security.protocol.map"] + ",SASL:SASL_PLAINTEXT,TLS:SSL",
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": JAAS,
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(self.authority.issue("broker", "/CN=broker").keystore),
            "listener.name.tls.ssl.truststore.type": "PEM",
            "listener.name.tls.ssl.truststore.location": str(self.authority.certificate),
        }


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    if MISSING:
        pytest.skip(MISSING)
    with Broker(tmp_path_factory.mktemp("broker")) as started:
        yield started


@pytest.fixture
def keys(broker: Broker) -> dict[str, Any]:
    """Of an exporter to a topic that does not exist yet."""
    name = f"pushes-{uuid.uuid4().hex[:12]}"
    return {
        "type": "kafka_topic", "bootstrap.servers": broker.bootstrap, "topic": name, "topic.partitions": 3,
        "linger.ms": 20,
    }  # fmt: skip


def key_of(message: Message) -> bytes:
    key = message.key()
    assert isinstance(key, bytes)
    return key


def decoded(message: Message) -> PushRecord:
    value, headers = message.value(), message.headers()
    assert isinstance(value, bytes)
    assert isinstance(headers, list)
    return decode_record(key_of(message), value, headers)


def push_id_of(message: Message) -> str:
    """The push id in the headers."""
    push_id = dict(message.headers() or ())["push_id"]
    assert isinstance(push_id, bytes)
    return push_id.decode()


def why_not(keys: dict[str, Any], part: str) -> str:
    """What an exporter says of a batch that it cannot deliver now, once that has this part."""
    batch = Batch(exporter="it", records=tuple(real_records(1)), first_position="1", last_position="1", size_bytes=1)
    with closing(kafka_topic_exporter("it", keys)) as exporter:

        def detail() -> str:
            outcome = exporter.export(batch)
            assert isinstance(outcome, Retry)
            return outcome.detail

        return wait_for(detail, f"an outcome with {part!r}", until=lambda found: part in found)


def test_push_records_arrive_as_they_are_a_clients_in_one_partition_and_in_order(
    broker: Broker, keys: dict[str, Any], tmp_path: Path
) -> None:
    records = real_records(200)
    again = [record._replace(push_id=f"{number + 1_000:032x}") for number, record in enumerate(records)]
    with Delivery(tmp_path, **keys) as delivery:
        delivery.push(*records, *again)
        delivery.wait_delivered()
        assert delivery.stats().delivered_records == 400
        assert delivery.stats().retried == {}
    messages = consumed(broker.bootstrap, keys["topic"])
    by_id = {record.push_id: record for record in map(decoded, messages)}
    assert len(messages) == 400
    assert by_id == {record.push_id: record for record in (*records, *again)}
    places: dict[bytes, list[tuple[int | None, str]]] = {}
    for message in messages:
        places.setdefault(key_of(message), []).append((message.partition(), decoded(message).push_id))
    assert all(len({partition for partition, _ in place}) == 1 for place in places.values())
    assert all(
        [push_id for _, push_id in place] == sorted(push_id for _, push_id in place) for place in places.values()
    )
    assert len({message.partition() for message in messages}) == 3


def test_labelled_otlp_arrives_with_the_push_id_and_heartbeats_have_none(
    broker: Broker, keys: dict[str, Any], tmp_path: Path
) -> None:
    records = real_records(50)
    with Delivery(tmp_path, **keys, format="otlp", static__labels={"environment": "test"}) as delivery:
        delivery.push(*records)
        delivery.wait_delivered()
    settings = LabelSettings(static=(("environment", "test"),))
    expected = {record.push_id: Labeller(settings).labelled(record) for record in records if record.metrics}
    found = {push_id_of(message): message for message in consumed(broker.bootstrap, keys["topic"])}
    assert {push_id: message.value() for push_id, message in found.items()} == expected
    assert {key_of(message).decode() for message in found.values()} == {
        record.client_instance_id for record in records if record.metrics
    }


def test_a_record_that_is_too_large_is_left_out_and_the_rest_arrives_once(
    broker: Broker, keys: dict[str, Any], tmp_path: Path
) -> None:
    records = [push_record(number, b"\x0a\x00") for number in range(20)]
    records[7] = records[7]._replace(metrics=os.urandom(2 << 20))
    with Delivery(tmp_path, **keys, max__record__bytes=1) as delivery:
        delivery.push(*records)
        delivery.wait_delivered()
        assert delivery.stats().refused == {"msg_size_too_large": 1}
    found = [decoded(message).push_id for message in consumed(broker.bootstrap, keys["topic"])]
    assert sorted(found) == [record.push_id for record in records if len(record.metrics) < 100]


def test_a_wrong_password_is_told_in_words_and_the_right_one_delivers(
    broker: Broker, keys: dict[str, Any], tmp_path: Path
) -> None:
    sasl = {
        **keys, "bootstrap.servers": [f"127.0.0.1:{broker.sasl_port}"], "client.security.protocol": "SASL_PLAINTEXT",
        "client.sasl.mechanism": "PLAIN", "client.sasl.username": "ana", "timeout.ms": 1_000,
    }  # fmt: skip
    words = why_not({**sasl, "client.sasl.password": "wrong"}, "uthentication")
    assert "wrong" not in words.replace("wrong password", "")
    with Delivery(tmp_path, **{**sasl, "client.sasl.password": "right", "timeout.ms": 60_000}) as delivery:
        delivery.push(*real_records(3))
        delivery.wait_delivered()
    assert len(consumed(broker.bootstrap, keys["topic"])) == 3


def test_wrong_certificates_are_told_in_words_and_the_right_ones_deliver(
    broker: Broker, keys: dict[str, Any], tmp_path: Path
) -> None:
    ours, other_ca = broker.authority.issue("exporter", "/CN=exporter"), Authority(tmp_path / "theirs", "Another CA")
    tls = {
        **keys, "bootstrap.servers": [f"127.0.0.1:{broker.tls_port}"], "client.security.protocol": "SSL",
        "client.ssl.ca.location": str(broker.authority.certificate), "timeout.ms": 1_000,
    }  # fmt: skip
    why_not({**tls, "client.ssl.ca.location": str(other_ca.certificate)}, "certificate verify failed")
    why_not(tls, "alert bad certificate")  # as Java says of one that is missing
    files = {"client.ssl.certificate.location": str(ours.certificate), "client.ssl.key.location": str(ours.key)}
    with Delivery(tmp_path, **{**tls, **files, "timeout.ms": 60_000}) as delivery:
        delivery.push(*real_records(3))
        delivery.wait_delivered()
    assert len(consumed(broker.bootstrap, keys["topic"])) == 3


def test_every_push_arrives_through_a_kill_and_restart_of_the_broker(
    broker: Broker, keys: dict[str, Any], tmp_path: Path
) -> None:
    with capture_logs([TimeStamper()]) as logs, Delivery(tmp_path, **keys, timeout__ms=2_000) as delivery:
        delivery.push(*real_records(300))
        delivery.wait_delivered()
        broker.kill()
        try:
            delivery.push(*real_records(300, start=300))
            delivery.wait(lambda stats: sum(stats.retried.values()) >= 2, "two tries without a broker")
        finally:
            broker.start()
        delivery.wait_delivered()
        assert delivery.stats().refused == {}
    found = [decoded(message).push_id for message in consumed(broker.bootstrap, keys["topic"])]
    missing = {f"{number:032x}" for number in range(600)} - set(found)
    assert not missing
    print(f"pushed 600, delivered {len(found)}, lost {len(missing)}, repeated {len(found) - 600}")
    warned: dict[str, list[float]] = defaultdict(list)
    for log in logs:
        if log["event"] == "delivery.retrying":
            warned[str(log["reason"])].append(log["timestamp"])
    assert warned
    for times in warned.values():
        assert all(later - earlier > 59 for earlier, later in pairwise(times)), "each reason is logged once a minute"
