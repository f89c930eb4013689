"""The token bucket: a quota that lets bursts through and forgets them as they are paid back."""

import math
from typing import Final

from quotas.metric_config import UNBOUNDED, MetricConfig
from quotas.stats.stat import TimeUnit


class TokenBucket:
    """Tokens that refill at the quota's bound and that every record spends (KIP-599; Kafka's `TokenBucket`).

    The bucket holds `burst = samples * time_window * bound` tokens at most, starts full, and is exhausted when it is
    below zero; `Sensor` checks that, not the bound. With Q = 5 a second and 100 samples of 1 s, a burst of 560 leaves
    500 - 560 = -60 tokens, and waiting 60 / 5 = 12 s brings it back to zero. A `Rate` of the same would stay over its
    quota until the sample is dropped after 100 s.

    Kafka starts with no tokens at time 0 and lets the first call refill the bucket from 1970; a monotonic clock may
    have only begun, so this bucket starts full by itself.

    Args:
        unit: the unit of time that the quota's bound is per.
    """

    __slots__ = ("_burst", "_config", "_last_update_ms", "_tokens", "unit", "unit_ms")

    def __init__(self, unit: TimeUnit = TimeUnit.SECONDS) -> None:
        self.unit: Final = unit
        self.unit_ms: Final[float] = unit.value  # reading an enum member's value takes longer than a refill
        self._tokens = math.inf  # whatever the first quota's burst is
        self._last_update_ms = 0
        self._config: MetricConfig | None = None  # the one that `_burst` was worked out from
        self._burst = math.inf

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """Tokens left at `now_ms` [ms, monotonic]; `UNBOUNDED` without a quota."""
        quota = config.quota
        if quota is None:
            return float(UNBOUNDED)
        if now_ms != self._last_update_ms or config is not self._config:
            self._refill(config, quota.bound, now_ms)
        return self._tokens

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Spends `value` tokens at `time_ms` [ms, monotonic]; a negative value gives them back, up to the burst."""
        self.record_and_measure(config, value, time_ms)

    def record_and_measure(self, config: MetricConfig, value: float, time_ms: int) -> float:
        """`record`, then `measure`, in one call."""
        quota = config.quota
        if quota is None:
            return float(UNBOUNDED)
        # Whoever is busy records many times in a millisecond, in which nothing comes in.
        if time_ms != self._last_update_ms or config is not self._config:
            self._refill(config, quota.bound, time_ms)
        tokens = self._tokens - value
        if value < 0 and tokens > self._burst:
            tokens = self._burst
        self._tokens = tokens
        return tokens

    def burst(self, config: MetricConfig) -> float:
        """The most tokens that the bucket can hold; `UNBOUNDED` without a quota."""
        quota = config.quota
        if quota is None:
            return float(UNBOUNDED)
        return config.samples * config.time_window_ms / self.unit_ms * quota.bound

    def _refill(self, config: MetricConfig, refill_rate: float, now_ms: int) -> None:
        """Adds what came in since the last call, up to the burst under `config`."""
        if config is not self._config:
            self._config, self._burst = config, self.burst(config)
        burst = self._burst
        tokens = self._tokens + refill_rate * ((now_ms - self._last_update_ms) / self.unit_ms)
        self._tokens = tokens if tokens < burst else burst
        self._last_update_ms = now_ms
