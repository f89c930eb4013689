"""The ring of samples under every windowed statistic."""

from collections.abc import Sequence

from quotas.metric_config import MetricConfig


class Sample:
    """What was recorded in one window.

    Attributes:
        value: the statistic's running value of the window.
        event_count: how many records it holds.
        start_time_ms: when the window began [ms, monotonic].
        last_event_ms: when it last took a record [ms, monotonic]; its start while it has none.
    """

    __slots__ = ("event_count", "last_event_ms", "start_time_ms", "value")

    def __init__(self, initial_value: float, now_ms: int) -> None:
        self.reset(initial_value, now_ms)

    def reset(self, initial_value: float, now_ms: int) -> None:
        """Forgets everything and begins anew at `now_ms` [ms, monotonic]."""
        self.value = initial_value
        self.event_count = 0
        self.start_time_ms = now_ms
        self.last_event_ms = now_ms


class SampledStat:
    """A value measured over the last `samples` windows (Kafka's `SampledStat`).

    A window is full when `time_window_ms` have gone by since it began, or it has taken `event_window` records;
    the next record opens another. One sample more than `samples` is kept, because the oldest window may reach into
    the monitored time with only its end. Subclasses say what a record does to a sample, and how samples make one
    value.
    """

    __slots__ = ("_current", "_initial_value", "_samples")

    def __init__(self, initial_value: float) -> None:
        self._initial_value = initial_value
        self._current = 0
        self._samples: list[Sample] = []

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds `value` to the window that `time_ms` [ms, monotonic] falls in."""
        sample = self.current(time_ms)
        if time_ms - sample.start_time_ms >= config.time_window_ms or sample.event_count >= config.event_window:
            sample = self._advance(config, time_ms)
        self._update(sample, value)
        sample.event_count += 1
        sample.last_event_ms = time_ms

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """The value over the windows that are not obsolete at `now_ms` [ms, monotonic]."""
        self.purge_obsolete_samples(config, now_ms)
        return self._combine(self._samples)

    def current(self, now_ms: int) -> Sample:
        """The sample that takes records; made at `now_ms` [ms, monotonic] where there was none."""
        if not self._samples:
            self._samples.append(Sample(self._initial_value, now_ms))
        return self._samples[self._current]

    def oldest(self, now_ms: int) -> Sample:
        """The sample that began first; made at `now_ms` [ms, monotonic] where there was none."""
        self.current(now_ms)
        return min(self._samples, key=_start_time_ms)

    def purge_obsolete_samples(self, config: MetricConfig, now_ms: int) -> None:
        """Empties every sample whose last record is `samples * time_window_ms` or more before `now_ms`.

        A sample that began earlier, but was recorded to within that time, is kept whole.
        """
        expire_age_ms = config.samples * config.time_window_ms
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= expire_age_ms:
                sample.reset(self._initial_value, now_ms)

    def _advance(self, config: MetricConfig, time_ms: int) -> Sample:
        """Opens the next window, in a new sample until the ring is complete, then in the oldest."""
        self._current = (self._current + 1) % (config.samples + 1)
        if self._current >= len(self._samples):
            self._samples.append(Sample(self._initial_value, time_ms))
        else:
            self._samples[self._current].reset(self._initial_value, time_ms)
        return self._samples[self._current]

    def _update(self, sample: Sample, value: float) -> None:
        """Adds one record to its sample."""
        raise NotImplementedError

    def _combine(self, samples: Sequence[Sample]) -> float:
        """Makes the measure of all samples; empty ones hold the initial value."""
        raise NotImplementedError


def _start_time_ms(sample: Sample) -> int:
    return sample.start_time_ms
