"""The count over the windows."""

from quotas.metric_config import MetricConfig
from quotas.stats.windowed_sum import WindowedSum


class WindowedCount(WindowedSum):
    """Number of records in the monitored windows, whatever their values (Kafka's `WindowedCount`)."""

    __slots__ = ()

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds 1 to the window that `time_ms` [ms, monotonic] falls in."""
        super().record(config, 1.0, time_ms)

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        return super().record_and_measure(config, 1.0, time_ms)
