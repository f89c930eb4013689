"""A member of an exporter's consumer group, in a thread of its own: the only one that ever touches the consumer.

The thread polls the consumer whatever the exporter does: it fetches one batch ahead, and while that waits, all
partitions are paused. So a destination may be away for days, and `max.poll.interval.ms` never evicts the process.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import structlog

from base.clock import Time
from base.log_limiter import LogLimiter
from push_log.kafka_topic.clients import make_consumer, text_of
from push_log.kafka_topic.settings import KafkaTopicSettings
from push_log.kafka_topic.shares import Gap, Shares
from push_log.log import PushLogError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

log = structlog.get_logger(__name__)

T = TypeVar("T")
MakeConsumer = Callable[[Callable[["KafkaError"], None]], "Consumer"]

_AT_ONCE: Final = 500
"""Records of one poll of the consumer."""
_POLL_S: Final = 0.02
"""Also how long a commit may wait for its turn while nothing comes."""
_PATIENCE_S: Final = 0.5
"""How long a batch may wait to be taken before the partitions are paused, which throws away what was fetched ahead."""
_REQUEST_S: Final = 5.0
_LOOK_S: Final = 1.0
_LOOK_AGAIN_MS: Final = 1_000
_CLOSE_S: Final = 5.0
_AGAIN_AFTER_S: Final = 1.0


class _Call(Generic[T]):
    """Something for the member's thread to do, and what came of it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.result: T
        self.error: PushLogError | None = None
        self.done = False

    def run(self) -> None:
        """Does it; only errors of the log are the caller's."""
        try:
            self.result = self.work()
        except PushLogError as error:
            self.error = error


class RebalancingError(PushLogError):
    """The group divides its partitions anew: what was asked can be answered afterwards. No fault of anything."""


