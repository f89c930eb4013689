"""Reads pushes that differ from earlier ones only in their numbers, by the offsets of these, without parsing.

A client's pushes repeat the same metrics. Values and times of gauges and sums are eight bytes each in OTLP (fixed64,
sfixed64, double), and the bytes between them have all the rest: the metrics, the attributes, and all lengths. So two
payloads with the same bytes between the numbers have the same shape. Unusual numbers, for instance a count below 0, and
distributions are left to `PushReader`. The result is always that of `PushReader`, only faster for most pushes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from struct import Struct
from typing import Any, Final, NamedTuple

from fleetgauge.exporters.point_fields import (
    DOUBLE,
    GAUGE,
    INT,
    NUMBERS,
    START,
    SUM,
    TIME,
    Learnt,
    NoPatternError,
    Numbers,
    encoded_points,
    picker,
)
from fleetgauge.exporters.prometheus.names import MetricId
from fleetgauge.exporters.prometheus.points import AttributeSet, MetricData, Mode, PushReader, Topics
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError, fields
from fleetgauge.telemetry.catalogue.dialects import twin_families
from fleetgauge.telemetry.otlp.messages import has_no_value

_MAX_BYTES_A_POINT: Final = 512
"""Limit for payloads whose shape is kept; real ones have 60 to 220 [B]."""
_MAX_BYTES: Final = 128 << 10
"""Limit for payloads whose shape is kept; real ones have up to 40 kB [B]."""
_KEPT_OF_A_LENGTH: Final = 4
_KEPT_BYTES: Final = 8 << 20

_KEPT_FRAMES: Final = 1_024
_KEPT_IDENTITIES: Final = 65_536
_MODES: Final = (Mode.DELTA, Mode.AS_IS, Mode.CUMULATIVE)

Number = int | float
Identity = tuple[MetricId, str]
"""Metric and labels."""


class Place(NamedTuple):
    """Indices of a data point's numbers among those of its push; 0 for a missing number."""

    value: int
    time: int
    start: int


class AlikePush(NamedTuple):
    """The numbers of a push, in the order of the series in its shape.

    Attributes:
        deltas: values to add.
        gauges: values to set; NaN if nothing was recorded.
        cumulative: counts since their start.
        starts: the start of each of those [ns since the epoch]; 0 if the push has none.
        time_unix_nano, delta_start_unix_nano: as in `PushPoints`.
    """

    deltas: Sequence[Number]
    gauges: Sequence[Number]
    cumulative: Sequence[Number]
    starts: Sequence[int]
    time_unix_nano: int
    delta_start_unix_nano: int | None


class _Group(NamedTuple):
    """Data points with the same identity."""

    mode: Mode
    places: list[Place]


class _Layout(NamedTuple):
    """The indices of the numbers in pushes of one shape: of values, except in `starts`, `delta_starts` and `times`.

    Attributes:
        form: format of the whole payload, for `struct`.
        deltas, gauges, cumulative: for each measurement the values of its points.
        starts: the start of each cumulative measurement.
        counts: values of all points that must not be below 0.
        entangled: values of points that affect others: those with the same identity, or with a doubled topic.
        delta_starts: starts of all points that are deltas.
        times: value and time of each point.
        together: times of points with the same identity, which are joined while these are equal.
    """

    form: str
    deltas: tuple[tuple[int, ...], ...]
    gauges: tuple[tuple[int, ...], ...]
    cumulative: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    entangled: tuple[int, ...]
    delta_starts: tuple[int, ...]
    times: tuple[tuple[int, int], ...]
    together: tuple[tuple[int, ...], ...]


class Frame:
    """Reads the numbers of pushes of one layout, which clients with names and ids of equal lengths share."""

    def __init__(self, layout: _Layout) -> None:
        self._struct = Struct(layout.form)
        self._pick_text = picker(range(0, layout.form.count("s") * 2 - 1, 2))
        self._deltas = _valuer(layout.deltas, _sum)
        self._gauges = _valuer(layout.gauges, max)
        self._cumulative = _valuer(layout.cumulative, _sum)
        self._starts = layout.starts
        self._pick_counts = picker(layout.counts)
        self._pick_entangled = picker(layout.entangled)
        self._pick_delta_starts = picker(layout.delta_starts)
        self._times = layout.times
        self._together = layout.together
        self._pick_times = picker([time for _, time in layout.times])

    def unpack(self, payload: bytes) -> tuple[bytes, Numbers] | None:
        """The bytes between a payload's numbers, and the numbers; None if it has another length."""
        if len(payload) != self._struct.size:
            return None
        parts = self._struct.unpack(payload)
        return b"".join(self._pick_text(parts)), parts

    def push(self, parts: Numbers) -> AlikePush | None:
        """The numbers in their order; None if some are unusual."""
        # A point without a value, or with an invalid one, does not count: it joins no other point, and is no twin.
        if not _are_counts(self._pick_counts(parts)) or _has_nan(self._pick_entangled(parts)):
            return None
        if any(len({parts[time] if time else 0 for time in times}) > 1 for times in self._together):
            return None  # one series, whose values come one after the other
        gauges = self._gauges(parts)
        times = self._pick_times(parts)
        if _has_nan(gauges):
            times = tuple([parts[time] for value, time in self._times if parts[value] == parts[value]])
        starts = [start for start in self._pick_delta_starts(parts) if start]
        return AlikePush(
            self._deltas(parts),
            gauges,
            self._cumulative(parts),
            [parts[place] if place else 0 for place in self._starts],
            max(times, default=0),
            min(starts, default=None),
        )


