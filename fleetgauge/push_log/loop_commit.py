"""Group commit on the listener's loop: one for all pushes of a loop iteration (`push.log.flush = os`).

A commit of five rows takes 20 us; a thread was not faster (docs/decisions/001-commit-on-the-loop.md). With
`push.log.append.linger.us` commits are at least that far apart (docs/decisions/028-joined-commits.md).
"""

import asyncio
import time as _time
from collections.abc import Callable
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.push_log.group_commit import PENDING_BOUNDS, GroupCommit, PendingBounds, Writer
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.push import Push

DEFAULT_LINGER_US: Final = 0
MAX_LINGER_US: Final = 10_000


class LoopCommit(GroupCommit):
    """`PushAppender` that commits after the frames of a loop iteration. A full batch is written at once.

    Args:
        linger_us: minimum time between the starts of two commits [us]. Until then the loop sleeps, and then handles
            what arrived meanwhile, so that one wake-up and one commit serve all of it. The first push after a pause of
            this length never waits, nor does one after a commit that took as long. 0 for no minimum.
        sleep: blocks the thread for a time [s].
    """

    def __init__(
        self,
        writer: Writer,
        loop: asyncio.AbstractEventLoop,
        time: Time,
        *,
        linger_us: int = DEFAULT_LINGER_US,
        bounds: PendingBounds = PENDING_BOUNDS,
        sleep: Callable[[float], None] = _time.sleep,
    ) -> None:
        super().__init__(writer, loop, time, bounds)
        self._max_pending_records, self._max_pending_bytes = bounds
        self._linger_ns = linger_us * 1_000
        self._next_ns = 0
        self._sleep = sleep

    def append(self, push: Push) -> PushLogError | None:
        """See `PushAppender.append`."""
        if self._closed:
            return PushLogError("the push log is closed")
        size_bytes = len(push.metrics) + len(push.encoded)
        waiting = len(self._gathering)
        if waiting and (
            waiting >= self._max_pending_records or self._pending_bytes + size_bytes > self._max_pending_bytes
        ):
            self._commit()
        if not self._gathering:
            self._loop.call_soon(self._linger if self._linger_ns else self._commit)
        self._gathering.append(push)
        self._pending_bytes += size_bytes
        return None

    def _linger(self) -> None:
        """Commits, if the latest commit was long enough ago; otherwise sleeps, and commits after the frames that
        arrived meanwhile.

        The loop sleeps rather than being called later: uvloop's timers have whole milliseconds, and each frame that
        arrives before would wake it.
        """
        left_ns = self._next_ns - self._time.nanoseconds()
        if left_ns > 0:
            self._sleep(left_ns / 1e9)
            self._loop.call_soon(self._commit)
        else:
            self._commit()

    def _commit(self) -> None:
        pushes = self._gathering
        if not pushes:
            return
        self._gathering = []
        self._pending_bytes = 0
        if self._linger_ns:
            self._next_ns = self._time.nanoseconds() + self._linger_ns
        error = self._write(pushes)
        self._note_outcome(len(pushes), error)
        self._notify(pushes, error)
        self._settled.set()
