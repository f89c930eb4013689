"""The fast reader: `wire` finds the columns in the payloads' bytes, and here they become `FlatPoints`."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from librt.strings import BytesWriter
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from fleetgauge.fleet.decode.attributes import DistinctMaps, TextMap, text_map
from fleetgauge.fleet.decode.flat import FlatPoints, Indices, distribution_columns
from fleetgauge.fleet.decode.wire import INT, NO_VALUE, Rows, WireReader
from fleetgauge.telemetry.otlp.schema import METRICS_DATA, row_of

_POINTS: Final[tuple[Any, ...]] = (
    otlp.NumberDataPoint,
    otlp.NumberDataPoint,
    otlp.HistogramDataPoint,
    otlp.ExponentialHistogramDataPoint,
    otlp.SummaryDataPoint,
)
"""The class of a data point of each of `flat.KINDS`."""
_DATA: Final[tuple[Any, ...]] = (otlp.Gauge, otlp.Sum, otlp.Histogram, otlp.ExponentialHistogram, otlp.Summary)
_ROWS: Final = Rows(
    METRICS_DATA,
    row_of(otlp.ResourceMetrics.DESCRIPTOR),
    row_of(otlp.ScopeMetrics.DESCRIPTOR),
    row_of(otlp.Metric.DESCRIPTOR),
    [row_of(kind.DESCRIPTOR) for kind in _DATA],
    [row_of(kind.DESCRIPTOR) for kind in _POINTS],
)
_KEPT_MAPS: Final = 8_192
"""Clients repeat their attributes from push to push; a map takes 3 us to make."""
_MAX_KEPT_BYTES: Final = 512
_NOT_TAKEN: Final = "left to protobuf's parser"


def read(payloads: Sequence[bytes]) -> tuple[FlatPoints, dict[int, str]]:
    """Reads serialised `MetricsData`; leaves what is malformed, and what no client of Kafka sends."""
    reader = WireReader(_ROWS)
    left = dict.fromkeys(reader.read(payloads), _NOT_TAKEN)
    sets = DistinctMaps()
    set_number = _attribute_sets(reader, sets)
    messages = [(index, kind, _POINTS[kind].FromString(data)) for index, kind, data in reader.distributions]
    for index, _, point in messages:
        set_number[index] = sets.number_of(point.attributes)
    start_time, time = _column(reader.start_time, np.uint64), _column(reader.time, np.uint64)
    if messages:
        start_time, time = start_time.copy(), time.copy()
    for index, _, point in messages:
        start_time[index], time[index] = point.start_time_unix_nano, point.time_unix_nano
    metric_of = _column(reader.metric_of)
    value, has_value = _values(reader, metric_of & 3)
    metric = _column(reader.resource_metrics_of)
    return FlatPoints(
        metric_of=metric_of >> 2,
        start_time_unix_nano=start_time,
        time_unix_nano=time,
        value=value,
        has_value=has_value,
        **distribution_columns(len(value), messages),
        set_number=set_number,
        sets=sets.maps,
        resource_of=metric >> 7,
        kind=(metric & 7).astype(np.int8) - 1,
        name_number=_column(reader.name_of),
        unit_number=_column(reader.unit_of),
        texts=[text.decode() for text in reader.texts.known],
        scope_number=_column(reader.scope_of),
        scopes=[(scope.name, scope.version) for scope in map(_scope, reader.scopes.known)],
        temporality=(metric >> 3 & 3).astype(np.int8),
        is_monotonic=(metric >> 5 & 3).astype(np.int8),
        push_of=_column(reader.push_of),
        resource_number=_column(reader.resource_of),
        resources=[_resource(fields) for fields in reader.resources.known],
    ), left


def _column(written: BytesWriter, type_: Any = np.int64) -> Any:
    return np.frombuffer(written.getvalue(), type_)


def _attribute_sets(reader: WireReader, sets: DistinctMaps) -> Indices:
    """For each point the number of its attributes in `sets`: of attributes that differ in bytes alone the same."""
    numbers = [
        sets.number(_kept_attributes(fields) if len(fields) <= _MAX_KEPT_BYTES else _attributes(fields))
        for fields in reader.attributes.known
    ]
    set_number: Indices = np.array(numbers or [0], dtype=np.int64)[_column(reader.set_of)]
    return set_number


def _attributes(fields: bytes) -> TextMap:
    return text_map(otlp.NumberDataPoint.FromString(fields).attributes)


_kept_attributes = lru_cache(_KEPT_MAPS)(_attributes)


def _scope(fields: bytes) -> Any:
    return otlp.ScopeMetrics.FromString(fields).scope


def _resource(fields: bytes) -> TextMap:
    return text_map(otlp.ResourceMetrics.FromString(fields).resource.attributes)


def _values(reader: WireReader, form: Indices) -> tuple[Any, Any]:
    """The values, and whether there is one."""
    value = _column(reader.value, np.float64)
    is_int = np.flatnonzero(form == INT)
    if len(is_int):
        value = value.copy()
        value[is_int] = _column(reader.value)[is_int]
    return value, form != NO_VALUE
