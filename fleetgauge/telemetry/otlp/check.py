"""Checks whether bytes are a well-formed message, without making objects of it. Compiled by mypyc.

Positions are checked against the end of the message, and by mypyc against the end of the bytes. The time grows with the
bytes alone: each is read once, however messages are nested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import read_i64_le

from fleetgauge.base.varint import scan_varint
from fleetgauge.telemetry.otlp.fields import (
    BYTES,
    FIXED32,
    FIXED64,
    MAX_DEPTH,
    MESSAGE,
    PACKED_FIXED64,
    PACKED_VARINT,
    STRING,
    UNDECIDED,
)  # fmt: skip

if TYPE_CHECKING:
    from mypy_extensions import i64

_MAX_LENGTH_BYTES: Final = 5
_HIGH_BITS: Final = -0x7F7F7F7F7F7F7F80
"""The highest bit of each of eight bytes: all 0 in ASCII."""


def is_well_formed(data: bytes, table: bytes, message: int = 0, depth: int = MAX_DEPTH) -> bool:
    """Checks lengths, wire types, UTF-8 and depth of nesting.

    Args:
        data: the serialised message.
        table: from `schema.table_of`.
        message: its type, as the number of its row in `table`.
        depth: how many levels of messages may be in it.

    Returns:
        True if protobuf's parser takes `data`. False if not, and for two forms that OTLP's clients do not send: groups,
        and field numbers above 15. Protobuf's parser has the verdict then, and the text of the error.
    """
    return is_part(data, 0, len(data), table, message << 7, depth)


def is_part(data: bytes, start: i64, end: i64, table: bytes, row: i64, depth: i64) -> bool:
    """True if some fields of a message, whose row in `table` begins at `row`, are well-formed."""
    high_bits: i64 = _HIGH_BITS
    return _is_message(data, start, end, row, depth, table, high_bits)


def is_text(data: bytes, start: i64, end: i64) -> bool:
    """True for UTF-8."""
    high_bits: i64 = _HIGH_BITS
    return _is_utf8(data, start, end, high_bits)


def field_end(data: bytes, at: i64, end: i64, table: bytes, row: i64) -> i64:
    """The position after a field that begins at `at`, whose content is not checked; -1 if it is not taken."""
    tag: i64 = data[at]
    if tag >= 0x80:
        return -1
    action: i64 = table[row + tag]
    if action >= BYTES:
        size, at = read_length(data, at + 1, end)
        return at + size
    if action == UNDECIDED:
        return -1
    return skip_scalar(data, at + 1, end, action)


def _is_message(data: bytes, at: i64, end: i64, row: i64, depth: i64, table: bytes, high_bits: i64) -> bool:  # noqa: C901  # a call for each field would double the time
    while at < end:
        tag: i64 = data[at]
        at += 1
        if tag >= 0x80:
            return False
        action: i64 = table[row + tag]
        if action >= BYTES:
            if at >= end:
                return False
            size: i64 = data[at]
            at += 1
            if size >= 0x80:
                size, at = scan_varint(data, at - 1, end, _MAX_LENGTH_BYTES)
                if at < 0:
                    return False
            stop: i64 = at + size
            if stop > end:
                return False
            if action >= MESSAGE:
                if depth == 0:
                    return False
                if not _is_message(data, at, stop, (action - MESSAGE) << 7, depth - 1, table, high_bits):
                    return False
            elif action == STRING:
                if not _is_utf8(data, at, stop, high_bits):
                    return False
            elif action == PACKED_FIXED64:
                if size & 7 != 0:
                    return False
            elif action == PACKED_VARINT and not _are_varints(data, at, stop):
                return False
            at = stop
        elif action == FIXED64:
            at += 8
            if at > end:
                return False
        elif action == UNDECIDED:
            return False
        else:
            at = skip_scalar(data, at, end, action)
            if at < 0:
                return False
    return True


def read_length(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """The length at `at`, and the position after it, which is -1 if what has this length would not end before `end`."""
    if at >= end:
        return 0, -1
    size: i64 = data[at]
    at += 1
    if size >= 0x80:
        size, at = scan_varint(data, at - 1, end, _MAX_LENGTH_BYTES)
    if at < 0 or size > end - at:
        return 0, -1
    return size, at


def skip_scalar(data: bytes, at: i64, end: i64, action: i64) -> i64:
    """The position after a number; -1 if the message ends before."""
    if action == FIXED64:
        at += 8
    elif action == FIXED32:
        at += 4
    else:
        return scan_varint(data, at, end)[1]
    if at > end:
        return -1
    return at


def _are_varints(data: bytes, at: i64, end: i64) -> bool:
    while 0 <= at < end:
        at = scan_varint(data, at, end)[1]
    return at == end


def _is_utf8(data: bytes, start: i64, end: i64, high_bits: i64) -> bool:
    at: i64 = start
    seen_bits: i64 = 0
    while end - at >= 8:
        seen_bits |= read_i64_le(data, at)
        at += 8
    while at < end:
        byte: i64 = data[at]
        seen_bits |= byte
        at += 1
    if seen_bits & high_bits == 0:
        return True
    try:
        str(data[start:end], "utf-8")
    except UnicodeDecodeError:
        return False
    return True
