"""Keeps a fault that repeats from flooding the log: one line at once, then one per interval with a count."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from typing import Final

LOG_INTERVAL_MS: Final = 60_000


class LogLimiter:
    """Decides which occurrences are logged. Not safe for threads.

    >>> limiter = LogLimiter(interval_ms=1_000)
    >>> [limiter.admit("short_frame", now_ms) for now_ms in (0, 10, 20, 1_000)]
    [1, 0, 0, 3]

    Args:
        interval_ms: time between two lines of the same key [ms].
        max_keys: keys that are remembered. Beyond that the one seen longest ago is forgotten, and its next
            occurrence is logged at once.
        max_lines: lines of all keys together in one interval; None for no limit.
    """

    __slots__ = ("_interval_ms", "_keys", "_left_out", "_lines", "_max_keys", "_max_lines", "_window_ms")

    def __init__(
        self, interval_ms: int = LOG_INTERVAL_MS, *, max_keys: int = 256, max_lines: int | None = None
    ) -> None:
        self._interval_ms = interval_ms
        self._max_keys = max_keys
        self._max_lines = max_lines
        self._keys: OrderedDict[Hashable, tuple[int, int]] = OrderedDict()  # key: time of its line, occurrences since
        self._window_ms = 0  # start of the interval in which `max_lines` counts
        self._lines = 0
        self._left_out = 0

    def admit(self, key: Hashable, now_ms: int) -> int:
        """Counts one occurrence; returns how many of this key a line now stands for, or 0 for no line.

        Args:
            key: what counts as the same fault.
            now_ms: monotonic time [ms].
        """
        logged_ms, suppressed = self._keys.get(key, (None, 0))
        if logged_ms is not None and now_ms - logged_ms < self._interval_ms:
            self._remember(key, logged_ms, suppressed + 1)
            return 0
        if self._max_lines is not None and not self._take_line(self._max_lines, now_ms):
            self._left_out += 1
            self._remember(key, self._window_ms, suppressed + 1)  # silent until the next interval has lines again
            return 0
        self._remember(key, now_ms, 0)
        return suppressed + 1

    def overdue(self, now_ms: int) -> Iterator[tuple[Hashable, int]]:
        """Yields the keys with occurrences that no line has reported for an interval, and how many; then they count as
        reported.
        """
        for key, (logged_ms, suppressed) in list(self._keys.items()):
            if suppressed and now_ms - logged_ms >= self._interval_ms:
                self._remember(key, now_ms, 0)
                yield key, suppressed

    def take_left_out(self) -> int:
        """Returns, and sets back to 0, the number of keys for which `max_lines` left no line."""
        left_out, self._left_out = self._left_out, 0
        return left_out

    def _take_line(self, max_lines: int, now_ms: int) -> bool:
        if not self._lines or now_ms - self._window_ms >= self._interval_ms:
            self._window_ms, self._lines = now_ms, 0
        self._lines += 1
        return self._lines <= max_lines

    def _remember(self, key: Hashable, logged_ms: int, suppressed: int) -> None:
        self._keys[key] = logged_ms, suppressed
        self._keys.move_to_end(key)
        if len(self._keys) > self._max_keys:
            self._keys.popitem(last=False)
