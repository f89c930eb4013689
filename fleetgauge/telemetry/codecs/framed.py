"""Gzip and the LZ4 frame format: one member or frame, or several. Bytes behind them are ignored, as by a broker."""

import zlib
from collections.abc import Callable
from typing import Any, Final

from lz4.frame import LZ4FrameDecompressor

from fleetgauge.telemetry.codecs.bounds import MAX_FRAMES, broken, too_large, too_many_frames

_GZIP_MAGIC: Final = b"\x1f\x8b"
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_GZIP_WRAPPER: Final = 31
"""zlib's window bits for a gzip header and trailer around the largest window."""


def decompress_gzip(data: bytes, max_bytes: int) -> bytes:
    """Returns the decompressed bytes of every member.

    Raises:
        InvalidRecordError: not gzip, or truncated.
        TelemetryTooLargeError: more than `max_bytes` [B].
    """
    return _decompress("gzip", _GZIP_MAGIC, lambda: zlib.decompressobj(_GZIP_WRAPPER), zlib.error, data, max_bytes)


def decompress_lz4(data: bytes, max_bytes: int) -> bytes:
    """Returns the decompressed bytes of every frame; raises as `decompress_gzip` does."""
    return _decompress("lz4", _LZ4_MAGIC, LZ4FrameDecompressor, RuntimeError, data, max_bytes)


def _decompress(
    codec: str, magic: bytes, new_frame: Callable[[], Any], error_type: type[Exception], data: bytes, max_bytes: int
) -> bytes:
    chunks: list[bytes] = []
    room = max_bytes
    for _ in range(MAX_FRAMES):
        frame = new_frame()
        try:
            chunk = frame.decompress(data, max_length=room + 1)
        except error_type as error:
            raise broken(codec, error) from None
        room -= len(chunk)
        if room < 0:
            raise too_large(max_bytes)
        if not frame.eof:
            raise broken(codec, "it is cut off")
        chunks.append(chunk)
        data = frame.unused_data or b""  # None: lz4
        if not data.startswith(magic):
            return b"".join(chunks)
    raise too_many_frames(codec)
