"""Keeps a fault that repeats from flooding the log: its first occurrence is said, then one a minute with a count."""

from typing import Final

LOG_INTERVAL_MS: Final = 60_000
_MAX_KEYS: Final = 256
"""Kinds of fault that are told apart; beyond, the oldest is forgotten and so may be said again early."""


class CalmLog:
    """Decides what is said; not safe for threads."""

    __slots__ = ("_interval_ms", "_said")

    def __init__(self, interval_ms: int = LOG_INTERVAL_MS) -> None:
        self._interval_ms = interval_ms
        self._said: dict[str, tuple[int, int]] = {}

    def occurrences(self, kind: str, *, now_ms: int) -> int:
        """How many faults of this kind to report now, this one included; 0 to stay silent.

        Args:
            kind: what counts as the same fault.
            now_ms: monotonic time [ms].
        """
        said_at_ms, silent = self._said.get(kind, (None, 0))
        if said_at_ms is not None and now_ms - said_at_ms < self._interval_ms:
            self._said[kind] = said_at_ms, silent + 1
            return 0
        self._said.pop(kind, None)
        self._said[kind] = now_ms, 0
        if len(self._said) > _MAX_KEYS:
            del self._said[next(iter(self._said))]
        return silent + 1
