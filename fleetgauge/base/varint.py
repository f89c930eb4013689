"""Base-128 numbers of Kafka's and protobuf's formats: seven bits per byte, lowest first. Compiled by mypyc.

Sources: KIP-482 ("Unsigned Varints"), protobuf's "Encoding" guide. Needs the standard library alone, as what `fleet`
ships to executors does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

MAX_VARINT_BYTES: Final = 10
"""Longest number of protobuf [B]: 64 bits."""
_MAX_UVARINT_BYTES: Final = 5


class UnreadableError(ValueError):
    """Bytes that do not follow their format; the text says what is wrong, or where."""


def encode_varint(value: int) -> bytes:
    r"""A number of 0 or more.

    >>> encode_varint(1), encode_varint(300)
    (b'\x01', b'\xac\x02')
    """
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_varint(data: bytes, at: int, end: int, max_bytes: int = MAX_VARINT_BYTES) -> tuple[int, int]:
    """The number at `at`, and the position after it.

    Raises:
        UnreadableError: it runs past `end`, or over `max_bytes`.
    """
    if end - at >= 2:  # most have one byte or two, and 16 MiB of small fields block the loop meanwhile
        low, high = data[at], data[at + 1]
        if low < 0x80:
            return low, at + 1
        if high < 0x80 and max_bytes > 1:
            return low & 0x7F | high << 7, at + 2
    value = shift = 0
    for position in range(at, min(end, at + max_bytes)):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position + 1
        shift += 7
    raise UnreadableError(f"a number is cut short or longer than {max_bytes} bytes")


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """The number of 32 bits at `at` (Kafka's `ByteUtils.readUnsignedVarint`), and the position after it.

    Raises:
        UnreadableError: it has more than 5 bytes, or the data ends within it.
        IndexError: the data ends before it.
    """
    value = data[at]
    if value < 0x80:
        return value, at + 1
    value, at = read_varint(data, at, len(data), _MAX_UVARINT_BYTES)
    return value & 0xFFFFFFFF, at


def scan_varint(data: bytes, at: i64, end: i64, max_bytes: i64 = MAX_VARINT_BYTES) -> tuple[i64, i64]:
    """`read_varint` for compiled loops, where an `int` and an exception take longer: the lowest 64 bits of the number,
    and the position after it, which is -1 if the number does not end in time.
    """
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
