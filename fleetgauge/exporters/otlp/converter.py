"""Converts a push to one temporality, by protobuf's own classes. Pure: no I/O, no clock.

The state of a client is given, and only the copy that is returned with the converted push has its changes. So a push
that is converted again from the same state gives the same bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.presence import DEFAULT_PUSH_INTERVAL_MS
from fleetgauge.exporters.otlp.amounts import Amount, Explicit, Exponential, MalformedPointError, Number
from fleetgauge.exporters.otlp.series import Series, Step, after_cumulative, after_delta
from fleetgauge.telemetry.catalogue.dialects import text_of
from fleetgauge.telemetry.otlp.series import CUMULATIVE, DELTA, NO_RECORDED_VALUE, SERVICE_KEYS, origin_of
from fleetgauge.telemetry.push_record import PushRecord

MAX_SERIES_PER_CLIENT: Final = 10_000
"""Several times what any known client sends; further series are left out."""
TEMPORALITIES: Final = {"cumulative": CUMULATIVE, "delta": DELTA}
_LAST_NANO: Final = (1 << 64) - 1
_AMOUNTS: Final[dict[str, type[Number | Explicit | Exponential]]] = {
    "sum": Number,
    "histogram": Explicit,
    "exponential_histogram": Exponential,
}

SeriesKey = tuple[Any, ...]
"""Name, unit and type of the metric, attributes, origin (see `origin_of`), and the place among points of one time."""


@dataclass(frozen=True, slots=True)
class ClientState:
    """A client's series, and what its pushes were so far.

    Attributes:
        series: by identity.
        received_at: when its latest push was received [us since the epoch].
        time_unix_nano: the latest time of its points.
        interval_ms, before_ms: push intervals of its latest push and of the one before [ms]; 0 before there is one.
    """

    series: dict[SeriesKey, Series] = field(default_factory=dict)
    received_at: int = 0
    time_unix_nano: int = 0
    interval_ms: int = 0
    before_ms: int = 0


class Converted(NamedTuple):
    """A converted push: its metrics, its client's state after it, and the points that it lost, by cause."""

    metrics: bytes
    state: ClientState
    left_out: Counter[str]


@dataclass(frozen=True, slots=True, eq=False)
class _Metric:
    """A metric whose points have a temporality: protobuf's data, that temporality, and the points to remove."""

    data: Any
    is_delta: bool
    removed: list[int] = field(default_factory=list)


class _Point(NamedTuple):
    """Point number `place` of a metric: protobuf's object, its series and its content; None if that is malformed."""

    metric: _Metric
    place: int
    point: Any
    key: SeriesKey
    amount: Amount | None


class Converter:
    """Converts pushes to `temporality`, one of `TEMPORALITIES`."""

    def __init__(self, temporality: str) -> None:
        self._to = TEMPORALITIES[temporality]

    def convert(self, record: PushRecord, before: ClientState) -> Converted:
        """Converts a push that was not converted before.

        Raises:
            google.protobuf.message.DecodeError: its payload is not a well-formed `MetricsData`.
        """
        message = MetricsData.FromString(record.metrics)
        points = list(self._points(message))
        time = max((each.point.time_unix_nano for each in points), default=0)
        is_late = record.received_at < before.received_at and time < before.time_unix_nano
        push = _Push(self._to, dict(before.series), _first_start(record), is_late=is_late)
        for each in sorted(points, key=_time_of):
            push.take(each)
        state = replace(before, series=push.series)
        if not is_late:
            interval_ms = record.push_interval_ms or DEFAULT_PUSH_INTERVAL_MS
            state = ClientState(
                push.series, record.received_at, time or before.time_unix_nano, interval_ms, before.interval_ms
            )
        if not points:
            return Converted(record.metrics, state, push.left_out)
        self._finish(message, list({id(each.metric): each.metric for each in points}.values()))
        return Converted(message.SerializeToString(), state, push.left_out)

    def _points(self, message: Any) -> Iterator[_Point]:
        """The points to convert, or that change a series' count."""
        twins: Counter[SeriesKey] = Counter()
        for resource_metrics in message.resource_metrics:
            attributes = resource_metrics.resource.attributes
            resource = {each.key: text_of(each.value) for each in attributes if each.key in SERVICE_KEYS}
            for scope_metrics in resource_metrics.scope_metrics:
                scope = scope_metrics.scope
                origin = tuple(origin_of(scope.name, scope.version, resource).items())
                for metric in scope_metrics.metrics:
                    yield from self._points_of(metric, origin, twins)

    def _points_of(
        self, metric: Any, origin: tuple[tuple[str, str], ...], twins: Counter[SeriesKey]
    ) -> Iterator[_Point]:
        kind = metric.WhichOneof("data")
        amounts = _AMOUNTS.get(kind)
        if amounts is None:
            return
        data = getattr(metric, kind)
        is_monotonic = kind != "sum" or data.is_monotonic
        if data.aggregation_temporality not in (DELTA, CUMULATIVE) or not (is_monotonic or self._to == CUMULATIVE):
            return
        found = _Metric(data, data.aggregation_temporality == DELTA)
        for place, point in enumerate(data.data_points):
            if point.flags & NO_RECORDED_VALUE or (kind == "sum" and _is_nothing(point)):
                continue
            attributes = tuple(sorted((each.key, text_of(each.value) or "") for each in point.attributes))
            series = (metric.name, metric.unit, kind, attributes, origin)
            try:
                amount: Amount | None = amounts.of(point, is_monotonic=is_monotonic)
            except MalformedPointError:
                amount = None
            same = (*series, point.time_unix_nano)
            yield _Point(found, place, point, (*series, twins[same]), amount)
            twins[same] += 1

    def _finish(self, message: Any, metrics: Iterable[_Metric]) -> None:
        """Gives the metrics their temporality, and removes points, and what is empty without them."""
        for metric in metrics:
            metric.data.aggregation_temporality = self._to
            for index in sorted(metric.removed, reverse=True):
                del metric.data.data_points[index]
        if any(metric.removed for metric in metrics):
            for resource_metrics in message.resource_metrics:
                for scope_metrics in resource_metrics.scope_metrics:
                    _drop(scope_metrics.metrics, _has_no_points)
                _drop(resource_metrics.scope_metrics, _has_no_metrics)
            _drop(message.resource_metrics, _has_no_scopes)


