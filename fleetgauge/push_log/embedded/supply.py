"""Creates segments in advance: creating one takes milliseconds, too long for the listener's loop."""

import threading
from collections.abc import Callable
from typing import Final, Literal

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.head import HeadSegment
from fleetgauge.push_log.log import PushLogError

log = get_logger(__name__)

Spawn = Callable[[Callable[[], None]], Callable[[], None]]
"""Starts work beside the caller; returns a function that waits for its end."""

_RETRY_MS: Final = 1_000


def in_thread(work: Callable[[], None]) -> Callable[[], None]:
    """Runs `work` in a new thread."""
    thread = threading.Thread(target=work, name="push-log-prepare", daemon=True)
    thread.start()
    return thread.join


class SegmentSupply:
    """Creates the segments of a log, each with a new number; `spawn` runs the work."""

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
        """Creates a segment, in the caller's thread.

        Raises:
            PushLogError: it could not be created.
        """
        number, self._next_number = self._next_number, self._next_number + 1
        try:
            return HeadSegment(self._directory.segment(number), number, self._flush)
        except BaseException:
            self._directory.remove(number)  # or unfinished segments would fill up the disk
            raise

    def prepare(self) -> None:
        """Starts to create the next segment, unless one is ready, is being created, or has just failed."""
        if self._ready is not None or self._working or self._failed_lately():
            return
        self._working = True
        try:
            self._wait = self._spawn(self._work)
        except RuntimeError as error:  # the system has no free thread
            self._working = False
            self._fail(error)

    def take(self) -> HeadSegment | None:
        """Takes the prepared segment, None if there is none; the caller gives it back if it cannot use it."""
        ready, self._ready = self._ready, None
        return ready

    def give_back(self, segment: HeadSegment) -> None:
        """Returns a segment that was taken and not used."""
        self._ready = segment

    def close(self) -> None:
        """Waits for a running creation, and deletes an unused segment."""
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
        log.warning("push_log.segment_not_created", message="the current one keeps growing", error=str(error))
