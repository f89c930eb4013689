"""The age of an exporter's oldest undelivered push, robust against jumps of the wall clock."""

from typing import Final

from fleetgauge.push_log.log import Lag

_SLACK_MS: Final = 5_000
"""Tolerance between the wall clock and the observed bounds: lags are measured every few seconds [ms]."""


class LagAge:
    """Tracks the lag of one exporter.

    The age is taken from the wall clock while it is plausible: the oldest push cannot be younger than the time since it
    was first observed as the oldest, nor older than the time since the lag was last zero. Outside of these bounds the
    clock has jumped, and the age is the time since the lag became positive.

    Args:
        sees_all: False if older pushes may become visible after newer ones, so that the second bound does not hold.
    """

    def __init__(self, *, sees_all: bool = True) -> None:
        self._sees_all = sees_all
        self._was_delivered = False
        self._waiting_since_ms: int | None = None
        self._oldest: int | None = None
        self._oldest_since_ms = 0

    def of(self, lag: Lag, *, now_us: int, now_ms: int) -> int | None:
        """The age of the oldest undelivered push [ms]; 0 without any, None if its receive time is unknown.

        Args:
            lag: the current one; call this every few seconds.
            now_us: wall time [us since the epoch].
            now_ms: monotonic time [ms].
        """
        if not lag.records:
            self._was_delivered = True
            self._waiting_since_ms, self._oldest = now_ms, None
            return 0
        if self._waiting_since_ms is None:
            self._waiting_since_ms = now_ms
        if lag.oldest_received_at is None:
            return None
        if lag.oldest_received_at != self._oldest:
            self._oldest, self._oldest_since_ms = lag.oldest_received_at, now_ms
        by_wall_clock_ms = (now_us - lag.oldest_received_at) // 1_000
        waited_ms = now_ms - self._waiting_since_ms
        at_least_ms = now_ms - self._oldest_since_ms
        is_bounded = self._sees_all and self._was_delivered
        if by_wall_clock_ms < at_least_ms - _SLACK_MS or (is_bounded and by_wall_clock_ms > waited_ms + _SLACK_MS):
            return waited_ms
        return max(0, by_wall_clock_ms)
