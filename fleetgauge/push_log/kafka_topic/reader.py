"""Reads the topic for one exporter; its readers, in any number of processes, share the topic's partitions."""

import threading
from collections import Counter
from contextlib import suppress
from operator import methodcaller
from typing import TYPE_CHECKING, Final

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.push_log.kafka_topic.group_member import GroupMember, MakeConsumer, RebalancingError
from fleetgauge.push_log.kafka_topic.offsets import TopicOffsets
from fleetgauge.push_log.kafka_topic.record_codec import Headers, MalformedRecordError, decode_record
from fleetgauge.push_log.kafka_topic.seen_clients import SeenClients
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.shares import Fetched
from fleetgauge.push_log.log import Batch, Lag, PushLogError
from fleetgauge.telemetry.push_record import PushRecord

if TYPE_CHECKING:
    from confluent_kafka import Message

log = get_logger(__name__)

_COMMIT_WITHIN_S: Final = 60.0
_COMMIT_RETRY_S: Final = 0.1
_CALL_HEADERS: Final = methodcaller("headers")
"""Calls `headers()` from C. For a header name that is not UTF-8, confluent-kafka sets an exception and still returns a
broken list. A call from C detects that; the interpreter's own specialised call (PEP 659) does not, and the list crashes
the process.
"""


