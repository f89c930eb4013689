"""Reading the topic for one exporter: as a member of the exporter's consumer group, in a thread of its own.

The thread polls the consumer whatever the exporter does: it fetches one batch ahead, and while that waits, all
partitions are paused. So a destination may be away for days, and `max.poll.interval.ms` never evicts the process.
"""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from exporters.calm_log import CalmLog
from exporters.push_log.kafka_topic.clients import make_consumer, text_of
from exporters.push_log.kafka_topic.record_codec import BadRecord, Headers, MalformedRecordError, decode_record
from exporters.push_log.kafka_topic.settings import KafkaTopicSettings
from exporters.push_log.kafka_topic.shares import Fetched, Gap, Shares, TopicMessage
from exporters.push_log.log import Batch, Lag, PushLogError
from quotas.clock import SystemTime, Time
from telemetry.push_record import PushRecord

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

log = structlog.get_logger(__name__)

T = TypeVar("T")

_AT_ONCE: Final = 500
"""Records of one poll of the consumer."""
_POLL_S: Final = 0.05
_PATIENCE_S: Final = 0.5
"""How long a batch may wait to be taken before the partitions are paused, which throws away what was fetched ahead."""
_REQUEST_S: Final = 5.0
_LAG_REQUEST_S: Final = 1.0
_LOOK_S: Final = 1.0
_LOOK_AGAIN_MS: Final = 1_000
_CLOSE_S: Final = 5.0
_AGAIN_AFTER_S: Final = 1.0


