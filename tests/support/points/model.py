"""The reference for docs/reference/points.md: reads the pushes of one client point by point, made for reading alone.

It uses nothing of the product but `telemetry.otlp.series`, and the text of a value. What the Prometheus page and the
tables make of the same pushes is compared with it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.telemetry.catalogue.dialects import text_of
from fleetgauge.telemetry.otlp.series import CUMULATIVE, DELTA, NO_RECORDED_VALUE, origin_of, unit_of

HORIZON_US: Final = 86_400_000_000
"""A point that comes this long after the one before it, or later, is not compared with it [us]."""

Place = tuple[str, int]
"""A point: the id of its push, and its number among the points of the push."""
Counts = dict[float, float]
"""Counts by the upper bound of the bucket; a number is the only value, under 0."""


class SeriesId(NamedTuple):
    """What identifies a series of a client. `occurrence` tells points of one time apart."""

    name: str
    kind: str
    unit: str
    origin: tuple[tuple[str, str], ...]
    attributes: tuple[tuple[str, str], ...]
    occurrence: int = 0


class Point(NamedTuple):
    """A point of a push: `sent` is OTLP's, `data` that of its metric."""

    place: Place
    received_at: int
    series: SeriesId
    data: Any
    sent: Any
    factor: float


class Change(NamedTuple):
    """What a point tells of its series: None for no measurement, and for no growth."""

    series: SeriesId
    value: float | None = None
    growth: float | None = None
    growth_of_sum: float | None = None
    is_reset: bool = False


@dataclass
class Series:
    """The state of a series.

    Attributes:
        last: its latest measurement.
        value: the amount of that.
        is_shown: no gap came after it.
        running, running_sum: the latest cumulative amount and the deltas since, by bucket.
        grown, grown_sum: all growth, by bucket; since its buckets changed.
    """

    last: Point | None = None
    value: float = 0.0
    is_shown: bool = False
    running: Counts = field(default_factory=dict)
    running_sum: float = 0.0
    grown: Counts = field(default_factory=dict)
    grown_sum: float = 0.0


class Model:
    """Reads the pushes of one client, in the order of their receipt."""

    def __init__(self) -> None:
        self.series: dict[SeriesId, Series] = {}
        self.changes: dict[Place, Change] = {}
        self._pushes: set[str] = set()

    def take(self, push_id: str, received_at: int, data: MetricsData) -> None:
        """Reads a push, unless it was read before."""
        if push_id in self._pushes:
            return
        self._pushes.add(push_id)
        # Points of one time stay in the order of their places.
        for point in sorted(_points(push_id, received_at, data), key=lambda each: each.sent.time_unix_nano):
            self.changes[point.place] = self._change(point)

    def _change(self, point: Point) -> Change:
        counts = _counts(point)
        if counts is None:
            if point.series in self.series:
                self.series[point.series].is_shown = False
            return Change(point.series)
        if _is_malformed(point, counts):
            return Change(point.series)
        series = self.series.setdefault(point.series, Series())
        before, series.last, series.value, series.is_shown = series.last, point, sum(counts.values()), True
        temporality = _temporality(point)
        if temporality not in (DELTA, CUMULATIVE):
            return Change(point.series, series.value)
        sum_sent = getattr(point.sent, "sum", 0.0)
        has_other_buckets = (
            before is not None and point.series.kind == "histogram" and _bounds(before) != _bounds(point)
        )
        is_first = before is None or point.received_at - before.received_at >= HORIZON_US
        is_reset = False
        growth, growth_of_sum = counts, sum_sent
        if temporality == CUMULATIVE and before is not None and not is_first:
            fell = _may_only_rise(point) and _fell(point.series.kind, counts, series.running)
            is_reset = has_other_buckets or fell or _began_later(point, before)
            if not is_reset:
                growth, growth_of_sum = _added(counts, series.running, -1), sum_sent - series.running_sum
        if has_other_buckets:
            series.grown, series.grown_sum, series.running, series.running_sum = {}, 0.0, {}, 0.0
        series.grown, series.grown_sum = _added(series.grown, growth), series.grown_sum + growth_of_sum
        is_delta = temporality == DELTA
        series.running = _added(series.running, counts) if is_delta else counts
        series.running_sum = series.running_sum + sum_sent if is_delta else sum_sent
        return Change(point.series, series.value, sum(growth.values()), growth_of_sum, is_reset)


