"""Rates: what a windowed statistic adds up to, divided by the time that its windows span."""

from typing import Final

from quotas.metric_config import MetricConfig
from quotas.stats.sampled_stat import SampledStat
from quotas.stats.stat import TimeUnit
from quotas.stats.windowed_sum import WindowedSum


class Rate:
    """What was recorded in the monitored windows, per `unit` of time (Kafka's `Rate`).

    Args:
        unit: the unit of time that the rate is per.
        stat: what is divided by the time; by default the sum of the values, `WindowedCount` for a rate of events.
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
        self.unit: Final = unit
        self._unit_ms: float = unit.value
        self.stat: Final = WindowedSum() if stat is None else stat
        # A rate records as its statistic does; the method itself saves a call for every request.
        self.record: Final = self.stat.record
        self._record_and_measure_stat: Final = self.stat.record_and_measure
        # A plain sum is recorded in place below; a subclass may count something else.
        self._sum: Final = self.stat if type(self.stat) is WindowedSum else None
        # What was last divided by: the span [unit] under that config, so long after the oldest sample began [ms].
        self._config: MetricConfig | None = None
        self._elapsed_ms = 0
        self._span = 1.0

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """The rate at `now_ms` [ms, monotonic], per `unit`."""
        value = self.stat.measure(config, now_ms)  # discards what is obsolete, for `oldest` too
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
        # Whoever is busy records many times in a millisecond.
        if elapsed_ms != self._elapsed_ms or config is not self._config:
            self._config, self._elapsed_ms = config, elapsed_ms
            self._span = self._span_ms(config, elapsed_ms) / self._unit_ms
        return measured / self._span

    def window_size(self, config: MetricConfig, now_ms: int) -> int:
        """The time that the rate is taken over [ms], at least 1: from the oldest sample's start until `now_ms`.

        Windows that are missing, because recording only began or began anew after a pause, count as full windows
        in which nothing happened, `samples - 1` of them at most: else the first record of a fresh window would make
        an absurdly high rate. With 2 samples of 1,000 ms and three records of 1 at 0, 30 and 60 ms, the rate at 60 ms
        is 3 / (0.060 + 1) = 2.83 a second, not 3 / 0.060 = 50.

        Source: chapter 19, "the sampled Rate and the quota check".
        """
        self.stat.purge_obsolete_samples(config, now_ms)
        return self._span_ms(config, now_ms - self.stat.oldest(now_ms).start_time_ms)

    def _span_ms(self, config: MetricConfig, elapsed_ms: int) -> int:
        """The span, so long after the oldest sample began."""
        window_ms = config.time_window_ms
        # A clock read before the oldest window began gives a negative time: no full window then, as in Java.
        full_windows = elapsed_ms // window_ms if elapsed_ms > 0 else -(-elapsed_ms // window_ms)
        missing_windows = config.samples - 1 - full_windows
        if missing_windows > 0:
            elapsed_ms += missing_windows * window_ms
        return elapsed_ms if elapsed_ms > 1 else 1


class SimpleRate(Rate):
    """A rate over the time that really went by, one window at the least (Kafka's `SimpleRate`).

    With 2 samples of 1,000 ms and records at 0 and 60 ms, the time is 1,000 ms until 1,000, then what has gone by.
    """

    __slots__ = ()

    def _span_ms(self, config: MetricConfig, elapsed_ms: int) -> int:
        return max(elapsed_ms, config.time_window_ms)
