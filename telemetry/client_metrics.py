"""The broker's own metrics of client telemetry: Kafka's names in Kafka's group `client-metrics`.

KIP-714's table ("Metrics") writes them `ClientMetricsThrottleCount` and the like; these are the names that Kafka's
`ClientMetricsManager` registers, and so its JMX beans `kafka.server:type=client-metrics`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from quotas.metrics import MetricName, Metrics
from quotas.sensor import Sensor
from quotas.stats.meter import Meter
from quotas.stats.windowed_sum import WindowedCount
from telemetry.instances.instance import ClientInstance
from telemetry.instances.metrics import InstanceMetrics
from telemetry.subscriptions.match import ClientMatchingParam

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
"""What Kafka keeps for each instance; here in total, and for each instance where that is asked for."""

TOTAL_METRICS: Final = (INSTANCE_COUNT_METRIC, *_meter_help(UNKNOWN_SUBSCRIPTION_REQUEST), *INSTANCE_METRICS)
"""Every metric of the group that has no tag."""


class ClientMetrics:
    """Counts in total, and for up to `instances_max` client instances each; Kafka's eight an instance are 131,000 at
    16,384.

    `plugin-export-*` and `plugin-error-*` count the push log like every other receiver, since it is the built-in one;
    its `plugin-export-time` runs until the push is in the log. A payload that cannot be decompressed is a
    `plugin-error`, as in Kafka, which decompresses for its plugins; one that is no OTLP is none, since Kafka does not
    look. Times are monotonic [ms].

    Attributes:
        instances: instances that have metrics of their own now.
        left_out: instances that got none, since `instances_max` had them.
    """

    __slots__ = (
        "_instances_max",
        "_metrics",
        "_totals",
        "_unknown",
        "instances",
        "left_out",
    )

    def __init__(self, metrics: Metrics, instance_count: Callable[[], int], instances_max: int = 0) -> None:
        """Registers the metrics; `instance_count` is asked whenever the gauge of that name is read."""
        self._metrics = metrics
        self._instances_max = instances_max
        self.instances = 0
        self.left_out = 0
        metrics.add_metric(self._total_name(INSTANCE_COUNT_METRIC), lambda _config, _now_ms: float(instance_count()))
        self._unknown = self._meter(UNKNOWN_SUBSCRIPTION_REQUEST)
        # The totals are kept as those of an instance are: plain numbers instead of four statistics under locks.
        self._totals = InstanceMetrics(now_ms=0)
        for index, metric in enumerate(INSTANCE_METRICS):
            metrics.add_metric(self._total_name(metric), _reader(self._totals, index))

    def record_unknown_subscription(self, now_ms: int) -> None:
        """A push named a subscription id that is not the instance's."""
        self._unknown.record(1.0, now_ms)

    def record_throttle(self, own: InstanceMetrics | None, now_ms: int) -> None:
        """A Get or a push of an instance came before it was due; `own` are the instance's metrics."""
        self._totals.record_throttle(now_ms)
        if own is not None:
            own.record_throttle(now_ms)

    def record_plugin_export(self, own: InstanceMetrics | None, duration_ms: float, now_ms: int) -> None:
        """A receiver took a push of an instance, in `duration_ms` [ms]."""
        self._totals.record_plugin_export(duration_ms, now_ms)
        if own is not None:
            own.record_plugin_export(duration_ms, now_ms)

    def record_logged(self, pushes: int, total_ms: float, longest_ms: float, now_ms: int) -> None:
        """Some pushes are in the push log; together they took `total_ms`, the slowest `longest_ms` [ms]."""
        self._totals.record_plugin_exports(pushes, total_ms, longest_ms, now_ms)

    def record_plugin_error(self, own: InstanceMetrics | None, now_ms: int) -> None:
        """A receiver failed on a push of an instance."""
        self._totals.record_plugin_error(now_ms)
        if own is not None:
            own.record_plugin_error(now_ms)

    def values(self) -> dict[str, float]:
        """The totals of now, by metric name."""
        found = {}
        for name in TOTAL_METRICS:
            metric = self._metrics.metric(self._total_name(name))
            value = metric.metric_value() if metric is not None else None
            if isinstance(value, float):
                found[name.name] = value
        return found

    def admit(self, instance: ClientInstance, now_ms: int) -> None:
        """Gives a new instance metrics of its own, where they are asked for and there is room for them.

        Two senders under one instance id cannot both have them: the tag tells ids apart, and no more.
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
        """Takes away the metrics of an instance that is forgotten."""
        if instance.metrics is None:
            return
        instance.metrics = None
        self.instances -= 1
        for name in self._names_of(instance):
            self._metrics.remove_metric(name)

    def close(self) -> None:
        """Unregisters the totals; those of instances go with them."""
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
