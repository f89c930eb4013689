"""OTLP in the dialects of the three libraries, as stamps: built once for a shape, filled by numpy for many pushes.

Source: recorded pushes of kafka-clients 3.7.2, 4.3.1 and 4.4.0, librdkafka 2.16.0 and franz-go 1.22.2.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from fleetgauge.telemetry.catalogue.standard_metrics import KAFKA_PREFIX
from fleetgauge.testkit.simulate.world import Numbers

Labels = tuple[tuple[str, str | int], ...]

_MARK: Final = 0x5EED_F1EE_7000_0000
_DELTA: Final = 1
_MICRO_TO_NANO: Final = 1000

_DESCRIPTIONS: Final = {
    "connection.creation.rate": "The rate of connections established per second.",
    "connection.creation.total": "The total number of connections established.",
    "coordinator.assigned.partitions": "The number of partitions currently assigned to this consumer.",
    "coordinator.commit.latency.avg": "The average commit latency in ms for the consumer coordinator.",
    "coordinator.commit.latency.max": "The maximum commit latency in ms for the consumer coordinator.",
    "coordinator.rebalance.latency.avg": "The average rebalance latency in ms for the consumer coordinator.",
    "coordinator.rebalance.latency.max": "The maximum rebalance latency in ms for the consumer coordinator.",
    "coordinator.rebalance.latency.total": "The total rebalance latency in ms for the consumer coordinator.",
    "fetch.manager.fetch.latency.avg": "The average fetch latency in ms for the fetch manager.",
    "fetch.manager.fetch.latency.max": "The maximum fetch latency in ms for the fetch manager.",
    "node.request.latency.avg": "The average request latency in ms for a node.",
    "node.request.latency.max": "The maximum request latency in ms for a node.",
    "poll.idle.ratio.avg": "The average ratio of idle to poll for a consumer.",
    "produce.throttle.time.avg": "The average throttle time in ms for a node.",
    "produce.throttle.time.max": "The maximum throttle time in ms for a node.",
    "record.queue.time.avg": "The average time in ms a record spends in the producer queue.",
    "record.queue.time.max": "The maximum time in ms a record spends in the producer queue.",
    "request.latency.avg": "The average request latency in ms for produce requests.",
    "request.latency.max": "The maximum request latency in ms for produce requests.",
}
"""Descriptions of librdkafka's metrics, by name without the role."""


