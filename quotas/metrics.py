"""The registry of sensors and metrics."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from types import NoneType

from base.arguments import check_types
from base.clock import SystemTime, Time
from quotas.kafka_metric import KafkaMetric
from quotas.metric_config import UNBOUNDED, MetricConfig
from quotas.metric_name import MetricName
from quotas.metrics_reporter import MetricsReporter
from quotas.sensor import Sensor
from quotas.stats.stat import Gauge, Measurable

__all__ = ["KafkaMetric", "MetricName", "Metrics", "MetricsReporter"]

_logger = logging.getLogger(__name__)


class Metrics:
    """Kafka's `Metrics`: every sensor and metric of a process, by name. Safe for threads.

    >>> from quotas.stats import CumulativeSum
    >>> metrics = Metrics()
    >>> sizes = metrics.sensor("message-sizes")
    >>> sizes.add(metrics.metric_name("message-size-total", "producer-metrics"), CumulativeSum())
    True
    >>> sizes.record(1_400)
    >>> sizes.metrics[0].metric_value()
    1400.0

    Like Kafka's it has one metric of its own: `count` in the group `kafka-metrics-count`.

    Args:
        config: for everything that brings no config of its own.
        time: the clocks; only its monotonic one is read.
        reporters: told of every metric that comes and goes.

    Attributes:
        config: as given.
        sensor_removals: how many sensors were removed so far: whoever keeps sensors at hand looks them up anew when
            it has moved.
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
        """A name with the registry's default tags, over which `tags` win."""
        return MetricName(name, group, description, {**self.config.tags, **(tags or {})})

    def sensor(
        self,
        name: str,
        config: MetricConfig | None = None,
        inactive_sensor_expiration_time_seconds: int = UNBOUNDED,
        parents: Sequence[Sensor] = (),
    ) -> Sensor:
        """The sensor of that name, made if there is none; one that exists stays as it is, whatever is asked.

        Args:
            name: unique in the registry.
            config: for its metrics that bring none, by default the registry's.
            inactive_sensor_expiration_time_seconds: it may be removed when nothing was recorded for longer [s].
            parents: sensors that take every value recorded here too.

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
            made = Sensor(self, name, parents, chosen, self._time, inactive_sensor_expiration_time_seconds)
            self._sensors[name] = made
            for parent in made.parents:
                self._children.setdefault(parent, []).append(made)
            return made

    def get_sensor(self, name: str) -> Sensor | None:
        """The sensor of that name, if there is one."""
        return self._sensors.get(name)

    def remove_sensor(self, name: str) -> None:
        """Removes the sensor, if there is one, its metrics, and the sensors whose parent it is."""
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
        """Removes every sensor that has expired at `now_ms` [ms, monotonic]; how many those were.

        A call of the process's own timer; Kafka makes it from a thread every 30 s.
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
        """Registers a metric that no sensor feeds: a measurable, or a function of config and monotonic time [ms].

        Raises:
            ValueError: the name is registered already.
        """
        metric = self._make_metric(metric_name, provider, config)
        if self.register_metric(metric) is not None:
            raise ValueError(f"A metric named '{metric_name}' already exists, can't register another one.")
        return metric

    def add_metric_if_absent(
        self, metric_name: MetricName, provider: Measurable | Gauge, config: MetricConfig | None = None
    ) -> KafkaMetric:
        """The metric of that name, registered as `add_metric` does if there is none."""
        metric = self._make_metric(metric_name, provider, config)
        return self.register_metric(metric) or metric

    def remove_metric(self, metric_name: MetricName) -> KafkaMetric | None:
        """Unregisters and returns the metric, None if there is none of that name."""
        with self._lock:
            metric = self._metrics.pop(metric_name, None)
            if metric is not None:
                for reporter in self._reporters:
                    _tell(reporter.metric_removal, metric)
            return metric

    def register_metric(self, metric: KafkaMetric) -> KafkaMetric | None:
        """Registers `metric`; the one that already has its name, if there is one, and nothing is registered."""
        check_types(metric=(metric, KafkaMetric))
        with self._lock:
            existing = self._metrics.setdefault(metric.metric_name, metric)
            if existing is not metric:
                return existing
            for reporter in self._reporters:
                _tell(reporter.metric_change, metric)
            return None

    def metrics(self) -> dict[MetricName, KafkaMetric]:
        """Every metric by name, as of now: the mapping is the caller's own."""
        with self._lock:
            return dict(self._metrics)

    def metric(self, metric_name: MetricName) -> KafkaMetric | None:
        """The metric of that name, if there is one."""
        return self._metrics.get(metric_name)

    def add_reporter(self, reporter: MetricsReporter) -> None:
        """Adds a reporter and gives it the metrics that are there."""
        check_types(reporter=(reporter, "init"))
        with self._lock:
            reporter.init(tuple(self._metrics.values()))
            self._reporters.append(reporter)

    def remove_reporter(self, reporter: MetricsReporter) -> None:
        """Closes and forgets a reporter, if it is one of the registry's."""
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


def _tell(notice: Callable[[KafkaMetric], None], metric: KafkaMetric) -> None:
    """A reporter that fails costs a line in the log, neither the metric nor the other reporters."""
    try:
        notice(metric)
    except Exception:
        _logger.exception("a metrics reporter failed on %s", metric.metric_name)
