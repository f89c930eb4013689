"""How long to wait before trying again: exponential backoff with full jitter, bounded."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """Bounds of the wait, under the names that Kafka's clients use.

    Attributes:
        backoff_ms: upper bound of the first wait (key `retry.backoff.ms`) [ms].
        backoff_max_ms: upper bound of every wait (key `retry.backoff.max.ms`) [ms]. With 3 s and a destination that
            answers within 2 s, delivery resumes within 5 s of its return.
    """

    backoff_ms: int = 100
    backoff_max_ms: int = 3_000

    def __post_init__(self) -> None:
        if not 1 <= self.backoff_ms <= self.backoff_max_ms:
            raise ValueError(
                f"retry.backoff.ms is {self.backoff_ms}: it must be 1 at least and not above retry.backoff.max.ms, "
                f"which is {self.backoff_max_ms}"
            )


class Backoff:
    """The waits between tries of one thing: `next_ms` after each failure, `reset` after a success.

    The wait is uniform between 0 and the bound, which doubles: with 100 and 3,000 ms the bounds are 100, 200, 400, ...,
    1,600, 3,000, 3,000. Full jitter keeps a fleet of nodes from knocking together (KIP-580 has the same doubling).
    """

    __slots__ = ("_bound_ms", "_random", "_settings")

    def __init__(self, settings: RetrySettings, random: Callable[[], float]) -> None:
        self._settings = settings
        self._random = random
        self._bound_ms = settings.backoff_ms

    def next_ms(self, after_ms: int | None = None) -> int:
        """The wait before the next try [ms].

        Args:
            after_ms: what the destination asked for; never waits less, and up to one bound more, for the jitter.
        """
        wait_ms = round(self._random() * self._bound_ms)
        self._bound_ms = min(self._bound_ms * 2, self._settings.backoff_max_ms)
        return wait_ms if after_ms is None else after_ms + wait_ms

    def reset(self) -> None:
        """The next failure is a first one again."""
        self._bound_ms = self._settings.backoff_ms
