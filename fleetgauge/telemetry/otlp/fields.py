"""The kinds of fields that messages have (`schema.table_of`), and how a number is read. Compiled by mypyc.

Needs the standard library alone, as what `fleet` ships to executors does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

UNDECIDED: Final = 0
"""What to do with a field (`schema.table_of`): leave the verdict to protobuf's parser."""
VARINT: Final = 1
FIXED64: Final = 2
FIXED32: Final = 3
BYTES: Final = 4
STRING: Final = 5
PACKED_VARINT: Final = 6
PACKED_FIXED64: Final = 7
MESSAGE: Final = 8
"""The first message type; the others count on from here."""

MAX_DEPTH: Final = 100
"""Nesting limit of protobuf's own parsers."""
MAX_VARINT_BYTES: Final = 10


def read_varint(data: bytes, at: i64, end: i64, max_bytes: i64 = MAX_VARINT_BYTES) -> tuple[i64, i64]:
    """The lowest 64 bits of the number at `at`, and the position after it, which is -1 if it does not end in time."""
    value: i64 = 0
    shift: i64 = 0
    if end > at + max_bytes:
        end = at + max_bytes
    while at < end:
        byte: i64 = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return 0, -1


def encode_varint(value: int) -> bytes:
    """A number as protobuf writes it: base 128, least significant group first.

    >>> encode_varint(300).hex()
    'ac02'
    """
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
