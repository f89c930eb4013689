"""Pushes that are alike but for their numbers: read by the places of these in the bytes, without parsing anything.

A client says the same of the same things with every push. Values and times of gauges and sums are eight bytes each in
OTLP (fixed64, sfixed64, double), and what lies between them says all the rest: the metrics, the attributes, and where
everything ends. So two payloads with the same bytes there are read alike. What is not as usual, a count below 0 for
instance, is left to `PushReader`, and so are distributions: this is quicker for most pushes, and no other reading.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from struct import Struct
from typing import Any, Final, NamedTuple

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from exporters.prometheus.names import MetricId
from exporters.prometheus.points import AttributeSet, Mode, PushReader, has_no_value, kind_and_mode, metrics_of
from exporters.protobuf_wire import MalformedPayloadError, fields
from telemetry.catalogue.dialects import twin_families

_RESOURCE_METRICS: Final = 0x0A
_SCOPE_METRICS: Final = 0x12
_METRICS: Final = 0x12
_NUMBERS: Final = frozenset({0x2A, 0x3A})
"""Tags of a metric's gauge and sum."""
_DISTRIBUTIONS: Final = frozenset({0x4A, 0x52, 0x5A})
_DATA_POINTS: Final = 0x0A
_START, _TIME, _DOUBLE, _INT = 0x11, 0x19, 0x21, 0x31
_CODES: Final = {_START: "Q", _TIME: "Q", _DOUBLE: "d", _INT: "q"}
"""Tags of a data point's numbers, and how `struct` reads them."""

_MAX_BYTES_A_POINT: Final = 512
"""Of payloads whose shape is kept: real ones have 60 to 220 [B]."""
_MAX_BYTES: Final = 128 << 10
"""Real ones have up to some 40 kB [B]."""
_KEPT_LENGTHS: Final = 256
_KEPT_OF_A_LENGTH: Final = 4
_KEPT_BYTES: Final = 8 << 20

_KEPT_FRAMES: Final = 1_024
_KEPT_IDENTITIES: Final = 65_536
_MODES: Final = (Mode.DELTA, Mode.AS_IS, Mode.CUMULATIVE)

Number = int | float
Numbers = tuple[Any, ...]
Identity = tuple[MetricId, str]
"""Metric and labels."""


class Place(NamedTuple):
    """Where the numbers of a data point are among those of its push; 0 for one that it does not say."""

    value: int
    time: int
    start: int


class AlikePush(NamedTuple):
    """The numbers of a push, in the order in which its shape has their series.

    Attributes:
        deltas: what is added.
        gauges: values as they are; NaN where nothing was recorded.
        cumulative: counts since their start.
        starts: that start of each [ns since the epoch]; 0 where the push does not say it.
        time_unix_nano, delta_start_unix_nano: as in `PushPoints`.
    """

    deltas: Sequence[Number]
    gauges: Sequence[Number]
    cumulative: Sequence[Number]
    starts: Sequence[int]
    time_unix_nano: int
    delta_start_unix_nano: int | None


class _Group(NamedTuple):
    """Data points with one identity."""

    mode: Mode
    places: list[Place]


class _Layout(NamedTuple):
    """Where everything is in pushes of one shape: places of values, but for `starts`, `delta_starts` and `times`.

    Attributes:
        form: of the whole payload, for `struct`.
        deltas, gauges, cumulative: of each measurement, that of each of its points.
        starts: of each cumulative measurement.
        counts: of all points that may not be below 0.
        entangled: of points that matter to others: those with the same identity, and with a doubled topic.
        delta_starts: of all points that are deltas.
        times: of each point its value and its time.
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


class Frame:
    """Reads the numbers of pushes of one layout; it is the same for many clients, whose names and ids are as long."""

    def __init__(self, layout: _Layout) -> None:
        self._struct = Struct(layout.form)
        self._pick_text = _picker(range(0, layout.form.count("s") * 2 - 1, 2))
        self._deltas = _valuer(layout.deltas, _sum)
        self._gauges = _valuer(layout.gauges, max)
        self._cumulative = _valuer(layout.cumulative, _sum)
        self._starts = layout.starts
        self._pick_counts = _picker(layout.counts)
        self._pick_entangled = _picker(layout.entangled)
        self._pick_delta_starts = _picker(layout.delta_starts)
        self._times = layout.times
        self._pick_times = _picker([time for _, time in layout.times])

    def unpack(self, payload: bytes) -> tuple[bytes, Numbers] | None:
        """What a payload has between its numbers, and these; None if it has another length."""
        if len(payload) != self._struct.size:
            return None
        found = self._struct.unpack(payload)
        return b"".join(self._pick_text(found)), found

    def push(self, found: Numbers) -> AlikePush | None:
        """The numbers in their order; None if some are not as usual."""
        # A point without a value, or with a wrong one, is none: it joins no other, and is nobody's twin.
        if not _are_counts(self._pick_counts(found)) or _has_nan(self._pick_entangled(found)):
            return None
        gauges = self._gauges(found)
        times = self._pick_times(found)
        if _has_nan(gauges):
            times = tuple([found[time] for value, time in self._times if found[value] == found[value]])
        starts = [start for start in self._pick_delta_starts(found) if start]
        return AlikePush(
            self._deltas(found),
            gauges,
            self._cumulative(found),
            [found[place] if place else 0 for place in self._starts],
            max(times, default=0),
            min(starts, default=None),
        )


class Shape:
    """What payloads have in common that are alike but for their numbers.

    Attributes:
        frame: reads these.
        text: what is between them.
        deltas, gauges, cumulative: identities of the measurements that such a push has.
        resource: attributes of its resources.
        left_out, folded: points that each such push has for nothing, and twice, by cause.
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
        """True if the payload is of this shape."""
        found = self.frame.unpack(payload)
        return found is not None and found[0] == self.text

    def read(self, payload: bytes) -> AlikePush | None:
        """The numbers of a payload; None if it is not of this shape, or has numbers that are not as usual."""
        found = self.frame.unpack(payload)
        return self.frame.push(found[1]) if found is not None and found[0] == self.text else None


