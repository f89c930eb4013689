"""The ring of samples of all windowed statistics; average, maximum and minimum over it."""

import math
from collections.abc import Sequence
from operator import attrgetter

from fleetgauge.quotas.metrics.metric_config import UNBOUNDED, MetricConfig

_start_time_ms = attrgetter("start_time_ms")


class Sample:
    """The records of one window.

    Attributes:
        value: the statistic's running value of the window.
        event_count: number of records.
        start_time_ms: start of the window [ms, monotonic].
        last_event_ms: time of its last record [ms, monotonic]; its start before any.
    """

    __slots__ = ("event_count", "last_event_ms", "start_time_ms", "value")

    def __init__(self, initial_value: float, now_ms: int) -> None:
        self.reset(initial_value, now_ms)

    def reset(self, initial_value: float, now_ms: int) -> None:
        """Clears the sample and restarts it at `now_ms` [ms, monotonic]."""
        self.value = initial_value
        self.event_count = 0
        self.start_time_ms = now_ms
        self.last_event_ms = now_ms


class SampledStat:
    """A value measured over the last `samples` windows (Kafka's `SampledStat`).

    A window is full after `time_window_ms` or `event_window` records; the next record opens another. One sample more
    than `samples` is kept, because the oldest window may reach into the monitored time with only its end. Subclasses
    define how a record changes a sample, and how samples are combined.

    What depends on the windows alone (the oldest one, the time when one can be obsolete) is cached until a window opens
    or is emptied, so that measuring costs the same with 2 windows and with 100.
    """

    __slots__ = ("_current", "_fresh_since_ms", "_index", "_initial_value", "_oldest", "_samples")

    def __init__(self, initial_value: float) -> None:
        self._initial_value = initial_value
        self._samples: list[Sample] = []
        self._index = 0
        self._current: Sample | None = None
        self._oldest: Sample | None = None
        # Lower bound of the samples' last records: the current one counts by its start, since it still changes, or by
        # its last record if a thread with an earlier clock reading made that.
        self._fresh_since_ms = UNBOUNDED

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds `value` to the window that `time_ms` [ms, monotonic] falls in."""
        sample = self._current
        if (
            sample is None
            or not 0 <= time_ms - sample.start_time_ms < config.time_window_ms
            or sample.event_count >= config.event_window
        ):
            sample = self._window_at(config, time_ms)
        self._update(sample, value)
        sample.event_count += 1
        sample.last_event_ms = time_ms

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """Returns the value over the windows that are not obsolete at `now_ms` [ms, monotonic]."""
        self.purge_obsolete_samples(config, now_ms)
        return self._combine(self._samples)

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        self.record(config, value, time_ms)
        return self.measure(config, time_ms)

    def oldest(self, now_ms: int) -> Sample:
        """Returns the oldest sample; created at `now_ms` [ms, monotonic] if there is none."""
        if self._oldest is None:
            if self._current is None:
                self._open_window(now_ms)
            self._oldest = min(self._samples, key=_start_time_ms)
        return self._oldest

    def purge_obsolete_samples(self, config: MetricConfig, now_ms: int) -> None:
        """Empties every sample whose last record is `samples * time_window_ms` or more before `now_ms`.

        A sample that began earlier, but was recorded to within that time, is kept whole.
        """
        expire_age_ms = config.samples * config.time_window_ms
        if now_ms - self._fresh_since_ms < expire_age_ms:
            return
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= expire_age_ms:
                sample.reset(self._initial_value, now_ms)
        current = self._current
        self._fresh_since_ms = min(
            min(sample.start_time_ms, sample.last_event_ms) if sample is current else sample.last_event_ms
            for sample in self._samples
        )
        self._windows_changed()

    def _window_at(self, config: MetricConfig, time_ms: int) -> Sample:
        """Returns the sample for a record at `time_ms`; opens a window if there is none or the current one is full."""
        sample = self._current
        if sample is None:
            return self._open_window(time_ms)
        if time_ms - sample.start_time_ms >= config.time_window_ms or sample.event_count >= config.event_window:
            self._index = (self._index + 1) % (config.samples + 1)
            return self._open_window(time_ms)
        # Another thread read its clock before this window began: the record counts in the window, with its time.
        self._fresh_since_ms = min(self._fresh_since_ms, time_ms)
        return sample

    def _open_window(self, time_ms: int) -> Sample:
        """Opens a window at the ring's index: a new sample until the ring is complete, then the oldest."""
        if self._index >= len(self._samples):
            self._samples.append(Sample(self._initial_value, time_ms))
        else:
            self._samples[self._index].reset(self._initial_value, time_ms)
        self._current = self._samples[self._index]
        self._fresh_since_ms = min(self._fresh_since_ms, time_ms)
        self._windows_changed()
        return self._current

    def _windows_changed(self) -> None:
        """Clears the cached facts about the windows: one was opened or emptied."""
        self._oldest = None

    def _update(self, sample: Sample, value: float) -> None:
        """Adds one record to its sample."""
        raise NotImplementedError

    def _combine(self, samples: Sequence[Sample]) -> float:
        """Combines all samples to the measure; empty ones hold the initial value."""
        raise NotImplementedError


class Avg(SampledStat):
    """Average of the values recorded in the monitored windows, NaN without any (Kafka's `Avg`)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(0.0)

    def _update(self, sample: Sample, value: float) -> None:
        sample.value += value

    def _combine(self, samples: Sequence[Sample]) -> float:
        total = 0.0
        count = 0
        for sample in samples:
            total += sample.value
            count += sample.event_count
        return total / count if count else math.nan


class Max(SampledStat):
    """Largest value recorded in the monitored windows, NaN without any (Kafka's `Max`)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(-math.inf)

    def _update(self, sample: Sample, value: float) -> None:
        if value > sample.value:
            sample.value = value

    def _combine(self, samples: Sequence[Sample]) -> float:
        return max((sample.value for sample in samples if sample.event_count), default=math.nan)


class Min(SampledStat):
    """Smallest value recorded in the monitored windows, NaN without any (Kafka's `Min`)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(math.inf)

    def _update(self, sample: Sample, value: float) -> None:
        if value < sample.value:
            sample.value = value

    def _combine(self, samples: Sequence[Sample]) -> float:
        return min((sample.value for sample in samples if sample.event_count), default=math.nan)
