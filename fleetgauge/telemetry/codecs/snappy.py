"""Snappy, as a raw block (librdkafka, franz-go) or framed by snappy-java, "xerial" (the Java client)."""

import struct
from typing import Final

import snappy

from fleetgauge.base.varint import UnreadableError, read_varint
from fleetgauge.telemetry.codecs.bounds import MAX_BLOCKS, broken, too_large, too_many_frames

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
"""The magic, then two int32: version and lowest compatible version."""

_BLOCK_LENGTH = struct.Struct(">i")
_MAX_LENGTH_BYTES: Final = 5
_MAX_EXPANSION: Final = 22
"""A copy of 64 bytes takes 3 bytes: no snappy block decompresses to more than 21.4 times its length."""


def decompress_snappy(data: bytes, max_bytes: int) -> bytes:
    """Returns the decompressed bytes of a raw block or of all xerial blocks.

    Raises:
        InvalidRecordError: not snappy, truncated, or followed by other data.
        TelemetryTooLargeError: more than `max_bytes` [B].
    """
    if data.startswith(XERIAL_MAGIC):
        return _decompress_xerial(data, max_bytes)
    return _decompress_block(data, max_bytes, max_bytes)


def _decompress_xerial(data: bytes, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    room = max_bytes
    position = 0
    for _ in range(MAX_BLOCKS):
        if position == len(data):
            return b"".join(chunks)
        if data.startswith(XERIAL_MAGIC, position):  # streams may be concatenated: a header between blocks
            position += _XERIAL_HEADER_BYTES
            continue
        block, position = _next_block(data, position)
        chunk = _decompress_block(block, room, max_bytes)
        room -= len(chunk)
        chunks.append(chunk)
    raise too_many_frames("snappy", MAX_BLOCKS)


def _next_block(data: bytes, position: int) -> tuple[bytes, int]:
    """Returns the xerial block at `position`, and the position of the next one."""
    start = position + _BLOCK_LENGTH.size
    if start > len(data):
        raise broken("snappy", "it is cut off")
    (length,) = _BLOCK_LENGTH.unpack_from(data, position)
    if length < 0 or start + length > len(data):
        raise broken("snappy", f"a block of {length} bytes where {len(data) - start} are left")
    return data[start : start + length], start + length


def _decompress_block(block: bytes, room: int, max_bytes: int) -> bytes:
    stated = _stated_length(block)
    if stated > room:
        raise too_large(max_bytes)
    if stated > len(block) * _MAX_EXPANSION:
        raise broken("snappy", f"{len(block)} bytes cannot stand for {stated}")
    try:
        return snappy.decompress(block)  # type: ignore[no-any-return]
    except snappy.UncompressError as error:
        raise broken("snappy", error.__cause__ or "corrupt") from None


def _stated_length(block: bytes) -> int:
    """Returns the decompressed length [B] from the head of a raw block: a little-endian varint of up to 32 bits."""
    try:
        return read_varint(block, 0, len(block), _MAX_LENGTH_BYTES)[0]
    except UnreadableError:
        raise broken("snappy", "no length at its head") from None
