"""Converts a push to one temporality: by protobuf's own classes, or by the pattern of an earlier push.

Pure: no I/O, no clock. The state of a client is given, and only the one that is returned with the converted push has
its changes. So a push that is converted again from the same state gives the same bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.presence import DEFAULT_PUSH_INTERVAL_MS
from fleetgauge.exporters.otlp.amounts import Amount, Explicit, Exponential, MalformedPointError, Number
from fleetgauge.exporters.otlp.patterns import Flat, Pattern, Patterns, unflattened
from fleetgauge.exporters.otlp.series import Series, Step, after_cumulative, after_delta
from fleetgauge.exporters.point_fields import NoPatternError, Numbers
from fleetgauge.telemetry.catalogue.dialects import text_of
from fleetgauge.telemetry.otlp.messages import MetricMessage, has_no_value, metrics_of, number_of
from fleetgauge.telemetry.otlp.series import CUMULATIVE, DELTA
from fleetgauge.telemetry.push_record import PushRecord

MAX_SERIES_PER_CLIENT: Final = 10_000
"""Several times what any known client sends; further series are left out."""
TEMPORALITIES: Final = {"cumulative": CUMULATIVE, "delta": DELTA}
_LONGEST_INTERVAL_MS: Final = 3_600_000
"""KIP-714's greatest `interval.ms`."""
_END_OF_TIME_US: Final = 1 << 54
"""Some nanoseconds later have no room in a point."""
_AMOUNTS: Final[dict[str, type[Number | Explicit | Exponential]]] = {
    "sum": Number,
    "histogram": Explicit,
    "exponential_histogram": Exponential,
}

SeriesKey = tuple[Any, ...]
"""Name, unit and type of the metric, attributes, origin (see `origin_of`), and the place among points of one time."""


class Bound(NamedTuple):
    """A client's series that its pushes of one pattern change, by their identities in the order of the points."""

    pattern: Pattern
    keys: tuple[SeriesKey, ...]


class ClientState(NamedTuple):
    """A client's series, and what its pushes were so far.

    Attributes:
        base: its series by identity, as after its latest push that was parsed.
        received_at: when its latest push was received [us since the epoch].
        interval_ms, before_ms: push intervals of its latest push and of the one before [ms]; 0 before there is one.
        time_unix_nano: the latest time of its points.
        bound: the pattern of its latest push; None if that has none.
        flat: the series of that pattern, which those of `base` are older than; None without a pattern.
        unlike: number of consecutive pushes that were parsed.
    """

    base: Mapping[SeriesKey, Series] = MappingProxyType({})
    received_at: int = 0
    interval_ms: int = 0
    time_unix_nano: int = 0
    before_ms: int = 0
    bound: Bound | None = None
    flat: Flat | None = None
    unlike: int = 0

    @property
    def series(self) -> dict[SeriesKey, Series]:
        """All its series by identity."""
        if self.bound is None or self.flat is None:
            return dict(self.base)
        keys = self.bound.keys
        now = unflattened([self.base[key] for key in keys], self.flat)
        return {**self.base, **dict(zip(keys, now, strict=True))}


