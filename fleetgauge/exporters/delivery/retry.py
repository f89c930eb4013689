"""One operation's failures in a row, and the wait after each: exponential backoff with full jitter, bounded."""

from collections.abc import Callable

from fleetgauge.exporters.exporter import RetrySettings


class Backoff:
    """The waits between attempts of one operation: `next_ms` after each failure.

    The wait is uniform between 0 and the bound, which doubles: with 100 and 3,000 ms the bounds are 100, 200, 400, ...,
    1,600, 3,000, 3,000. Full jitter keeps the nodes of a fleet from retrying at the same time (KIP-580 has the same
    doubling).

    Attributes:
        failed: it failed at least once.
        logged_at_ms: when that was first logged (monotonic); None if it was not [ms].
    """

    __slots__ = ("_bound_ms", "_random", "_settings", "failed", "logged_at_ms")

    def __init__(self, settings: RetrySettings, random: Callable[[], float]) -> None:
        self.failed = False
        self.logged_at_ms: int | None = None
        self._settings = settings
        self._random = random
        self._bound_ms = settings.backoff_ms

    def next_ms(self, after_ms: int | None = None) -> int:
        """The wait before the next attempt [ms].

        Args:
            after_ms: the minimum that the destination requested; up to one bound is added, for the jitter.
        """
        wait_ms = round(self._random() * self._bound_ms)
        self._bound_ms = min(self._bound_ms * 2, self._settings.backoff_max_ms)
        return wait_ms if after_ms is None else after_ms + wait_ms
