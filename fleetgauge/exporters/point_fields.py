"""The data points of an encoded push, and their numbers, by their offsets: for pushes that differ from an earlier one
only in numbers, which `prometheus/shapes` and `otlp/patterns` read without parsing them.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from fleetgauge.exporters.protobuf_wire import Field, fields, read_number

# Tags: the number of a field times 8, plus its wire type.
_RESOURCE_METRICS = _DATA_POINTS = 0x0A
_SCOPE_METRICS = _METRICS = 0x12
GAUGE, SUM, HISTOGRAM = 0x2A, 0x3A, 0x4A
_KINDS: Final = frozenset({GAUGE, SUM, HISTOGRAM, 0x52, 0x5A})
_TEMPORALITY, _IS_MONOTONIC = 0x10, 0x18
START, TIME, DOUBLE, INT = 0x11, 0x19, 0x21, 0x31
NUMBERS: Final = {START: "Q", TIME: "Q", DOUBLE: "d", INT: "q"}
"""Tags of the numbers of a point of a gauge or sum, and how `struct` reads them: each has eight bytes."""

_BYTES_BESIDE: Final = 2_048
"""Memory of the fields of a push, in addition to its length [B]."""

Numbers = tuple[Any, ...]
T = TypeVar("T")


class NoPatternError(Exception):
    """Pushes like this one have to be parsed."""


class EncodedPoint(NamedTuple):
    """A data point.

    Attributes:
        kind: the tag of its metric's data.
        temporality: of its metric; 0 if that has none.
        is_monotonic: its metric is a sum that can only rise.
        field: the point.
    """

    kind: int
    temporality: int
    is_monotonic: bool
    field: Field


def encoded_points(payload: bytes) -> Iterator[EncodedPoint]:
    """Yields the data points of a push, in order.

    Raises:
        MalformedPayloadError: it is not a well-formed message.
        NoPatternError: a metric has data of two kinds.
    """
    for resource in _messages(payload, 0, len(payload), _RESOURCE_METRICS):
        for scope in _messages(payload, resource.value, resource.end, _SCOPE_METRICS):
            for metric in _messages(payload, scope.value, scope.end, _METRICS):
                yield from _points_of(payload, metric)


def _points_of(payload: bytes, metric: Field) -> Iterator[EncodedPoint]:
    kinds = [each for each in fields(payload, metric.value, metric.end) if each.tag in _KINDS]
    if len(kinds) > 1:
        raise NoPatternError
    for data in kinds:
        said = {
            each.tag: read_number(payload, each.value, each.end)[0]
            for each in fields(payload, data.value, data.end)
            if each.tag in (_TEMPORALITY, _IS_MONOTONIC)
        }
        for point in _messages(payload, data.value, data.end, _DATA_POINTS):
            yield EncodedPoint(data.tag, said.get(_TEMPORALITY, 0), bool(said.get(_IS_MONOTONIC)), point)


def _messages(data: bytes, position: int, end: int, wanted: int) -> Iterator[Field]:
    return (each for each in fields(data, position, end) if each.tag == wanted)


class Learnt(Generic[T]):
    """Learnt fields of recent pushes, by their length: clients with equal pushes share them.

    Args:
        fits: tells whether it holds for a push.
        kept_of_a_length: how many are kept of each length.
        kept_bytes: with more pushes than that all are forgotten [B].
    """

    def __init__(self, fits: Callable[[T, bytes], bool], *, kept_of_a_length: int, kept_bytes: int) -> None:
        self._fits = fits
        self._kept_of_a_length = kept_of_a_length
        self._kept_bytes = kept_bytes
        self._known: dict[int, list[T]] = {}
        self._bytes = 0

    def find(self, payload: bytes) -> T | None:
        """Learnt fields of a push; None if unknown."""
        return next((each for each in self._known.get(len(payload), ()) if self._fits(each, payload)), None)

    def keep(self, payload: bytes, learnt: T) -> None:
        """Keeps what was learnt of a push."""
        self._bytes += len(payload) + _BYTES_BESIDE
        if self._bytes > self._kept_bytes:
            self._known.clear()
            self._bytes = len(payload)
        of_length = self._known.setdefault(len(payload), [])
        of_length.insert(0, learnt)
        del of_length[self._kept_of_a_length :]


def picker(places: Sequence[int]) -> Callable[[Numbers], Numbers]:
    """A function that picks the values at these places, always as a tuple."""
    if len(places) > 1:
        return itemgetter(*places)
    return itemgetter(slice(places[0], places[0] + 1)) if places else _nothing


def _nothing(_: Numbers) -> Numbers:
    return ()
