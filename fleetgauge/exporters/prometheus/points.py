"""Reads the data points of one push into one measurement per series, for every client dialect.

It uses protobuf's own classes. Pure: payload bytes in, values out. Points that a push has twice are read once:
librdkafka's connections to unknown brokers, which share a node id, and the doubled topics of Java's consumers.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.exporters.prometheus.names import MAX_DESCRIPTION, Kind, MetricId, cut, label_text, normalised
from fleetgauge.telemetry.catalogue.dialects import text_of, twin_families
from fleetgauge.telemetry.otlp.messages import (
    MetricMessage,
    Texts,
    buckets_of,
    has_no_value,
    metrics_of,
    number_of,
    total_of,
)
from fleetgauge.telemetry.otlp.series import CUMULATIVE, DELTA, unit_of

GRID: Final = tuple(2.0**exponent for exponent in range(-20, 44))
"""Bounds of the classic histogram that replaces an exponential one. They are powers of two, because the buckets of
every scale lie within such bounds: pushes of different scales add up without loss."""

_NO_VALUE: Final = "no_value"
_MAX_LABEL_TEXT: Final = 8_192
"""All attributes of a data point together as labels [characters]; points with more are left out."""
_MAX_RESOURCE: Final = 32
"""Maximum number of resource attributes that are read; known clients have at most five."""
_MAX_RESOURCE_KEY: Final = 256
_CACHED_SETS: Final = 65_536
_CACHED_LABEL_TEXT: Final = 512
"""Longer ones are not cached, so that they cannot fill the memory [characters]."""

Values = tuple[float, ...]


class Mode(IntEnum):
    """Effect of a measurement on the value of its series."""

    AS_IS = 0
    """Replaces the value."""
    DELTA = 1
    """Is added to the value."""
    CUMULATIVE = 2
    """Is the count since its start; counts before a reset are added."""


@dataclass(slots=True)
class Measurement:
    """A push's measurement of one series.

    Attributes:
        mode: how it is applied.
        start_unix_nano: start of the count; 0 if the push has none.
        values: one number; or of a histogram count, sum (NaN if unknown) and the count of each bucket; or of a summary
            count, sum and the value of each quantile.
        bounds: upper bounds of a histogram's buckets but the last, which has none; a summary's quantiles.
        time_unix_nano: the time of its point.
        earlier: what the push has of earlier times of the series, the earliest first.
    """

    mode: Mode
    start_unix_nano: int
    values: Values
    bounds: Values = ()
    time_unix_nano: int = 0
    earlier: "tuple[Measurement, ...]" = ()


class AttributeSet(NamedTuple):
    """Attributes of a data point: as labels, and unchanged if they have a topic that may be doubled."""

    labels: str
    with_topic: dict[str, str | None] | None


@dataclass(slots=True)
class PushPoints:
    """The content of one push.

    Attributes:
        measurements: by metric and labels.
        without_value: the latest time of points without a value, by metric and labels.
        descriptions: descriptions of the metrics that have one.
        resource: attributes of its resources; the first value of each key.
        time_unix_nano: the latest time of a point; 0 if there is none.
        delta_start_unix_nano: the earliest start of its deltas; None without deltas.
        left_out: points that are in no measurement, by cause.
        folded: points that were joined with another one of the same push, by cause.
    """

    measurements: dict[MetricId, dict[str, Measurement]] = field(default_factory=dict)
    without_value: dict[MetricId, dict[str, int]] = field(default_factory=dict)
    descriptions: dict[MetricId, str] = field(default_factory=dict)
    resource: dict[str, str] = field(default_factory=dict)
    time_unix_nano: int = 0
    delta_start_unix_nano: int | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    folded: Counter[str] = field(default_factory=Counter)


class MetricData(NamedTuple):
    """A metric of a push.

    Attributes:
        id: its identity on the page.
        mode: how its points are applied.
        factor: what the values of numbers are multiplied by; see `unit_of`.
        origin: further attributes of each of its points; see `origin_of`.
        description: the client's text.
        data_kind: OTLP's member that has its data.
        points: its points, protobuf's.
    """

    id: MetricId
    mode: Mode
    factor: float
    origin: Texts
    description: str
    data_kind: str
    points: Sequence[Any]


Topics = dict[MetricId, dict[str, dict[str, str | None]]]
"""The attributes of points with a topic that may be doubled, by metric and labels."""

Repeated = dict[tuple[MetricId, str], dict[int, Measurement]]
"""Measurements by time, of each metric and labels that a push has several points of."""


class PushReader:
    """Reads pushes; caches attribute sets, because they are repeated with every push.

    Args:
        max_points: limit per push; further points are left out, so that no push can take minutes.
        max_value_bytes: longer attribute values are cut [B of UTF-8].
        reserved: label names of the broker; attributes of data points with these names are removed.
    """

    def __init__(self, *, max_points: int, max_value_bytes: int, reserved: Collection[str] = ()) -> None:
        self.max_points = max_points
        self._max_value_bytes = max_value_bytes
        self._reserved = frozenset(reserved)
        self._sets: dict[Texts, AttributeSet] = {}

    def read(self, payload: bytes) -> PushPoints:
        """The points of a payload.

        Raises:
            google.protobuf.message.DecodeError: it is not a well-formed `MetricsData`.
        """
        points = PushPoints()
        topics: Topics = {}
        repeated: Repeated = {}
        room = self.max_points
        for metric in self.metrics_of(payload, points.resource):
            if metric.description:
                points.descriptions.setdefault(metric.id, metric.description[:MAX_DESCRIPTION])
            room = self._read_metric(metric, points, topics, repeated, room)
        _put_in_order(points, repeated)
        for metric_id, sets in topics.items():
            _drop_twins(points, metric_id, sets)
        return points

    def metrics_of(self, payload: bytes, resource: dict[str, str]) -> Iterator[MetricData]:
        """The metrics of a payload that have data; adds the attributes of its resources to `resource`.

        Raises:
            google.protobuf.message.DecodeError: it is not a well-formed `MetricsData`.
        """
        message = MetricsData.FromString(payload)
        for each in message.resource_metrics:
            if each.HasField("resource") and any(scope.metrics for scope in each.scope_metrics):
                self._read_resource(each.resource.attributes, resource)
        return map(_metric_data, metrics_of(message))

    def _read_resource(self, attributes: Sequence[Any], known: dict[str, str]) -> None:
        """Adds resource attributes that are not in `known` yet."""
        for attribute in attributes[:_MAX_RESOURCE]:
            key = attribute.key
            if key in known or len(known) >= _MAX_RESOURCE or len(key) > _MAX_RESOURCE_KEY:
                continue
            if text := text_of(attribute.value):
                known[key] = cut(text, self._max_value_bytes)

    def _read_metric(self, metric: MetricData, push: PushPoints, topics: Topics, repeated: Repeated, room: int) -> int:
        """Adds a metric's points to `found`; returns how many more points the push may have."""
        mode = metric.mode
        by_labels = push.measurements.setdefault(metric.id, {})
        is_number = metric.data_kind in ("gauge", "sum")
        for point in metric.points[:room]:
            measurement = _number(metric, point) if is_number else _distribution(metric.data_kind, mode, point)
            if isinstance(measurement, str):
                push.left_out[measurement] += 1
                if measurement == _NO_VALUE and (attributes := self.attributes(metric, point)) is not None:
                    times = push.without_value.setdefault(metric.id, {})
                    times[attributes.labels] = max(times.get(attributes.labels, 0), point.time_unix_nano)
                continue
            attributes = self.attributes(metric, point)
            if attributes is None:
                push.left_out["labels_too_long"] += 1
                continue
            if attributes.with_topic is not None:
                topics.setdefault(metric.id, {})[attributes.labels] = attributes.with_topic
            _note_times(push, measurement, point)
            before = by_labels.setdefault(attributes.labels, measurement)
            if before is not measurement:
                by_time = repeated.setdefault((metric.id, attributes.labels), {before.time_unix_nano: before})
                same = by_time.get(point.time_unix_nano)
                if same is not None:
                    push.folded["double_identity"] += 1
                    measurement = _of_one_time(same, measurement, metric.id.kind)
                by_time[point.time_unix_nano] = measurement
        points = len(metric.points)
        if points > room:
            push.left_out["push_too_large"] += points - room
        return max(0, room - points)

    def attributes(self, metric: MetricData, point: Any) -> AttributeSet | None:
        """The attributes of a point, and its origin, as labels; None if they are too long."""
        key = (*metric.origin, *[(each.key, text_of(each.value)) for each in point.attributes])
        known = self._sets.get(key)
        if known is None:
            texts = {name: value and cut(value, self._max_value_bytes) for name, value in key}
            topic = texts.get("topic") or ""
            labels = ((name, value) for name, value in normalised(texts).items() if name not in self._reserved)
            known = AttributeSet(label_text(labels), texts if "." in topic or "_" in topic else None)
            if len(known.labels) > _MAX_LABEL_TEXT:
                return None
            if len(known.labels) <= _CACHED_LABEL_TEXT:
                if len(self._sets) >= _CACHED_SETS:
                    self._sets.clear()
                self._sets[key] = known
        return known


