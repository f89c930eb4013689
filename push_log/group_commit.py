"""What both ways of committing pushes to the embedded log have in common; see `loop_commit` and `thread_commit`."""

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import structlog

from base.clock import Time
from base.log_limiter import LogLimiter
from push_log.embedded.settings import MIB
from push_log.log import Answer, PushLogError
from telemetry.push import Push

log = structlog.get_logger(__name__)

DEFAULT_ACK_TIMEOUT_MS: Final = 500
DEFAULT_MAX_PENDING_RECORDS: Final = 16_384
DEFAULT_MAX_PENDING_BYTES: Final = 64 * MIB
_HOUSEKEEPING_S: Final = 10.0
_FAILURE_COUNTS_MS: Final = 30_000
"""How long a failed commit is reported as `problem` [ms]; without pushes, no later one would end it."""


class Writer(Protocol):
    """The log's one writer, used by one thread at a time; `push_log.embedded.writer.SqlitePushLogWriter`."""

    def write(self, pushes: Sequence[Push]) -> None:
        """Writes pushes, all or nothing.

        Raises:
            PushLogFullError: there is no room. None of them is in the log.
            PushLogError: anything else; as above.
        """
        ...

    def check_room(self) -> None:
        """Raises PushLogError if pushes cannot be written now."""
        ...

    def roll_if_due(self) -> None:
        """Begins a new segment if the current one is large or old enough."""
        ...

    def close(self) -> None:
        """Lets another writer open the log."""
        ...


class GroupCommit:
    """The `PushAppender` of the embedded log, without its `append`. For one loop; used from that loop alone.

    Args:
        writer: the log; taken over, and closed at the end.
        loop: the listener's loop.
        time: the clocks.
        max_pending_records: pushes that may wait or be written.
        max_pending_bytes: the same for their payloads [B].
    """

    def __init__(
        self,
        writer: Writer,
        loop: asyncio.AbstractEventLoop,
        time: Time,
        *,
        max_pending_records: int = DEFAULT_MAX_PENDING_RECORDS,
        max_pending_bytes: int = DEFAULT_MAX_PENDING_BYTES,
    ) -> None:
        self._writer = writer
        self._loop = loop
        self._time = time
        self._max_pending_records = max_pending_records
        self._max_pending_bytes = max_pending_bytes
        self._gathering: list[Push] = []
        self._pending_bytes = 0
        self._closed = False
        self._drained: list[asyncio.Future[None]] = []
        self._housekeeping = loop.call_later(_HOUSEKEEPING_S, self._keep_house)
        self._counts = {"logged": 0, "commits": 0, "failed": 0, "timed_out": 0, "refused_full": 0}
        self._limiter = LogLimiter()
        self._failure = ""
        self._failed_ms: int | None = None
        self.answer: Answer = _no_answer

    @property
    def pending(self) -> int:
        """Pushes that wait for a commit or are being written."""
        return len(self._gathering)

    @property
    def problem(self) -> str | None:
        """See `PushAppender.problem`: no room on the disk, or what the latest commit failed with, for half a minute."""
        try:
            self._writer.check_room()
        except PushLogError as error:
            return str(error)
        if self._failed_ms is None or self._time.hi_res_clock_ms() - self._failed_ms > _FAILURE_COUNTS_MS:
            return None
        return self._failure

    def counters(self) -> dict[str, int]:
        """Pushes by outcome, and the number of commits."""
        return {**self._counts, "pending": self.pending, "pending_bytes": self._pending_bytes}

    async def drain(self) -> None:
        """Waits until every push that was appended is in the log, or failed."""
        while self.pending:
            waiter = self._loop.create_future()
            self._drained.append(waiter)
            await waiter

    async def close(self) -> None:
        """Takes no more pushes, waits for those that it has, and closes the log."""
        self._closed = True
        await self.drain()
        self._housekeeping.cancel()
        self._writer.close()

    def _is_full(self, size_bytes: int) -> bool:
        pending = self.pending
        return pending >= self._max_pending_records or (
            pending > 0 and self._pending_bytes + size_bytes > self._max_pending_bytes
        )

    def _write(self, pushes: Sequence[Push]) -> PushLogError | None:
        try:
            self._writer.write(pushes)
        except PushLogError as error:
            return error
        except Exception as error:  # whatever it is, every push must be answered
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

    def _tell(self, pushes: Sequence[Push], error: PushLogError | None) -> None:
        if not pushes:
            return
        try:
            self.answer(pushes, error)
        except Exception as fault:  # noqa: BLE001  a fault in answering must not stop the log
            self._loop.call_exception_handler({"message": "answering pushes failed", "exception": fault})

    def _wake_drained(self) -> None:
        if self._drained and not self.pending:
            drained, self._drained = self._drained, []
            for waiter in drained:
                if not waiter.done():
                    waiter.set_result(None)

    def _report(self, error: PushLogError) -> None:
        kind = type(error).__name__
        times = self._limiter.admit(kind, self._time.hi_res_clock_ms())
        if times:
            log.error("pushes are refused: the push log cannot take them", reason=str(error), kind=kind, commits=times)

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
            log.warning("the push log cannot begin a new segment", reason=str(error))


def _no_answer(_pushes: Sequence[Push], _error: PushLogError | None) -> None:
    """Before a handler is there that answers."""
