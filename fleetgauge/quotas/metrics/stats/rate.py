"""Rates: a windowed statistic divided by the time that its windows span."""

from types import NoneType
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.stats.sampled_stat import SampledStat
from fleetgauge.quotas.metrics.stats.stat import TimeUnit
from fleetgauge.quotas.metrics.stats.windowed_sum import WindowedSum


class Rate:
    """Rate over the monitored windows, per `unit` of time (Kafka's `Rate`).

    Args:
        unit: unit of time of the rate.
        stat: divided by the time; by default the sum of the values, `WindowedCount` for a rate of events.
    """

    __slots__ = (
        "_config",
        "_elapsed_ms",
        "_record_and_measure_stat",
        "_span",
        "_sum",
        "_unit_ms",
        "record",
        "stat",
        "unit",
    )

    def __init__(self, unit: TimeUnit = TimeUnit.SECONDS, stat: SampledStat | None = None) -> None:
        check_types(unit=(unit, TimeUnit), stat=(stat, (SampledStat, NoneType)))
        self.unit: Final = unit
        self._unit_ms: float = unit.value
        self.stat: Final = WindowedSum() if stat is None else stat
        # A rate records as its statistic does; the bound method saves a call per request.
        self.record: Final = self.stat.record
        self._record_and_measure_stat: Final = self.stat.record_and_measure
        # A plain sum is recorded in place below; a subclass may count something else.
        self._sum: Final = self.stat if type(self.stat) is WindowedSum else None
        # Cached divisor: the span [unit] under that config, at that time after the start of the oldest sample [ms].
        self._config: MetricConfig | None = None
        self._elapsed_ms = 0
        self._span = 1.0

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """Returns the rate at `now_ms` [ms, monotonic], per `unit`."""
        value = self.stat.measure(config, now_ms)  # discards obsolete samples, for `oldest` too
        return value / (self._span_ms(config, now_ms - self.stat.oldest(now_ms).start_time_ms) / self._unit_ms)

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        stat = self._sum
        if (
            stat is not None
            and (sample := stat._current) is not None
            and (closed_sum := stat._closed_sum) is not None
            and config is stat._settled_config
            and stat._settled_from_ms <= time_ms < stat._settled_until_ms
            and sample.event_count < config.event_window
        ):  # the usual case of `WindowedSum.record_and_measure`, without the call
            sample.value += value
            sample.event_count += 1
            sample.last_event_ms = time_ms
            measured = closed_sum + sample.value
        else:
            measured = self._record_and_measure_stat(config, value, time_ms)
        oldest = self.stat._oldest
        elapsed_ms = time_ms - (self.stat.oldest(time_ms) if oldest is None else oldest).start_time_ms
        # A busy client records many times per millisecond.
        if elapsed_ms != self._elapsed_ms or config is not self._config:
            self._config, self._elapsed_ms = config, elapsed_ms
            self._span = self._span_ms(config, elapsed_ms) / self._unit_ms
        return measured / self._span

    def window_size(self, config: MetricConfig, now_ms: int) -> int:
        """Returns the time that the rate is taken over [ms], at least 1: from the oldest sample's start until `now_ms`.

        Missing windows, at the start or after a pause, count as full windows without records, up to `samples - 1` of
        them: otherwise the first record of a fresh window would give an absurdly high rate. With 2 samples of 1,000 ms
        and three records of 1 at 0, 30 and 60 ms, the rate at 60 ms
        is 3 / (0.060 + 1) = 2.83 a second, not 3 / 0.060 = 50.

        Source: Kafka's `Rate.windowSize`.
        """
        self.stat.purge_obsolete_samples(config, now_ms)
        return self._span_ms(config, now_ms - self.stat.oldest(now_ms).start_time_ms)

    def _span_ms(self, config: MetricConfig, elapsed_ms: int) -> int:
        """Returns the span for that time since the start of the oldest sample."""
        window_ms = config.time_window_ms
        # A clock read before the oldest window began gives a negative time: no full window then, as in Java.
        full_windows = elapsed_ms // window_ms if elapsed_ms > 0 else -(-elapsed_ms // window_ms)
        missing_windows = config.samples - 1 - full_windows
        if missing_windows > 0:
            elapsed_ms += missing_windows * window_ms
        return elapsed_ms if elapsed_ms > 1 else 1


class SimpleRate(Rate):
    """A rate over the elapsed time, at least one window (Kafka's `SimpleRate`).

    With 2 samples of 1,000 ms and records at 0 and 60 ms, the time is 1,000 ms until 1,000, then the elapsed time.
    """

    __slots__ = ()

    def _span_ms(self, config: MetricConfig, elapsed_ms: int) -> int:
        return max(elapsed_ms, config.time_window_ms)
