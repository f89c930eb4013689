"""Splits a byte stream into Kafka's frames: an int32 with the size, then that many bytes. No I/O.

`wire.messages.codec` decodes the frames.
"""

import struct
from typing import Final

from fleetgauge.wire.errors import ProtocolError

SIZE_PREFIX_BYTES: Final = 4
MIN_REQUEST_BYTES: Final = 8
"""The smallest request header (version 0): api key, api version and correlation id."""

_SIZE = struct.Struct(">i")

# First bytes of other protocols that often reach a Kafka port, named in the log so that operators find the cause.
_UNKNOWN_PROTOCOLS: Final = (
    (b"\x16\x03", "it looks like TLS, and this listener speaks plaintext"),
    (b"GET ", "it looks like HTTP"),
    (b"POST", "it looks like HTTP"),
    (b"HEAD", "it looks like HTTP"),
    (b"PUT ", "it looks like HTTP"),
    (b"PRI ", "it looks like HTTP/2"),
    (b"SSH-", "it looks like SSH"),
    (b"PROX", "it looks like a PROXY header, and proxy.protocol.enable is off"),
    (b"\r\n\r\n", "it looks like a PROXY header, and proxy.protocol.enable is off"),
)


def unknown_protocol(first: bytes) -> str:
    """Describes a protocol other than Kafka's by the first bytes of a connection; empty if none matches."""
    return next((what for start, what in _UNKNOWN_PROTOCOLS if first.startswith(start)), "")


class FrameDecoder:
    """Decoder from bytes to complete frames.

    The result does not depend on how the bytes are split: frames before a malformed one are returned even if they share
    a chunk with it, and bytes after it are never read. Memory is bounded by one frame and one chunk, whatever size a
    peer announces: it is allocated as bytes arrive.

    Args:
        max_frame_bytes: the largest size accepted [B], without the prefix (Kafka's `socket.request.max.bytes`).
        min_frame_bytes: the smallest size accepted [B].

    Attributes:
        error: the error after which the stream is unusable; None before.
        partial: the incomplete frame, with its prefix.
    """

    __slots__ = ("_limit_name", "_max", "_min", "_wanted", "error", "partial")

    def __init__(self, max_frame_bytes: int, *, min_frame_bytes: int = MIN_REQUEST_BYTES) -> None:
        self._max = max_frame_bytes
        self._min = min_frame_bytes
        self._limit_name = "socket.request.max.bytes"
        self.partial: bytearray | None = None
        self._wanted = SIZE_PREFIX_BYTES
        self.error: ProtocolError | None = None

    @property
    def buffered_bytes(self) -> int:
        """Size of the incomplete frame [B]."""
        return len(self.partial) if self.partial is not None else 0

    def bound(self, min_frame_bytes: int, max_frame_bytes: int, limit_name: str) -> None:
        """Sets the size bounds from the next frame on; `limit_name` is the configuration key of the upper one."""
        self._min, self._max, self._limit_name = min_frame_bytes, max_frame_bytes, limit_name

    def is_one_frame(self, data: bytes) -> bool:
        """True if no frame is incomplete, and `data` is exactly one frame with its prefix."""
        if self.partial is not None or len(data) < SIZE_PREFIX_BYTES:
            return False
        (size,) = _SIZE.unpack_from(data)
        return bool(size == len(data) - SIZE_PREFIX_BYTES and self._min <= size <= self._max)

    def receive(self, data: bytes) -> list[bytes]:
        """Takes the next bytes of the stream and returns the frames that they complete, without prefixes.

        Raises:
            ProtocolError: malformed size (`negative_frame_size`, `empty_frame`, `short_frame`, `frame_too_large`). If
                `data` has complete frames before it, these are returned, `error` is set, and the next call raises.
                Every later call raises it again.
        """
        if self.error is not None:
            raise self.error
        if self.partial is not None:
            data = self._joined(self.partial, data)
        return self._cut(data) if data else []

    def discard(self) -> None:
        """Drops the incomplete frame; the rest of the stream is ignored."""
        self.partial = None

    def _joined(self, partial: bytearray, data: bytes) -> bytes:
        """Appends to the incomplete frame; returns all bytes once it is complete, otherwise empty bytes."""
        partial += data
        if len(partial) < self._wanted:
            return b""
        self.partial = None
        return bytes(partial)

    def _cut(self, data: bytes) -> list[bytes]:
        frames: list[bytes] = []
        start, end = 0, len(data)
        while end - start >= SIZE_PREFIX_BYTES:
            (size,) = _SIZE.unpack_from(data, start)
            if not self._min <= size <= self._max:
                self.error = self._refusal(size, data[start : start + SIZE_PREFIX_BYTES])
                if not frames:
                    raise self.error
                return frames
            body = start + SIZE_PREFIX_BYTES
            if end - body < size:
                self._keep(data, start, SIZE_PREFIX_BYTES + size)
                return frames
            start = body + size
            frames.append(data[body:start])
        if start < end:
            self._keep(data, start, SIZE_PREFIX_BYTES)
        return frames

    def _keep(self, data: bytes, start: int, wanted: int) -> None:
        self.partial = bytearray(memoryview(data)[start:])
        self._wanted = wanted

    def _refusal(self, size: int, prefix: bytes) -> ProtocolError:
        if size < 0:
            return ProtocolError("negative_frame_size", f"a frame of {size} bytes is announced")
        if size == 0:
            return ProtocolError("empty_frame", "a frame without a byte")
        if size < self._min:
            return ProtocolError("short_frame", f"a frame of {size} bytes cannot hold a request header")
        looks = unknown_protocol(prefix)
        hint = f"; {looks}" if looks else ""
        detail = f"a frame of {size} bytes is announced, {self._limit_name} is {self._max}{hint}"
        return ProtocolError("frame_too_large", detail)