def _points(push_id: str, received_at: int, data: MetricsData) -> Iterator[Point]:
    """The points of a push, by their places."""
    number, seen = 0, dict[tuple[SeriesId, int], int]()
    for resource in data.resource_metrics:
        described = {each.key: text_of(each.value) for each in resource.resource.attributes}
        for scope in resource.scope_metrics:
            origin = tuple(sorted(origin_of(scope.scope.name, scope.scope.version, described).items()))
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                factor, unit = unit_of(metric.name, metric.unit)
                for sent in getattr(metric, kind).data_points if kind else ():
                    attributes = tuple(sorted((each.key, text_of(each.value) or "") for each in sent.attributes))
                    series = SeriesId(metric.name, kind or "", unit, origin, attributes)
                    same = seen[series, sent.time_unix_nano] = seen.get((series, sent.time_unix_nano), -1) + 1
                    series = series._replace(occurrence=same)
                    yield Point((push_id, number), received_at, series, getattr(metric, kind or ""), sent, factor)
                    number += 1


def _counts(point: Point) -> Counts | None:
    """The amount of a point; None for a gap."""
    kind, sent = point.series.kind, point.sent
    if sent.flags & NO_RECORDED_VALUE:
        return None
    if kind in ("gauge", "sum"):
        member = sent.WhichOneof("value")
        value = getattr(sent, member) if member else math.nan
        return None if math.isnan(value) else {0: value * point.factor}
    if kind == "histogram":
        return dict(zip((*sent.explicit_bounds, math.inf), sent.bucket_counts or [sent.count], strict=False))
    if kind == "summary":
        return {0: sent.count}
    found = {0.0: float(sent.zero_count), -1.0: float(sum(sent.negative.bucket_counts))}
    for index, count in enumerate(sent.positive.bucket_counts, start=sent.positive.offset):
        bound = 2.0 ** math.ceil((index + 1) / 2**sent.scale)  # powers of two are bounds in every scale
        found[bound] = found.get(bound, 0) + count
    return found


def _is_malformed(point: Point, counts: Counts) -> bool:
    kind, sent = point.series.kind, point.sent
    if kind == "histogram":
        bounds = [*sent.explicit_bounds, math.inf]
        return len(sent.bucket_counts or [0]) != len(bounds) or sorted(set(bounds)) != bounds
    amount = sum(counts.values())
    is_count = kind == "sum" and (_may_only_rise(point) or _temporality(point) == DELTA)
    return is_count and (math.isinf(amount) or (_may_only_rise(point) and amount < 0))


def _temporality(point: Point) -> int:
    if point.series.kind == "summary":
        return CUMULATIVE
    return getattr(point.data, "aggregation_temporality", 0)


def _may_only_rise(point: Point) -> bool:
    return point.series.kind != "sum" or bool(point.data.is_monotonic)


def _bounds(point: Point) -> tuple[float, ...]:
    return tuple(point.sent.explicit_bounds)


def _began_later(point: Point, before: Point) -> bool:
    """A start that is not known begins nothing."""
    start = point.sent.start_time_unix_nano
    return bool(start > before.sent.start_time_unix_nano > 0 and start >= before.sent.time_unix_nano)


def _fell(kind: str, counts: Counts, before: Counts) -> bool:
    if kind == "exponential_histogram":  # a lower scale moves counts to larger buckets
        return sum(counts.values()) < sum(before.values())
    return any(counts.get(each, 0) < before[each] for each in before)


def _added(counts: Counts, others: Counts, sign: int = 1) -> Counts:
    return {each: counts.get(each, 0) + sign * others.get(each, 0) for each in counts.keys() | others.keys()}
