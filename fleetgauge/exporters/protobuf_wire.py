"""The part of protobuf's wire format that labelling needs: numbers, and the fields of a message in order.

Message types are defined in `labels`. Source: protobuf's "Encoding" guide.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.varint import UnreadableError, read_varint

_VARINT: Final = 0
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2
_START_GROUP: Final = 3
_END_GROUP: Final = 4
_FIXED32: Final = 5
_MAX_GROUP_DEPTH: Final = 100
"""The nesting limit of protobuf's own parsers."""


class MalformedPayloadError(FleetgaugeError):
    """Bytes that are not a protobuf message, so that no destination could read them.

    Attributes:
        at: offset in the payload [B].
        problem: the fault at that offset.
    """

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(at, problem)
        self.at = at
        self.problem = problem

    def __str__(self) -> str:
        return f"the payload is not a well-formed MetricsData: {self.problem} at byte {self.at}"


class Field(NamedTuple):
    """One field of a message, as offsets into the bytes that hold it."""

    tag: int
    """Field number times 8, plus wire type."""
    start: int
    """Offset of its tag."""
    value: int
    """Offset of its value, after the length of a length-delimited field."""
    end: int
    """Offset after its last byte."""


def read_number(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Returns the varint at `position`, and the position after it.

    Raises:
        MalformedPayloadError: it runs past `end`, or over ten bytes.
    """
    try:
        return read_varint(data, position, end)
    except UnreadableError:
        raise MalformedPayloadError(position, "a number is cut short or longer than ten bytes") from None


def fields(data: bytes, position: int, end: int) -> Iterator[Field]:
    """Yields the fields between `position` and `end`, in order; a group counts as one field.

    Raises:
        MalformedPayloadError: a field is cut short, or its tag is invalid.
    """
    while position < end:
        tag, value, after = data[position], position + 1, 0
        if tag & 0x87 == _LENGTH_DELIMITED and value < end and data[value] < 0x80:  # most fields are short, or ...
            value, after = value + 1, value + 1 + data[value]
        elif tag & 0x87 == _FIXED64:  # ... numbers of eight bytes
            after = value + 8
        if not value <= after <= end or tag < 8:
            tag, value = read_number(data, position, end)
            value, after = _extent(data, tag, value, end, depth=0)
        yield Field(tag, position, value, after)
        position = after


def _extent(data: bytes, tag: int, position: int, end: int, *, depth: int) -> tuple[int, int]:
    """Start and end of the value of a field whose `tag` ends at `position`."""
    wire_type = tag & 7
    if tag < 8 or tag > 0xFFFFFFFF:
        raise MalformedPayloadError(position, f"field number {tag >> 3} does not exist")
    value, after = position, position
    if wire_type == _LENGTH_DELIMITED:
        size, value = read_number(data, position, end)
        after = value + size
    elif wire_type == _VARINT:
        after = read_number(data, position, end)[1]
    elif wire_type == _START_GROUP:
        after = _group_end(data, tag, position, end, depth=depth + 1)
    elif wire_type in (_FIXED64, _FIXED32):
        after = position + (8 if wire_type == _FIXED64 else 4)
    else:
        raise MalformedPayloadError(position, f"wire type {wire_type} is not expected")
    if after > end:
        raise MalformedPayloadError(position, f"field {tag >> 3} claims {after - value} bytes, {end - value} are left")
    return value, after


def _group_end(data: bytes, start_tag: int, position: int, end: int, *, depth: int) -> int:
    """Offset after the end tag of the group that `start_tag` began (a deprecated form that parsers still skip)."""
    if depth > _MAX_GROUP_DEPTH:
        raise MalformedPayloadError(position, f"groups are nested deeper than {_MAX_GROUP_DEPTH}")
    while position < end:
        tag, position = read_number(data, position, end)
        if tag & 7 == _END_GROUP:
            if tag != start_tag + 1:
                raise MalformedPayloadError(position, "a group ends that did not begin")
            return position
        _, position = _extent(data, tag, position, end, depth=depth)
    raise MalformedPayloadError(position, "a group does not end")
