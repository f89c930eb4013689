"""OTLP `MetricsData` by templates: all numbers are fixed64, so a push is a copy with some words replaced.

Written by the specification alone (opentelemetry-proto, metrics/v1), without the encoders that Fleetgauge has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.fleet.second_fleet.clients import Values

Attribute = tuple[str, str | int]
Places = list[tuple[int, str, int]]
"""Of a template: offset of a word, which it is (start, time or value), and the number of its point."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One data point of a metric of its own; a sum if `is_sum`, else a gauge."""

    name: str
    is_sum: bool
    is_int: bool
    attributes: tuple[Attribute, ...]
    has_start: bool


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a library puts points together: one ResourceMetrics per point, or one for all."""

    per_point: bool
    resource: Sequence[Attribute]
    scope: str
    is_cumulative: bool


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _field(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _attribute(attribute: Attribute) -> bytes:
    key, value = attribute
    encoded = _field(1, value.encode()) if isinstance(value, str) else b"\x18" + _varint(value & (1 << 64) - 1)
    return _field(1, key.encode()) + _field(2, encoded)


def _within(number: int, body: bytes, places: Places, before: bytes = b"") -> tuple[bytes, Places]:
    """A message as field of another, after what stands `before` it there."""
    head = before + _varint(number << 3 | 2) + _varint(len(body))
    return head + body, _moved(places, len(head))


def _moved(places: Places, by: int) -> Places:
    return [(offset + by, word, point) for offset, word, point in places]


def _metric(number: int, point: Point, is_cumulative: bool) -> tuple[bytes, Places]:
    body = b"".join(_field(7, _attribute(each)) for each in point.attributes)
    places: Places = []
    words = [(b"\x11", "start")] if point.has_start else []
    for tag, word in (*words, (b"\x19", "time"), (b"\x31" if point.is_int else b"\x21", "value")):
        places.append((len(body) + 1, word, number))
        body += tag + bytes(8)
    body, places = _within(1, body, places)
    if point.is_sum:
        body += b"\x10" + _varint(2 if is_cumulative else 1) + b"\x18\x01"
    return _within(7 if point.is_sum else 5, body, places, _field(1, point.name.encode()))


def _template(points: Iterable[Point], layout: Layout) -> tuple[bytes, Places]:
    resource = b""
    if layout.resource or layout.per_point:
        resource = _field(1, b"".join(_field(1, _attribute(each)) for each in layout.resource))
    scope = _field(1, _field(1, layout.scope.encode())) if layout.scope else b""
    found, all_places = b"" if layout.per_point else scope, Places()
    for number, point in enumerate(points):
        body, places = _within(2, *_metric(number, point, layout.is_cumulative))
        if layout.per_point:
            body, places = _within(1, *_within(2, body, places, resource))
        all_places += _moved(places, len(found))
        found += body
    return (found, all_places) if layout.per_point else _within(1, *_within(2, found, all_places, resource))


def render(
    points: Sequence[Point], values: Values, starts: NDArray[np.int64], times: NDArray[np.int64], layout: Layout
) -> list[bytes]:
    """One payload per row of `values`, which has a column per point; starts and times in ns."""
    template, places = _template(points, layout)
    rows = np.tile(np.frombuffer(template, np.uint8), (len(times), 1))
    words = {"start": _words(starts, "<i8"), "time": _words(times, "<i8")}
    for offset, word, number in places:
        if word == "value":
            column = values[:, number]
            found = _words(np.nan_to_num(column), "<i8") if points[number].is_int else _words(column, "<f8")
        else:
            found = words[word]
        rows[:, offset : offset + 8] = found
    return [row.tobytes() for row in rows]


def _words(numbers: Values | NDArray[np.int64], kind: str) -> NDArray[np.uint8]:
    return np.ascontiguousarray(numbers.astype(kind)).view(np.uint8).reshape(len(numbers), 8)