class Converted(NamedTuple):
    """A converted push: its metrics, its client's state after it, and the points that it lost, by cause."""

    metrics: bytes
    state: ClientState
    left_out: Mapping[str, int]


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
        self._patterns = Patterns(self._to)

    def convert(self, record: PushRecord, before: ClientState) -> Converted:
        """Converts a push that was not converted before.

        Raises:
            google.protobuf.message.DecodeError: its payload is not a well-formed `MetricsData`.
        """
        if before.bound is not None and (numbers := before.bound.pattern.numbers(record.metrics)) is not None:
            converted = self._convert_alike(record, before, numbers)
            if converted is not None:
                return converted
        return self._convert(record, before)

    def _convert_alike(self, record: PushRecord, before: ClientState, numbers: Numbers) -> Converted | None:
        """Converts a push of its client's pattern; None if it is unusual."""
        if record.received_at < before.received_at or before.bound is None:
            return None
        metrics, flat, time = record.metrics, before.flat, before.time_unix_nano
        if flat is not None:
            flat = before.bound.pattern.add(numbers, flat)
            if flat is None:
                return None
            time = max(flat.times)
            if self._to == CUMULATIVE:
                metrics = before.bound.pattern.pack(numbers, flat)
        state = ClientState(before.base, *_received(record), time, before.interval_ms, before.bound, flat)
        return Converted(metrics, state, {})

    def _convert(self, record: PushRecord, before: ClientState) -> Converted:
        """Converts a push by protobuf's classes."""
        message = MetricsData.FromString(record.metrics)
        points = list(self._points(message))
        time = max((each.point.time_unix_nano for each in points), default=0)
        is_late = record.received_at < before.received_at and time < before.time_unix_nano
        push = _Push(self._to, before.series, _first_start(record), is_late=is_late)
        for each in sorted(points, key=_time_of):
            push.take(each)
        unlike = before.unlike + 1
        if is_late:
            state = before._replace(base=push.series, bound=None, flat=None, unlike=unlike)
        else:
            time = time or before.time_unix_nano
            state = ClientState(push.series, *_received(record), time, before.interval_ms, unlike=unlike)
        metrics, parents = record.metrics, list({id(each.metric): each.metric for each in points}.values())
        is_changed = any(each.removed or each.is_delta != (self._to == DELTA) for each in parents)
        if is_changed or (points and self._to == CUMULATIVE):  # which may add starts
            self._finish(message, parents)
            metrics = message.SerializeToString()
        if metrics and not (is_late or push.left_out or (is_changed and self._to == DELTA)):
            state = self._bind(record.metrics, metrics, [each.key for each in points], state)
        return Converted(metrics, state, push.left_out)

    def _bind(self, payload: bytes, metrics: bytes, keys: list[SeriesKey], state: ClientState) -> ClientState:
        """Makes the next pushes be converted by the pattern of this one.

        Learning a pattern costs more than a conversion: it is tried for the 1st, 2nd, 4th, ... push in a row that
        differs from the previous one.
        """
        if len(set(keys)) < len(keys):
            return state  # points of one series and several times
        pattern = self._patterns.find(payload)
        if pattern is None and not state.unlike & (state.unlike - 1):
            groups: dict[SeriesKey, list[int]] = {}
            for place, key in enumerate(keys):
                groups.setdefault(key[:-1], []).append(place)
            pattern = self._patterns.learn(payload, metrics, [each for each in groups.values() if len(each) > 1])
        if pattern is None or len(pattern.spans) != len(keys):
            return state
        try:
            flat = pattern.flat([state.base[key] for key in keys]) if keys else None
        except NoPatternError:
            return state
        return state._replace(bound=Bound(pattern, tuple(keys)), flat=flat)

    def _points(self, message: Any) -> Iterator[_Point]:
        """The points to convert, or that change a series' count."""
        twins: Counter[SeriesKey] = Counter()
        for each in metrics_of(message):
            if (amounts := _AMOUNTS.get(each.kind)) is not None:
                yield from self._points_of(each, amounts, twins)

    def _points_of(self, message: MetricMessage, amounts: type[Amount], twins: Counter[SeriesKey]) -> Iterator[_Point]:
        metric, kind, data, origin = message
        is_monotonic = kind != "sum" or data.is_monotonic
        if data.aggregation_temporality not in (DELTA, CUMULATIVE) or not (is_monotonic or self._to == CUMULATIVE):
            return
        parent = _Metric(data, data.aggregation_temporality == DELTA)
        for place, point in enumerate(data.data_points):
            if has_no_value(point) or (kind == "sum" and _is_nothing(number_of(point))):
                continue
            attributes = tuple(sorted((each.key, text_of(each.value) or "") for each in point.attributes))
            series = (metric.name, metric.unit, kind, attributes, origin)
            try:
                amount: Amount | None = amounts.of(point, is_monotonic=is_monotonic)
            except MalformedPointError:
                amount = None
            same = (*series, point.time_unix_nano)
            yield _Point(parent, place, point, (*series, twins[same]), amount)
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


def _is_nothing(value: float | None) -> bool:
    return value is None or value != value


def _received(record: PushRecord) -> tuple[int, int]:
    """The receipt [us] and the push interval [ms]; a record of a topic may have any numbers."""
    interval_ms = min(record.push_interval_ms or DEFAULT_PUSH_INTERVAL_MS, _LONGEST_INTERVAL_MS)
    return min(max(0, record.received_at), _END_OF_TIME_US), max(0, interval_ms)


def _first_start(record: PushRecord) -> int:
    """Start of a series without one: the receipt less the push interval [ns since the epoch]."""
    received_at, interval_ms = _received(record)
    return max(0, received_at - interval_ms * 1_000) * 1_000


def _time_of(each: _Point) -> int:
    time: int = each.point.time_unix_nano
    return time
