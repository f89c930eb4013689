"""Group commit of pushes to the embedded log: common base of `loop_commit` and `thread_commit`."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.push_log.embedded.settings import MIB
from fleetgauge.push_log.log import Answer, PushLogError
from fleetgauge.telemetry.push import Push

log = get_logger(__name__)

DEFAULT_ACK_TIMEOUT_MS: Final = 500
_HOUSEKEEPING_S: Final = 10.0
_FAILURE_COUNTS_MS: Final = 30_000
"""Time for which a failed commit is reported as `problem` [ms]; without pushes, no later commit would clear it."""


class PendingBounds(NamedTuple):
    """Limits on the pushes that wait for the log or are being written: number, and size of their payloads [B]."""

    records: int = 16_384
    size_bytes: int = 64 * MIB

    def are_exceeded(self, pending: int, pending_bytes: int, size_bytes: int) -> bool:
        """True if there is no room for another push of a size [B]; a push alone always has room."""
        return pending >= self.records or (pending > 0 and pending_bytes + size_bytes > self.size_bytes)


PENDING_BOUNDS: Final = PendingBounds()


class Writer(Protocol):
    """Interface of the log's single writer, used by one thread at a time; see `push_log.embedded.writer`."""

    def write(self, pushes: Sequence[Push]) -> None:
        """Writes all pushes, or none.

        Raises:
            PushLogFullError: the disk is full. No push was written.
            PushLogError: any other failure. No push was written.
        """
        ...

    def check_room(self) -> None:
        """Raises PushLogError if pushes cannot be written now."""
        ...

    def roll_if_due(self) -> None:
        """Opens a new segment if the current one has reached its size or age."""
        ...

    def close(self) -> None:
        """Closes the log and releases its lock."""
        ...


class GroupCommit:
    """Base of the `PushAppender` of the embedded log, without `append`. To be used on one loop only.

    Args:
        writer: writer of the log; closed by `close`.
        loop: the listener's loop.
        time: the clocks.
        bounds: of the pushes that wait or are being written.
    """

    def __init__(
        self, writer: Writer, loop: asyncio.AbstractEventLoop, time: Time, bounds: PendingBounds = PENDING_BOUNDS
    ) -> None:
        self._writer = writer
        self._loop = loop
        self._time = time
        self._bounds = bounds
        self._gathering: list[Push] = []
        self._pending_bytes = 0
        self._closed = False
        self._settled = asyncio.Event()
        self._housekeeping = loop.call_later(_HOUSEKEEPING_S, self._keep_house)
        self._counts = {"logged": 0, "commits": 0, "failed": 0, "timed_out": 0, "refused_full": 0}
        self._limiter = LogLimiter()
        self._failure = ""
        self._failed_ms: int | None = None
        self.answer: Answer = _no_answer

    @property
    def pending(self) -> int:
        """Number of pushes that wait for a commit or are being written."""
        return len(self._gathering)

    @property
    def problem(self) -> str | None:
        """See `PushAppender.problem`: a full disk, or the error of the latest commit for half a minute."""
        try:
            self._writer.check_room()
        except PushLogError as error:
            return str(error)
        if self._failed_ms is None or self._time.hi_res_clock_ms() - self._failed_ms > _FAILURE_COUNTS_MS:
            return None
        return self._failure

    def counters(self) -> dict[str, int]:
        """Number of pushes by outcome, and of commits."""
        return {**self._counts, "pending": self.pending, "pending_bytes": self._pending_bytes}

    async def drain(self) -> None:
        """Waits until every appended push is in the log, or failed."""
        while self.pending:
            self._settled.clear()
            await self._settled.wait()

    async def close(self) -> None:
        """Stops accepting pushes, waits for pending ones, and closes the log."""
        self._closed = True
        await self.drain()
        self._housekeeping.cancel()
        self._writer.close()

    def _write(self, pushes: Sequence[Push]) -> PushLogError | None:
        try:
            self._writer.write(pushes)
        except PushLogError as error:
            return error
        except Exception as error:  # every push must be answered, also after a bug
            log.exception("push_log.unexpected_failure")
            return PushLogError(f"the push log failed: {error!r}")
        return None

    def _note_outcome(self, pushes: int, error: PushLogError | None) -> None:
        self._counts["commits"] += 1
        if error is None:
            self._counts["logged"] += pushes
            self._failed_ms = None
        else:
            self._counts["failed"] += pushes
            self._failure, self._failed_ms = str(error), self._time.hi_res_clock_ms()
            self._report(error)

    def _notify(self, pushes: Sequence[Push], error: PushLogError | None) -> None:
        if not pushes:
            return
        try:
            self.answer(pushes, error)
        except Exception as fault:  # noqa: BLE001  an error in answering must not stop the log
            self._loop.call_exception_handler({"message": "answering pushes failed", "exception": fault})

    def _report(self, error: PushLogError) -> None:
        kind = type(error).__name__
        times = self._limiter.admit(kind, self._time.hi_res_clock_ms())
        if times:
            log.error(
                "push_log.write_failed", message="pushes are refused", reason=str(error), kind=kind, commits=times
            )

    def _keep_house(self) -> None:
        self._housekeeping = self._loop.call_later(_HOUSEKEEPING_S, self._keep_house)
        if not self._closed:
            self._upkeep()

    def _upkeep(self) -> None:
        self._roll_if_due()

    def _roll_if_due(self) -> None:
        try:
            self._writer.roll_if_due()
        except PushLogError as error:
            log.warning("push_log.roll_failed", message="the current segment grows on", reason=str(error))


def _no_answer(_pushes: Sequence[Push], _error: PushLogError | None) -> None:
    """Ignores outcomes until `answer` is set."""
