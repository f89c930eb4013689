"""The only module that reads the system clocks. All other code is passed the time.

Wall time (timestamps) and monotonic time (durations) must not be mixed. `MockTime` starts them at unrelated numbers,
so that code which mixes them fails its test.
"""

import time as _time
from typing import Protocol


class Time(Protocol):
    """Kafka's `Time`: wall clock and monotonic clock."""

    def milliseconds(self) -> int:
        """Wall time [ms since the epoch, UTC]. May jump; use it for timestamps only."""
        ...

    def microseconds(self) -> int:
        """Wall time [us since the epoch, UTC]."""
        ...

    def hi_res_clock_ms(self) -> int:
        """Monotonic time [ms since an arbitrary start]; for durations, deadlines and every quota."""
        ...

    def nanoseconds(self) -> int:
        """Monotonic time [ns], the same clock as `hi_res_clock_ms`."""
        ...


class SystemTime:
    """The system clocks."""

    def milliseconds(self) -> int:
        """See `Time.milliseconds`."""
        return _time.time_ns() // 1_000_000

    def microseconds(self) -> int:
        """See `Time.microseconds`."""
        return _time.time_ns() // 1_000

    def hi_res_clock_ms(self) -> int:
        """See `Time.hi_res_clock_ms`."""
        return _time.monotonic_ns() // 1_000_000

    def nanoseconds(self) -> int:
        """See `Time.nanoseconds`."""
        return _time.monotonic_ns()


class MockTime:
    """Clocks for tests: `sleep` advances both, `jump_wall_clock` moves only the wall clock (NTP, an operator)."""

    def __init__(self, *, wall_ms: int = 1_750_000_000_000, monotonic_ms: int = 5_000) -> None:
        self._wall_us = wall_ms * 1_000
        self._monotonic_ns = monotonic_ms * 1_000_000

    def milliseconds(self) -> int:
        """See `Time.milliseconds`."""
        return self._wall_us // 1_000

    def microseconds(self) -> int:
        """See `Time.microseconds`."""
        return self._wall_us

    def hi_res_clock_ms(self) -> int:
        """See `Time.hi_res_clock_ms`."""
        return self._monotonic_ns // 1_000_000

    def nanoseconds(self) -> int:
        """See `Time.nanoseconds`."""
        return self._monotonic_ns

    def sleep(self, ms: float) -> None:
        """Advances both clocks by `ms` [ms]."""
        if ms < 0:
            raise ValueError(f"time does not run backwards: {ms} ms")
        self._wall_us += round(ms * 1_000)
        self._monotonic_ns += round(ms * 1_000_000)

    def jump_wall_clock(self, ms: float) -> None:
        """Moves only the wall clock, in either direction, by `ms` [ms]."""
        self._wall_us += round(ms * 1_000)