class KafkaTopicReader:
    """The `PushLogReader` of a Kafka topic; its readers, in any number of processes, divide the topic's partitions.

    Args:
        settings: where the topic is.
        exporter: whose group to join.
        time: the clocks.
        consumer: makes the consumer, which is told what to call upon errors.

    Raises:
        PushLogError: confluent-kafka is missing, or refuses a setting.
    """

    def __init__(
        self,
        settings: KafkaTopicSettings,
        exporter: str,
        *,
        time: Time | None = None,
        consumer: Callable[[Callable[["KafkaError"], None]], "Consumer"] | None = None,
    ) -> None:
        self._topic = settings.topic
        self._exporter = exporter
        self._time = time or SystemTime()
        self._make_consumer = consumer or (lambda on_error: make_consumer(settings, exporter, on_error))
        self._changed = threading.Condition()
        """Guards everything below but the consumer."""
        self._moving = threading.RLock()
        """Held by other threads that use the consumer. A rebalance waits for it, so what is committed is still ours."""
        self._shares = Shares(exporter)
        self._paused = False
        self._woken = False
        self._closing = False
        self._rewinding = False
        self._unasked: set[int] = set()
        self._suspect = False
        self._away: str | None = None
        self._denied: str | None = None
        self._look_due_ms = 0
        self._last_lag = Lag(records=0, bytes=None, oldest_received_at=None)
        self._bad: Counter[str] = Counter()
        self._lost_records = 0
        self._calm = CalmLog()
        self._log = log.bind(exporter=exporter)
        self._consumer = self._make_consumer(self._on_error)
        self._thread = threading.Thread(target=self._run, name=f"topic-{exporter}", daemon=True)
        self._thread.start()

    @property
    def exporter(self) -> str:
        """See `PushLogReader.exporter`."""
        return self._exporter

    @property
    def bad_records(self) -> dict[str, int]:
        """Records that were set aside so far, by reason."""
        with self._changed:
            return dict(self._bad)

    @property
    def lost_records(self) -> int:
        """Records that the topic's retention took before they were read."""
        return self._lost_records

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that this reader has now."""
        with self._changed:
            return tuple(share.partition for share in self._shares.current)

    def poll(self, max_bytes: int, max_records: int, max_wait_ms: int) -> Batch | None:
        """See `PushLogReader.poll`."""
        deadline_ms = self._time.hi_res_clock_ms() + max_wait_ms
        with self._changed:
            self._shares.want(max_bytes, max_records)
            self._changed.notify_all()
            while not (self._woken or self._shares.is_full):
                remaining_ms = deadline_ms - self._time.hi_res_clock_ms()
                if remaining_ms <= 0:
                    break
                self._changed.wait(remaining_ms / 1_000)
            self._woken = False
            taken = self._shares.take()
            self._changed.notify_all()
        records = self._read(taken)
        with self._changed:
            batch = self._shares.hand_out(taken, records)
            skipped = self._shares.skipped()
            problem = self._denied or self._away
        if skipped:
            with suppress(PushLogError):  # else it is committed with what comes next
                self._move(self._shares.skipped)
        if batch is None and problem is not None:
            raise PushLogError(problem)
        return batch

    def owned(self, batch: Batch) -> Batch | None:
        """See `PushLogReader.owned`."""
        with self._changed:
            return self._shares.owned(batch)

    def commit(self, batch: Batch) -> int:
        """See `PushLogReader.commit`."""
        with self._moving:
            self._move(lambda: self._shares.due(batch))
            with self._changed:
                return self._shares.settle(batch)

    def rewind(self) -> None:
        """See `PushLogReader.rewind`. Returns when the consumer has gone back."""
        with self._changed:
            self._rewinding = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._rewinding or self._closing)

    def wakeup(self) -> None:
        """See `PushLogReader.wakeup`."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def lag(self) -> Lag:
        """See `PushLogReader.lag`: of the partitions that this reader has. After `close`, as it was then.

        Raises:
            PushLogError: the brokers cannot be asked now.
        """
        with self._moving:
            with self._changed:
                if self._closing:
                    return self._last_lag
                shares, oldest = self._shares.current, self._shares.oldest_received_at
            records = 0
            for share in shares:
                low, high = self._watermarks(share.partition, _LAG_REQUEST_S)
                records += max(0, high - max(low, share.committed or 0))
        self._last_lag = Lag(records=records, bytes=None, oldest_received_at=oldest if records else None)
        return self._last_lag

    def close(self) -> None:
        """See `PushLogReader.close`. Leaves the group, so that others take the partitions over at once."""
        with suppress(PushLogError):
            self.lag()
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(_CLOSE_S)

    def _read(self, taken: list[Fetched]) -> dict[int, PushRecord]:
        """The push records in what was taken, by index; what is none is set aside."""
        records: dict[int, PushRecord] = {}
        for index, fetched in enumerate(taken):
            try:
                records[index] = decode_record(
                    fetched.message.key(), fetched.message.value(), _headers(fetched.message)
                )
            except MalformedRecordError as error:
                self._set_aside(error, fetched)
        return records

    def _set_aside(self, error: MalformedRecordError, fetched: Fetched) -> None:
        bad = BadRecord(
            reason=error.reason,
            detail=error.detail,
            topic=self._topic,
            partition=fetched.partition,
            offset=fetched.offset,
        )
        with self._changed:
            self._bad[bad.reason] += 1
        if count := self._calm.occurrences(f"bad {bad.reason}", now_ms=self._time.hi_res_clock_ms()):
            self._log.warning(
                "a record of the topic is no push record and is set aside: it stays where it is",
                reason=bad.reason,
                detail=bad.detail,
                topic=bad.topic,
                partition=bad.partition,
                offset=bad.offset,
                occurrences=count,
            )

    def _move(self, which: Callable[[], dict[int, int]]) -> None:
        """Commits offsets, and waits for the answer.

        Raises:
            PushLogError: it is not known to be done.
        """
        with self._moving:
            with self._changed:
                offsets = which()
            if not offsets:
                return
            wanted = [self._place(partition, offset) for partition, offset in offsets.items()]
            answered = self._asked("commit", lambda: self._consumer.commit(offsets=wanted, asynchronous=False))
            for place in answered:
                if place.error is not None:
                    raise PushLogError(f"the cursor of partition {place.partition} stays: {text_of(place.error)}")
            with self._changed:
                self._shares.moved(offsets)

    def _watermarks(self, partition: int, timeout_s: float) -> tuple[int, int]:
        place = self._place(partition)
        return self._asked("ask for offsets", lambda: self._consumer.get_watermark_offsets(place, timeout=timeout_s))

    def _asked(self, what: str, call: Callable[[], T]) -> T:
        from confluent_kafka import KafkaException

        try:
            return call()
        except KafkaException as error:
            raise PushLogError(f"cannot {what} at topic {self._topic}: {text_of(error.args[0])}") from error
        except RuntimeError as error:  # the consumer is closed, and another is made
            raise PushLogError(f"cannot {what} at topic {self._topic}: {error}") from error

    def _place(self, partition: int, offset: int = -1001) -> "TopicPartition":
        from confluent_kafka import TopicPartition

        return TopicPartition(self._topic, partition, offset)

    # What follows runs in the reader's own thread.

    def _run(self) -> None:
        while True:
            try:
                self._consume()
            except Exception as error:  # noqa: BLE001  # the cursor is durable: a new consumer goes on from it
                self._away = f"the consumer of topic {self._topic} failed: {error}"
                self._suspect = True
                if self._calm.occurrences("failed", now_ms=self._time.hi_res_clock_ms()):
                    self._log.exception("the consumer of the push log's topic failed, and another is made")
            self._let_go()
            with self._changed:
                if self._changed.wait_for(lambda: self._closing, _AGAIN_AFTER_S):
                    return
            self._consumer = self._make_consumer(self._on_error)

    def _consume(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        while self._keep_pace():
            messages = self._consumer.consume(_AT_ONCE, _POLL_S)
            self._learn_cursors()
            self._take_in(messages)
            self._look_for_topic()

    def _let_go(self) -> None:
        with self._moving:  # nobody else may be using it
            self._consumer.close()
            with self._changed:
                self._shares.end([share.partition for share in self._shares.current])
                self._paused = self._rewinding = False
                self._changed.notify_all()

    def _keep_pace(self) -> bool:
        """Pauses while a batch waits to be taken, and goes back where that was asked for; False at the end."""
        with self._changed:
            if not self._paused:
                self._changed.wait_for(self._may_go_on, _PATIENCE_S)
            full, rewinding = self._shares.is_full, self._rewinding
            places = [self._place(share.partition) for share in self._shares.current]
        if rewinding:
            self._go_back()
        elif full != self._paused:
            (self._consumer.pause if full else self._consumer.resume)(places)
            self._paused = full
        return not self._closing

    def _may_go_on(self) -> bool:
        return self._closing or self._rewinding or not self._shares.is_full

    def _go_back(self) -> None:
        with self._changed:
            starts = self._shares.rewind()
        for partition, offset in starts.items():
            self._consumer.seek(self._place(partition, offset))
        with self._changed:
            self._rewinding = False
            self._changed.notify_all()

    def _on_assign(self, consumer: "Consumer", places: "list[TopicPartition]") -> None:
        partitions = [place.partition for place in places]
        self._log.info("partitions assigned", topic=self._topic, partitions=partitions)
        with self._changed:
            self._shares.begin(partitions)
            self._unasked.update(partitions)
            self._denied = None
        if self._paused:
            consumer.incremental_assign(places)
            consumer.pause(places)

    def _on_revoke(self, _consumer: "Consumer", places: "list[TopicPartition]") -> None:
        partitions = [place.partition for place in places]
        self._log.info("partitions revoked", topic=self._topic, partitions=partitions)
        with self._moving, self._changed:
            self._shares.end(partitions)
            self._changed.notify_all()

    def _learn_cursors(self) -> None:
        """Where the group stands in partitions that were assigned just now; without an answer, nobody can tell gaps."""
        unasked, self._unasked = self._unasked, set()
        if not unasked:
            return
        try:
            places = [self._place(partition) for partition in unasked]
            found = self._asked("ask for cursors", lambda: self._consumer.committed(places, timeout=_REQUEST_S))
        except PushLogError as error:
            self._log.warning("the group's cursors are not known", reason=str(error))
            return
        with self._changed:
            for place in found:
                self._shares.starts_at(place.partition, place.offset if place.offset >= 0 else None)

    def _take_in(self, messages: "list[Message]") -> None:
        gaps: list[Gap] = []
        with self._changed:
            for message in messages:
                error = message.error()
                if error is not None:
                    self._on_error(error)
                    continue
                self._denied = None
                gap = self._shares.add(message)
                if gap is not None:
                    gaps.append(gap)
            if messages:
                self._changed.notify_all()
        for gap in gaps:
            self._count_lost(gap)

    def _count_lost(self, gap: Gap) -> None:
        """Gaps are lost records where they lie before the topic's beginning; others held none."""
        with suppress(PushLogError):
            low, _ = self._watermarks(gap.partition, _REQUEST_S)
            lost = max(0, min(low, gap.came) - gap.first)
            if lost:
                self._lost_records += lost
                self._log.error(
                    "the topic's retention took pushes that were not delivered; see its retention.ms",
                    topic=self._topic,
                    partition=gap.partition,
                    records=lost,
                )

    def _on_error(self, error: "KafkaError") -> None:
        """Whatever the consumer says may mean that the topic is out of reach, which is then looked into."""
        from confluent_kafka import KafkaError

        text = text_of(error)
        if error.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            self._denied = f"cannot read topic {self._topic}: {text}"
        self._suspect = True
        if count := self._calm.occurrences(f"consumer {error.code()}", now_ms=self._time.hi_res_clock_ms()):
            self._log.warning("the consumer of the push log's topic has a problem", reason=text, occurrences=count)

    def _look_for_topic(self) -> None:
        """While something is suspected: is the topic there? Says so to `poll`, once a second anew."""
        now_ms = self._time.hi_res_clock_ms()
        if not self._suspect or now_ms < self._look_due_ms:
            return
        self._look_due_ms = now_ms + _LOOK_AGAIN_MS
        try:
            found = self._asked("read", lambda: self._consumer.list_topics(self._topic, timeout=_LOOK_S))
        except PushLogError as error:
            self._away = str(error)
            return
        problem = found.topics[self._topic].error
        self._away = None if problem is None else f"cannot read topic {self._topic}: {text_of(problem)}"
        self._suspect = problem is not None


def _headers(message: TopicMessage) -> Headers | None:
    """The headers; a name that is no UTF-8 makes the client raise.

    Raises:
        MalformedRecordError: they cannot be read.
    """
    try:
        found = message.headers()
        return list(found.items()) if isinstance(found, dict) else found
    except (UnicodeDecodeError, SystemError, ValueError) as error:
        raise MalformedRecordError("garbled_header", f"the headers cannot be read: {error}") from None