class _Push:
    """The points of one push, taken one after the other."""

    def __init__(self, to: int, series: dict[SeriesKey, Series], first_start: int, *, is_late: bool) -> None:
        self.series = series
        self.left_out: Counter[str] = Counter()
        self._to = to
        self._first_start = first_start
        self._is_late = is_late

    def take(self, each: _Point) -> None:
        """Counts a point, and gives it its new content."""
        cause = self._convert(each)
        if cause is not None:
            each.metric.removed.append(each.place)
            if cause:
                self.left_out[cause] += 1

    def _convert(self, each: _Point) -> str | None:
        """Why a point is not sent; None if it is. Empty for a late delta, whose value is part of the next point."""
        if each.amount is None:
            return "malformed"
        before = self.series.get(each.key)
        if before is None and len(self.series) >= MAX_SERIES_PER_CLIENT:
            return "too_many_series"
        is_delta = each.metric.is_delta
        step = self._step(each, each.amount, before)
        if step is None:
            return None if is_delta and self._to == DELTA else "late"
        self.series[each.key] = step.series
        if self._to == DELTA:
            return None if is_delta else _write_growth(each.point, step)
        if is_delta and self._is_late and before is not None:
            return ""
        each.point.start_time_unix_nano = step.series.start_unix_nano
        if is_delta:
            step.series.amount.put(each.point)
        return None

    def _step(self, each: _Point, amount: Amount, before: Series | None) -> Step | None:
        start, time, first = each.point.start_time_unix_nano, each.point.time_unix_nano, self._first_start
        if each.metric.is_delta:
            return after_delta(before, amount, start, time, first_start=first, is_late=self._is_late)
        if self._is_late:
            return None
        may_fall = isinstance(amount, Number) and not each.metric.data.is_monotonic
        return after_cumulative(before, amount, start, time, first_start=first, may_fall=may_fall)


def _write_growth(point: Any, step: Step) -> str | None:
    if step.growth is None:
        return "no_start"
    point.start_time_unix_nano = step.since_unix_nano
    step.growth.put(point)
    return None


def _drop(repeated: Any, is_empty: Callable[[Any], bool]) -> None:
    for index in reversed(range(len(repeated))):
        if is_empty(repeated[index]):
            del repeated[index]


def _has_no_points(metric: Any) -> bool:
    kind = metric.WhichOneof("data")
    return kind is not None and not getattr(metric, kind).data_points


def _has_no_metrics(scope_metrics: Any) -> bool:
    return not scope_metrics.metrics


def _has_no_scopes(resource_metrics: Any) -> bool:
    return not resource_metrics.scope_metrics


def _is_nothing(point: Any) -> bool:
    value = point.WhichOneof("value")
    return value is None or (value == "as_double" and point.as_double != point.as_double)


def _first_start(record: PushRecord) -> int:
    """Start of a series without one: the receipt less the push interval [ns since the epoch]."""
    interval_ms = record.push_interval_ms or DEFAULT_PUSH_INTERVAL_MS
    return min(max(0, record.received_at - interval_ms * 1_000) * 1_000, _LAST_NANO)


def _time_of(each: _Point) -> int:
    time: int = each.point.time_unix_nano
    return time