class Shape:
    """The common part of payloads that differ only in their numbers.

    Attributes:
        frame: reads the numbers.
        text: the bytes between them.
        deltas, gauges, cumulative: identities of the measurements of such a push.
        resource: attributes of its resources.
        left_out, folded: points of each such push that are left out, and joined with others, by cause.
    """

    __slots__ = ("cumulative", "deltas", "folded", "frame", "gauges", "left_out", "resource", "text")

    def __init__(self, frame: Frame, text: bytes, points: "_Points") -> None:
        self.frame = frame
        self.text = text
        self.deltas, self.gauges, self.cumulative = (tuple(points.of_mode(m)) for m in _MODES)
        self.resource = points.resource
        self.left_out = points.left_out
        self.folded = points.folded

    def fits(self, payload: bytes) -> bool:
        """True if the payload has this shape."""
        unpacked = self.frame.unpack(payload)
        return unpacked is not None and unpacked[0] == self.text

    def read(self, payload: bytes) -> AlikePush | None:
        """The numbers of a payload; None if it has another shape, or unusual numbers."""
        unpacked = self.frame.unpack(payload)
        return self.frame.push(unpacked[1]) if unpacked is not None and unpacked[0] == self.text else None


class Shapes:
    """The recent shapes, by the length of their payloads; clients with equal pushes share a shape.

    Args:
        reader: reads attributes of data points.
    """

    def __init__(self, reader: PushReader) -> None:
        self._reader = reader
        self._learnt = Learnt(Shape.fits, kept_of_a_length=_KEPT_OF_A_LENGTH, kept_bytes=_KEPT_BYTES)
        self._frames: dict[_Layout, Frame] = {}
        self._identities: dict[Identity, Identity] = {}

    def find(self, payload: bytes) -> Shape | None:
        """The known shape of a payload; None if it has another."""
        return self._learnt.find(payload)

    def learn(self, payload: bytes) -> Shape | None:
        """Learns the shape of a payload that `PushReader` has read; None if only that can read such pushes."""
        offsets = _offsets(payload) if len(payload) <= _MAX_BYTES else None
        if not offsets or len(payload) > _MAX_BYTES_A_POINT * len(offsets):
            return None
        points = _Points(self._reader, self._identities)
        if not points.read(payload, _places(offsets)):
            return None
        frame = self._frame(points.layout(_form(payload, offsets)))
        unpacked = frame.unpack(payload)
        if unpacked is None:
            return None
        shape = Shape(frame, unpacked[0], points)
        self._learnt.keep(payload, shape)
        return shape

    def _frame(self, layout: _Layout) -> Frame:
        frame = self._frames.get(layout)
        if frame is None:
            if len(self._frames) >= _KEPT_FRAMES:
                self._frames.clear()
            frame = self._frames[layout] = Frame(layout)
        return frame


