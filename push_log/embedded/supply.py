"""Segments made before they are needed: making one takes milliseconds, which the listener's loop does not have."""

import threading
from collections.abc import Callable
from typing import Final, Literal

import structlog

from base.clock import Time
from push_log.embedded.directory import LogDirectory
from push_log.embedded.head import HeadSegment
from push_log.log import PushLogError

log = structlog.get_logger(__name__)

Spawn = Callable[[Callable[[], None]], Callable[[], None]]
"""Starts work beside the caller; what it returns waits for the end of that work."""

_RETRY_MS: Final = 1_000


def in_thread(work: Callable[[], None]) -> Callable[[], None]:
    """Runs `work` in a thread of its own."""
    thread = threading.Thread(target=work, name="push-log-prepare", daemon=True)
    thread.start()
    return thread.join


class SegmentSupply:
    """Makes the segments of a log, each with a new number. `spawn` says where."""

    def __init__(
        self, directory: LogDirectory, flush: Literal["os", "fsync"], next_number: int, *, time: Time, spawn: Spawn
    ) -> None:
        self._directory = directory
        self._flush = flush
        self._next_number = next_number
        self._time = time
        self._spawn = spawn
        self._ready: HeadSegment | None = None
        self._working = False
        self._wait: Callable[[], None] | None = None
        self._failed_at_ms: int | None = None

    def make(self) -> HeadSegment:
        """A new segment, made here and now.

        Raises:
            PushLogError: it could not be made.
        """
        number, self._next_number = self._next_number, self._next_number + 1
        try:
            return HeadSegment(self._directory.segment(number), number, self._flush)
        except BaseException:
            self._directory.remove(number)  # or a full disk would fill with beginnings
            raise

    def prepare(self) -> None:
        """Starts making the next segment, unless one is there, is being made, or just failed."""
        if self._ready is not None or self._working or self._failed_lately():
            return
        self._working = True
        try:
            self._wait = self._spawn(self._work)
        except RuntimeError as error:  # the system has no thread to give just now
            self._working = False
            self._fail(error)

    def take(self) -> HeadSegment | None:
        """The prepared segment, None when there is none; the caller gives it back if it cannot use it."""
        ready, self._ready = self._ready, None
        return ready

    def give_back(self, segment: HeadSegment) -> None:
        """Keeps a segment that was taken and not used."""
        self._ready = segment

    def close(self) -> None:
        """Waits for what is being made, and takes away what nobody needs."""
        if self._wait is not None:
            self._wait()
        unused = self.take()
        if unused is not None:
            unused.close()
            self._directory.remove(unused.number)

    def _failed_lately(self) -> bool:
        return self._failed_at_ms is not None and self._time.hi_res_clock_ms() - self._failed_at_ms < _RETRY_MS

    def _work(self) -> None:
        try:
            self._ready = self.make()
            self._failed_at_ms = None
        except (PushLogError, OSError) as error:
            self._fail(error)
        finally:
            self._working = False

    def _fail(self, error: Exception) -> None:
        self._failed_at_ms = self._time.hi_res_clock_ms()
        log.warning("the next segment of the push log could not be made; the current one grows on", reason=str(error))
