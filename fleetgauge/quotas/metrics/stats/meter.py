"""A rate and a total in one statistic."""

from collections.abc import Sequence

from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.stats.cumulative import CumulativeSum
from fleetgauge.quotas.metrics.stats.rate import Rate
from fleetgauge.quotas.metrics.stats.stat import NamedMeasurable, TimeUnit
from fleetgauge.quotas.metrics.stats.windowed_sum import WindowedCount, WindowedSum


class Meter:
    """A rate over the windows and a total since the start (Kafka's `Meter`).

    Args:
        rate_metric_name: name of the rate.
        total_metric_name: name of the total.
        unit: unit of time of the rate.
        rate_stat: `WindowedCount` counts records in both, ignoring their values; the default sums the values.

    Raises:
        TypeError: `rate_stat` is not a `WindowedSum` or `WindowedCount`.
    """

    __slots__ = ("_counts", "_rate", "_rate_metric_name", "_total", "_total_metric_name")

    def __init__(
        self,
        rate_metric_name: MetricName,
        total_metric_name: MetricName,
        *,
        unit: TimeUnit = TimeUnit.SECONDS,
        rate_stat: WindowedSum | None = None,
    ) -> None:
        stat = WindowedSum() if rate_stat is None else rate_stat
        if not isinstance(stat, WindowedSum):
            raise TypeError(f"Meter is supported only for WindowedCount or WindowedSum, not {type(stat).__name__}")
        self._rate = Rate(unit, stat)
        self._total = CumulativeSum()
        self._counts = isinstance(stat, WindowedCount)
        self._rate_metric_name = rate_metric_name
        self._total_metric_name = total_metric_name

    def stats(self) -> Sequence[NamedMeasurable]:
        """Returns the total, then the rate."""
        return (
            NamedMeasurable(self._total_metric_name, self._total),
            NamedMeasurable(self._rate_metric_name, self._rate),
        )

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds `value` (or one record, where records are counted) at `time_ms` [ms, monotonic]."""
        self._rate.record(config, value, time_ms)
        self._total.record(config, 1.0 if self._counts else value, time_ms)
