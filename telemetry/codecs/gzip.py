"""Gzip, one member or several."""

import zlib
from typing import Final

from telemetry.codecs.bounds import MAX_FRAMES, broken, too_large, too_many_frames

_GZIP_WRAPPER: Final = 31
"""zlib's window bits for a gzip header and trailer around the largest window."""


def decompress_gzip(data: bytes, max_bytes: int) -> bytes:
    """Returns the decompressed bytes of every member.

    Raises:
        InvalidRecordError: not gzip, truncated, or followed by other data.
        TelemetryTooLargeError: more than `max_bytes` [B].
    """
    chunks: list[bytes] = []
    room = max_bytes
    for _ in range(MAX_FRAMES):
        member = zlib.decompressobj(_GZIP_WRAPPER)
        try:
            chunk = member.decompress(data, room + 1)
        except zlib.error as error:
            raise broken("gzip", error) from None
        room -= len(chunk)
        if room < 0:
            raise too_large(max_bytes)
        if not member.eof:
            raise broken("gzip", "it is cut off")
        chunks.append(chunk)
        data = member.unused_data
        if not data:
            return b"".join(chunks)
    raise too_many_frames("gzip")
