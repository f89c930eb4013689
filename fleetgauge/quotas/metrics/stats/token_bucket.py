"""The token bucket: a quota that admits bursts and limits the average."""

import math
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED, MetricConfig
from fleetgauge.quotas.metrics.stats.stat import TimeUnit


class TokenBucket:
    """Tokens, refilled at the quota's bound and spent by every record (KIP-599; Kafka's `TokenBucket`).

    The bucket holds `burst = samples * time_window * bound` tokens at most, starts full, and is exhausted below zero;
    `Sensor` checks that, not the bound. With Q = 5 a second and 100 samples of 1 s, a burst of 560 leaves 500 - 560 =
    -60 tokens, and waiting 60 / 5 = 12 s brings it back to zero. A `Rate` would stay over its quota until the sample is
    dropped after 100 s.

    Kafka starts with no tokens at time 0, so that the first call refills the bucket from 1970; a monotonic clock may be
    near 0, so this bucket starts full.

    Args:
        unit: unit of time of the quota's bound.
    """

    __slots__ = ("_burst", "_config", "_last_update_ms", "_tokens", "unit", "unit_ms")

    def __init__(self, unit: TimeUnit = TimeUnit.SECONDS) -> None:
        check_types(unit=(unit, TimeUnit))
        self.unit: Final = unit
        self.unit_ms: Final[float] = unit.value  # cached: reading an enum's value takes longer than a refill
        self._tokens = math.inf  # capped by the burst of the first quota
        self._last_update_ms = 0
        self._config: MetricConfig | None = None  # of `_burst`
        self._burst = math.inf

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """Returns the tokens left at `now_ms` [ms, monotonic]; `UNBOUNDED` without a quota."""
        quota = config.quota
        if quota is None:
            return float(UNBOUNDED)
        if now_ms != self._last_update_ms or config is not self._config:
            self._refill(config, quota.bound, now_ms)
        return self._tokens

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Spends `value` tokens at `time_ms` [ms, monotonic]; a negative value returns them, up to the burst."""
        self.record_and_measure(config, value, time_ms)

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        quota = config.quota
        if quota is None:
            return float(UNBOUNDED)
        # A busy client records many times per millisecond, without a refill in between.
        if time_ms != self._last_update_ms or config is not self._config:
            self._refill(config, quota.bound, time_ms)
        tokens = self._tokens - value
        if value < 0 and tokens > self._burst:
            tokens = self._burst
        self._tokens = tokens
        return tokens

    def burst(self, config: MetricConfig) -> float:
        """Returns the capacity of the bucket; `UNBOUNDED` without a quota."""
        quota = config.quota
        if quota is None:
            return float(UNBOUNDED)
        return config.samples * config.time_window_ms / self.unit_ms * quota.bound

    def _refill(self, config: MetricConfig, refill_rate: float, now_ms: int) -> None:
        """Adds the refill since the last call, up to the burst under `config`."""
        if config is not self._config:
            self._config, self._burst = config, self.burst(config)
        burst = self._burst
        tokens = self._tokens + refill_rate * ((now_ms - self._last_update_ms) / self.unit_ms)
        self._tokens = tokens if tokens < burst else burst
        self._last_update_ms = now_ms
