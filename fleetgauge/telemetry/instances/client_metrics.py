"""The broker's own metrics of client telemetry: Kafka's names in Kafka's group `client-metrics`.

KIP-714's table ("Metrics") writes them `ClientMetricsThrottleCount` and the like; these are the names that Kafka's
`ClientMetricsManager` registers, and so its JMX beans `kafka.server:type=client-metrics`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from fleetgauge.quotas import MetricName, Metrics
from fleetgauge.quotas.metrics.sensor import Sensor
from fleetgauge.quotas.metrics.stats.meter import Meter
from fleetgauge.quotas.metrics.stats.windowed_sum import WindowedCount
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.instances.metrics import InstanceMetrics
from fleetgauge.telemetry.subscriptions.match import ClientMatchingParam

GROUP: Final = "client-metrics"

INSTANCE_COUNT: Final = "instance-count"
UNKNOWN_SUBSCRIPTION_REQUEST: Final = "unknown-subscription-request"
THROTTLE: Final = "throttle"
PLUGIN_EXPORT: Final = "plugin-export"
PLUGIN_ERROR: Final = "plugin-error"
PLUGIN_EXPORT_TIME: Final = "plugin-export-time"

INSTANCE_TAG: Final = str(ClientMatchingParam.CLIENT_INSTANCE_ID)
"""The tag of an instance's own metrics."""

_SENSOR_PREFIX: Final = "client-metrics-"


class MetricHelp(NamedTuple):
    """One metric of the group."""

    name: str
    description: str


def _meter_help(name: str) -> tuple[MetricHelp, MetricHelp]:
    return (
        MetricHelp(f"{name}-rate", f"The number of {name} per second"),
        MetricHelp(f"{name}-count", f"The total number of {name}"),
    )


def _time_help(name: str) -> tuple[MetricHelp, MetricHelp]:
    return MetricHelp(f"{name}-avg", f"The average {name} in ms"), MetricHelp(
        f"{name}-max", f"The maximum {name} in ms"
    )


INSTANCE_COUNT_METRIC: Final = MetricHelp(
    INSTANCE_COUNT, "The current number of client metrics instances being managed by the broker"
)
INSTANCE_METRICS: Final = (
    *_meter_help(THROTTLE),
    *_meter_help(PLUGIN_EXPORT),
    *_meter_help(PLUGIN_ERROR),
    *_time_help(PLUGIN_EXPORT_TIME),
)
"""Kafka's metrics of each instance; here as totals, and per instance if configured."""

TOTAL_METRICS: Final = (INSTANCE_COUNT_METRIC, *_meter_help(UNKNOWN_SUBSCRIPTION_REQUEST), *INSTANCE_METRICS)
"""All metrics of the group without tags."""


