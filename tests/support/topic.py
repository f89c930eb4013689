"""Records of a topic for tests, without a broker."""

from dataclasses import dataclass
from typing import Any

from support.push_log import push_record

from push_log.kafka_topic.record_codec import encode_record
from telemetry.push_record import PushRecord


@dataclass
class TopicMessage:
    """A record as confluent-kafka hands it out."""

    at: tuple[int, int]
    record: tuple[Any, Any, Any]
    timestamp_ms: int = 1_750_000_000_000

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def key(self) -> Any:
        return self.record[0]

    def value(self) -> Any:
        return self.record[1]

    def headers(self) -> Any:
        return self.record[2]

    def timestamp(self) -> tuple[int, int]:
        return 1, self.timestamp_ms

    def error(self) -> None:
        return None


def topic_message(partition: int, offset: int, record: PushRecord | None = None) -> TopicMessage:
    """A good record; its push id names its place: 1,000 times the partition and the offset."""
    return TopicMessage((partition, offset), tuple(encode_record(record or push_record(place(partition, offset), b""))))


def place(partition: int, offset: int) -> int:
    """The number of the push record that `topic_message` puts there."""
    return 1_000 * partition + offset
