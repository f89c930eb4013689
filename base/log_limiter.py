"""Limits how often a repeated problem is logged: the first case at once, then one line per interval with a count."""

from collections.abc import Iterator
from typing import Final

LOG_INTERVAL_MS: Final = 60_000
_MAX_KINDS: Final = 256
"""Maximum number of distinct problems; beyond it, the oldest is forgotten, and so may be logged again early."""


class LogLimiter:
    """Decides what is logged. Not thread-safe.

    >>> limiter = LogLimiter(1_000)
    >>> [limiter.occurrences("short_frame", now_ms=now_ms) for now_ms in (0, 10, 20, 1_000)]
    [1, 0, 0, 3]

    Args:
        interval_ms: shortest time between two lines of one kind [ms].
    """

    __slots__ = ("_interval_ms", "_logged")

    def __init__(self, interval_ms: int = LOG_INTERVAL_MS) -> None:
        self._interval_ms = interval_ms
        self._logged: dict[str, tuple[int, int]] = {}  # kind -> time of its last line [ms], suppressed cases since then

    def occurrences(self, kind: str, *, now_ms: int) -> int:
        """Counts one case; returns the number of cases to log now, or 0 to log nothing.

        Args:
            kind: identifies the problem.
            now_ms: monotonic time [ms].
        """
        logged_at_ms, suppressed = self._logged.get(kind, (None, 0))
        if logged_at_ms is not None and now_ms - logged_at_ms < self._interval_ms:
            self._logged[kind] = logged_at_ms, suppressed + 1
            return 0
        self._logged.pop(kind, None)
        self._logged[kind] = now_ms, 0
        if len(self._logged) > _MAX_KINDS:
            del self._logged[next(iter(self._logged))]
        return suppressed + 1

    def overdue(self, now_ms: int) -> Iterator[tuple[str, int]]:
        """The kinds with suppressed cases and no line for an interval, with their number; these count as logged."""
        for kind, (logged_at_ms, suppressed) in list(self._logged.items()):
            if suppressed and now_ms - logged_at_ms >= self._interval_ms:
                self._logged[kind] = now_ms, 0
                yield kind, suppressed


CalmLog = LogLimiter
"""The former name."""
