"""Two threads made to meet at one point, so that a lock that is missing shows every time."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from support.waiting import PATIENCE_S


class Meeting:
    """Thread A stops at a point inside what the lock guards; thread B then does its part.

    A goes on as soon as B has either finished, which it only can where no lock keeps it out, or waits for the lock. No
    time is waited for: one of the two always comes to pass.
    """

    def __init__(self) -> None:
        self._first: threading.Thread | None = None
        self._a_is_there = threading.Event()
        self._a_may_go_on = threading.Event()
        self._stopped = False

    def point(self) -> None:
        """Called inside what is guarded; stops A, once, and nobody else."""
        if threading.current_thread() is self._first and not self._stopped:
            self._stopped = True
            self._a_is_there.set()
            assert self._a_may_go_on.wait(PATIENCE_S), "B neither finished nor waited for the lock"

    def lock(self, real: Any, *, locked: bool) -> "WatchedLock":
        """Stands in for `real`: tells when somebody has to wait for it; not `locked` it keeps nobody out."""
        return WatchedLock(real if locked else None, self._a_may_go_on)

    def run(self, a: Callable[[], Any], b: Callable[[], Any]) -> list[Any]:
        """Runs both, A first until the point; what they returned, or raised."""
        results: list[Any] = [None, None]

        def do(number: int, work: Callable[[], Any]) -> None:
            try:
                results[number] = work()
            except Exception as error:  # noqa: BLE001 - handed to the test
                results[number] = error

        def second() -> None:
            assert self._a_is_there.wait(PATIENCE_S), "A never came to the point"
            do(1, b)
            self._a_may_go_on.set()

        self._first = threading.Thread(target=do, args=(0, a))
        threads = [self._first, threading.Thread(target=second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE_S)
            assert not thread.is_alive()
        return results


class WatchedLock:
    """A lock that sets `contended` before it makes anybody wait."""

    def __init__(self, real: Any | None, contended: threading.Event) -> None:
        self._real = real
        self._contended = contended

    def acquire(self) -> bool:
        if self._real is not None and not self._real.acquire(blocking=False):
            self._contended.set()
            self._real.acquire()
        return True

    def release(self) -> None:
        if self._real is not None:
            self._real.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
