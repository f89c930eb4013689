"""A member of an exporter's consumer group. Its own thread is the only one that uses the consumer.

The thread polls the consumer whatever the exporter does: it fetches one batch ahead, and pauses all partitions until
that batch is taken. So a destination may be unavailable for days, and `max.poll.interval.ms` never evicts the process.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.push_log.kafka_topic.clients import make_consumer, text_of
from fleetgauge.push_log.kafka_topic.offsets import TopicOffsets
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.shares import Gap, Shares
from fleetgauge.push_log.log import PushLogError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

log = get_logger(__name__)

T = TypeVar("T")
MakeConsumer = Callable[[Callable[["KafkaError"], None]], "Consumer"]

_MAX_POLL_RECORDS: Final = 500
"""Records per poll of the consumer."""
_POLL_S: Final = 0.02
"""Timeout of a poll; also the longest wait of a commit while no record arrives."""
_REQUEST_S: Final = 5.0
_METADATA_S: Final = 1.0
_CLOSE_S: Final = 5.0


class RebalancingError(PushLogError):
    """The group is rebalancing; the request can be repeated afterwards."""


class GroupMember:
    """Joins an exporter's consumer group, and keeps the fetched records in `shares`, guarded by `changed`.

    It joins with `join`, not before: an exporter that cannot start must not take partitions from other processes.

    Args:
        settings: the topic and its cluster.
        exporter: the exporter, which names the group.
        time: the clocks.
        offsets: the first offsets of the partitions.
        consumer: creates the consumer, with the callback for its errors.

    Attributes:
        has_joined: `join` was called.
        is_closing: `close` was called.
        has_reached_topic: the brokers have returned metadata of the topic.
        rebalances: number of assignments and revocations of partitions.
        lost_records: records that the topic's retention deleted before they were read.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """

    pause_after_s: float = 0.5
    """Time that a batch may wait before the partitions are paused, which discards prefetched records."""

    check_every_ms: int = 1_000
    """Time between two requests for the topic's metadata [ms]."""

    restart_after_s: float = 1.0
    """Wait before a consumer that failed is replaced [s]."""

    def __init__(
        self,
        settings: KafkaTopicSettings,
        exporter: str,
        time: Time,
        offsets: TopicOffsets,
        consumer: MakeConsumer | None = None,
    ) -> None:
        self._topic = settings.topic
        self._offsets = offsets
        self._time = time
        self._make_consumer = consumer or (lambda on_error: make_consumer(settings, exporter, on_error))
        self.changed = threading.Condition()
        self.shares = Shares(exporter)
        self.lost_records = 0
        self.rebalances = 0
        self._calls: deque[tuple[Callable[[], object], Future[Any]]] = deque()
        self.is_closing = False
        self._paused = False
        self._without_cursor: set[int] = set()
        self._check_topic = True  # the topic is checked at once
        self.has_reached_topic = False
        self._unreachable: str | None = None
        self._denied: str | None = None
        self._check_due_ms = 0
        self._limiter = LogLimiter()
        self._log = log.bind(exporter=exporter)
        self._consumer = self._make_consumer(self._on_error)
        self.has_joined = False
        self._thread = threading.Thread(target=self._run, name=f"topic-{exporter}", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why the topic cannot be read now; None if it can."""
        return self._denied or self._unreachable

    def join(self) -> None:
        """Joins the group and starts fetching; does nothing the second time, or after `close`."""
        if not (self.has_joined or self.is_closing):
            self.has_joined = True
            self._thread.start()

    def call(self, work: Callable[[], T], within_s: float) -> T:
        """Runs `work` in the thread and waits for it. After a timeout, the thread may still run it.

        Raises:
            PushLogError: raised by `work`; or the thread was busy for longer, or has ended.
        """
        outcome: Future[T] = Future()
        with self.changed:
            self._calls.append((work, outcome))
            self.changed.notify_all()
            self.changed.wait_for(lambda: outcome.done() or not self._thread.is_alive(), within_s)
            if not outcome.done():
                raise PushLogError(f"the consumer of topic {self._topic} did not answer within {within_s:.0f} s")
        return outcome.result()

    def close(self) -> None:
        """Leaves the group, so that others take the partitions over at once."""
        with self.changed:
            self.is_closing = True
            self.changed.notify_all()
        if self.has_joined:
            self._thread.join(_CLOSE_S)
        else:
            self._consumer.close()

    # The methods below run in the thread; other threads reach them through `call`.

    def commit(self, offsets: dict[int, int]) -> None:
        """Commits offsets of the group and waits for the answer.

        Raises:
            RebalancingError: nothing was committed, since the group is rebalancing.
            PushLogError: the commit may have failed.
        """
        if not offsets:
            return
        places = [self._place(partition, offset) for partition, offset in offsets.items()]
        for place in self._request("commit", lambda: self._consumer.commit(offsets=places, asynchronous=False)):
            if place.error is not None:
                raise _error(f"the cursor of partition {place.partition} was not moved", place.error)
        with self.changed:
            self.shares.moved(offsets)

    def _request(self, what: str, call: Callable[[], T]) -> T:
        from confluent_kafka import KafkaException

        try:
            return call()
        except KafkaException as error:
            raise _error(f"cannot {what} at topic {self._topic}", error.args[0]) from error

    def _place(self, partition: int, offset: int = -1001) -> "TopicPartition":
        from confluent_kafka import TopicPartition

        return TopicPartition(self._topic, partition, offset)

    def _run(self) -> None:
        while True:
            self._succeeds(self._consume)
            self._succeeds(self._consumer.close)
            with self.changed:
                self.shares.end([share.partition for share in self.shares.current])
                self._paused = False
            is_ready = False
            while not is_ready:
                with self.changed:
                    if self.changed.wait_for(lambda: self.is_closing, self.restart_after_s):
                        return
                is_ready = self._succeeds(self._make_another)

    def _make_another(self) -> None:
        self._consumer = self._make_consumer(self._on_error)

    def _succeeds(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:  # noqa: BLE001  # the cursor is durable: a new consumer continues from it
            self._unreachable, self._check_topic = f"the consumer of topic {self._topic} failed: {error}", True
            if self._limiter.admit("failed", self._time.hi_res_clock_ms()):
                self._log.exception("push_log.consumer_failed", message="a new one is created")
            return False
        return True

    def _consume(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        while not self.is_closing:
            self._pause_or_resume()
            self._serve_calls()
            messages = self._consumer.consume(_MAX_POLL_RECORDS, _POLL_S)
            self._learn_cursors()
            self._take_in(messages)
            self._check_reachability()

    def _pause_or_resume(self) -> None:
        """Pauses the partitions while a batch waits to be taken."""
        with self.changed:
            if not self._paused:
                self.changed.wait_for(
                    lambda: self.is_closing or self._calls or not self.shares.is_full, self.pause_after_s
                )
            full = self.shares.is_full and not self._calls
            places = [self._place(share.partition) for share in self.shares.current]
        if full != self._paused:
            (self._consumer.pause if full else self._consumer.resume)(places)
            self._paused = full

    def _serve_calls(self) -> None:
        while True:
            with self.changed:
                if not self._calls:
                    return
                work, outcome = self._calls.popleft()
            try:
                outcome.set_result(work())
            except PushLogError as error:
                outcome.set_exception(error)
            with self.changed:
                self.changed.notify_all()

    def _on_assign(self, consumer: "Consumer", places: "list[TopicPartition]") -> None:
        partitions = [place.partition for place in places]
        self._log.info("push_log.partitions_assigned", topic=self._topic, partitions=partitions)
        self.rebalances += 1
        with self.changed:
            self.shares.begin(partitions)
        self._without_cursor.update(partitions)
        self._denied = None
        if self._paused:
            consumer.incremental_assign(places)
            consumer.pause(places)

    def _on_revoke(self, _consumer: "Consumer", places: "list[TopicPartition]") -> None:
        partitions = [place.partition for place in places]
        self._log.info("push_log.partitions_revoked", topic=self._topic, partitions=partitions)
        self.rebalances += 1
        with self.changed:
            self.shares.end(partitions)
            self.changed.notify_all()

    def _learn_cursors(self) -> None:
        """Reads the group's committed offsets of newly assigned partitions; without them, gaps are not detected."""
        new, self._without_cursor = self._without_cursor, set()
        if not new:
            return
        try:
            places = [self._place(partition) for partition in new]
            committed = self._request("read the cursors", lambda: self._consumer.committed(places, timeout=_REQUEST_S))
        except PushLogError as error:
            self._log.warning("push_log.cursors_unknown", error=str(error))
            return
        with self.changed:
            for place in committed:
                self.shares.starts_at(place.partition, place.offset if place.offset >= 0 else None)

    def _take_in(self, messages: "list[Message]") -> None:
        gaps: list[Gap] = []
        with self.changed:
            for message in messages:
                error = message.error()
                if error is not None:
                    self._on_error(error)
                    continue
                self._denied = None
                gap = self.shares.add(message)
                if gap is not None:
                    gaps.append(gap)
            if messages:
                self.changed.notify_all()
        for gap in gaps:
            self._count_lost(gap)

    def _count_lost(self, gap: Gap) -> None:
        """Offsets before the partition's beginning are lost; other gaps had no records, such as a transaction's end."""
        try:
            beginning = self._offsets.beginnings([gap.partition])[gap.partition]
        except PushLogError as error:
            self._log.warning("push_log.gap_unexplained", partition=gap.partition, error=str(error))
            return
        lost = max(0, min(beginning, gap.came) - gap.first)
        if lost:
            self.lost_records += lost
            self._log.error(
                "push_log.records_lost_by_topic_retention",
                message="they were deleted before they were delivered: raise the topic's retention.ms",
                topic=self._topic,
                partition=gap.partition,
                records=lost,
            )

    def _on_error(self, error: "KafkaError") -> None:
        """Logs an error of the consumer, and has the topic checked, since it may be unreachable."""
        from confluent_kafka import KafkaError

        text = text_of(error)
        if error.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED):
            self._denied = f"cannot read topic {self._topic}: {text}"
        self._check_topic = True
        if count := self._limiter.admit(f"consumer {error.code()}", self._time.hi_res_clock_ms()):
            self._log.warning("push_log.consumer_error", error=text, occurrences=count)

    def _check_reachability(self) -> None:
        """After an error, checks once a second whether the topic is reachable."""
        now_ms = self._time.hi_res_clock_ms()
        if not self._check_topic or now_ms < self._check_due_ms:
            return
        self._check_due_ms = now_ms + self.check_every_ms
        try:
            metadata = self._request("read", lambda: self._consumer.list_topics(self._topic, timeout=_METADATA_S))
        except PushLogError as error:
            self._unreachable = str(error)
            return
        self.has_reached_topic = True
        problem = metadata.topics[self._topic].error
        self._unreachable = None if problem is None else f"cannot read topic {self._topic}: {text_of(problem)}"
        self._check_topic = problem is not None


def _error(problem: str, error: "KafkaError") -> PushLogError:
    from confluent_kafka import KafkaError

    rebalances = (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError._ASSIGNMENT_LOST)
    kind = RebalancingError if error.code() in rebalances else PushLogError
    return kind(f"{problem}: {text_of(error)}")