class _Points:
    """The data points of a payload, read as by `PushReader`."""

    def __init__(self, reader: PushReader, identities: dict[Identity, Identity]) -> None:
        self._reader = reader
        self._identities = identities
        if len(identities) >= _KEPT_IDENTITIES:
            identities.clear()
        self.groups: dict[Identity, _Group] = {}
        self.resource: dict[str, str] = {}
        self.left_out: Counter[str] = Counter()
        self.folded: Counter[str] = Counter()
        self.taken: list[Place] = []
        self.deltas: list[Place] = []
        self.counts: list[int] = []
        self.entangled: list[int] = []
        self.together: list[tuple[int, ...]] = []
        self.without_value: set[Identity] = set()

    def read(self, payload: bytes, places: Sequence[Place]) -> bool:
        """Reads the points; False if such pushes cannot be read by the places of their numbers."""
        if len(places) > self._reader.max_points:
            return False
        left = iter(places)
        topics: Topics = {}
        for metric in self._reader.metrics_of(payload, self.resource):
            if metric.factor != 1 or (metric.mode == Mode.DELTA and metric.id.kind != "counter"):
                return False
            for point in metric.points:
                place = next(left, None)
                if place is None or not self._take(metric, point, place, topics):
                    return False
        if self.without_value & self.groups.keys():
            return False  # their times decide whether the series is hidden
        self._disentangle(topics)
        return next(left, None) is None

    def of_mode(self, mode: Mode) -> dict[Identity, list[Place]]:
        """The places of each measurement of this mode, those of several points last."""
        places = {identity: group.places for identity, group in self.groups.items() if group.mode == mode}
        return dict(sorted(places.items(), key=lambda each: len(each[1]) > 1))

    def layout(self, form: str) -> _Layout:
        """The layout of a push with that `struct` format."""
        cumulative = self.of_mode(Mode.CUMULATIVE).values()
        return _Layout(
            form,
            deltas=_values_of(self.of_mode(Mode.DELTA).values()),
            gauges=_values_of(self.of_mode(Mode.AS_IS).values()),
            cumulative=_values_of(cumulative),
            starts=tuple(places[0].start for places in cumulative),
            counts=tuple(self.counts),
            entangled=tuple(self.entangled),
            delta_starts=tuple(place.start for place in self.deltas if place.start),
            times=tuple((place.value, place.time) for place in self.taken if place.time),
            together=tuple(self.together),
        )

    def _take(self, metric: MetricData, point: Any, place: Place, topics: Topics) -> bool:
        attributes: AttributeSet | None = self._reader.attributes(metric, point)
        if attributes is None:
            return False
        if not place.value or has_no_value(point):
            self.left_out["no_value"] += 1
            self.without_value.add((metric.id, attributes.labels))
            return True
        if attributes.with_topic is not None:
            topics.setdefault(metric.id, {})[attributes.labels] = attributes.with_topic
        identity = (metric.id, attributes.labels)
        identity = self._identities.setdefault(identity, identity)  # the same for many clients
        group = self.groups.setdefault(identity, _Group(metric.mode, []))
        group.places.append(place)
        self.taken.append(place)
        if metric.mode != Mode.AS_IS:
            self.counts.append(place.value)
        if metric.mode == Mode.DELTA:
            self.deltas.append(place)
        return group.mode == metric.mode

    def _disentangle(self, topics: Topics) -> None:
        for group in self.groups.values():
            if len(group.places) > 1:
                self.folded["double_identity"] += len(group.places) - 1
                self.entangled += [place.value for place in group.places]
                self.together.append(tuple(place.time for place in group.places))
        for metric_id, sets in topics.items():
            labels = list(sets)
            dotted, twins = twin_families(sets.values())
            for index in (*dotted, *twins):
                self.entangled += [place.value for place in self.groups[metric_id, labels[index]].places]
            for index in twins:
                del self.groups[metric_id, labels[index]]
                self.folded["doubled_topic"] += 1


def _offsets(payload: bytes) -> list[dict[int, tuple[int, str]]] | None:
    """The offset and `struct` code of each data point's numbers, by tag; None if there are distributions, or if a
    number is repeated.
    """
    offsets: list[dict[int, tuple[int, str]]] = []
    try:
        for point in encoded_points(payload):
            numbers = [each for each in fields(payload, point.field.value, point.field.end) if each.tag in NUMBERS]
            by_tag = {each.tag: (each.value, NUMBERS[each.tag]) for each in numbers}
            if point.kind not in (GAUGE, SUM) or len(by_tag) < len(numbers) or by_tag.keys() >= {DOUBLE, INT}:
                return None
            offsets.append(by_tag)
    except (MalformedPayloadError, NoPatternError):
        return None
    return offsets


def _places(offsets: Sequence[dict[int, tuple[int, str]]]) -> list[Place]:
    """Converts offsets to indices in the result of `_form`."""
    places, before = [], 0
    for point in offsets:
        tags = sorted(point, key=lambda tag: point[tag])
        at = {tag: before + 2 * place + 1 for place, tag in enumerate(tags)}
        places.append(Place(at.get(DOUBLE) or at.get(INT, 0), at.get(TIME, 0), at.get(START, 0)))
        before += 2 * len(tags)
    return places


def _values_of(measurements: Iterable[Sequence[Place]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(place.value for place in places) for places in measurements)


def _form(payload: bytes, offsets: Sequence[dict[int, tuple[int, str]]]) -> str:
    """The `struct` format of a payload: text, number, text, number, ..., text."""
    form, at = ["<"], 0
    for offset, code in (each for point in offsets for each in sorted(point.values())):
        form.append(f"{offset - at}s{code}")
        at = offset + 8
    return "".join((*form, f"{len(payload) - at}s"))


def _valuer(measurements: Sequence[Sequence[int]], join: Callable[[Numbers], Number]) -> Callable[[Numbers], Numbers]:
    """A function that picks the values of measurements; those of several points, which are last, are joined."""
    alone = picker([places[0] for places in measurements if len(places) == 1])
    joined = [picker(places) for places in measurements if len(places) > 1]
    if not joined:
        return alone
    return lambda parts: (*alone(parts), *[join(pick(parts)) for pick in joined])


def _sum(values: Numbers) -> float:
    return sum(map(float, values))


def _are_counts(values: Numbers) -> bool:
    """True if all are finite, and none is below 0."""
    return not values or (min(values) >= 0 and sum(values) < float("inf"))


def _has_nan(values: Numbers) -> bool:
    """True if a value may be NaN; opposite infinities count, too."""
    total = sum(values)
    return bool(total != total)
