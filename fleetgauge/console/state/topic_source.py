"""The console's reader of a topic: all partitions, an hour back at the start. It joins no group and commits nothing."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.console.state.source import LOOKBACK_US, Polled, StoredPush
from fleetgauge.push_log.kafka_topic.clients import make_consumer, text_of
from fleetgauge.push_log.kafka_topic.offsets import TopicOffsets
from fleetgauge.push_log.kafka_topic.reader import record_of
from fleetgauge.push_log.kafka_topic.record_codec import MalformedRecordError
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.log import PushLogError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

log = structlog.get_logger(__name__)

_POLL_S: Final = 0.1
_REQUEST_S: Final = 2.0
_LOOK_EVERY_MS: Final = 10_000
"""Interval between checks for new partitions, and between attempts while the brokers are unreachable [ms]."""
_ENDS_EVERY_MS: Final = 2_000
_SILENT_MS: Final = 5_000
"""If no record arrives for this long before an unchanged end, none will: the last offset may be the end of a
transaction [ms].
"""
_AHEAD_US: Final = 180_000_000
"""A partition that is read this far ahead of another one with more records is paused [us]: minutes are judged as a
whole.
"""


@dataclass(slots=True, eq=False)
class _Partition:
    """Position in a partition: next offset, receive time of its latest push [us], and time of the last record [ms]."""

    next_offset: int
    read_up_to: int
    record_ms: int
    end: int = -1
    at_end_us: int | None = None
    is_paused: bool = False


class TopicSource:
    """All partitions of a topic. While the brokers are unreachable, `notices` says so, and it retries.

    Args:
        settings: the topic and its cluster.
        time: the clocks.
    """

    def __init__(self, settings: KafkaTopicSettings, time: Time | None = None) -> None:
        self._settings = settings
        self._time = time or SystemTime()
        self._place = f"Topic {settings.topic} at {settings.bootstrap_servers}"
        self._consumer: Consumer | None = None
        self._offsets: TopicOffsets | None = None
        self._partitions: dict[int, _Partition] = {}
        self._look_due_ms = self._ends_due_ms = 0
        self._client_problem: str | None = None
        self.is_topic = True
        self.notices: list[str] = []
        self.skipped = 0

    def poll(self, max_pushes: int) -> Polled:
        """See `Source.poll`."""
        try:
            polled = self._poll(max_pushes)
        except PushLogError as error:
            self._say(str(error))
            return Polled(partitions=list(self._partitions))
        if self._client_problem is None:
            self.notices = []
        else:
            self._say(self._client_problem)
        return polled

    def close(self) -> None:
        """See `Source.close`."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _say(self, problem: str) -> None:
        self.notices = [f"{self._place} cannot be read now: {problem.rstrip('.')}. The data shown is older."]

    def _poll(self, max_pushes: int) -> Polled:
        consumer = self._opened()
        now_ms = self._time.hi_res_clock_ms()
        if now_ms >= self._look_due_ms:
            self._look_due_ms = now_ms + _LOOK_EVERY_MS
            self._look(consumer)
        pushes: list[StoredPush] = []
        if self._partitions:
            for message in consumer.consume(max_pushes, _POLL_S):
                self._take(message, pushes)
        if now_ms >= self._ends_due_ms and self._partitions:
            self._ends_due_ms = now_ms + _ENDS_EVERY_MS
            self._find_ends(now_ms)
            self._align(consumer)
        at_end = {number: each.at_end_us for number, each in self._partitions.items() if each.at_end_us is not None}
        for each in self._partitions.values():
            each.at_end_us = None
        return Polled(pushes=pushes, at_end=at_end, partitions=list(self._partitions))

    def _opened(self) -> "Consumer":
        if self._consumer is None:
            self._consumer = make_consumer(self._settings, "console", self._on_error)
            self._offsets = TopicOffsets(self._settings)
        return self._consumer

    def _on_error(self, error: "KafkaError") -> None:
        """Callback within `consume`. The next response of the brokers clears the error."""
        self._client_problem = text_of(error)

    def _look(self, consumer: "Consumer") -> None:
        """Starts reading new partitions.

        Raises:
            PushLogError: the brokers do not answer, or there is no topic.
        """
        from confluent_kafka import KafkaException, TopicPartition

        topic = self._settings.topic
        try:
            metadata = consumer.list_topics(topic, timeout=_REQUEST_S).topics[topic]
            if metadata.error is not None:
                raise PushLogError(text_of(metadata.error))
            new = [number for number in sorted(metadata.partitions) if number not in self._partitions]
            if not new:
                return
            since_us = self._time.microseconds() - LOOKBACK_US
            starts = consumer.offsets_for_times(
                [TopicPartition(topic, number, since_us // 1_000) for number in new], timeout=_REQUEST_S
            )
            assert self._offsets is not None
            ends = self._offsets.ends(new)
            for start in starts:
                if start.offset < 0:  # no record since then
                    start.offset = ends[start.partition]
            consumer.incremental_assign(starts)
        except KafkaException as error:
            raise PushLogError(text_of(error.args[0])) from error
        now_ms = self._time.hi_res_clock_ms()
        for start in starts:
            self._partitions[start.partition] = _Partition(start.offset, since_us, now_ms)

    def _take(self, message: "Message", pushes: list[StoredPush]) -> None:
        error, number, offset = message.error(), message.partition(), message.offset()
        if error is not None:
            self._client_problem = text_of(error)
            return
        partition = self._partitions.get(-1 if number is None else number)
        if partition is None or number is None or offset is None:
            return
        self._client_problem = None
        self.skipped += max(0, offset - partition.next_offset)  # retention was faster
        partition.next_offset = offset + 1
        partition.record_ms = self._time.hi_res_clock_ms()
        try:
            record = record_of(message)
        except MalformedRecordError as problem:
            self.skipped += 1
            log.debug("console.record_skipped", reason=problem.reason, partition=number, offset=offset)
            return
        partition.read_up_to = max(partition.read_up_to, record.received_at)
        pushes.append(StoredPush(number, offset, record, None, len(record.metrics)))

    def _find_ends(self, now_ms: int) -> None:
        """Records which partitions have no further records.

        Raises:
            PushLogError: the brokers do not answer.
        """
        assert self._offsets is not None
        at_us = self._time.microseconds()
        ends = self._offsets.ends(self._partitions)
        self._client_problem = None
        for number, end in ends.items():
            partition = self._partitions[number]
            is_silent = end == partition.end and now_ms - partition.record_ms >= _SILENT_MS
            if partition.next_offset >= end or (is_silent and not partition.is_paused):
                partition.at_end_us = partition.read_up_to = at_us
            partition.end = end

    def _align(self, consumer: "Consumer") -> None:
        """Pauses partitions that are read far ahead of the slowest, and resumes those that no longer are."""
        from confluent_kafka import TopicPartition

        slowest = min(each.read_up_to for each in self._partitions.values())
        newest = self._time.microseconds()
        for number, each in self._partitions.items():
            ahead_us = min(each.read_up_to, newest) - slowest
            place = [TopicPartition(self._settings.topic, number)]
            if not each.is_paused and ahead_us > _AHEAD_US and each.next_offset < each.end:
                consumer.pause(place)
                each.is_paused = True
            elif each.is_paused and ahead_us <= 0:
                consumer.resume(place)
                each.is_paused = False
