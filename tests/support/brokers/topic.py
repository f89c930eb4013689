"""Records of a topic for tests, without a broker."""

from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from support.programs.push_log import push_record

from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.telemetry.push_record import PushRecord

Record = tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]
"""Key, value and headers."""


class TopicMessage(Message):
    """A record as confluent-kafka returns it, at a partition and offset."""

    def __init__(self, at: tuple[int, int], record: Record, timestamp_ms: int = 1_750_000_000_000) -> None:
        self.record = record
        key, value, headers = record
        super().__init__(
            partition=at[0],
            offset=at[1],
            key=key,
            value=value,
            headers=headers,
            timestamp=(TIMESTAMP_CREATE_TIME, timestamp_ms),
        )

    def offset(self) -> int:
        """Never None, as that of a record that is being produced."""
        found = super().offset()
        assert found is not None
        return found


def topic_message(partition: int, offset: int, record: PushRecord | None = None) -> TopicMessage:
    """A good record; its push id names its place: 1,000 times the partition and the offset."""
    return TopicMessage((partition, offset), encode_record(record or push_record(place(partition, offset), b"")))


def place(partition: int, offset: int) -> int:
    """The number of the push record that `topic_message` puts there."""
    return 1_000 * partition + offset