class GroupMember:
    """Joins an exporter's consumer group and keeps what it fetches in `shares`, guarded by `changed`.

    It joins with `join`, not before: an exporter that cannot start must not keep partitions from other processes.

    Args:
        settings: where the topic is.
        exporter: whose group to join.
        time: the clocks.
        beginning_of: asks where a partition begins.
        consumer: makes the consumer, which is told what to call upon errors.

    Raises:
        PushLogError: confluent-kafka is missing, or refuses a setting.
    """

    def __init__(
        self,
        settings: KafkaTopicSettings,
        exporter: str,
        time: Time,
        beginning_of: Callable[[int], int],
        consumer: MakeConsumer | None = None,
    ) -> None:
        self._topic = settings.topic
        self._beginning_of = beginning_of
        self._time = time
        self._make_consumer = consumer or (lambda on_error: make_consumer(settings, exporter, on_error))
        self.changed = threading.Condition()
        self.shares = Shares(exporter)
        self.lost_records = 0
        self.rebalances = 0
        self._calls: deque[_Call[object]] = deque()
        self._closing = False
        self._paused = False
        self._unasked: set[int] = set()
        self._suspect = True  # so that the topic is looked for at once
        self.has_reached_topic = False
        self._away: str | None = None
        self._denied: str | None = None
        self._look_due_ms = 0
        self._calm = LogLimiter()
        self._log = log.bind(exporter=exporter)
        self._consumer = self._make_consumer(self._on_error)
        self._joined = False
        self._thread = threading.Thread(target=self._run, name=f"topic-{exporter}", daemon=True)

    @property
    def problem(self) -> str | None:
        """Why nothing can be read now; None when all is well."""
        return self._denied or self._away

    @property
    def has_joined(self) -> bool:
        """True once `join` was called."""
        return self._joined

    @property
    def is_closing(self) -> bool:
        """True once `close` was called."""
        return self._closing

    def join(self) -> None:
        """Joins the group and fetches from now on; nothing happens the second time, or after `close`."""
        if not (self._joined or self._closing):
            self._joined = True
            self._thread.start()

    def call(self, work: Callable[[], T], within_s: float) -> T:
        """Has the thread do something with the consumer, and waits for it. It may come to it after the wait, too.

        Raises:
            PushLogError: what `work` raises, or the thread is busy for longer, or ended.
        """
        call = _Call(work)
        with self.changed:
            self._calls.append(call)  # type: ignore[arg-type]  # its result is its caller's alone
            self.changed.notify_all()
            self.changed.wait_for(lambda: call.done or not self._thread.is_alive(), within_s)
            if not call.done:
                raise PushLogError(f"the consumer of topic {self._topic} did not answer within {within_s:.0f} s")
        if call.error is not None:
            raise call.error
        return call.result

    def close(self) -> None:
        """Leaves the group, so that others take the partitions over at once."""
        with self.changed:
            self._closing = True
            self.changed.notify_all()
        if self._joined:
            self._thread.join(_CLOSE_S)
        else:
            self._consumer.close()

    # What follows runs in the thread; what others want of it comes through `call`.

    def commit(self, offsets: dict[int, int]) -> None:
        """Moves the group's cursor, partition by partition, and waits for the answer.

        Raises:
            RebalancingError: it has not moved, since the group is in a rebalance.
            PushLogError: it is not known to have moved.
        """
        if not offsets:
            return
        places = [self._place(partition, offset) for partition, offset in offsets.items()]
        for place in self._asked("commit", lambda: self._consumer.commit(offsets=places, asynchronous=False)):
            if place.error is not None:
                raise _error(f"the cursor of partition {place.partition} stays", place.error)
        with self.changed:
            self.shares.moved(offsets)

    def go_back(self) -> None:
        """Fetches again what was fetched and is not committed.

        Raises:
            PushLogError: a partition cannot be fetched anew.
        """
        with self.changed:
            starts = self.shares.rewind()
        for partition, offset in starts.items():
            place = self._place(partition, offset)
            self._asked("seek", lambda place=place: self._consumer.seek(place))  # type: ignore[misc]

    def _asked(self, what: str, call: Callable[[], T]) -> T:
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
            made = False
            while not made:
                with self.changed:
                    if self.changed.wait_for(lambda: self._closing, _AGAIN_AFTER_S):
                        return
                made = self._succeeds(self._make_another)

    def _make_another(self) -> None:
        self._consumer = self._make_consumer(self._on_error)

    def _succeeds(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:  # noqa: BLE001  # the cursor is durable: another consumer goes on from it
            self._away, self._suspect = f"the consumer of topic {self._topic} failed: {error}", True
            if self._calm.admit("failed", self._time.hi_res_clock_ms()):
                self._log.exception("the consumer of the push log's topic failed, and another is made")
            return False
        return True

    def _consume(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        while not self._closing:
            self._keep_pace()
            self._serve_calls()
            messages = self._consumer.consume(_AT_ONCE, _POLL_S)
            self._learn_cursors()
            self._take_in(messages)
            self._look_for_topic()

    def _keep_pace(self) -> None:
        """Pauses while a batch waits to be taken, and goes on when it was."""
        with self.changed:
            if not self._paused:
                self.changed.wait_for(lambda: self._closing or self._calls or not self.shares.is_full, _PATIENCE_S)
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
                call = self._calls.popleft()
            call.run()
            with self.changed:
                call.done = True
                self.changed.notify_all()

    def _on_assign(self, consumer: "Consumer", places: "list[TopicPartition]") -> None:
        partitions = [place.partition for place in places]
        self._log.info("partitions assigned", topic=self._topic, partitions=partitions)
        self.rebalances += 1
        with self.changed:
            self.shares.begin(partitions)
        self._unasked.update(partitions)
        self._denied = None
        if self._paused:
            consumer.incremental_assign(places)
            consumer.pause(places)

    def _on_revoke(self, _consumer: "Consumer", places: "list[TopicPartition]") -> None:
        partitions = [place.partition for place in places]
        self._log.info("partitions revoked", topic=self._topic, partitions=partitions)
        self.rebalances += 1
        with self.changed:
            self.shares.end(partitions)
            self.changed.notify_all()

    def _learn_cursors(self) -> None:
        """Where the group stands in partitions that were assigned just now; without an answer, no gap can be told."""
        unasked, self._unasked = self._unasked, set()
        if not unasked:
            return
        try:
            places = [self._place(partition) for partition in unasked]
            found = self._asked("ask for cursors", lambda: self._consumer.committed(places, timeout=_REQUEST_S))
        except PushLogError as error:
            self._log.warning("the group's cursors are not known", reason=str(error))
            return
        with self.changed:
            for place in found:
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
        """What lies before the topic's beginning was lost; other gaps held no records, such as a transaction's end."""
        try:
            beginning = self._beginning_of(gap.partition)
        except PushLogError as error:
            self._log.warning("a gap in the topic cannot be looked into", partition=gap.partition, reason=str(error))
            return
        lost = max(0, min(beginning, gap.came) - gap.first)
        if lost:
            self.lost_records += lost
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
        if count := self._calm.admit(f"consumer {error.code()}", self._time.hi_res_clock_ms()):
            self._log.warning("the consumer of the push log's topic has a problem", reason=text, occurrences=count)

    def _look_for_topic(self) -> None:
        """While something is suspected: is the topic there? Asked once a second."""
        now_ms = self._time.hi_res_clock_ms()
        if not self._suspect or now_ms < self._look_due_ms:
            return
        self._look_due_ms = now_ms + _LOOK_AGAIN_MS
        try:
            found = self._asked("read", lambda: self._consumer.list_topics(self._topic, timeout=_LOOK_S))
        except PushLogError as error:
            self._away = str(error)
            return
        self.has_reached_topic = True
        problem = found.topics[self._topic].error
        self._away = None if problem is None else f"cannot read topic {self._topic}: {text_of(problem)}"
        self._suspect = problem is not None


def _error(problem: str, error: "KafkaError") -> PushLogError:
    from confluent_kafka import KafkaError

    rebalances = (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS, KafkaError._ASSIGNMENT_LOST)
    kind = RebalancingError if error.code() in rebalances else PushLogError
    return kind(f"{problem}: {text_of(error)}")
