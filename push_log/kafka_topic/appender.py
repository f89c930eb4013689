"""The listener's side of the topic: a push is in the log when all in-sync replicas have its record.

The producer is polled on the loop, every two milliseconds while anything is on its way: such a poll never waits, and
a thread that polls would have to win the interpreter's lock from the loop for every single record.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from base.clock import Time
from base.log_limiter import LogLimiter
from push_log.group_commit import (
    DEFAULT_ACK_TIMEOUT_MS,
    DEFAULT_MAX_PENDING_BYTES,
    DEFAULT_MAX_PENDING_RECORDS,
)
from push_log.kafka_topic.clients import make_admin, make_producer, text_of
from push_log.kafka_topic.record_codec import encode_record
from push_log.kafka_topic.settings import KafkaTopicSettings
from push_log.kafka_topic.topic import ensure_topic
from push_log.log import Answer, PushLogError, PushLogFullError, PushLogTimeoutError
from telemetry.push import Push

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

log = structlog.get_logger(__name__)

_POLL_EVERY_S: Final = 0.002
_IDLE_POLL_EVERY_S: Final = 0.5
_FIRST_BACKOFF_S: Final = 0.25
_LONGEST_BACKOFF_S: Final = 5.0
_FLUSH_S: Final = 1.0
_CONNECT_S: Final = 3.0


class RecordProducer(Protocol):
    """What is needed of confluent-kafka's `Producer`."""

    def produce(
        self, topic: str, value: Any = ..., key: Any = ..., *, headers: Any = ..., on_delivery: Any = ...
    ) -> None:
        """Queues a record, or raises."""
        ...

    def poll(self, timeout: float = ...) -> int:
        """Calls back for what was delivered meanwhile."""
        ...

    def flush(self, timeout: float = ...) -> int:
        """Waits for what is queued."""
        ...

    def list_topics(self, topic: str | None = ..., timeout: float = ...) -> Any:
        """Connects, and learns who leads the topic's partitions."""
        ...