class KafkaTopicReader:
    """The `PushLogReader` of a Kafka topic. It skips, counts and logs records that are not push records.

    Args:
        settings: the topic and its cluster.
        exporter: the exporter, whose group is joined with the first `poll`.
        time: the clocks.
        consumer: creates the consumer; see `GroupMember`.
        offsets: the first and last offsets of the partitions.
        seen: collects the clients of the records; None collects none.

    Attributes:
        member: joins the group and fetches.
        last_lag: what `lag` found last, also after `close`; None if it found none, or no partition was assigned.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """

    rebalance_within_ms: int = 60_000
    """A rebalance that takes longer than this is treated as an error [ms]."""

    def __init__(
        self,
        settings: KafkaTopicSettings,
        exporter: str,
        *,
        time: Time | None = None,
        consumer: MakeConsumer | None = None,
        offsets: TopicOffsets | None = None,
        seen: SeenClients | None = None,
    ) -> None:
        self._seen = seen
        self._topic = settings.topic
        self.exporter = exporter
        self._time = time or SystemTime()
        self._woken = False
        self.last_lag: Lag | None = None
        self._bad: Counter[str] = Counter()
        self._bad_lock = threading.Lock()
        self._limiter = LogLimiter()
        self._log = log.bind(exporter=exporter)
        self._offsets = offsets or TopicOffsets(settings)
        self.member = GroupMember(settings, exporter, self._time, self._offsets, consumer)

    @property
    def bad_records(self) -> dict[str, int]:
        """Skipped records so far, by reason."""
        with self._bad_lock:
            return dict(self._bad)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions assigned to this reader now."""
        with self.member.changed:
            return tuple(share.partition for share in self.member.shares.current)

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """See `PushLogReader.poll`."""
        self.member.join()
        taken = self._take(max_bytes, max_records, max_wait_ms)
        records = self._read(taken)
        if self._seen is not None:
            self._seen.take((taken[index].partition, taken[index].offset, each) for index, each in records.items())
        member = self.member
        with member.changed:
            batch = member.shares.hand_out(taken, records)
            skipped = member.shares.skipped()
        if skipped:
            with suppress(PushLogError):  # otherwise they are committed with the next records
                member.call(lambda: member.commit(member.shares.skipped()), _COMMIT_WITHIN_S)
        if batch is None and member.problem is not None:
            raise PushLogError(member.problem)
        return batch

    def owned(self, batch: Batch) -> Batch | None:
        """See `PushLogReader.owned`."""
        with self.member.changed:
            return self.member.shares.owned(batch)

    def commit(self, batch: Batch) -> int:
        """See `PushLogReader.commit`. Waits for the end of a rebalance, which may reassign partitions of the batch."""
        deadline_ms = self._time.hi_res_clock_ms() + self.rebalance_within_ms
        while True:
            try:
                return self.member.call(lambda: self._settle(batch), _COMMIT_WITHIN_S)
            except RebalancingError:
                if self._woken or self._time.hi_res_clock_ms() >= deadline_ms:
                    raise
            with self.member.changed:
                self.member.changed.wait(_COMMIT_RETRY_S)

    def _settle(self, batch: Batch) -> int:
        """Runs in the member's thread, so that no rebalance comes in between."""
        member = self.member
        member.commit(member.shares.due(batch))
        with member.changed:
            return member.shares.settle(batch)

    def wakeup(self) -> None:
        """See `PushLogReader.wakeup`."""
        with self.member.changed:
            self._woken = True
            self.member.changed.notify_all()

    def lag(self) -> Lag:
        """See `PushLogReader.lag`: over this reader's partitions.

        Raises:
            PushLogError: no partition is assigned to this reader, or the brokers do not answer now.
        """
        measured = self._measure_lag()
        if not self.member.is_closing:
            self.last_lag = measured
        if measured is None:
            raise PushLogError("no partition is assigned to this reader")
        return measured

    def close(self) -> None:
        """See `PushLogReader.close`. Leaves the group, so that other members take over its partitions at once."""
        with suppress(PushLogError):
            self.lag()
        self.member.close()

    def _take(self, max_bytes: int, max_records: int, max_wait_ms: int) -> list[Fetched]:
        deadline_ms = self._time.hi_res_clock_ms() + max_wait_ms
        changed, shares = self.member.changed, self.member.shares
        with changed:
            shares.want(max_bytes, max_records)
            changed.notify_all()
            while not (self._woken or shares.is_full):
                remaining_ms = deadline_ms - self._time.hi_res_clock_ms()
                if remaining_ms <= 0:
                    break
                changed.wait(remaining_ms / 1_000)
            self._woken = False
            taken = shares.take()
            changed.notify_all()
        return taken

    def _read(self, taken: list[Fetched]) -> dict[int, PushRecord]:
        """Index in `taken` -> push record; records that are not push records are skipped."""
        records: dict[int, PushRecord] = {}
        for index, fetched in enumerate(taken):
            try:
                records[index] = record_of(fetched.message)
            except MalformedRecordError as error:
                self._skip(error, fetched)
        return records

    def _skip(self, error: MalformedRecordError, fetched: Fetched) -> None:
        with self._bad_lock:
            self._bad[error.reason] += 1
        if count := self._limiter.admit(f"bad {error.reason}", self._time.hi_res_clock_ms()):
            self._log.warning(
                "push_log.record_skipped",
                message="it is not a push record; it stays on the topic",
                reason=error.reason,
                detail=error.detail,
                topic=self._topic,
                partition=fetched.partition,
                offset=fetched.offset,
                occurrences=count,
            )

    def _measure_lag(self) -> Lag | None:
        with self.member.changed:
            cursors = {share.partition: share.committed for share in self.member.shares.current}
            oldest = self.member.shares.oldest_received_at
        if not cursors:
            return None
        asked_at_us = self._time.microseconds()
        # A cursor that retention has overtaken is before the beginning; the records between are lost and no lag.
        beginnings, ends = self._offsets.beginnings(cursors), self._offsets.ends(cursors)
        if self._seen is not None:
            with self.member.changed:
                read = self.member.shares.read_before(ends, beginnings)
            self._seen.read_to_end(read, asked_at_us)
        records = sum(
            max(0, ends[partition] - max(beginnings[partition], cursor or 0)) for partition, cursor in cursors.items()
        )
        return Lag(records=records, bytes=None, oldest_received_at=oldest if records else None)


def record_of(message: "Message") -> PushRecord:
    """The push record in a record of the topic.

    Raises:
        MalformedRecordError: it is none.
    """
    return decode_record(message.key(), message.value(), headers_of(message))


def headers_of(message: "Message") -> Headers | None:
    """The headers of a record.

    Raises:
        MalformedRecordError: a header name is not UTF-8.
    """
    try:
        headers = _CALL_HEADERS(message)
    except (UnicodeDecodeError, SystemError, ValueError) as error:
        raise MalformedRecordError("garbled_header", f"a header's name cannot be read: {error}") from None
    return list(headers.items()) if isinstance(headers, dict) else headers
