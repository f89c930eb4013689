"""OTLP payloads in the layouts of the three libraries. `Point` is what a client's registry has; layouts differ."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData, NumberDataPoint
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

PREFIX: Final = "org.apache.kafka."
_DELTA: Final = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA


class Point(NamedTuple):
    """A number of a client. `value` is an int where the client sends an int; `is_sum` marks a delta."""

    name: str
    value: float | int
    is_sum: bool = False
    attributes: Mapping[str, str | int] = {}


def java_payload(points: Iterable[Point], resource: Mapping[str, str], start_ns: int, now_ns: int) -> bytes:
    """One ResourceMetrics per point, the resource in each, no scope; gauges without a start."""
    data = MetricsData()
    shared = _resource(resource)
    for point in points:
        of_point = data.resource_metrics.add()
        of_point.resource.CopyFrom(shared)
        _fill(of_point.scope_metrics.add().metrics.add(), point, start_ns if point.is_sum else 0, now_ns)
    return data.SerializeToString()


def librdkafka_payload(
    points: Iterable[Point], resource: Mapping[str, str], scope: str, start_ns: int, now_ns: int
) -> bytes:
    """One ResourceMetrics (no `resource` if it has no attribute), scope `<client id>#producer-1`; gauges have a start."""
    data = MetricsData()
    of_client = data.resource_metrics.add()
    if resource:
        of_client.resource.CopyFrom(_resource(resource))
    scoped = of_client.scope_metrics.add()
    scoped.scope.name = scope
    for point in points:
        _fill(scoped.metrics.add(), point, start_ns, now_ns)
    return data.SerializeToString()


def franz_go_payload(
    points: Iterable[Point], resource: Mapping[str, str], version: str, start_ns: int, now_ns: int
) -> bytes:
    """One ResourceMetrics, scope `kgo`; `start_ns` is 0 in the first push."""
    data = MetricsData()
    of_client = data.resource_metrics.add()
    if resource:
        of_client.resource.CopyFrom(_resource(resource))
    scoped = of_client.scope_metrics.add()
    scoped.scope.name = "kgo"
    scoped.scope.version = version
    for point in points:
        _fill(scoped.metrics.add(), point, start_ns, now_ns)
    return data.SerializeToString()


def _fill(metric: Metric, point: Point, start_ns: int, now_ns: int) -> None:
    metric.name = PREFIX + point.name
    number = NumberDataPoint(start_time_unix_nano=start_ns, time_unix_nano=now_ns)
    if isinstance(point.value, int):
        number.as_int = point.value
    else:
        number.as_double = point.value
    for key, value in point.attributes.items():
        number.attributes.append(_attribute(key, value))
    if point.is_sum:
        metric.sum.aggregation_temporality = _DELTA
        metric.sum.is_monotonic = True
        metric.sum.data_points.append(number)
    else:
        metric.gauge.data_points.append(number)


def _resource(attributes: Mapping[str, str]) -> Resource:
    return Resource(attributes=[_attribute(key, value) for key, value in attributes.items()])


def _attribute(key: str, value: str | int) -> KeyValue:
    number = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
    return KeyValue(key=key, value=number)
