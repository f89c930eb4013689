"""What our Kafka clients are given, and what becomes of a topic that is not as it should be."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError
from structlog.testing import capture_logs
from support.programs.push_log import push_record
from support.waiting import wait_for

from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.exporters.kafka import exporter as kafka_topic
from fleetgauge.exporters.kafka.exporter import KafkaTopicExporter, kafka_topic_exporter
from fleetgauge.push_log.kafka_topic.clients import make_producer, text_of
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import ensure_topic
from fleetgauge.push_log.log import Batch

BATCH = Batch(exporter="lake", records=(push_record(1, b""),), first_position="1", last_position="1", size_bytes=1)


def given(monkeypatch: pytest.MonkeyPatch, client: dict[str, str]) -> dict[str, Any]:
    """With what settings librdkafka's producer is made."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr("confluent_kafka.Producer", lambda config, **_: made.append(config))
    make_producer(KafkaTopicSettings(bootstrap_servers="127.0.0.1:1", client=client), lambda error: None)
    return made[0]


def test_a_record_counts_only_when_every_replica_has_it_once_and_our_own_telemetry_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = given(monkeypatch, {})
    assert (found["acks"], found["enable.idempotence"], found["compression.type"]) == ("all", True, "zstd")
    assert found["enable.metrics.push"] is False
    assert found["partitioner"] == "murmur2_random"
    assert found["message.max.bytes"] > 16 * 1024 * 1024


def test_an_operator_chooses_the_compression_and_nothing_that_delivery_rests_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = given(monkeypatch, {"compression.type": "lz4", "message.max.bytes": "1000"})
    assert found["compression.type"] == "lz4"
    assert found["message.max.bytes"] > 16 * 1024 * 1024
    for key in ("acks", "request.required.acks", "enable.idempotence", "delivery.report.only.error"):
        with pytest.raises(ValueError, match=f"{key} is set by Fleetgauge"):
            KafkaTopicSettings(bootstrap_servers="127.0.0.1:1", client={key: "false"})


class Entry:
    """Of a broker's answer to DescribeConfigs."""

    def __init__(self, value: str | None) -> None:
        self.value = value


class Admin:
    """Of a cluster that has the topic, and tells these of its settings."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries

    def describe_topics(self, topics: Any, **_: object) -> dict[str, "Future[object]"]:
        return {name: done(None) for name in ("pushes",)}

    def describe_configs(self, resources: Iterable[Any], **_: object) -> dict[Any, "Future[object]"]:
        return {resource: done(self._entries) for resource in resources}


def done(result: object) -> "Future[object]":
    future: Future[object] = Future()
    future.set_result(result)
    return future


@pytest.mark.parametrize(
    ("entries", "warned"),
    [
        ({}, 0),
        ({"max.message.bytes": Entry(None)}, 0),
        ({"max.message.bytes": Entry("")}, 0),
        ({"max.message.bytes": Entry("1048588")}, 1),
        ({"max.message.bytes": Entry("104857600")}, 0),
    ],
)
def test_brokers_that_do_not_tell_how_large_a_record_may_be_are_used_without_a_word(
    entries: dict[str, Entry], warned: int
) -> None:
    with capture_logs() as logs:
        ensure_topic(Admin(entries), KafkaTopicSettings(bootstrap_servers="x:1", topic="pushes"))  # type: ignore[arg-type]
    assert len([log for log in logs if log["event"] == "push_log.topic_record_limit"]) == warned


class Producer:
    """Answers what is produced with an error, or None for success, from within `poll`."""

    def __init__(self, error: KafkaError | None) -> None:
        self._error = error
        self._reports: list[Callable[[KafkaError | None, object], None]] = []

    def produce(self, *_: object, on_delivery: Callable[[KafkaError | None, object], None], **__: object) -> None:
        self._reports.append(on_delivery)

    def poll(self, _timeout_s: float) -> None:
        while self._reports:
            self._reports.pop()(self._error, None)


@pytest.mark.parametrize(
    ("name", "producers", "searches"),
    [("UNKNOWN_TOPIC_OR_PART", 2, 2), ("_UNKNOWN_TOPIC", 2, 2), ("NOT_ENOUGH_REPLICAS", 1, 1)],
)
def test_a_topic_that_was_deleted_is_looked_for_and_written_with_a_producer_that_does_not_know_the_old_one(
    monkeypatch: pytest.MonkeyPatch, name: str, producers: int, searches: int
) -> None:
    answers = [KafkaError(getattr(KafkaError, name)), None]
    made: list[Producer] = []
    searched: list[str] = []

    def make(*_: object) -> Producer:
        made.append(Producer(answers[len(made)]))
        return made[-1]

    exporter = kafka_topic_exporter("lake", {"bootstrap.servers": "127.0.0.1:1", "topic": "pushes"})
    assert isinstance(exporter, KafkaTopicExporter)
    monkeypatch.setattr(kafka_topic, "make_producer", make)
    monkeypatch.setattr(kafka_topic, "make_admin", lambda settings: None)
    monkeypatch.setattr(kafka_topic, "ensure_topic", lambda admin, settings: searched.append(settings.topic))
    assert isinstance(exporter.export(BATCH), Retry)
    outcome = exporter.export(BATCH)
    assert (len(made), len(searched)) == (producers, searches)
    assert isinstance(outcome, Delivered if producers == 2 else Retry)


def test_what_librdkafka_quotes_of_an_oauth_setting_is_not_shown() -> None:
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=a secret=hunter2hunter2",
    }
    raw: list[str] = []
    said: list[str] = []

    def take(error: KafkaError) -> None:
        raw.append(error.str())
        said.append(text_of(error))

    producer = make_producer(KafkaTopicSettings(bootstrap_servers="127.0.0.1:1", client=client), take)

    def errors() -> list[str]:
        producer.poll(0.1)
        return raw

    wait_for(
        errors, "an error that quotes the setting", until=lambda texts: any("OAUTHBEARER" in text for text in texts)
    )
    assert "hunter2" in str(raw)
    assert "hunter2" not in str(said)
    assert "beginning at: [hidden]" in str(said)
