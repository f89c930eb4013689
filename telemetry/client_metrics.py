"""The broker's own metrics of client telemetry: Kafka's names in Kafka's group `client-metrics`."""

from collections.abc import Callable
from typing import Final

from quotas.metrics import Metrics
from quotas.sensor import Sensor
from quotas.stats.avg import Avg
from quotas.stats.max import Max
from quotas.stats.meter import Meter
from quotas.stats.windowed_count import WindowedCount

GROUP: Final = "client-metrics"

INSTANCE_COUNT: Final = "instance-count"
UNKNOWN_SUBSCRIPTION_REQUEST: Final = "unknown-subscription-request"
THROTTLE: Final = "throttle"
PLUGIN_EXPORT: Final = "plugin-export"
PLUGIN_ERROR: Final = "plugin-error"
PLUGIN_EXPORT_TIME: Final = "plugin-export-time"

_SENSOR_PREFIX: Final = "client-metrics-"


class ClientMetrics:
    """Counts in total, not for each client instance: Kafka's eight metrics an instance are 131,000 at 16,384.

    `plugin-export-*` and `plugin-error-*` count the push log like every other receiver, since it is the built-in one;
    its `plugin-export-time` runs until the push is in the log.
    """

    __slots__ = ("_metrics", "_plugin_error", "_plugin_export", "_plugin_export_time", "_throttle", "_unknown")

    def __init__(self, metrics: Metrics, instance_count: Callable[[], int]) -> None:
        """Registers the metrics; `instance_count` is asked whenever the gauge of that name is read."""
        self._metrics = metrics
        name = metrics.metric_name(
            INSTANCE_COUNT, GROUP, "The current number of client metrics instances being managed by the broker"
        )
        metrics.add_metric(name, lambda _config, _now_ms: float(instance_count()))
        self._unknown = self._meter(UNKNOWN_SUBSCRIPTION_REQUEST)
        self._throttle = self._meter(THROTTLE)
        self._plugin_export = self._meter(PLUGIN_EXPORT)
        self._plugin_error = self._meter(PLUGIN_ERROR)
        self._plugin_export_time = self._duration(PLUGIN_EXPORT_TIME)

    def record_unknown_subscription(self, now_ms: int) -> None:
        """A push named a subscription id that is not the instance's. Time: monotonic [ms], as everywhere here."""
        self._unknown.record(1.0, now_ms)

    def record_throttle(self, now_ms: int) -> None:
        """A Get or a push came before it was due."""
        self._throttle.record(1.0, now_ms)

    def record_plugin_export(self, duration_ms: float, now_ms: int) -> None:
        """A receiver took a push, in `duration_ms` [ms]."""
        self._plugin_export.record(1.0, now_ms)
        self._plugin_export_time.record(duration_ms, now_ms)

    def record_plugin_error(self, now_ms: int) -> None:
        """A receiver failed."""
        self._plugin_error.record(1.0, now_ms)

    def close(self) -> None:
        """Unregisters every metric."""
        self._metrics.remove_metric(self._metrics.metric_name(INSTANCE_COUNT, GROUP))
        for sensor in (
            self._unknown,
            self._throttle,
            self._plugin_export,
            self._plugin_error,
            self._plugin_export_time,
        ):
            self._metrics.remove_sensor(sensor.name)

    def _meter(self, name: str) -> Sensor:
        sensor = self._metrics.sensor(_SENSOR_PREFIX + name)
        rate = self._metrics.metric_name(f"{name}-rate", GROUP, f"The number of {name} per second")
        count = self._metrics.metric_name(f"{name}-count", GROUP, f"The total number of {name}")
        sensor.add(Meter(rate, count, rate_stat=WindowedCount()))
        return sensor

    def _duration(self, name: str) -> Sensor:
        sensor = self._metrics.sensor(_SENSOR_PREFIX + name)
        average = self._metrics.metric_name(f"{name}-avg", GROUP, f"The average {name} in ms")
        maximum = self._metrics.metric_name(f"{name}-max", GROUP, f"The maximum {name} in ms")
        sensor.add(average, Avg())
        sensor.add(maximum, Max())
        return sensor
