"""An hour of the fleet by minute of receipt: pushes, bytes, live clients."""

from collections.abc import Iterable
from typing import Any, Final

from fleetgauge.console.state.source import StoredPush

MINUTES: Final = 60
_MINUTE_US: Final = 60_000_000


class History:
    """Counts by minute [min since the epoch]."""

    def __init__(self) -> None:
        self._pushes: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._live: dict[int, int] = {}

    def take(self, pushes: Iterable[StoredPush]) -> None:
        """Counts pushes."""
        for push in pushes:
            minute = push.record.received_at // _MINUTE_US
            self._pushes[minute] = self._pushes.get(minute, 0) + 1
            size = push.record.payload_bytes
            self._bytes[minute] = self._bytes.get(minute, 0) + (push.size_bytes if size is None else size)

    def count_live(self, clients: int, at_us: int) -> None:
        """Records the number of live clients at a time; the latest in a minute counts."""
        self._live[at_us // _MINUTE_US] = clients

    def rates(self, now_us: int) -> tuple[float, float]:
        """Pushes and bytes per second, over the minute before `now_us`."""
        minute, into_us = divmod(now_us, _MINUTE_US)
        part = 1 - into_us / _MINUTE_US
        pushes, size = (
            (counts.get(minute, 0) + part * counts.get(minute - 1, 0)) / 60 for counts in (self._pushes, self._bytes)
        )
        return round(pushes, 3), round(size, 1)

    def hour(self, now_us: int) -> dict[str, list[Any]]:
        """Minutes from the first one with data on, at most 60.

        The present one is left out, whose counts are not whole, unless it is the only one.
        """
        now = now_us // _MINUTE_US
        for counts in (self._pushes, self._bytes, self._live):
            for minute in [each for each in counts if not now - MINUTES < each <= now + 1]:
                del counts[minute]
        first = min((*self._pushes, *self._live), default=now + 1)
        minutes = range(first, max(now, min(first + 1, now + 1)))
        return {
            "times": [minute * _MINUTE_US for minute in minutes],
            "pushes": [self._pushes.get(minute, 0) for minute in minutes],
            "live": [self._live.get(minute) for minute in minutes],
            "bytes": [self._bytes.get(minute, 0) for minute in minutes],
        }