class KafkaTopicAppender:
    """The `PushAppender` of a Kafka topic. For one loop; used from that loop alone.

    While the topic cannot be reached, pushes are refused at once; it is looked for in the background.

    Args:
        settings: where the topic is.
        loop: the listener's loop.
        time: the clocks.
        ack_timeout_ms: a push that is not acknowledged after so long is answered `PushLogTimeoutError` [ms]; its record
            may be on the topic all the same.
        max_pending_records: pushes that may be on their way; beyond, they are refused at once.
        max_pending_bytes: the same for their payloads, decompressed [B].
        producer: makes the producer, which is told what to call upon errors.
        find_topic: returns when the topic is there; called in a thread.

    Raises:
        PushLogError: confluent-kafka is missing, or refuses a setting.
    """

    def __init__(
        self,
        settings: KafkaTopicSettings,
        loop: asyncio.AbstractEventLoop,
        time: Time,
        *,
        ack_timeout_ms: int = DEFAULT_ACK_TIMEOUT_MS,
        max_pending_records: int = DEFAULT_MAX_PENDING_RECORDS,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
        producer: Callable[[Callable[["KafkaError"], None]], RecordProducer] | None = None,
        find_topic: Callable[[], None] | None = None,
    ) -> None:
        self._topic = settings.topic
        self._loop = loop
        self._time = time
        self._ack_timeout_ms = ack_timeout_ms
        self._max_pending_records = max_pending_records
        self._max_pending_bytes = max_pending_bytes
        self._make_producer = producer or (lambda on_error: make_producer(settings, on_error))
        self._find_topic = find_topic or _topic_finder(settings)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="push-log-topic")
        self._producer: RecordProducer | None = None
        self._untold: deque[Push] = deque()
        self._pending_records = 0
        self._pending_bytes = 0
        self._problem: str | None = f"topic {settings.topic} was not reached yet"
        self._search: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._drained: list[asyncio.Future[None]] = []
        self._closed = False
        self._fatal: str | None = None  # why the producer is of no more use
        self._counts = {
            "logged": 0,
            "failed": 0,
            "timed_out": 0,
            "logged_late": 0,
            "refused_full": 0,
            "refused_away": 0,
        }
        self._calm = LogLimiter()
        self.answer: Answer = lambda _pushes, _error: None

    @property
    def pending(self) -> int:
        """Records that are neither on the topic nor given up."""
        return self._pending_records

    @property
    def problem(self) -> str | None:
        """Why pushes are refused now, or None."""
        return self._problem

    def counters(self) -> dict[str, int]:
        """What became of the pushes so far, by outcome; `logged_late` were answered as timed out before."""
        return {**self._counts, "pending": self._pending_records, "pending_bytes": self._pending_bytes}

    async def start(self, within_s: float) -> None:
        """Looks for the topic, and goes on doing so in the background when it is not found in time."""
        self._look_for_topic()
        self._schedule_poll(_IDLE_POLL_EVERY_S)
        assert self._search is not None
        await asyncio.wait([self._search], timeout=within_s)

    def append(self, push: Push) -> PushLogError | None:
        """See `PushAppender.append`. The producer compresses whole batches, so `encoded` is of no use here."""
        size_bytes = len(push.metrics)
        error = self._refusal(size_bytes) or self._produce(push)
        if error is not None:
            self._report(error)
            return error
        self._untold.append(push)
        self._pending_records += 1
        self._pending_bytes += size_bytes
        self._schedule_poll(_POLL_EVERY_S)
        return None

    async def drain(self) -> None:
        """Waits until every push that was appended is answered."""
        while self._untold:
            waiter = self._loop.create_future()
            self._drained.append(waiter)
            await waiter

    async def close(self) -> None:
        """Takes no more pushes, waits for the answers of those that it has, and lets the producer go."""
        self._closed = True
        await self.drain()
        if self._timer is not None:
            self._timer.cancel()
        if self._search is not None:
            self._search.cancel()
            with suppress(asyncio.CancelledError):
                await self._search
        if self._pending_records and self._producer is not None:  # answered as timed out; they may still go out
            await self._loop.run_in_executor(self._thread, self._producer.flush, _FLUSH_S)
        self._thread.shutdown(wait=False)

    def _refusal(self, size_bytes: int) -> PushLogError | None:
        if self._closed:
            return PushLogError("the push log is closed")
        if self._problem is not None:
            self._counts["refused_away"] += 1
            return PushLogError(self._problem)
        too_many = self._pending_records >= self._max_pending_records
        if too_many or (self._pending_records and self._pending_bytes + size_bytes > self._max_pending_bytes):
            self._counts["refused_full"] += 1
            return PushLogFullError(
                f"{self._pending_records} pushes of {self._pending_bytes} B already wait for topic {self._topic}"
            )
        return None

    def _produce(self, push: Push) -> PushLogError | None:
        assert self._producer is not None, "there is a producer before `problem` goes"
        key, value, headers = encode_record(push.record)
        try:
            self._producer.produce(self._topic, value, key, headers=headers, on_delivery=partial(self._delivered, push))
        except BufferError:
            self._counts["refused_full"] += 1
            return PushLogFullError("the Kafka producer's queue is full")
        except Exception as error:  # noqa: BLE001  # whatever it is, every push must be answered
            self._counts["failed"] += 1
            return PushLogError(
                f"the Kafka producer refused a record: {text_of(error.args[0] if error.args else error)}"
            )
        return None

    def _schedule_poll(self, in_s: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= self._loop.time() + in_s:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(in_s, self._poll)

    def _poll(self) -> None:
        self._timer = None
        if self._producer is not None:
            self._producer.poll(0)
        self._expire()
        self._schedule_poll(_POLL_EVERY_S if self._pending_records else _IDLE_POLL_EVERY_S)

    def _expire(self) -> None:
        """Answers what has waited too long. What was appended first is due first."""
        oldest_ms = self._time.hi_res_clock_ms() - self._ack_timeout_ms
        while self._untold and (self._untold[0].is_answered or self._untold[0].taken_at_ms <= oldest_ms):
            push = self._untold.popleft()
            if push.is_answered:
                continue
            self._counts["timed_out"] += 1
            error = PushLogTimeoutError(f"topic {self._topic} took longer than {self._ack_timeout_ms} ms")
            self._report(error)
            self._look_for_topic()
            self._settle(push, error)
        if not self._untold:
            drained, self._drained = self._drained, []
            for waiter in drained:
                if not waiter.done():
                    waiter.set_result(None)

    def _delivered(self, push: Push, error: "KafkaError | None", _message: object) -> None:
        """Called by the producer when a record was delivered, or will never be."""
        self._pending_records -= 1
        self._pending_bytes -= len(push.metrics)
        if push.is_answered:
            self._counts["logged_late"] += error is None
            return
        if error is None:
            self._counts["logged"] += 1
            self._settle(push, None)
            return
        self._counts["failed"] += 1
        failure = PushLogError(f"topic {self._topic} did not take a record: {text_of(error)}")
        self._report(failure)
        self._look_for_topic()
        self._settle(push, failure)

    def _settle(self, push: Push, error: PushLogError | None) -> None:
        push.is_answered = True
        try:
            self.answer((push,), error)
        except Exception as fault:  # noqa: BLE001  a fault in answering must not stop the log
            self._loop.call_exception_handler({"message": "answering a push failed", "exception": fault})

    def _on_error(self, error: "KafkaError") -> None:
        """The producer lost something beside records: after a fatal error it is of no more use, and another is made."""
        if error.fatal():
            self._problem = self._fatal = f"the Kafka producer failed: {text_of(error)}"
        self._say("the Kafka producer has a problem", text_of(error))
        self._look_for_topic()

    def _look_for_topic(self) -> None:
        if not self._closed and (self._search is None or self._search.done()):
            self._search = self._loop.create_task(self._until_topic_found())

    async def _until_topic_found(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while True:
            try:
                await self._loop.run_in_executor(self._thread, self._find_topic)
                await self._have_producer()
            except Exception as error:  # noqa: BLE001  # whatever it is, the search goes on
                self._problem = str(error)
                self._say("pushes are refused until the push log's topic can be reached", self._problem)
            else:
                break
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)
        if self._problem is not None:
            self._problem = None
            log.info("the push log's topic can be reached", topic=self._topic)

    async def _have_producer(self) -> None:
        """Makes the producer, connected, so that the first push need not wait for that.

        Raises:
            PushLogError: the one before has not yet given up its records.
        """
        if self._fatal is not None and self._pending_records:
            raise PushLogError(f"{self._fatal}; {self._pending_records} of its records are still to be given up")
        if self._producer is None or self._fatal is not None:
            self._producer = await self._loop.run_in_executor(self._thread, self._connect)
            self._fatal = None

    def _connect(self) -> RecordProducer:
        producer = self._make_producer(self._on_error)
        producer.list_topics(self._topic, timeout=_CONNECT_S)
        return producer

    def _report(self, error: PushLogError) -> None:
        self._say("a push could not be logged; clients are told to try again", str(error), kind=type(error).__name__)

    def _say(self, event: str, reason: str, *, kind: str = "") -> None:
        if count := self._calm.admit(f"{event} {kind}", self._time.hi_res_clock_ms()):
            log.error(event, reason=reason, occurrences=count)


def _topic_finder(settings: KafkaTopicSettings) -> Callable[[], None]:
    admin = make_admin(settings)
    return lambda: ensure_topic(admin, settings)
