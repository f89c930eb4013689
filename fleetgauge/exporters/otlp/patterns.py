"""Deltas that become counts without protobuf's objects, for pushes that differ from an earlier one only in numbers.

A client's pushes have the same names, attributes and places of numbers for hours; each number has eight bytes. A
pattern has the bytes between the numbers: of a push, and of what `converter` made of it. So the next push is unpacked
by one `struct`, its deltas are added to the counts, and the result is packed by another one, to the same bytes. Any
other push (another length or name, a gap, a push that is late) is left to `converter`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, pairwise
from operator import add
from struct import Struct
from typing import Any, Final, NamedTuple

from fleetgauge.exporters.otlp.amounts import Amount, Explicit, Number
from fleetgauge.exporters.otlp.series import GAP_SLACK_NANO, Series
from fleetgauge.exporters.point_fields import (
    GAUGE,
    HISTOGRAM,
    NUMBERS,
    START,
    SUM,
    TIME,
    EncodedPoint,
    Learnt,
    NoPatternError,
    Numbers,
    encoded_points,
    picker,
)
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError, fields
from fleetgauge.telemetry.otlp.series import DELTA

_COUNT, _TOTAL, _MIN, _MAX = 0x21, 0x29, 0x59, 0x61
_BUCKETS: Final = 0x32
_CODES: Final = {
    GAUGE: NUMBERS,
    SUM: NUMBERS,
    HISTOGRAM: {START: "Q", TIME: "Q", _COUNT: "Q", _TOTAL: "d", _MIN: "d", _MAX: "d"},
}
"""`struct` codes of the numbers of a point, by tag."""
_ATTRIBUTES: Final = {GAUGE: frozenset({0x3A}), SUM: frozenset({0x3A}), HISTOGRAM: frozenset({0x4A, 0x3A})}
"""Attributes, and bounds of a histogram. Points with anything else, such as flags and exemplars, have no pattern."""
_NOT_COUNTED: Final = frozenset({START, TIME, _MIN, _MAX})

_INFINITE: Final = float("inf")
_NO_ROOM: Final = 1 << 62
"""Counts from here on are left to `converter`, which knows the limits of each field."""
_MAX_BYTES: Final = 262_144
"""A pattern of a larger push is not worth its memory."""
_KEPT_OF_A_LENGTH: Final = 8
_KEPT_BYTES: Final = 32 << 20

Role = tuple[int, int, int]
"""Role of a number: its point, tag, and the index of a bucket. Points that are not converted are below 0."""


class Flat(NamedTuple):
    """The series of a pattern's points: the start and the latest time of each, and the numbers of all.

    A sum has one number; a histogram its count, its sum if it has one, and the count of each bucket.
    """

    starts: tuple[int, ...]
    times: tuple[int, ...]
    amounts: Numbers


def saved_form(series: int, codes: str) -> Struct:
    """The saved form of a `Flat`: starts, times and amounts."""
    return Struct(f"<{2 * series}Q{codes}")


def unflattened(like: Iterable[Series], flat: Flat) -> list[Series]:
    """The series of a `Flat`, which are `like` those that it was made of, but for their numbers."""
    numbers = iter(flat.amounts)
    return [
        Series(_amount(before.amount, numbers), start, time, was_cumulative=False)
        for before, start, time in zip(like, flat.starts, flat.times, strict=True)
    ]


def _amount(before: Amount, numbers: Iterator[Any]) -> Amount:
    if isinstance(before, Number):
        return Number(next(numbers))
    assert isinstance(before, Explicit)  # no other kind has a pattern
    next(numbers)
    total = next(numbers) if before.total == before.total else before.total
    return before._replace(total=total, counts=tuple(islice(numbers, len(before.counts))))


class _Layout:
    """The places of a payload's numbers, and the bytes between them.

    Args:
        payload: a payload.
        temporality: that of the points to convert, or that were; there is no other one.
    """

    def __init__(self, payload: bytes, temporality: int) -> None:
        self.codes: dict[Role, str] = {}
        self.rising: set[int] = set()
        self._temporality = temporality
        self._points = self._others = 0
        form, at = ["<"], 0
        for offset, code, role in self._numbers(payload):
            form.append(f"{offset - at}s{code}")
            at = offset + 8
            if role in self.codes:
                raise NoPatternError
            self.codes[role] = code
        self.struct = Struct("".join((*form, f"{len(payload) - at}s")))
        self.texts = self.struct.unpack(payload)[0::2]
        self.places = {role: place for place, role in enumerate(self.codes)}

    def counted(self) -> list[list[Role]]:
        """The numbers to add up, for each point to convert, in the order of `Flat`."""
        roles: list[list[Role]] = [[] for _ in range(self._points)]
        for role in sorted(self.codes):
            if role[0] >= 0 and role[1] not in _NOT_COUNTED:
                roles[role[0]].append(role)
        if not all(roles):
            raise NoPatternError
        return roles

    def _numbers(self, payload: bytes) -> Iterator[tuple[int, str, Role]]:
        for point in encoded_points(payload):
            if point.kind not in _CODES or point.temporality not in (0, self._temporality):
                raise NoPatternError
            if point.temporality:
                number, self._points = self._points, self._points + 1
            else:
                self._others -= 1
                number = self._others
            if point.is_monotonic:
                self.rising.add(number)
            yield from _numbers_of(payload, point, number)


class Pattern:
    """Common structure of pushes, with the conversion of their numbers.

    Attributes:
        codes: `struct` codes of the numbers in `Flat.amounts`.
        spans: the place of each series in them.
        saved: their saved form with starts and times.
    """

    def __init__(self, payload: bytes, converted: bytes, temporality: int, twins: Sequence[Sequence[int]]) -> None:
        """Learns from a push and what it was converted to.

        Args:
            payload: of the push.
            converted: its metrics afterwards; all points are still there.
            temporality: what they have become.
            twins: points that are one series, unless they have the same time.

        Raises:
            NoPatternError: such pushes have no pattern.
        """
        source = _Layout(payload, DELTA)
        self._size = len(payload)
        self._unpack = source.struct.unpack
        self._text = b"".join(source.texts)
        by_point = source.counted()
        points, counted = range(len(by_point)), [*chain(*by_point)]
        self.codes = "".join(source.codes[role] for role in counted)
        if any(source.codes[role] == "q" and role[0] not in source.rising for role in counted):
            raise NoPatternError  # it may fall without end; `add` looks at the largest alone
        self.spans = [slice(*each) for each in pairwise(accumulate(map(len, by_point), initial=0))]
        self.saved = saved_form(len(points), self.codes)
        if not points:
            return
        result = _Layout(converted, temporality)
        if not result.codes.keys() >= set(counted):  # protobuf leaves out a count of 0
            raise NoPatternError
        starts = [(point, START, 0) for point in points]
        calculated = {role: place for place, role in enumerate((*starts, *counted), start=len(source.codes))}
        try:
            self._order = picker([(source.places | calculated)[role] for role in result.codes])
            self._times = picker([source.places[point, TIME, 0] for point in points])
        except KeyError:
            raise NoPatternError from None
        self._starts = picker([source.places[role] for role in starts if role in source.places])
        self._deltas = picker([source.places[role] for role in counted])
        self._rising = picker([place for place, role in enumerate(counted) if role[0] in source.rising])
        self._buckets = [
            (span.start, slice(span.stop - buckets, span.stop))
            for span, roles in zip(self.spans, by_point, strict=True)
            if (buckets := sum(role[1] == _BUCKETS for role in roles))
        ]
        self._has_integers = set(self.codes) != {"d"}
        self._twins = [picker(each) for each in twins]
        self._texts = result.texts
        self._pack = result.struct.pack

    def numbers(self, payload: bytes) -> Numbers | None:
        """The numbers of a push; None if it has another pattern."""
        if len(payload) != self._size:
            return None
        parts = self._unpack(payload)
        return parts[1::2] if b"".join(parts[0::2]) == self._text else None

    def fits(self, payload: bytes) -> bool:
        """True if a push has this pattern."""
        return self.numbers(payload) is not None

    def flat(self, series: Sequence[Series]) -> Flat:
        """The series of the points, in their order.

        Raises:
            NoPatternError: the numbers of one have other types.
        """
        amounts = [_flat(each) for each in series]
        spans = [self.codes[span] for span in self.spans]
        if [_codes(each) for each in amounts] != [codes.replace("q", "Q") for codes in spans]:
            raise NoPatternError
        return Flat(
            tuple(each.start_unix_nano for each in series),
            tuple(each.time_unix_nano for each in series),
            tuple(chain(*amounts)),
        )

    def add(self, numbers: Numbers, before: Flat) -> Flat | None:
        """Adds the deltas of a push that is not late; None if they need a closer look."""
        deltas, times, starts = self._deltas(numbers), self._times(numbers), self._starts(numbers)
        rising = self._rising(deltas)
        if (starts and max(starts) > min(before.times) + GAP_SLACK_NANO) or (rising and min(rising) < 0):
            return None
        if not -_INFINITE < sum(deltas) < _INFINITE:  # nor if one is NaN
            return None
        if any(sum(deltas[buckets]) != deltas[count] for count, buckets in self._buckets):
            return None
        if any(len(set(pick(times))) > 1 for pick in self._twins):
            return None
        amounts = tuple(map(add, before.amounts, deltas))
        if self._has_integers and max(amounts) >= _NO_ROOM:
            return None
        return Flat(before.starts, times, amounts)

    def pack(self, numbers: Numbers, after: Flat) -> bytes:
        """The converted push."""
        pieces: list[Any] = [b""] * (2 * len(self._texts) - 1)
        pieces[0::2] = self._texts
        pieces[1::2] = self._order((*numbers, *after.starts, *after.amounts))
        return self._pack(*pieces)


class Patterns:
    """The recent patterns, by the length of their pushes; clients with equal pushes share one.

    Args:
        temporality: what pushes are converted to.
    """

    def __init__(self, temporality: int) -> None:
        self._temporality = temporality
        self._learnt = Learnt(Pattern.fits, kept_of_a_length=_KEPT_OF_A_LENGTH, kept_bytes=_KEPT_BYTES)

    def find(self, payload: bytes) -> Pattern | None:
        """The known pattern of a push."""
        return self._learnt.find(payload)

    def learn(self, payload: bytes, converted: bytes, twins: Sequence[Sequence[int]]) -> Pattern | None:
        """Learns the pattern of a push, see `Pattern`; None if it has none."""
        if len(payload) > _MAX_BYTES:
            return None
        try:
            pattern = Pattern(payload, converted, self._temporality, twins)
        except (NoPatternError, MalformedPayloadError):
            return None
        self._learnt.keep(payload, pattern)
        return pattern


def _numbers_of(payload: bytes, point: EncodedPoint, number: int) -> Iterator[tuple[int, str, Role]]:
    codes = _CODES[point.kind]
    for each in fields(payload, point.field.value, point.field.end):
        if each.tag in codes:
            yield each.value, codes[each.tag], (number, each.tag, 0)
        elif point.kind == HISTOGRAM and each.tag == _BUCKETS:
            for index, offset in enumerate(range(each.value, each.end - 7, 8)):
                yield offset, "Q", (number, _BUCKETS, index)
        elif each.tag not in _ATTRIBUTES[point.kind]:
            raise NoPatternError


def _flat(series: Series) -> Numbers:
    """The numbers of a series, see `Flat`."""
    amount = series.amount
    if series.was_cumulative or not isinstance(amount, (Number, Explicit)):
        raise NoPatternError
    if isinstance(amount, Number):
        return tuple(amount)
    total = (amount.total,) if amount.total == amount.total else ()
    return (sum(amount.counts), *total, *amount.counts)


def _codes(numbers: Numbers) -> str:
    return "".join("Q" if isinstance(number, int) else "d" for number in numbers)
