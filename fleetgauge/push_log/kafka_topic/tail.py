"""The last pushes of a topic for `fleetgauge log tail`, read without a consumer group."""

import heapq
from collections.abc import Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Self

from fleetgauge.push_log.kafka_topic.clients import make_consumer, text_of
from fleetgauge.push_log.kafka_topic.offsets import TopicOffsets
from fleetgauge.push_log.kafka_topic.reader import record_of
from fleetgauge.push_log.kafka_topic.record_codec import MalformedRecordError
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.push_record import PushRecord

if TYPE_CHECKING:
    from confluent_kafka import Message

_WITHIN_S: Final = 30.0
"""Time limit of the brokers' first response [s], as `request.timeout.ms` of Kafka's clients."""
_SILENT_S: Final = 5.0
"""Longest wait for the next record: the last offset of a partition may have none, such as a transaction's end."""
_MAX_POLL_RECORDS: Final = 500


class TopicTail:
    """Reads the ends of all partitions. Use it as a context manager.

    Args:
        settings: the topic and its cluster.

    Attributes:
        bad_records: number of skipped records that are not push records.

    Raises:
        PushLogError: the topic cannot be read.
    """

    def __init__(self, settings: KafkaTopicSettings) -> None:
        self._topic = settings.topic
        self._place = f"topic {settings.topic} at {settings.bootstrap_servers}"
        self._offsets = TopicOffsets(settings)
        self._consumer = make_consumer(settings, "log-tail", lambda error: None)  # the calls raise their errors
        self.bad_records = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def last(self, number: int) -> list[PushRecord]:
        """The last pushes of all partitions together, oldest first.

        Raises:
            PushLogError: the brokers do not answer.
        """
        from confluent_kafka import TopicPartition

        partitions = self._partitions()
        ends, beginnings = self._offsets.ends(partitions), self._offsets.beginnings(partitions)
        starts = {each: max(beginnings[each], ends[each] - number) for each in partitions}
        self._consumer.assign([TopicPartition(self._topic, each, starts[each]) for each in partitions])
        awaited = {each for each in partitions if starts[each] < ends[each]}
        newest_first = heapq.nlargest(number, self._until(awaited, ends), key=attrgetter("push_id"))
        return newest_first[::-1]

    def follow(self) -> Iterator[PushRecord]:
        """The pushes after those of `last` as they arrive, without an end."""
        while True:
            for message in self._consumer.consume(_MAX_POLL_RECORDS, 0.5):
                yield from self._read(message)

    def _partitions(self) -> list[int]:
        from confluent_kafka import KafkaException

        try:
            metadata = self._consumer.list_topics(self._topic, timeout=_WITHIN_S).topics[self._topic]
        except KafkaException as error:
            raise PushLogError(f"cannot read {self._place}: {text_of(error.args[0])}") from error
        if metadata.error is not None:
            raise PushLogError(f"cannot read {self._place}: {text_of(metadata.error)}")
        return sorted(metadata.partitions)

    def _until(self, awaited: set[int], ends: dict[int, int]) -> Iterator[PushRecord]:
        """The pushes before the ends of the awaited partitions."""
        while awaited:
            messages = self._consumer.consume(_MAX_POLL_RECORDS, _SILENT_S)
            if not messages:
                return
            for message in messages:
                yield from self._read(message)
                partition, offset = message.partition(), message.offset()
                if partition is not None and offset is not None and offset + 1 >= ends[partition]:
                    awaited.discard(partition)

    def _read(self, message: "Message") -> Iterator[PushRecord]:
        error = message.error()
        if error is not None:
            raise PushLogError(f"cannot read {self._place}: {text_of(error)}")
        try:
            yield record_of(message)
        except MalformedRecordError:
            self.bad_records += 1