def _metric_data(message: MetricMessage) -> MetricData:
    metric, data_kind, data, origin = message
    kind, mode = _kind_and_mode(data_kind, data)
    factor, unit = 1.0, metric.unit
    if unit and kind in ("counter", "gauge"):
        factor, unit = unit_of(metric.name, unit)
    metric_id = MetricId(metric.name, kind, unit)
    return MetricData(metric_id, mode, factor, origin, metric.description, data_kind, data.data_points)


def _kind_and_mode(data_kind: str, data: Any) -> tuple[Kind, Mode]:
    """The kind of a metric on the page, and how its points are applied.

    A sum that may fall is a gauge, and so is one of unknown temporality.
    """
    if data_kind == "gauge":
        return "gauge", Mode.AS_IS
    if data_kind == "summary":
        return "summary", Mode.AS_IS
    temporality = data.aggregation_temporality
    if data_kind == "sum":
        if temporality == DELTA:
            return ("counter" if data.is_monotonic else "gauge"), Mode.DELTA
        if temporality == CUMULATIVE and data.is_monotonic:
            return "counter", Mode.CUMULATIVE
        return "gauge", Mode.AS_IS
    return "histogram", Mode.CUMULATIVE if temporality == CUMULATIVE else Mode.DELTA


def _number(metric: MetricData, point: Any) -> Measurement | str:
    """The measurement of a gauge or sum point, or why it has none: `no_value`, `malformed`."""
    mode, sent = metric.mode, number_of(point)
    value = math.nan if sent is None else metric.factor * sent
    if math.isnan(value):
        return _NO_VALUE
    if mode != Mode.AS_IS and (math.isinf(value) or (metric.id.kind == "counter" and value < 0)):
        return "malformed"  # it would make the sum of the series useless
    return Measurement(mode, point.start_time_unix_nano, (value,))