class Shapes:
    """The shapes that were met lately, by the length of their payloads, so that clients that are alike share theirs.

    Args:
        reader: tells what a data point is.
    """

    def __init__(self, reader: PushReader) -> None:
        self._reader = reader
        self._known: dict[int, list[Shape]] = {}
        self._bytes = 0
        self._frames: dict[_Layout, Frame] = {}
        self._identities: dict[Identity, Identity] = {}

    def find(self, payload: bytes) -> Shape | None:
        """The known shape of a payload."""
        return next((shape for shape in self._known.get(len(payload), ()) if shape.fits(payload)), None)

    def learn(self, payload: bytes) -> Shape | None:
        """The shape of a payload that `PushReader` has read; None if it has to be read by that always."""
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
        self._bytes += len(payload)
        if len(self._known) >= _KEPT_LENGTHS or self._bytes > _KEPT_BYTES:
            self._known.clear()
            self._bytes = len(payload)
        of_length = self._known.setdefault(len(payload), [])
        of_length.insert(0, shape)
        del of_length[_KEPT_OF_A_LENGTH:]
        return shape

    def _frame(self, layout: _Layout) -> Frame:
        frame = self._frames.get(layout)
        if frame is None:
            if len(self._frames) >= _KEPT_FRAMES:
                self._frames.clear()
            frame = self._frames[layout] = Frame(layout)
        return frame


class _Points:
    """What a payload's data points are, found as `PushReader` finds it."""

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

    def read(self, payload: bytes, places: Sequence[Place]) -> bool:
        """False if no push can be read by the places of its numbers that is like this one."""
        if len(places) > self._reader.max_points:
            return False
        left = iter(places)
        topics: dict[MetricId, dict[str, dict[str, str | None]]] = {}
        for metric, resource in metrics_of(MetricsData.FromString(payload)):
            self._reader.read_resource(resource, self.resource)
            data_kind = metric.WhichOneof("data")
            if data_kind is None:
                continue
            data = getattr(metric, data_kind)
            kind, mode = kind_and_mode(data_kind, data)
            if mode == Mode.DELTA and kind != "counter":
                return False
            metric_id = MetricId(metric.name, kind, metric.unit)
            for point in data.data_points:
                place = next(left, None)
                if place is None or not self._take(metric_id, mode, point, place, topics):
                    return False
        self._disentangle(topics)
        return next(left, None) is None

    def of_mode(self, mode: Mode) -> dict[Identity, list[Place]]:
        """The places of each measurement that is taken in that way, those with several at the end."""
        found = {identity: group.places for identity, group in self.groups.items() if group.mode == mode}
        return dict(sorted(found.items(), key=lambda each: len(each[1]) > 1))

    def layout(self, form: str) -> _Layout:
        """Where everything is in a push of that form."""
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
        )

    def _take(
        self,
        metric_id: MetricId,
        mode: Mode,
        point: Any,
        place: Place,
        topics: dict[MetricId, dict[str, dict[str, str | None]]],
    ) -> bool:
        if not place.value or has_no_value(point):
            self.left_out["no_value"] += 1
            return True
        attributes: AttributeSet | None = self._reader.attributes(point.attributes)
        if attributes is None:
            return False
        if attributes.with_topic is not None:
            topics.setdefault(metric_id, {})[attributes.labels] = attributes.with_topic
        identity = (metric_id, attributes.labels)
        identity = self._identities.setdefault(identity, identity)  # the same for many clients
        group = self.groups.setdefault(identity, _Group(mode, []))
        group.places.append(place)
        self.taken.append(place)
        if mode != Mode.AS_IS:
            self.counts.append(place.value)
        if mode == Mode.DELTA:
            self.deltas.append(place)
        return group.mode == mode

    def _disentangle(self, topics: dict[MetricId, dict[str, dict[str, str | None]]]) -> None:
        for group in self.groups.values():
            if len(group.places) > 1:
                self.folded["double_identity"] += len(group.places) - 1
                self.entangled += [place.value for place in group.places]
        for metric_id, sets in topics.items():
            labels = list(sets)
            dotted, twins = twin_families(sets.values())
            for index in (*dotted, *twins):
                self.entangled += [place.value for place in self.groups[metric_id, labels[index]].places]
            for index in twins:
                del self.groups[metric_id, labels[index]]
                self.folded["doubled_topic"] += 1


