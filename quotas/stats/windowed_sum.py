"""The sum over the windows."""

from quotas.metric_config import MetricConfig
from quotas.stats.sampled_stat import SampledStat


class WindowedSum(SampledStat):
    """Sum of the values recorded in the monitored windows (Kafka's `WindowedSum`). Recording `-v` takes `v` back.

    Every request is recorded here when quotas are set, so `record` is written out, and `measure` adds up the closed
    windows once, when they change: always from the samples, since a total that is only ever corrected would drift.
    """

    __slots__ = ("_closed_sum",)

    def __init__(self) -> None:
        super().__init__(0.0)
        self._closed_sum: float | None = None

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds `value` to the window that `time_ms` [ms, monotonic] falls in."""
        sample = self._current
        if (
            sample is None
            or not 0 <= time_ms - sample.start_time_ms < config.time_window_ms
            or sample.event_count >= config.event_window
        ):
            sample = self._window_at(config, time_ms)
        sample.value += value
        sample.event_count += 1
        sample.last_event_ms = time_ms

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """The sum over the windows that are not obsolete at `now_ms` [ms, monotonic]."""
        self.purge_obsolete_samples(config, now_ms)
        current = self._current
        if current is None:
            return 0.0
        if self._closed_sum is None:
            self._closed_sum = sum(sample.value for sample in self._samples if sample is not current)
        return self._closed_sum + current.value

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        window_ms = config.time_window_ms
        sample = self._current
        if (
            sample is None
            or not 0 <= time_ms - sample.start_time_ms < window_ms
            or sample.event_count >= config.event_window
        ):
            sample = self._window_at(config, time_ms)
        sample.value += value
        sample.event_count += 1
        sample.last_event_ms = time_ms
        if self._closed_sum is None or time_ms - self._fresh_since_ms >= config.samples * window_ms:
            return self.measure(config, time_ms)
        return self._closed_sum + sample.value

    def _windows_changed(self) -> None:
        super()._windows_changed()
        self._closed_sum = None