def _distribution(data_kind: str, mode: Mode, point: Any) -> Measurement | str:
    """Measurement of a histogram or a summary, like `_number`."""
    if has_no_value(point):
        return _NO_VALUE
    if data_kind == "summary":
        return _summary(point)
    values = _explicit(point) if data_kind == "histogram" else _exponential(point)
    return "malformed" if values is None else Measurement(mode, point.start_time_unix_nano, *values)


def _summary(point: Any) -> Measurement:
    quantiles = {each.quantile: each.value for each in point.quantile_values if 0 <= each.quantile <= 1}
    bounds = tuple(sorted(quantiles))
    values = (float(point.count), point.sum, *(quantiles[bound] for bound in bounds))
    return Measurement(Mode.AS_IS, point.start_time_unix_nano, values, bounds)


def _explicit(point: Any) -> tuple[Values, Values] | None:
    """Values and bounds of a histogram point; None if they do not match."""
    buckets = buckets_of(point)
    if buckets is None:
        return None
    counts = tuple(map(float, buckets[0]))
    return (sum(counts), total_of(point), *counts), buckets[1]


def _exponential(point: Any) -> tuple[Values, Values]:
    """Buckets of an exponential histogram on `GRID`, like `_explicit`; values up to 0 are in the lowest bucket."""
    counts = [0.0] * (len(GRID) + 1)
    counts[_bucket(point.zero_threshold)] += point.zero_count
    counts[0] += sum(point.negative.bucket_counts)
    for index, count in enumerate(point.positive.bucket_counts, start=point.positive.offset):
        if count:
            # The bucket ends at 2^((index + 1) / 2^scale), rounded up to the next power of two.
            exponent = -((-(index + 1)) >> point.scale) if point.scale >= 0 else (index + 1) << min(-point.scale, 16)
            counts[min(max(exponent + 20, 0), len(GRID))] += count
    return (sum(counts), total_of(point), *counts), GRID


def _bucket(value: float) -> int:
    return next((place for place, bound in enumerate(GRID) if value <= bound), len(GRID))


def _note_times(push: PushPoints, measurement: Measurement, point: Any) -> None:
    measurement.time_unix_nano = point.time_unix_nano
    push.time_unix_nano = max(push.time_unix_nano, point.time_unix_nano)
    start = measurement.start_unix_nano
    if start and measurement.mode == Mode.DELTA:
        earliest = push.delta_start_unix_nano
        push.delta_start_unix_nano = start if earliest is None else min(earliest, start)


def _put_in_order(push: PushPoints, repeated: Repeated) -> None:
    """Makes one measurement of those of one identity and several times, which are of one series."""
    for (metric_id, labels), by_time in repeated.items():
        *earlier, last = (by_time[time] for time in sorted(by_time))
        last.earlier = tuple(earlier)
        push.measurements[metric_id][labels] = last


def _of_one_time(before: Measurement, new: Measurement, kind: Kind) -> Measurement:
    """Joins points of one identity and time, which are of several series, as librdkafka's links to unknown brokers are.

    Deltas and counts add up, and the largest gauge is shown.
    """
    if before.bounds != new.bounds or kind == "summary":
        return max(before, new, key=lambda each: each.values[0])
    if before.mode == Mode.AS_IS:
        return replace(before, values=(max(before.values[0], new.values[0]),))
    return replace(before, values=tuple(map(sum, zip(before.values, new.values, strict=True))))


def _drop_twins(push: PushPoints, metric_id: MetricId, sets: dict[str, dict[str, str | None]]) -> None:
    """Removes points that were also counted under a dotted topic; see `twin_families`."""
    labels = list(sets)
    _, twins = twin_families(sets.values())
    for index in twins:
        if push.measurements[metric_id].pop(labels[index], None) is not None:
            push.folded["doubled_topic"] += 1
