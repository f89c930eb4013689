"""OTLP payloads in the layouts of the three libraries. `Point` is what a client's registry has; layouts differ."""

import struct
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
    owner = tuple(resource.items())
    fields = {b"start": start_ns.to_bytes(8, "little"), b"now": now_ns.to_bytes(8, "little")}
    encoded = []
    for point in points:
        key = (owner, point.name, point.is_sum, *point.attributes.values())
        fields[b"value"] = _DOUBLE(point.value)
        encoded.append(_template(key, point, resource) % fields)
    return b"".join(encoded)


def librdkafka_payload(
    points: Iterable[Point], resource: Mapping[str, str], scope: str, start_ns: int, now_ns: int
) -> bytes:
    """One ResourceMetrics (no `resource` without attributes), scope `<client id>#producer-1`; gauges have a start."""
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


_templates: dict[tuple[object, ...], bytes] = {}
_DOUBLE: Final = struct.Struct("<d").pack
_MARKS: Final = {b"start": b"Q" * 8, b"now": b"R" * 8, b"value": b"S" * 8}


def _template(key: tuple[object, ...], point: Point, resource: Mapping[str, str]) -> bytes:
    """A point's ResourceMetrics with names in place of its fixed-size fields; the rest is the same in each push."""
    if key not in _templates:
        start, now = (int.from_bytes(_MARKS[name], "little") for name in (b"start", b"now"))
        data = MetricsData()
        of_point = data.resource_metrics.add()
        of_point.resource.CopyFrom(_resource(resource))
        marked = point._replace(value=float(struct.unpack("<d", _MARKS[b"value"])[0]))
        _fill(of_point.scope_metrics.add().metrics.add(), marked, start if point.is_sum else 0, now)
        template = data.SerializeToString().replace(b"%", b"%%")
        for name, mark in _MARKS.items():
            template = template.replace(mark, b"%(" + name + b")b")
        _templates[key] = template
    return _templates[key]


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
