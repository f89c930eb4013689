"""The slow reader: protobuf's own classes and Python loops. For what `ptars` refuses, and where it is missing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from fleet.decode.arrow import pa
from fleet.decode.descriptor import KINDS, NUMBER_KINDS, metrics_data_class
from fleet.decode.distribution import DISTRIBUTIONS_TYPE, of_message
from fleet.decode.flat import FlatPoints, Payloads, bytes_of
from fleet.errors import PayloadError

_NO_RECORDED_VALUE = 1
_ATTRIBUTES = pa.list_(pa.binary())


def parse(payload: bytes) -> Any:
    """The parsed payload.

    Raises:
        PayloadError: it is no well-formed `MetricsData`.
    """
    try:
        return metrics_data_class().FromString(payload)
    except DecodeError as error:
        raise PayloadError(f"malformed OTLP MetricsData: {_detail(error)}") from error


def _detail(error: DecodeError) -> str:
    """What was wrong, without the name of the class, which is ours."""
    return str(error).rsplit("': ", 1)[-1]


@dataclass(slots=True)
class _Columns:
    """Lists that become the columns of `FlatPoints`; a row is appended to all lists of its block at once."""

    points: list[tuple[Any, ...]] = field(default_factory=list)
    metrics: list[tuple[Any, ...]] = field(default_factory=list)
    resources: list[tuple[int, bytes]] = field(default_factory=list)


def read(payloads: Payloads) -> FlatPoints:
    """Reads a batch of serialised `MetricsData`, to the same columns as `by_ptars.read`.

    Raises:
        PayloadError: one of the payloads is malformed.
    """
    columns = _Columns()
    for push, payload in enumerate(bytes_of(payloads)):
        for resource_metrics in parse(payload).resource_metrics:
            columns.resources.append((push, b"".join(resource_metrics.resource)))
            _read_scopes(columns, resource_metrics)
    return _flat_points(columns)


def _read_scopes(columns: _Columns, resource_metrics: Any) -> None:
    resource = len(columns.resources) - 1
    for scope_metrics in resource_metrics.scope_metrics:
        scope_name = scope_metrics.scope.name if scope_metrics.HasField("scope") else None
        for metric in scope_metrics.metrics:
            kind = metric.WhichOneof("data")
            data = getattr(metric, kind) if kind else None
            temporality = getattr(data, "aggregation_temporality", None)
            monotonic = getattr(data, "is_monotonic", None)
            columns.metrics.append((resource, metric.name, metric.unit, scope_name, temporality, monotonic))
            if kind:
                columns.points.extend(_points(len(columns.metrics) - 1, kind, data))


def _points(metric: int, kind: str, data: Any) -> Iterator[tuple[Any, ...]]:
    number = KINDS.index(kind)
    for point in data.data_points:
        if kind in NUMBER_KINDS:
            numbers: tuple[Any, ...] = (_value(point), None, None, None)
        else:
            total = point.sum if kind == "summary" or point.HasField("sum") else None
            numbers = (None, point.count, total, of_message(kind, point))
        times = (point.start_time_unix_nano, point.time_unix_nano)
        yield (metric, number, *times, *numbers, list(point.attributes))


def _value(point: Any) -> float | None:
    member = point.WhichOneof("value")
    if member is None or point.flags & _NO_RECORDED_VALUE:
        return None
    return float(getattr(point, member))


def _flat_points(columns: _Columns) -> FlatPoints:
    metric_of, kind, start, time, value, count, total, distribution, attributes = _transpose(columns.points, 9)
    resource_of, name, unit, scope_name, temporality, monotonic = _transpose(columns.metrics, 6)
    push_of, resource = _transpose(columns.resources, 2)
    return FlatPoints(
        metric_of=np.array(metric_of, dtype=np.int64),
        kind=np.array(kind, dtype=np.int8),
        start_time_unix_nano=pa.array(start, pa.uint64()),
        time_unix_nano=pa.array(time, pa.uint64()),
        value=pa.array(value, pa.float64()),
        count=pa.array(count, pa.uint64()),
        sum=pa.array(total, pa.float64()),
        distribution=pa.array(distribution, DISTRIBUTIONS_TYPE),
        attributes=pa.array(attributes, _ATTRIBUTES),
        resource_of=np.array(resource_of, dtype=np.int64),
        name=pa.array(name, pa.string()),
        unit=pa.array(unit, pa.string()),
        scope_name=pa.array(scope_name, pa.string()),
        temporality=pa.array(temporality, pa.int32()),
        is_monotonic=pa.array(monotonic, pa.bool_()),
        push_of=np.array(push_of, dtype=np.int64),
        resource=pa.array(resource, pa.binary()),
    )


def _transpose(rows: list[Any], width: int) -> list[tuple[Any, ...]]:
    return list(zip(*rows, strict=True)) if rows else [()] * width