def _offsets(payload: bytes) -> list[dict[int, tuple[int, str]]] | None:
    """Of each data point, where its numbers begin and how they are read, by tag; None if there are others than those
    of gauges and sums, or any is said twice.
    """
    found: list[dict[int, tuple[int, str]]] = []
    try:
        for start, end in _every_metric(payload):
            data = [each for each in _fields(payload, start, end) if each[0] in _NUMBERS | _DISTRIBUTIONS]
            if len(data) > 1 or any(tag in _DISTRIBUTIONS for tag, _, _ in data):
                return None
            for _, data_start, data_end in data:
                for point_start, point_end in _messages(payload, data_start, data_end, _DATA_POINTS):
                    numbers = [each for each in _fields(payload, point_start, point_end) if each[0] in _CODES]
                    said = {tag: (value, _CODES[tag]) for tag, value, _ in numbers}
                    if len(said) < len(numbers) or said.keys() >= {_DOUBLE, _INT}:
                        return None
                    found.append(said)
    except MalformedPayloadError:
        return None
    return found


def _every_metric(payload: bytes) -> Iterator[tuple[int, int]]:
    for start, end in _messages(payload, 0, len(payload), _RESOURCE_METRICS):
        for scope_start, scope_end in _messages(payload, start, end, _SCOPE_METRICS):
            yield from _messages(payload, scope_start, scope_end, _METRICS)


def _messages(data: bytes, position: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Where the messages with a tag begin and end."""
    return ((start, stop) for tag, start, stop in _fields(data, position, end) if tag == wanted)


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Tag, begin and end of the value of each field: as `fields`, but quicker for what pushes mostly are, tags of one
    byte before short texts and messages, and before numbers of eight bytes.

    Raises:
        MalformedPayloadError: a field is cut short, or its tag is none.
    """
    while position < end:
        tag = data[position]
        short = tag & 0x87
        if short == 2 and position + 1 < end and data[position + 1] < 0x80:
            value = position + 2
            after = value + data[position + 1]
        elif short == 1:
            value, after = position + 1, position + 9
        else:
            tag, _, value, after = next(fields(data, position, end))
        if after > end or tag < 8:
            raise MalformedPayloadError(position, "a field is cut short")
        yield tag, value, after
        position = after


def _places(offsets: Sequence[dict[int, tuple[int, str]]]) -> list[Place]:
    """The offsets as places among all that `_form` has."""
    found, before = [], 0
    for point in offsets:
        tags = sorted(point, key=lambda tag: point[tag])
        at = {tag: before + 2 * place + 1 for place, tag in enumerate(tags)}
        found.append(Place(at.get(_DOUBLE) or at.get(_INT, 0), at.get(_TIME, 0), at.get(_START, 0)))
        before += 2 * len(tags)
    return found


def _values_of(measurements: Iterable[Sequence[Place]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(place.value for place in places) for places in measurements)


def _form(payload: bytes, offsets: Sequence[dict[int, tuple[int, str]]]) -> str:
    """The payload for `struct`: text, number, text, number, ..., text."""
    form, at = ["<"], 0
    for offset, code in (each for point in offsets for each in sorted(point.values())):
        form.append(f"{offset - at}s{code}")
        at = offset + 8
    return "".join((*form, f"{len(payload) - at}s"))


def _picker(places: Sequence[int]) -> Callable[[Numbers], Numbers]:
    """Picks what is at these places, as a tuple however many they are."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1)) if places else _nothing


def _valuer(measurements: Sequence[Sequence[int]], join: Callable[[Numbers], Number]) -> Callable[[Numbers], Numbers]:
    """Picks the values of measurements, those of several points, which are at the end, joined."""
    alone = _picker([places[0] for places in measurements if len(places) == 1])
    joined = [_picker(places) for places in measurements if len(places) > 1]
    if not joined:
        return alone
    return lambda found: (*alone(found), *[join(pick(found)) for pick in joined])


def _nothing(_: Numbers) -> Numbers:
    return ()


def _sum(values: Numbers) -> float:
    return sum(map(float, values))


def _are_counts(values: Numbers) -> bool:
    """True if all are finite, and none is below 0."""
    return not values or (min(values) >= 0 and sum(values) < float("inf"))


def _has_nan(values: Numbers) -> bool:
    """True if one may be NaN: two infinities are taken for one, too."""
    total = sum(values)
    return bool(total != total)
