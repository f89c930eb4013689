"""A registered metric: its name, measurable and config."""

import threading
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.quotas.metrics.metric_config import MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.stats.stat import Gauge, Measurable


class KafkaMetric:
    """Kafka's `KafkaMetric`. Created by `Sensor.add` and `Metrics.add_metric`, never directly.

    Attributes:
        lock: held by every read; a sensor's metrics share it with its records, so that a reader never sees half a
            record, and a config change never falls between a record and its quota check.
        metric_name: the name under which it is registered.
        provider: a `Measurable` or a gauge function.
        measure: the measurable's method, for callers that hold `lock`; None for a gauge function.
    """

    __slots__ = ("_config", "_time", "lock", "measure", "metric_name", "provider")

    def __init__(
        self,
        lock: "threading.RLock",
        metric_name: MetricName,
        provider: Measurable | Gauge,
        config: MetricConfig,
        time: Time,
    ) -> None:
        self.lock: Final = lock
        self.metric_name: Final = metric_name
        self.provider: Final = provider
        self._config = config
        # Decided once: the isinstance check takes longer than measuring.
        self.measure: Final = provider.measure if isinstance(provider, Measurable) else None
        self._time = time

    @property
    def config(self) -> MetricConfig:
        """The config in force. Setting another one keeps the recorded values."""
        return self._config

    @config.setter
    def config(self, config: MetricConfig) -> None:
        check_types(config=(config, MetricConfig))
        with self.lock:
            self._config = config

    def metric_value(self, now_ms: int | None = None) -> object:
        """Returns the value at `now_ms` [ms, monotonic], by default now: a float, or the result of a gauge."""
        at_ms = self._time.hi_res_clock_ms() if now_ms is None else now_ms
        provider = self.provider
        with self.lock:
            if isinstance(provider, Measurable):
                return provider.measure(self._config, at_ms)
            return provider(self._config, at_ms)

    def measurable_value(self, now_ms: int | None = None) -> float:
        """Returns the value at `now_ms` [ms, monotonic], by default now, as a number.

        Raises:
            TypeError: the metric is a gauge function.
        """
        if self.measure is None:
            raise TypeError(f"{self.metric_name} is a gauge, not a measurable")
        at_ms = self._time.hi_res_clock_ms() if now_ms is None else now_ms
        with self.lock:
            return self.measure(self._config, at_ms)

    def __repr__(self) -> str:
        return f"KafkaMetric({self.metric_name})"
