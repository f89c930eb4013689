"""Group commit for the listener's loop: one commit for all that came in one iteration (DESIGN, "The way of a push").

With `flush=os` the commit runs on the loop, right after the iteration's frames: a commit of five rows takes 20 us, and
a thread was no faster (MEASURED.md). With `flush=fsync` it runs in one thread, while the next batch gathers. Every
push gets exactly one answer.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal

import structlog

from base.clock import Time
from base.errors import FleetgaugeError
from base.log_limiter import LogLimiter
from push_log.embedded.settings import MIB
from push_log.log import OnDone, PushLogError, PushLogFullError, PushLogTimeoutError, PushLogWriter
from telemetry.push_record import PushRecord

log = structlog.get_logger(__name__)

DEFAULT_ACK_TIMEOUT_MS: Final = 500
DEFAULT_MAX_PENDING_RECORDS: Final = 16_384
DEFAULT_MAX_PENDING_BYTES: Final = 64 * MIB
_HOUSEKEEPING_S: Final = 10.0
_FAILURE_COUNTS_MS: Final = 30_000
"""A commit that failed is a `problem` for so long, unless one succeeds: without pushes, none would ever do."""


class _Push:
    """One push on its way. `on_done` is None once it was answered."""

    __slots__ = ("deadline_ms", "encoded", "on_done", "record", "size_bytes")

    def __init__(
        self, record: PushRecord, encoded: bytes | None, on_done: OnDone, size_bytes: int, deadline_ms: int
    ) -> None:
        self.record = record
        self.encoded = encoded
        self.on_done: OnDone | None = on_done
        self.size_bytes = size_bytes
        self.deadline_ms = deadline_ms


class GroupCommit:
    """Puts pushes into a log and tells each sender when its own is in. For one loop; used from that loop alone.

    Args:
        writer: the log; used by one thread at a time.
        loop: the loop whose iterations are the batches.
        time: the clocks.
        flush: `os` commits on the loop, `fsync` in a thread.
        ack_timeout_ms: after this long in the thread, a push is answered `PushLogTimeoutError` [ms]. On the loop
            nothing can be answered before the commit ends, so its true outcome is told.
        max_pending_records: pushes that may wait or be written; beyond, with `fsync` they are refused at once, and with
            `os` those that wait are written before the next is taken.
        max_pending_bytes: the same for their payloads [B].
    """

    def __init__(
        self,
        writer: PushLogWriter,
        loop: asyncio.AbstractEventLoop,
        time: Time,
        *,
        flush: Literal["os", "fsync"],
        ack_timeout_ms: int = DEFAULT_ACK_TIMEOUT_MS,
        max_pending_records: int = DEFAULT_MAX_PENDING_RECORDS,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
    ) -> None:
        self._writer = writer
        self._loop = loop
        self._time = time
        self._ack_timeout_ms = ack_timeout_ms
        self._max_pending_records = max_pending_records
        self._max_pending_bytes = max_pending_bytes
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="push-log") if flush == "fsync" else None
        self._gathering: list[_Push] = []
        self._writing: list[_Push] = []
        self._pending_records = 0
        self._pending_bytes = 0
        self._scheduled = False
        self._closed = False
        self._drained: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._housekeeping = loop.call_later(_HOUSEKEEPING_S, self._keep_house)
        self._counts = {"logged": 0, "commits": 0, "failed": 0, "timed_out": 0, "refused_full": 0}
        self._calm = LogLimiter()
        self._failure = ""
        self._failed_ms: int | None = None

    @property
    def pending(self) -> int:
        """Pushes that wait for a commit or are being written."""
        return self._pending_records

    @property
    def problem(self) -> str | None:
        """See `PushAppender.problem`: what the latest commit failed with, for half a minute after it."""
        if self._failed_ms is None or self._time.hi_res_clock_ms() - self._failed_ms > _FAILURE_COUNTS_MS:
            return None
        return self._failure

    def counters(self) -> dict[str, int]:
        """What became of the pushes so far, by outcome, and how many commits that took."""
        return {**self._counts, "pending": self._pending_records, "pending_bytes": self._pending_bytes}

    def append(self, record: PushRecord, encoded: bytes | None, on_done: OnDone) -> None:
        """Takes a push into this iteration's batch.

        Args:
            record: what to log.
            encoded: its payload as received; see `PushLogWriter.append`.
            on_done: called once, with None or the error; at once when too much is pending, or all is closed.
        """
        size_bytes = len(record.metrics) + (len(encoded) if encoded is not None else 0)
        if self._closed or self._is_full(size_bytes):
            refusal = self._make_room(size_bytes)
            if refusal is not None:
                self._tell(on_done, refusal)
                return
        deadline_ms = 0 if self._executor is None else self._time.hi_res_clock_ms() + self._ack_timeout_ms
        self._gathering.append(_Push(record, encoded, on_done, size_bytes, deadline_ms))
        self._pending_records += 1
        self._pending_bytes += size_bytes
        self._schedule()
        if self._executor is not None and self._timer is None:
            self._timer = self._loop.call_later(self._ack_timeout_ms / 1_000, self._expire)

    async def drain(self) -> None:
        """Waits until every push that was appended is in the log, or failed."""
        while self._pending_records:
            waiter = self._loop.create_future()
            self._drained.append(waiter)
            await waiter

    async def close(self) -> None:
        """Takes no more pushes, and waits for those that it has. The writer stays open, and is nobody else's user."""
        self._closed = True
        await self.drain()
        self._housekeeping.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._executor is not None:
            self._executor.shutdown()

    def _make_room(self, size_bytes: int) -> PushLogError | None:
        """Why a push cannot be taken; on the loop a full batch is written now rather than that."""
        if self._closed:
            return PushLogError("the push log is closed")
        if self._executor is None:
            self._commit()
        if not self._is_full(size_bytes):
            return None
        self._counts["refused_full"] += 1
        error = PushLogFullError(
            f"{self._pending_records} pushes of {self._pending_bytes} B already wait for the push log's disk"
        )
        self._report(error)
        return error

    def _is_full(self, size_bytes: int) -> bool:
        too_many = self._pending_records >= self._max_pending_records
        return too_many or (self._pending_bytes + size_bytes > self._max_pending_bytes and self._pending_records > 0)

    def _schedule(self) -> None:
        if self._gathering and not self._scheduled and not self._writing:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        batch, self._gathering = self._gathering, []
        if not batch:
            return
        if self._executor is None:
            self._finish(batch, self._write(batch))
            return
        self._writing = batch
        self._loop.run_in_executor(self._executor, self._write, batch).add_done_callback(self._written)

    def _written(self, outcome: "asyncio.Future[PushLogError | None]") -> None:
        batch, self._writing = self._writing, []
        self._schedule()
        self._finish(batch, outcome.result())

    def _write(self, batch: list[_Push]) -> PushLogError | None:
        try:
            for push in batch:
                self._writer.append(push.record, push.encoded)
            self._writer.commit()
        except PushLogError as error:
            return error
        except Exception as error:  # whatever it is, every push must be answered
            log.exception("the push log failed in a way that it should not")
            return PushLogError(f"the push log failed: {error!r}")
        return None

    def _finish(self, batch: list[_Push], error: PushLogError | None) -> None:
        self._counts["commits"] += 1
        self._counts["logged" if error is None else "failed"] += len(batch)
        self._failed_ms = None
        if error is not None:
            self._failure, self._failed_ms = str(error), self._time.hi_res_clock_ms()
        self._settle(batch, error)
        self._release(batch)
        if error is not None:
            self._report(error)

    def _release(self, pushes: list[_Push]) -> None:
        self._pending_records -= len(pushes)
        for push in pushes:
            self._pending_bytes -= push.size_bytes
        if not self._pending_records:
            drained, self._drained = self._drained, []
            for waiter in drained:
                if not waiter.done():
                    waiter.set_result(None)

    def _settle(self, pushes: list[_Push], error: Exception | None) -> None:
        """Answers those that have no answer yet."""
        for push in pushes:
            on_done, push.on_done = push.on_done, None
            if on_done is None:
                continue
            try:
                on_done(error)
            except Exception as fault:  # noqa: BLE001  one sender's fault is not the next one's
                self._blame(fault)

    def _tell(self, on_done: OnDone, error: Exception | None) -> None:
        try:
            on_done(error)
        except Exception as fault:  # noqa: BLE001  as above
            self._blame(fault)

    def _blame(self, fault: Exception) -> None:
        self._loop.call_exception_handler({"message": "a push's completion failed", "exception": fault})

    def _expire(self) -> None:
        """Answers what has waited too long; what is not yet being written is not written any more."""
        self._timer = None
        now_ms = self._time.hi_res_clock_ms()
        late = [push for push in self._gathering if push.deadline_ms <= now_ms]
        self._gathering = self._gathering[len(late) :]
        overdue = [push for push in self._writing if push.on_done is not None and push.deadline_ms <= now_ms]
        self._arm_timer(now_ms)
        if late or overdue:
            self._counts["timed_out"] += len(late) + len(overdue)
            error = PushLogTimeoutError(f"the push log's disk took longer than {self._ack_timeout_ms} ms")
            self._settle(overdue + late, error)
            self._release(late)
            self._report(error)

    def _arm_timer(self, now_ms: int) -> None:
        waiting = (push for push in (*self._writing, *self._gathering) if push.on_done and push.deadline_ms > now_ms)
        first = next(waiting, None)
        if first is not None:
            self._timer = self._loop.call_later((first.deadline_ms - now_ms) / 1_000, self._expire)

    def _report(self, error: FleetgaugeError) -> None:
        kind = type(error).__name__
        times = self._calm.admit(kind, self._time.hi_res_clock_ms())
        if times:
            log.error("pushes are refused: the push log cannot take them", reason=str(error), kind=kind, commits=times)

    def _keep_house(self) -> None:
        self._housekeeping = self._loop.call_later(_HOUSEKEEPING_S, self._keep_house)
        if self._executor is None:
            self._roll_if_due()
        elif not self._closed:
            self._executor.submit(self._roll_if_due)

    def _roll_if_due(self) -> None:
        try:
            self._writer.roll_if_due()
        except PushLogError as error:
            log.warning("the push log cannot begin a new segment", reason=str(error))
