"""Sensors of connection quotas: rates of new connections of the broker, a listener and an address.

Not safe for threads by itself: `quotas.connections.connection_quotas` calls it with its lock held.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fleetgauge.quotas.metrics.metric_config import INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS, UNBOUNDED, MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.metrics.stats.rate import Rate
from fleetgauge.quotas.metrics.stats.sampled_stat import Avg
from fleetgauge.quotas.metrics.throttle_time import bounded_throttle_time

METRICS_GROUP: Final = "socket-server-metrics"
LISTENER_METRIC_TAG: Final = "listener"
IP_METRIC_TAG: Final = "ip"

_SENSOR: Final = "Connection-Accept-Rate"
_METRIC: Final = "connection-accept-rate"


@dataclass(frozen=True, slots=True)
class ConnectionQuotaEntity:
    """Entity with a connection rate (Kafka's `ConnectionQuotaEntity`): the broker, a listener or an address."""

    sensor_name: str
    metric_name: str
    metric_tags: Mapping[str, str] = field(default_factory=dict)
    sensor_expiration_seconds: int = UNBOUNDED

    @classmethod
    def broker(cls) -> "ConnectionQuotaEntity":
        """The whole broker; its sensor never expires."""
        return cls(_SENSOR, f"broker-{_METRIC}")

    @classmethod
    def listener(cls, listener_name: str) -> "ConnectionQuotaEntity":
        """One listener; its sensor is removed with it."""
        return cls(f"{_SENSOR}-{listener_name}", _METRIC, {LISTENER_METRIC_TAG: listener_name})

    @classmethod
    def ip(cls, address: str) -> "ConnectionQuotaEntity":
        """One address; its sensor expires an hour after its last connection."""
        return cls(f"{_SENSOR}-{address}", _METRIC, {IP_METRIC_TAG: address}, INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS)


class ConnectionRates:
    """Creates the sensors, records connections, and computes how long a connection above a rate has to wait.

    Args:
        metrics: where the sensors are registered.
        num_quota_samples: windows over which a rate is taken.
        quota_window_size_seconds: width of one [s]; no connection waits longer for a rate than that.
    """

    def __init__(self, metrics: Metrics, *, num_quota_samples: int, quota_window_size_seconds: int) -> None:
        self._metrics = metrics
        self._num_quota_samples = num_quota_samples
        self._max_throttle_time_ms = quota_window_size_seconds * 1_000

    @property
    def span_ms(self) -> int:
        """Time for which a recorded connection counts [ms]."""
        return self._num_quota_samples * self._max_throttle_time_ms

    def sensor(self, entity: ConnectionQuotaEntity, limit: int) -> Sensor:
        """Returns the entity's sensor, created with this limit [connections/s] if missing."""
        known = self._metrics.get_sensor(entity.sensor_name)
        if known is not None:
            return known
        config = self._config(limit)
        sensor = self._metrics.sensor(entity.sensor_name, config, entity.sensor_expiration_seconds)
        sensor.add(self._metric_name(entity), Rate())
        return sensor

    def update(self, entity: ConnectionQuotaEntity, limit: int) -> None:
        """Changes the limit [connections/s] of the entity's sensor, if it exists; its usage is kept."""
        metric = self._metrics.metric(self._metric_name(entity))
        if metric is not None:
            metric.config = self._config(limit)

    def throttle_sensor(self, prefix: str, listener_name: str) -> Sensor:
        """Returns the sensor of a listener's average throttle time above 0 [ms]; the prefix is `ip-` for addresses."""
        sensor = self._metrics.sensor(f"{prefix}ConnectionRateThrottleTime-{listener_name}")
        description = "Tracking average throttle-time, out of non-zero throttle times, per listener"
        tags = {LISTENER_METRIC_TAG: listener_name}
        name = f"{prefix}connection-accept-throttle-time"
        sensor.add(self._metrics.metric_name(name, METRICS_GROUP, description, tags), Avg())
        return sensor

    def record(self, sensor: Sensor, now_ms: int) -> int:
        """Records one connection; returns how long it has to wait [ms], one window at most."""
        try:
            sensor.record(1.0, now_ms)
        except QuotaViolationError as error:
            return bounded_throttle_time(error, self._max_throttle_time_ms, now_ms)
        return 0

    def unrecord(self, sensor: Sensor, now_ms: int) -> None:
        """Takes one connection back out of the rate."""
        sensor.record(-1.0, now_ms, check_quotas=False)

    def remove(self, *sensors: Sensor) -> None:
        """Removes sensors with their metrics."""
        for sensor in sensors:
            self._metrics.remove_sensor(sensor.name)

    def remove_ip(self, address: str) -> None:
        """Removes an address's sensor, if there is one."""
        self._metrics.remove_sensor(ConnectionQuotaEntity.ip(address).sensor_name)

    def ip_addresses(self) -> tuple[str, ...]:
        """Returns the addresses that have a sensor."""
        return tuple(
            name.tags[IP_METRIC_TAG]
            for name in self._metrics.metrics()
            if name.name == _METRIC and name.group == METRICS_GROUP and IP_METRIC_TAG in name.tags
        )

    def _metric_name(self, entity: ConnectionQuotaEntity) -> MetricName:
        description = "Tracking rate of accepting new connections (per second)"
        return self._metrics.metric_name(entity.metric_name, METRICS_GROUP, description, entity.metric_tags)

    def _config(self, limit: int) -> MetricConfig:
        return MetricConfig(
            samples=self._num_quota_samples,
            time_window_ms=self._max_throttle_time_ms,
            quota=Quota.upper_bound(limit),
        )
