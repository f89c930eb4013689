"""Zstandard, one frame or several, with or without a stated content size."""

from typing import Final

import zstandard

from fleetgauge.telemetry.codecs.bounds import MAX_FRAMES, broken, too_large, too_many_frames

SLICE_BYTES: Final = 512
"""Input per call. A zstd block of 4 bytes can decompress to 128 KiB, so a slice adds at most 16 MiB."""

AT_ONCE_BYTES: Final = 1 << 20
"""A single frame with at most this content size is decompressed in one call, which is faster than slices."""

_MIN_WINDOW_BYTES: Final = 8 << 20
"""RFC 8878 recommends that decoders support windows of 8 MiB; levels up to 19 need at most that."""


class ZstdDecompressor:
    """Decompresses with one reused context (a new one per push takes five times as long).

    `zstandard.ZstdDecompressor.decompress(max_output_size=n)` ignores n when the frame states its content size,
    so the stated size is checked first; without one the frame is decompressed in slices of the input.
    Not for several threads at once.
    """

    def __init__(self, max_bytes: int) -> None:
        """Creates a decompressor that returns at most `max_bytes` [B]."""
        self._max_bytes = max_bytes
        window = max(_MIN_WINDOW_BYTES, 1 << (max_bytes - 1).bit_length())
        self._max_window_bytes = min(window, 1 << zstandard.WINDOWLOG_MAX)
        self._context = zstandard.ZstdDecompressor(max_window_size=self._max_window_bytes)
        self._at_once = self._context.decompress

    def __call__(self, data: bytes) -> bytes:
        """Returns the decompressed bytes.

        Raises:
            InvalidRecordError: not zstd, truncated, or followed by other data.
            TelemetryTooLargeError: more than the bound, or a window larger than the bound.
        """
        try:
            stated = zstandard.frame_content_size(data)
            if stated > self._max_bytes:
                raise too_large(self._max_bytes)
            if 0 < stated <= AT_ONCE_BYTES:
                try:
                    return self._at_once(data, allow_extra_data=False)
                except zstandard.ZstdError:
                    pass  # several frames, or a corrupt one: decided below
            return self._frames(data)
        except zstandard.ZstdError as error:
            if self._wants_a_larger_window(data):
                raise too_large(self._max_bytes) from None
            raise broken("zstd", error) from None

    def _wants_a_larger_window(self, data: bytes) -> bool:
        """True if the first frame is valid and only needs a larger window, which must not stop a client's telemetry for
        good.
        """
        try:
            return zstandard.get_frame_parameters(data).window_size > self._max_window_bytes
        except zstandard.ZstdError:
            return False

    def _frames(self, data: bytes) -> bytes:
        chunks: list[bytes] = []
        room = self._max_bytes
        position = 0
        for _ in range(MAX_FRAMES):
            position, room = self._frame(data, position, room, chunks)
            if position == len(data):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        raise too_many_frames("zstd")

    def _frame(self, data: bytes, position: int, room: int, chunks: list[bytes]) -> tuple[int, int]:
        """Decompresses the frame at `position` into `chunks`; returns the next position and the room left."""
        frame = self._context.decompressobj()
        while position < len(data):
            piece = data[position : position + SLICE_BYTES]
            chunk = frame.decompress(piece)
            position += len(piece)
            room -= len(chunk)
            if room < 0:
                raise too_large(self._max_bytes)
            if chunk:
                chunks.append(chunk)
            if frame.eof:
                return position - len(frame.unused_data), room
        raise broken("zstd", "it is cut off")
