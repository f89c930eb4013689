"""Records that no client library would send, put on the topic byte by byte; and what retention takes."""

from contextlib import closing

import pytest
from confluent_kafka import TopicPartition
from integration.kafka_topic.raw_produce import raw_produce
from structlog.testing import capture_logs
from support.payloads.payloads import metrics_data
from support.programs.push_log import numbers, push_record
from support.waiting import PATIENCE_S, wait_for

from fleetgauge.push_log.kafka_topic.clients import make_admin
from fleetgauge.push_log.kafka_topic.reader import KafkaTopicReader
from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings

pytestmark = pytest.mark.integration


def raw(number: int, *more: tuple[bytes, bytes | None]) -> tuple[bytes, bytes, list[tuple[bytes, bytes | None]]]:
    key, value, headers = encode_record(push_record(number, metrics_data()))
    ours = [(name.encode(), content) for name, content in headers if isinstance(content, bytes)]
    return key, value, [*more, *ours]


def read(reader: KafkaTopicReader, count: int) -> list[int]:
    """The numbers of the next good records, until `count` records came, good or bad."""
    found: list[int] = []
    before = sum(reader.bad_records.values())

    def read_on() -> int:
        batch = reader.poll(1 << 30, 1_000, 100)
        if batch is not None:
            found.extend(numbers(batch.records))
            reader.commit(batch)
        return len(found) + sum(reader.bad_records.values()) - before

    wait_for(read_on, f"{count} records", until=lambda came: came >= count)
    return found


def test_header_names_that_are_no_text_or_nobody_s_stop_nothing(topic: KafkaTopicSettings) -> None:
    records = [raw(number) for number in range(50)]  # by then the interpreter has specialised what reads them
    records[20:45] = [raw(number, (b"\xff\xfe", b"x")) for number in range(20, 45)]
    records += [raw(50, (b"", b"")), raw(51, (b"client\0_id", b"x")), raw(52, (b"traceparent", None))]
    raw_produce(topic.bootstrap_servers, topic.topic, records)
    with closing(KafkaTopicReader(topic, "otlp")) as reader:
        assert read(reader, 53) == [*range(20), *range(45, 53)]
        assert reader.bad_records == {"garbled_header": 25}
        assert reader.lag().records == 0


def test_a_partition_of_bad_records_alone_is_committed(topic: KafkaTopicSettings) -> None:
    raw_produce(topic.bootstrap_servers, topic.topic, [(b"key", b"value", [])] * 5)
    with closing(KafkaTopicReader(topic, "otlp")) as reader:
        assert read(reader, 5) == []
        assert reader.lag().records == 0
    with closing(KafkaTopicReader(topic, "otlp")) as again:
        raw_produce(topic.bootstrap_servers, topic.topic, [raw(7)])
        assert read(again, 1) == [7]
        assert again.bad_records == {}


def test_what_retention_took_before_it_was_delivered_is_counted_and_the_rest_is_delivered(
    topic: KafkaTopicSettings,
) -> None:
    raw_produce(topic.bootstrap_servers, topic.topic, [raw(number) for number in range(10)])
    with closing(KafkaTopicReader(topic, "otlp")) as reader:
        first = wait_for(lambda: reader.poll(1 << 30, 2, 100), "the first records")
        assert first is not None
        reader.commit(first)
        assert numbers(first.records) == [0, 1]
    admin = make_admin(topic)  # kept: its end would be the end of the request
    deleted = admin.delete_records([TopicPartition(topic.topic, 0, 6)])
    for done in deleted.values():
        done.result(PATIENCE_S)
    with capture_logs() as logs, closing(KafkaTopicReader(topic, "otlp")) as reader:
        assert read(reader, 4) == [6, 7, 8, 9]
        assert reader.member.lost_records == 4
        assert reader.lag().records == 0
    assert [entry["records"] for entry in logs if entry["event"] == "push_log.records_lost_by_topic_retention"] == [4]
