"""LZ4 in its frame format, one frame or several."""

from lz4.frame import LZ4FrameDecompressor

from telemetry.codecs.bounds import MAX_FRAMES, broken, too_large, too_many_frames


def decompress_lz4(data: bytes, max_bytes: int) -> bytes:
    """Returns the decompressed bytes of every frame.

    Raises:
        InvalidRecordError: not an LZ4 frame, truncated, or followed by other data.
        TelemetryTooLargeError: more than `max_bytes` [B].
    """
    chunks: list[bytes] = []
    room = max_bytes
    for _ in range(MAX_FRAMES):
        frame = LZ4FrameDecompressor()
        try:
            chunk = frame.decompress(data, max_length=room + 1)
        except RuntimeError as error:
            raise broken("lz4", error) from None
        room -= len(chunk)
        if room < 0:
            raise too_large(max_bytes)
        if not frame.eof:
            raise broken("lz4", "it is cut off")
        chunks.append(chunk)
        data = frame.unused_data
        if not data:
            return b"".join(chunks)
    raise too_many_frames("lz4")
