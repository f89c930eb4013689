"""Sum and count over the windows."""

from fleetgauge.quotas.metrics.metric_config import UNBOUNDED, MetricConfig
from fleetgauge.quotas.metrics.stats.sampled_stat import Sample, SampledStat


class WindowedSum(SampledStat):
    """Sum of the values recorded in the monitored windows (Kafka's `WindowedSum`). Recording `-v` takes `v` back.

    Every request is recorded here when quotas are set, so `record` is inlined, and the sum of the closed windows is
    cached until they change. It is always computed from the samples, since a running total would drift.
    """

    __slots__ = ("_closed_sum", "_settled_config", "_settled_from_ms", "_settled_until_ms")

    def __init__(self) -> None:
        super().__init__(0.0)
        self._closed_sum: float | None = None
        # Under this config, a record in this span of time goes into the current window and makes no other obsolete.
        self._settled_config: MetricConfig | None = None
        self._settled_from_ms = 0
        self._settled_until_ms = 0

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
        """Returns the sum over the windows that are not obsolete at `now_ms` [ms, monotonic]."""
        current = self._current
        if current is None:
            return 0.0
        closed_sum = self._closed_sum
        if closed_sum is None or now_ms - self._fresh_since_ms >= config.samples * config.time_window_ms:
            closed_sum = self._look_through(config, current, now_ms)
        return closed_sum + current.value

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        sample, closed_sum = self._current, self._closed_sum
        if (
            sample is None
            or closed_sum is None
            or config is not self._settled_config
            or not self._settled_from_ms <= time_ms < self._settled_until_ms
            or sample.event_count >= config.event_window
        ):
            sample, closed_sum = self._settle(config, time_ms)
        sample.value += value
        sample.event_count += 1
        sample.last_event_ms = time_ms
        return closed_sum + sample.value

    def _settle(self, config: MetricConfig, time_ms: int) -> tuple[Sample, float]:
        """Returns the window of the next record, and the sum of the others; both are cached for some time."""
        window_ms = config.time_window_ms
        expire_age_ms = config.samples * window_ms
        sample = self._current
        if (
            sample is None
            or not 0 <= time_ms - sample.start_time_ms < window_ms
            or sample.event_count >= config.event_window
        ):
            sample = self._window_at(config, time_ms)
        sample.last_event_ms = time_ms  # so that it is not obsolete itself
        closed_sum = self._closed_sum
        if closed_sum is None or time_ms - self._fresh_since_ms >= expire_age_ms:
            closed_sum = self._look_through(config, sample, time_ms)
        self._settled_config = config
        self._settled_from_ms = sample.start_time_ms
        self._settled_until_ms = min(sample.start_time_ms + window_ms, self._fresh_since_ms + expire_age_ms)
        return sample, closed_sum

    def _look_through(self, config: MetricConfig, current: Sample, now_ms: int) -> float:
        """`purge_obsolete_samples`, `oldest` and the sum of the closed windows in one pass: for clients that send
        rarely, nearly every record opens a window.
        """
        expire_age_ms = config.samples * config.time_window_ms
        self._settled_config = None
        closed_sum = 0.0
        oldest = self._samples[0]
        fresh_since_ms = UNBOUNDED
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= expire_age_ms:
                sample.reset(0.0, now_ms)
            since_ms = sample.start_time_ms
            if since_ms < oldest.start_time_ms:
                oldest = sample
            if sample is not current:
                closed_sum += sample.value
                since_ms = sample.last_event_ms
            elif sample.last_event_ms < since_ms:  # its last record has an earlier clock reading
                since_ms = sample.last_event_ms
            if since_ms < fresh_since_ms:
                fresh_since_ms = since_ms
        self._closed_sum, self._oldest, self._fresh_since_ms = closed_sum, oldest, fresh_since_ms
        return closed_sum

    def _windows_changed(self) -> None:
        self._oldest = None
        self._closed_sum = None
        self._settled_config = None


class WindowedCount(WindowedSum):
    """Number of records in the monitored windows, whatever their values (Kafka's `WindowedCount`)."""

    __slots__ = ()

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds 1 to the window that `time_ms` [ms, monotonic] falls in."""
        super().record(config, 1.0, time_ms)

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        return super().record_and_measure(config, 1.0, time_ms)
