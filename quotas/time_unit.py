"""The units in which a rate may be expressed."""

import enum


class TimeUnit(enum.Enum):
    """Java's `TimeUnit`, as far as rates use it; the value is the unit's length [ms]."""

    NANOSECONDS = 1e-6
    MICROSECONDS = 1e-3
    MILLISECONDS = 1.0
    SECONDS = 1_000.0
    MINUTES = 60_000.0
    HOURS = 3_600_000.0
    DAYS = 86_400_000.0

    def convert(self, duration_ms: float) -> float:
        """`duration_ms` [ms] expressed in this unit.

        >>> TimeUnit.SECONDS.convert(1_500)
        1.5
        """
        return duration_ms / self.value
