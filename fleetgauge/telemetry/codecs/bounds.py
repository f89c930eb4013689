"""Bounds and errors shared by all codecs."""

from typing import Final

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError

MAX_FRAMES: Final = 256
"""Frames (zstd, lz4) or members (gzip) in one payload. Clients write one; each takes time whatever its size."""

MAX_BLOCKS: Final = 16_384
"""Blocks in one xerial snappy stream. The Java client's are 32 KiB: 16 MiB are 512 of them."""


def too_large(max_bytes: int) -> TelemetryTooLargeError:
    """Returns the error for a payload that decompresses to more than `max_bytes` [B]."""
    return TelemetryTooLargeError(f"the payload decompresses to more than {max_bytes} bytes")


def broken(codec: str, detail: object) -> InvalidRecordError:
    """Returns the error for input that is not valid for `codec`."""
    return InvalidRecordError(f"the payload is not {codec}: {detail}")


def too_many_frames(codec: str, most: int = MAX_FRAMES) -> TelemetryTooLargeError:
    """Returns the error for a payload of more than `most` pieces, which a broker takes: it must not end telemetry."""
    return TelemetryTooLargeError(f"the payload has more than {most} {codec} frames")
