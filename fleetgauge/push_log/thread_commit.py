"""Group commit in a thread while the next batch fills (`push.log.flush = fsync`): the loop never waits for the disk."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fleetgauge.base.clock import Time
from fleetgauge.push_log.group_commit import DEFAULT_ACK_TIMEOUT_MS, PENDING_BOUNDS, GroupCommit, PendingBounds, Writer
from fleetgauge.push_log.log import PushLogError, PushLogFullError, PushLogTimeoutError
from fleetgauge.telemetry.push import Push


class ThreadCommit(GroupCommit):
    """`PushAppender` that commits in one thread; see `GroupCommit`.

    Pushes beyond its bounds are refused at once. A push that is not in the log in time is answered with
    `PushLogTimeoutError`, and is not written unless its commit is in progress.

    Args:
        ack_timeout_ms: maximum time from `append` to the outcome [ms].
    """

    def __init__(
        self,
        writer: Writer,
        loop: asyncio.AbstractEventLoop,
        time: Time,
        *,
        ack_timeout_ms: int = DEFAULT_ACK_TIMEOUT_MS,
        bounds: PendingBounds = PENDING_BOUNDS,
    ) -> None:
        super().__init__(writer, loop, time, bounds)
        self._ack_timeout_ms = ack_timeout_ms
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="push-log")
        self._writing: list[Push] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def pending(self) -> int:
        """Number of pushes that wait for a commit or are being written."""
        return len(self._gathering) + len(self._writing)

    async def close(self) -> None:
        """See `GroupCommit.close`."""
        self._closed = True
        await self.drain()
        if self._timer is not None:
            self._timer.cancel()
        self._executor.shutdown()
        await super().close()

    def append(self, push: Push) -> PushLogError | None:
        """See `PushAppender.append`."""
        if self._closed:
            return PushLogError("the push log is closed")
        size_bytes = push.size_bytes
        if self._bounds.are_exceeded(self.pending, self._pending_bytes, size_bytes):
            self._counts["refused_full"] += 1
            error = PushLogFullError(
                f"{self.pending} pushes of {self._pending_bytes} B already wait for the push log's disk"
            )
            self._report(error)
            return error
        if not self._gathering and not self._writing:
            self._loop.call_soon(self._commit)
        self._gathering.append(push)
        self._pending_bytes += size_bytes
        if self._timer is None:
            self._timer = self._loop.call_later(self._ack_timeout_ms / 1_000, self._expire)
        return None

    def _commit(self) -> None:
        if not self._gathering or self._writing:
            return
        self._writing, self._gathering = self._gathering, []
        self._loop.run_in_executor(self._executor, self._write, self._writing).add_done_callback(self._written)

    def _written(self, outcome: "asyncio.Future[PushLogError | None]") -> None:
        pushes, self._writing = self._writing, []
        error = outcome.result()
        self._release(pushes)
        if self._gathering:
            self._loop.call_soon(self._commit)
        self._note_outcome(len(pushes), error)
        self._notify([push for push in pushes if not push.is_answered], error)
        self._settled.set()

    def _release(self, pushes: Sequence[Push]) -> None:
        self._pending_bytes -= sum(push.size_bytes for push in pushes)

    def _expire(self) -> None:
        """Answers pushes that waited too long; those that are not being written yet are dropped."""
        self._timer = None
        oldest_ms = self._time.hi_res_clock_ms() - self._ack_timeout_ms
        late = [push for push in self._gathering if push.taken_at_ms <= oldest_ms]
        self._gathering = self._gathering[len(late) :]
        self._release(late)
        overdue = [push for push in self._writing if not push.is_answered and push.taken_at_ms <= oldest_ms]
        for push in (*overdue, *late):
            push.is_answered = True
        self._arm_timer(oldest_ms)
        if late or overdue:
            self._counts["timed_out"] += len(late) + len(overdue)
            error = PushLogTimeoutError(f"the push log's disk took longer than {self._ack_timeout_ms} ms")
            self._report(error)
            self._notify([*overdue, *late], error)
            self._settled.set()

    def _arm_timer(self, oldest_ms: int) -> None:
        waiting = (push for push in (*self._writing, *self._gathering) if not push.is_answered)
        first = next(waiting, None)
        if first is not None:
            self._timer = self._loop.call_later((first.taken_at_ms - oldest_ms) / 1_000, self._expire)

    def _upkeep(self) -> None:
        self._executor.submit(self._roll_if_due)
