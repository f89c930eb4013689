"""Interfaces of statistics, which sensors record into and metrics read from; and units of time."""

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName


@runtime_checkable
class Measurable(Protocol):
    """A source of a number."""

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """The value at `now_ms` [ms, monotonic]. May discard samples that are obsolete by then."""


Gauge: TypeAlias = Callable[[MetricConfig, int], object]
"""A function of config and monotonic time [ms] that returns the metric's value, not necessarily a number."""


class Stat(Protocol):
    """A recipient of recorded values."""

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Records `value` at `time_ms` [ms, monotonic]."""


@runtime_checkable
class MeasurableStat(Stat, Measurable, Protocol):
    """A statistic with one measure, for example an average."""


class NamedMeasurable(NamedTuple):
    """One of the measures of a compound statistic."""

    name: MetricName
    stat: Measurable


@runtime_checkable
class CompoundStat(Stat, Protocol):
    """A statistic with several measures, for example a rate and a total."""

    def stats(self) -> Sequence[NamedMeasurable]:
        """Returns the measures in the order of registration."""


class TimeUnit(enum.Enum):
    """Java's `TimeUnit`; the value is the unit's length [ms]."""

    NANOSECONDS = 1e-6
    MICROSECONDS = 1e-3
    MILLISECONDS = 1.0
    SECONDS = 1_000.0
    MINUTES = 60_000.0
    HOURS = 3_600_000.0
    DAYS = 86_400_000.0

    def convert(self, duration_ms: float) -> float:
        """Converts `duration_ms` [ms] to this unit.

        >>> TimeUnit.SECONDS.convert(1_500)
        1.5
        """
        return duration_ms / self.value