class ClientMetrics:
    """Totals, and metrics of up to `instances_max` client instances; Kafka's eight per instance would be 131,000 for
    16,384 instances.

    `plugin-export-*` and `plugin-error-*` include the push log, the built-in receiver; its `plugin-export-time`
    runs until the push is in the log. A payload that cannot be decompressed is a
    `plugin-error`, as in Kafka, which decompresses for its plugins; invalid OTLP is not counted, since Kafka does not
    validate it. Times are monotonic [ms].

    Attributes:
        instances: number of instances with metrics of their own.
        left_out: number of instances without, because of `instances_max`.
    """

    def __init__(self, metrics: Metrics, instance_count: Callable[[], int], instances_max: int = 0) -> None:
        """Registers the metrics; `instance_count` is called whenever the gauge of that name is read."""
        self._metrics = metrics
        self._instances_max = instances_max
        self.instances = 0
        self.left_out = 0
        metrics.add_metric(self._total_name(INSTANCE_COUNT_METRIC), lambda _config, _now_ms: float(instance_count()))
        self._unknown = self._meter(UNKNOWN_SUBSCRIPTION_REQUEST)
        # The totals are plain numbers, like those of an instance, instead of four statistics under locks.
        self._totals = InstanceMetrics(now_ms=0)
        for index, metric in enumerate(INSTANCE_METRICS):
            metrics.add_metric(self._total_name(metric), _reader(self._totals, index))

    def record_unknown_subscription(self, now_ms: int) -> None:
        """Counts a push with another subscription id than the instance's."""
        self._unknown.record(1.0, now_ms)

    def record_throttle(self, own: InstanceMetrics | None, now_ms: int) -> None:
        """Counts a Get or a push of an instance before its interval; `own` are the instance's metrics."""
        self._totals.record_throttle(now_ms)
        if own is not None:
            own.record_throttle(now_ms)

    def record_plugin_export(self, own: InstanceMetrics | None, duration_ms: float, now_ms: int) -> None:
        """Counts a push that a receiver exported in `duration_ms` [ms]."""
        self._totals.record_plugin_export(duration_ms, now_ms)
        if own is not None:
            own.record_plugin_export(duration_ms, now_ms)

    def record_logged(self, pushes: int, total_ms: float, longest_ms: float, now_ms: int) -> None:
        """Some pushes are in the push log; together they took `total_ms`, the slowest `longest_ms` [ms]."""
        self._totals.record_plugin_exports(pushes, total_ms, longest_ms, now_ms)

    def record_plugin_error(self, own: InstanceMetrics | None, now_ms: int) -> None:
        """Counts a push on which a receiver failed."""
        self._totals.record_plugin_error(now_ms)
        if own is not None:
            own.record_plugin_error(now_ms)

    def values(self) -> dict[str, float]:
        """Returns the current totals by metric name."""
        values = {}
        for name in TOTAL_METRICS:
            metric = self._metrics.metric(self._total_name(name))
            value = metric.metric_value() if metric is not None else None
            if isinstance(value, float):
                values[name.name] = value
        return values

    def admit(self, instance: ClientInstance, now_ms: int) -> None:
        """Registers metrics of a new instance, if configured and within `instances_max`.

        Of two senders with one instance id only the first has them, since the tag is the instance id.
        """
        if not self._instances_max:
            return
        names = tuple(self._names_of(instance))
        if self.instances >= self._instances_max or self._metrics.metric(names[0]) is not None:
            self.left_out += 1
            return
        own = instance.metrics = InstanceMetrics(now_ms)
        self.instances += 1
        for index, name in enumerate(names):
            self._metrics.add_metric(name, _reader(own, index))

    def dismiss(self, instance: ClientInstance) -> None:
        """Removes the metrics of an instance that was removed."""
        if instance.metrics is None:
            return
        instance.metrics = None
        self.instances -= 1
        for name in self._names_of(instance):
            self._metrics.remove_metric(name)

    def close(self) -> None:
        """Unregisters the totals; metrics of instances are removed with the instances."""
        for metric in (INSTANCE_COUNT_METRIC, *INSTANCE_METRICS):
            self._metrics.remove_metric(self._total_name(metric))
        self._metrics.remove_sensor(self._unknown.name)

    def _names_of(self, instance: ClientInstance) -> Iterator[MetricName]:
        tags: Mapping[str, str] = {INSTANCE_TAG: instance.instance_id_text}
        for metric in INSTANCE_METRICS:
            yield self._metrics.metric_name(metric.name, GROUP, metric.description, tags)

    def _total_name(self, metric: MetricHelp) -> MetricName:
        return self._metrics.metric_name(metric.name, GROUP, metric.description)

    def _meter(self, name: str) -> Sensor:
        sensor = self._metrics.sensor(_SENSOR_PREFIX + name)
        rate, count = map(self._total_name, _meter_help(name))
        sensor.add(Meter(rate, count, rate_stat=WindowedCount()))
        return sensor


def _reader(own: InstanceMetrics, index: int) -> Callable[[object, int], float]:
    return lambda _config, now_ms: own.values(now_ms)[index]
