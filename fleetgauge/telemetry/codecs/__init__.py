"""The five codecs of a push, with bounds enforced during decompression."""

from collections.abc import Callable
from functools import partial

from fleetgauge.telemetry.codecs.bounds import too_large
from fleetgauge.telemetry.codecs.compression_type import CompressionType
from fleetgauge.telemetry.codecs.framed import decompress_gzip, decompress_lz4
from fleetgauge.telemetry.codecs.snappy import decompress_snappy
from fleetgauge.telemetry.codecs.zstd import ZstdDecompressor

__all__ = ["CompressionType", "decompressors"]


def decompressors(max_bytes: int) -> dict[CompressionType, Callable[[bytes], bytes]]:
    """Returns a decompression function per compression type; none returns more than `max_bytes` [B].

    The functions raise InvalidRecordError for corrupt or incomplete input, and TelemetryTooLargeError beyond the bound.
    They share a context: not for several threads at once.
    """
    return {
        CompressionType.NONE: partial(_plain, max_bytes=max_bytes),
        CompressionType.GZIP: partial(decompress_gzip, max_bytes=max_bytes),
        CompressionType.SNAPPY: partial(decompress_snappy, max_bytes=max_bytes),
        CompressionType.LZ4: partial(decompress_lz4, max_bytes=max_bytes),
        CompressionType.ZSTD: ZstdDecompressor(max_bytes),
    }


def _plain(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise too_large(max_bytes)
    return data
