"""`telemetry.codecs`: whatever the bytes, no more than the bound, two kinds of error, and what the libraries say."""

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import lz4.frame
import snappy
import zstandard
from fuzz.target import Target
from support.payloads.payloads import metrics_data

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.telemetry.codecs import CompressionType, decompressors
from fleetgauge.telemetry.codecs.snappy import XERIAL_MAGIC

MAX_BYTES = 64 * 1024


def _zstd(data: bytes) -> bytes:
    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data), read_across_frames=True) as reader:
        return bytes(reader.read())


def _lz4(data: bytes) -> bytes:
    with lz4.frame.open(io.BytesIO(_streams(data, b"\x04\x22\x4d\x18", lz4.frame.LZ4FrameDecompressor))) as reader:
        return bytes(reader.read())


def _gzip(data: bytes) -> bytes:
    return gzip.decompress(_streams(data, b"\x1f\x8b", lambda: zlib.decompressobj(31)))


def _streams(data: bytes, magic: bytes, new: Callable[[], Any]) -> bytes:
    """`data` without what is behind its last stream, which a broker ignores."""
    rest = data
    while rest == data or rest.startswith(magic):
        stream = new()
        stream.decompress(rest)
        rest = stream.unused_data or b""
    return data[: len(data) - len(rest)]


_CODECS = decompressors(MAX_BYTES)
_ORACLES: dict[CompressionType, Callable[[bytes], bytes]] = {
    CompressionType.NONE: bytes,
    CompressionType.GZIP: _gzip,
    CompressionType.SNAPPY: snappy.uncompress,
    CompressionType.LZ4: _lz4,
    CompressionType.ZSTD: _zstd,
}
COMPRESS: dict[CompressionType, Callable[[bytes], bytes]] = {
    CompressionType.NONE: bytes,
    CompressionType.GZIP: lambda data: gzip.compress(data, mtime=0),
    CompressionType.SNAPPY: snappy.compress,
    CompressionType.LZ4: lz4.frame.compress,
    CompressionType.ZSTD: zstandard.ZstdCompressor().compress,
}


def run(data: bytes) -> None:
    if not data:
        return
    codec = CompressionType(data[0] % len(CompressionType))
    payload = data[1:]
    assert _CODECS[codec](COMPRESS[codec](payload)) == payload, "a round trip changed it"
    try:
        found = _CODECS[codec](payload)
    except (InvalidRecordError, TelemetryTooLargeError):
        return
    assert len(found) <= MAX_BYTES
    if not payload.startswith(XERIAL_MAGIC):
        assert found == _ORACLES[codec](payload)


def seeds() -> Iterator[bytes]:
    small, repeated, bomb = metrics_data(2), metrics_data(40), bytes(MAX_BYTES + 1)
    for codec, compress in COMPRESS.items():
        first = bytes((codec,))
        for payload in (b"", small, repeated, bomb):
            yield (first + compress(payload))[:2_048]
        yield first + compress(small) + compress(small)
    block = snappy.compress(small)
    xerial = XERIAL_MAGIC + bytes(7) + b"\x01"
    yield b"\x02" + xerial + len(block).to_bytes(4, "big") + block + xerial + len(block).to_bytes(4, "big") + block
    unstated = zstandard.ZstdCompressor(write_content_size=False)
    yield b"\x04" + unstated.compress(small)
    yield b"\x04" + unstated.compress(bomb)
    yield b"\x04\x50\x2a\x4d\x18\x02\x00\x00\x00zz" + unstated.compress(small)  # a skippable frame before it


TARGET = Target(run=run, seeds=seeds, max_bytes=2_048, memory_bytes=64 * MAX_BYTES, steps_per_byte=50)
