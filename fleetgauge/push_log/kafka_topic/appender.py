"""Appends pushes to the topic: a push is in the log when all in-sync replicas have its record.

The producer is polled on the loop, every two milliseconds while a record is pending: such a poll never waits, and a
polling thread would need the interpreter's lock for every single record.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.push_log.group_commit import DEFAULT_ACK_TIMEOUT_MS, PENDING_BOUNDS, PendingBounds
from fleetgauge.push_log.kafka_topic.clients import make_admin, make_producer, text_of
from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import ensure_topic
from fleetgauge.push_log.log import Answer, PushLogError, PushLogFullError, PushLogTimeoutError
from fleetgauge.telemetry.push import Push

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

log = get_logger(__name__)

_POLL_EVERY_S: Final = 0.002
_IDLE_POLL_EVERY_S: Final = 0.5
_FIRST_BACKOFF_S: Final = 0.25
_LONGEST_BACKOFF_S: Final = 5.0
_FLUSH_S: Final = 1.0
_CONNECT_S: Final = 3.0


class KafkaTopicAppender:
    """The `PushAppender` of a Kafka topic. For one loop; used from that loop alone.

    While the topic is unreachable, pushes are refused at once, and the connection is retried in the background.

    Args:
        settings: the topic and its cluster.
        loop: the listener's loop.
        time: the clocks.
        ack_timeout_ms: a push that is not acknowledged within this time gets `PushLogTimeoutError` [ms]; its record may
            still reach the topic.
        bounds: of the pending pushes, with decompressed payloads; further ones are refused at once.
        producer: creates the producer, with the callback for its errors.
        find_topic: returns once the topic exists; called in a thread.

    Attributes:
        pending: records that are neither on the topic nor failed.
        problem: why pushes are refused now, or None.

    Raises:
        PushLogError: confluent-kafka is missing, or rejects a setting.
    """

    def __init__(
        self,
        settings: KafkaTopicSettings,
        loop: asyncio.AbstractEventLoop,
        time: Time,
        *,
        ack_timeout_ms: int = DEFAULT_ACK_TIMEOUT_MS,
        bounds: PendingBounds = PENDING_BOUNDS,
        producer: Callable[[Callable[["KafkaError"], None]], "Producer"] | None = None,
        find_topic: Callable[[], None] | None = None,
    ) -> None:
        self._topic = settings.topic
        self._loop = loop
        self._time = time
        self._ack_timeout_ms = ack_timeout_ms
        self._bounds = bounds
        self._make_producer = producer or (lambda on_error: make_producer(settings, on_error))
        self._find_topic = find_topic or _topic_finder(settings)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="push-log-topic")
        self._producer: Producer | None = None
        self._unanswered: deque[Push] = deque()
        self.pending = 0
        self._pending_bytes = 0
        self.problem: str | None = f"topic {settings.topic} has not been reached yet"
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._closed = False
        self._fatal: str | None = None  # the fatal error after which the producer is unusable
        self._counts = {
            "logged": 0,
            "failed": 0,
            "timed_out": 0,
            "logged_late": 0,
            "refused_full": 0,
            "refused_away": 0,
        }
        self._limiter = LogLimiter()
        self._logged: list[Push] = []
        self.answer: Answer = lambda _pushes, _error: None

    def counters(self) -> dict[str, int]:
        """Pushes by outcome; `logged_late` had been answered as timed out before."""
        return {**self._counts, "pending": self.pending, "pending_bytes": self._pending_bytes}

    async def start(self, within_s: float) -> None:
        """Connects to the topic; continues in the background if that takes longer than `within_s` [s]."""
        self._connect_soon()
        self._schedule_poll(_IDLE_POLL_EVERY_S)
        assert self._connecting is not None
        await asyncio.wait([self._connecting], timeout=within_s)

    def append(self, push: Push) -> PushLogError | None:
        """See `PushAppender.append`. The producer compresses whole batches, so `encoded` is ignored."""
        size_bytes = len(push.metrics)
        error = self._refusal(size_bytes) or self._produce(push)
        if error is not None:
            self._report(error)
            return error
        self._unanswered.append(push)
        self.pending += 1
        self._pending_bytes += size_bytes
        self._schedule_poll(_POLL_EVERY_S)
        return None

    async def drain(self) -> None:
        """Waits until every push that was appended is answered."""
        while self._unanswered:
            self._settled.clear()
            await self._settled.wait()

    async def close(self) -> None:
        """Refuses further pushes, waits until the pending ones are answered, and flushes the producer."""
        self._closed = True
        await self.drain()
        if self._timer is not None:
            self._timer.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
            with suppress(asyncio.CancelledError):
                await self._connecting
        if self.pending and self._producer is not None:  # answered as timed out, but possibly still sent
            await self._loop.run_in_executor(self._thread, self._producer.flush, _FLUSH_S)
        self._thread.shutdown(wait=False)

    def _refusal(self, size_bytes: int) -> PushLogError | None:
        if self._closed:
            return PushLogError("the push log is closed")
        if self.problem is not None:
            self._counts["refused_away"] += 1
            return PushLogError(self.problem)
        if self._bounds.are_exceeded(self.pending, self._pending_bytes, size_bytes):
            self._counts["refused_full"] += 1
            return PushLogFullError(
                f"{self.pending} pushes of {self._pending_bytes} B are already pending for topic {self._topic}"
            )
        return None

    def _produce(self, push: Push) -> PushLogError | None:
        assert self._producer is not None, "the producer is created before `problem` is cleared"
        key, value, headers = encode_record(push.record)
        try:
            self._producer.produce(self._topic, value, key, headers=headers, on_delivery=partial(self._delivered, push))
        except BufferError:
            self._counts["refused_full"] += 1
            return PushLogFullError("the Kafka producer's queue is full")
        except Exception as error:  # noqa: BLE001  # every push must be answered, whatever the error
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
            logged, self._logged = self._logged, []
            if logged:
                self._settle(logged, None)
        self._expire()
        self._schedule_poll(_POLL_EVERY_S if self.pending else _IDLE_POLL_EVERY_S)

    def _expire(self) -> None:
        """Answers pushes past their deadline; they are in the order of their deadlines."""
        oldest_ms = self._time.hi_res_clock_ms() - self._ack_timeout_ms
        while self._unanswered and (self._unanswered[0].is_answered or self._unanswered[0].taken_at_ms <= oldest_ms):
            push = self._unanswered.popleft()
            if push.is_answered:
                continue
            self._counts["timed_out"] += 1
            error = PushLogTimeoutError(f"topic {self._topic} took longer than {self._ack_timeout_ms} ms")
            self._report(error)
            self._connect_soon()
            self._settle((push,), error)
        self._settled.set()

    def _delivered(self, push: Push, error: "KafkaError | None", _message: object) -> None:
        """Called by the producer when a record is delivered, or has failed."""
        self.pending -= 1
        self._pending_bytes -= len(push.metrics)
        if push.is_answered:
            self._counts["logged_late"] += error is None
            return
        if error is None:
            self._counts["logged"] += 1
            push.is_answered = True
            self._logged.append(push)  # answered together after the producer's poll
            return
        self._counts["failed"] += 1
        failure = PushLogError(f"topic {self._topic} rejected a record: {text_of(error)}")
        self._report(failure)
        self._connect_soon()
        self._settle((push,), failure)

    def _settle(self, pushes: Sequence[Push], error: PushLogError | None) -> None:
        try:
            self.answer(pushes, error)
        except Exception as fault:  # noqa: BLE001  a fault in answering must not stop the log
            self._loop.call_exception_handler({"message": "answering pushes failed", "exception": fault})
        for push in pushes:  # the producer may hold them for some time yet
            push.is_answered = True
            push.reply_to = None
            push.encoded = b""

    def _on_error(self, error: "KafkaError") -> None:
        """Handles an error of the producer itself; after a fatal one it is replaced."""
        if error.fatal():
            self.problem = self._fatal = f"the Kafka producer failed: {text_of(error)}"
        self._log_limited("push_log.producer_error", text_of(error))
        self._connect_soon()

    def _connect_soon(self) -> None:
        if not self._closed and (self._connecting is None or self._connecting.done()):
            self._connecting = self._loop.create_task(self._connect_until_found())

    async def _connect_until_found(self) -> None:
        backoff_s = _FIRST_BACKOFF_S
        while True:
            try:
                await self._loop.run_in_executor(self._thread, self._find_topic)
                await self._ensure_producer()
            except Exception as error:  # noqa: BLE001  # retried, whatever the error
                self.problem = str(error)
                self._log_limited(
                    "push_log.topic_unreachable", self.problem, message="pushes are refused until it is reached"
                )
            else:
                break
            await asyncio.sleep(backoff_s)
            backoff_s = min(2 * backoff_s, _LONGEST_BACKOFF_S)
        if self.problem is not None:
            self.problem = None
            log.info("push_log.topic_reached", topic=self._topic)

    async def _ensure_producer(self) -> None:
        """Creates and connects the producer, so that the first push does not wait for it.

        Raises:
            PushLogError: the failed producer still has pending records.
        """
        if self._fatal is not None and self.pending:
            raise PushLogError(f"{self._fatal}; {self.pending} of its records are still pending")
        if self._producer is None or self._fatal is not None:
            self._producer = await self._loop.run_in_executor(self._thread, self._new_producer)
            self._fatal = None

    def _new_producer(self) -> "Producer":
        producer = self._make_producer(self._on_error)
        producer.list_topics(self._topic, timeout=_CONNECT_S)
        return producer

    def _report(self, error: PushLogError) -> None:
        kind = type(error).__name__
        self._log_limited("push_log.push_not_logged", str(error), message="its client is told to retry", kind=kind)

    def _log_limited(self, event: str, reason: str, **fields: str) -> None:
        if count := self._limiter.admit(f"{event} {fields.get('kind', '')}", self._time.hi_res_clock_ms()):
            log.error(event, error=reason, **fields, occurrences=count)


def _topic_finder(settings: KafkaTopicSettings) -> Callable[[], None]:
    admin = make_admin(settings)
    return lambda: ensure_topic(admin, settings)