class Point(NamedTuple):
    """A data point of a shape.

    Attributes:
        name: of its metric, without Kafka's prefix.
        labels: its attributes.
        key: the measurement that it has, and `column` of which node or partition; None for a measurement of the client.
    """

    name: str
    labels: Labels
    number: Literal["double", "int"]
    key: str
    column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A payload without its numbers.

    Attributes:
        points: in the order of the payload.
        payload: its bytes.
        value_at, time_at, start_at: where the fields lie [B]; of starts, only for the points `starts`.
        ints: which points are integers.
    """

    points: tuple[Point, ...]
    payload: Numbers
    value_at: Numbers
    time_at: Numbers
    start_at: Numbers
    ints: Numbers

    def fill(self, values: Numbers, time_us: Numbers, start_us: Numbers) -> Numbers:
        """Payloads, one a row.

        Args:
            values: [push, point].
            time_us: of each push, by the client's clock [us since the epoch].
            start_us: where its deltas start.
        """
        rows = np.tile(self.payload, (len(values), 1))
        if not self.points:
            return rows
        numbers = np.ascontiguousarray(values, "<f8").view("<u8")
        numbers[:, self.ints] = np.rint(np.nan_to_num(values[:, self.ints])).astype("<i8").view("<u8")
        _put(rows, self.value_at, numbers)
        for at, moment_us in ((self.time_at, time_us), (self.start_at, start_us)):
            nanos = (moment_us * _MICRO_TO_NANO).astype("<u8")
            _put(rows, at, np.broadcast_to(nanos[:, None], (len(rows), len(at))))
        return rows


def java(points: Sequence[Point], resource: Labels) -> Shape:
    """One ResourceMetrics a point, the resource always there; only sums have a start."""
    data, metrics = MetricsData(), []
    for point in points:
        each = data.resource_metrics.add()
        each.resource.SetInParent()
        _label(each.resource.attributes, resource)
        metrics.append(each.scope_metrics.add().metrics.add(name=KAFKA_PREFIX + point.name))
    return _shape(data, points, metrics, _sums(points))


def librdkafka(points: Sequence[Point], resource: Labels, scope: str, version: str) -> Shape:
    """One ResourceMetrics, without a resource if it has no label; descriptions; every point has a start."""
    data = MetricsData()
    each = data.resource_metrics.add()
    if resource:
        _label(each.resource.attributes, resource)
    metrics_of_scope = each.scope_metrics.add()
    metrics_of_scope.scope.name, metrics_of_scope.scope.version = scope, version
    metrics = [
        metrics_of_scope.metrics.add(
            name=KAFKA_PREFIX + point.name, description=_DESCRIPTIONS[point.name.partition(".")[2]]
        )
        for point in points
    ]
    return _shape(data, points, metrics, np.full(len(points), True))


def franz_go(points: Sequence[Point], resource: Labels, version: str, *, has_start: bool) -> Shape:
    """One ResourceMetrics of scope `kgo`; no start in the first push, and in all points of later ones."""
    data = MetricsData()
    each = data.resource_metrics.add()
    if resource:
        _label(each.resource.attributes, resource)
    metrics_of_scope = each.scope_metrics.add()
    metrics_of_scope.scope.name, metrics_of_scope.scope.version = "kgo", version
    metrics = [metrics_of_scope.metrics.add(name=KAFKA_PREFIX + point.name) for point in points]
    return _shape(data, points, metrics, np.full(len(points), has_start))


def is_sum(name: str) -> bool:
    """True for a metric that every library sends as a sum."""
    return name.endswith(".total")


def _sums(points: Sequence[Point]) -> Numbers:
    return np.array([is_sum(point.name) for point in points], bool)


def _label(attributes: "Sequence[KeyValue]", labels: Labels) -> None:
    for key, value in labels:
        pair = attributes.add(key=key)  # type: ignore[attr-defined]
        if isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.string_value = value


def _shape(data: MetricsData, points: Sequence[Point], metrics: Sequence[Metric], with_start: Numbers) -> Shape:
    """Gives each field a value that is nowhere else, and finds its place by it."""
    marks: dict[str, list[bytes]] = {"start": [], "time": [], "value": []}
    number = 0
    for point, metric, has_start in zip(points, metrics, with_start.tolist(), strict=True):
        if is_sum(point.name):
            metric.sum.aggregation_temporality, metric.sum.is_monotonic = _DELTA, True  # type: ignore[assignment]
        data_point = (metric.sum if is_sum(point.name) else metric.gauge).data_points.add()
        _label(data_point.attributes, point.labels)
        for kind in ("start", "time", "value") if has_start else ("time", "value"):
            mark = struct.pack("<Q", _MARK + number)
            number += 1
            marks[kind].append(mark)
            if kind == "start":
                data_point.start_time_unix_nano = struct.unpack("<Q", mark)[0]
            elif kind == "time":
                data_point.time_unix_nano = struct.unpack("<Q", mark)[0]
            elif point.number == "int":
                data_point.as_int = struct.unpack("<q", mark)[0]
            else:
                data_point.as_double = struct.unpack("<d", mark)[0]
    payload = data.SerializeToString()
    at = {kind: np.array(_places(payload, each), np.int64) for kind, each in marks.items()}
    return Shape(
        points=tuple(points),
        payload=np.frombuffer(payload, np.uint8),
        value_at=at["value"],
        time_at=at["time"],
        start_at=at["start"],
        ints=np.array([point.number == "int" for point in points], bool),
    )


def _places(payload: bytes, marks: Sequence[bytes]) -> list[int]:
    places, at = [], 0
    for mark in marks:
        at = payload.index(mark, at)
        places.append(at)
    return places


def _put(rows: Numbers, at: Numbers, numbers: Numbers) -> None:
    """Writes 8 bytes a number at the same places of each row."""
    places = (at[:, None] + np.arange(8)).ravel()
    rows[:, places] = np.ascontiguousarray(numbers).view(np.uint8).reshape(len(rows), -1)
