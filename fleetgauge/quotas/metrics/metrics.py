"""The registry of sensors and metrics."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from types import NoneType

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED, MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.metrics_reporter import MetricsReporter
from fleetgauge.quotas.metrics.sensor import Sensor
from fleetgauge.quotas.metrics.stats.stat import Gauge, Measurable

_logger = logging.getLogger(__name__)


class Metrics:
    """Kafka's `Metrics`: the sensors and metrics of a process, by name. Safe for threads.

    >>> from fleetgauge.quotas import CumulativeSum
    >>> metrics = Metrics()
    >>> sizes = metrics.sensor("message-sizes")
    >>> sizes.add(metrics.metric_name("message-size-total", "producer-metrics"), CumulativeSum())
    True
    >>> sizes.record(1_400)
    >>> sizes.metrics[0].metric_value()
    1400.0

    Like Kafka's it registers one metric of its own: `count` in the group `kafka-metrics-count`.

    Args:
        config: default for sensors and metrics without their own.
        time: the clocks; only the monotonic one is read.
        reporters: notified of every added and removed metric.

    Attributes:
        config: as given.
        sensor_removals: number of sensors removed so far; callers that cache sensors compare it to invalidate their
            cache.
    """

    def __init__(
        self,
        config: MetricConfig | None = None,
        time: Time | None = None,
        reporters: Sequence[MetricsReporter] = (),
    ) -> None:
        check_types(config=(config, (MetricConfig, NoneType)))
        self.config = MetricConfig() if config is None else config
        self.sensor_removals = 0
        self._time: Time = SystemTime() if time is None else time
        check_types(time=(self._time, "hi_res_clock_ms"))
        self._lock = threading.RLock()
        self._metrics: dict[MetricName, KafkaMetric] = {}
        self._sensors: dict[str, Sensor] = {}
        self._children: dict[Sensor, list[Sensor]] = {}
        self._reporters: list[MetricsReporter] = []
        for reporter in reporters:
            self.add_reporter(reporter)
        count = self.metric_name("count", "kafka-metrics-count", "total number of registered metrics")
        self.add_metric(count, lambda config, now_ms: float(len(self._metrics)))

    def metric_name(
        self, name: str, group: str, description: str = "", tags: Mapping[str, str] | None = None
    ) -> MetricName:
        """Returns a name with the registry's default tags; `tags` take precedence."""
        return MetricName(name, group, description, {**self.config.tags, **(tags or {})})

    def sensor(
        self,
        name: str,
        config: MetricConfig | None = None,
        inactive_sensor_expiration_time_seconds: int = UNBOUNDED,
        parents: Sequence[Sensor] = (),
    ) -> Sensor:
        """Returns the sensor of that name, created if missing. An existing one is returned unchanged: the other
        arguments are ignored then.

        Args:
            name: unique in the registry.
            config: for its metrics without their own, by default the registry's.
            inactive_sensor_expiration_time_seconds: it may be removed after this time without a record [s].
            parents: sensors that record every value of this one too that does not violate its quota.

        Raises:
            ValueError: the parents share an ancestor.
        """
        known = self._sensors.get(name)
        if known is not None:
            return known
        with self._lock:
            known = self._sensors.get(name)
            if known is not None:
                return known
            chosen = self.config if config is None else config
            sensor = Sensor(self, name, parents, chosen, self._time, inactive_sensor_expiration_time_seconds)
            self._sensors[name] = sensor
            for parent in sensor.parents:
                self._children.setdefault(parent, []).append(sensor)
            return sensor

    def get_sensor(self, name: str) -> Sensor | None:
        """Returns the sensor of that name, None if there is none."""
        return self._sensors.get(name)

    def remove_sensor(self, name: str) -> None:
        """Removes the sensor, if it exists, with its metrics and its child sensors."""
        sensor = self._sensors.get(name)
        if sensor is None:
            return
        with sensor.structure_lock, self._lock:
            if self._sensors.get(name) is not sensor:
                return
            del self._sensors[name]
            self.sensor_removals += 1
            for metric in sensor.metrics:
                self.remove_metric(metric.metric_name)
            for parent in sensor.parents:
                siblings = self._children.get(parent, [])
                if sensor in siblings:
                    siblings.remove(sensor)
            children = self._children.pop(sensor, [])
        for child in children:
            self.remove_sensor(child.name)

    def remove_expired_sensors(self, now_ms: int) -> int:
        """Removes every sensor that has expired at `now_ms` [ms, monotonic]; returns their number.

        Call it from a timer; Kafka has a thread for it, every 30 s.
        """
        removed = 0
        for sensor in tuple(self._sensors.values()):
            with sensor.structure_lock:
                if sensor.has_expired(now_ms) and self._sensors.get(sensor.name) is sensor:
                    self.remove_sensor(sensor.name)
                    removed += 1
        return removed

    def add_metric(
        self, metric_name: MetricName, provider: Measurable | Gauge, config: MetricConfig | None = None
    ) -> KafkaMetric:
        """Registers a metric without a sensor: a measurable, or a function of config and monotonic time [ms].

        Raises:
            ValueError: the name is already registered.
        """
        metric = self._make_metric(metric_name, provider, config)
        if self.register_metric(metric) is not None:
            raise ValueError(f"A metric named '{metric_name}' already exists, can't register another one.")
        return metric

    def add_metric_if_absent(
        self, metric_name: MetricName, provider: Measurable | Gauge, config: MetricConfig | None = None
    ) -> KafkaMetric:
        """Returns the metric of that name, registered as by `add_metric` if missing."""
        metric = self._make_metric(metric_name, provider, config)
        return self.register_metric(metric) or metric

    def remove_metric(self, metric_name: MetricName) -> KafkaMetric | None:
        """Unregisters and returns the metric, None if there is none of that name."""
        with self._lock:
            metric = self._metrics.pop(metric_name, None)
            if metric is not None:
                for reporter in self._reporters:
                    _notify(reporter.metric_removal, metric)
            return metric

    def register_metric(self, metric: KafkaMetric) -> KafkaMetric | None:
        """Registers `metric` and returns None; if its name is taken, returns the existing metric instead."""
        check_types(metric=(metric, KafkaMetric))
        with self._lock:
            existing = self._metrics.setdefault(metric.metric_name, metric)
            if existing is not metric:
                return existing
            for reporter in self._reporters:
                _notify(reporter.metric_change, metric)
            return None

    def metrics(self) -> dict[MetricName, KafkaMetric]:
        """Returns a copy of all metrics by name."""
        with self._lock:
            return dict(self._metrics)

    def metric(self, metric_name: MetricName) -> KafkaMetric | None:
        """Returns the metric of that name, None if there is none."""
        return self._metrics.get(metric_name)

    def add_reporter(self, reporter: MetricsReporter) -> None:
        """Adds a reporter and passes it the existing metrics."""
        check_types(reporter=(reporter, "init"))
        with self._lock:
            reporter.init(tuple(self._metrics.values()))
            self._reporters.append(reporter)

    def remove_reporter(self, reporter: MetricsReporter) -> None:
        """Closes and removes a reporter, if it was added."""
        with self._lock:
            if reporter in self._reporters:
                self._reporters.remove(reporter)
                reporter.close()

    def close(self) -> None:
        """Closes every reporter."""
        with self._lock:
            for reporter in tuple(self._reporters):
                self.remove_reporter(reporter)

    def _make_metric(
        self, metric_name: MetricName, provider: Measurable | Gauge, config: MetricConfig | None
    ) -> KafkaMetric:
        chosen = self.config if config is None else config
        return KafkaMetric(threading.RLock(), metric_name, provider, chosen, self._time)


def _notify(notice: Callable[[KafkaMetric], None], metric: KafkaMetric) -> None:
    """Calls a reporter; its exception is logged, and affects neither the metric nor other reporters."""
    try:
        notice(metric)
    except Exception:
        _logger.exception("a metrics reporter failed on %s", metric.metric_name)
