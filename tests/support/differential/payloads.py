"""What a trace can push: every codec, right and broken, and payloads at every bound."""

import functools
import gzip
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import lz4.frame
import snappy
import zstandard
from support.clients.raw_client import GZIP, LZ4, NONE, SNAPPY, ZSTD
from support.payloads.payloads import metrics_data

MAX_BYTES = 1 << 20
"""`telemetry.max.bytes` of both, by default."""


@dataclass(frozen=True)
class Payload:
    """Bytes under a compression type."""

    compression_type: int
    data: bytes


def _xerial(data: bytes, block_bytes: int = 32 << 10) -> bytes:
    """As snappy-java's SnappyOutputStream writes, which the Java client uses."""
    out = [b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), block_bytes):
        block = snappy.compress(data[start : start + block_bytes])
        out.append(struct.pack(">i", len(block)) + block)
    return b"".join(out)


_COMPRESS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (NONE, bytes),
    "gzip": (GZIP, gzip.compress),
    "snappy-raw": (SNAPPY, snappy.compress),
    "snappy-xerial": (SNAPPY, _xerial),
    "lz4": (LZ4, lz4.frame.compress),
    "zstd": (ZSTD, zstandard.compress),
}
CODECS = tuple(_COMPRESS)
COMPRESSED = CODECS[1:]


def _good() -> bytes:
    return metrics_data(5)


def _padded(size: int, seed: int = 714) -> bytes:
    """A well-formed `MetricsData` of `size` bytes that does not compress: random bytes in fields that OTLP lacks."""
    field_head = b"\xa2\x06"  # field 100, length-delimited
    content_bytes = size - len(field_head) - 3
    length = struct.pack("BBB", content_bytes & 0x7F | 0x80, content_bytes >> 7 & 0x7F | 0x80, content_bytes >> 14)
    assert content_bytes >> 21 == 0
    return field_head + length + random.Random(seed).randbytes(content_bytes)


def _halfway(size: int) -> bytes:
    """A well-formed `MetricsData` of about `size` bytes that compresses to a half."""
    letters = random.Random(714).randbytes(1 << 18)
    field = b"\xa2\x06" + b"\x80\x80\x20" + letters.hex().encode()
    return field * (size // len(field))


def _inflating(size: int) -> bytes:
    """A well-formed `MetricsData` of `size` bytes that compresses a hundredfold and more."""
    field = b"\xa2\x06" + b"\x80\x80\x20" + bytes(1 << 19)
    return field * (size // len(field))


_MALFORMED: dict[str, Callable[[], bytes]] = {
    "cut": lambda: _good()[:-3],
    "wire-type": lambda: b"\x0f" + _good(),
    "not-protobuf": lambda: b"this is no protobuf at all",
    "not-utf-8": lambda: b"\x0a\x0c\x12\x0a\x12\x08\x0a\x02\xff\xfe\x12\x02ab",
}
MALFORMED = tuple(_MALFORMED)


def _broken(codec: str, how: str) -> bytes:
    data = _COMPRESS[codec][1](_good())
    if how == "cut":
        return data[: len(data) // 2]
    assert how == "garbage"
    return b"no codec begins in this way, whatever its frame is like"


def _garbled(codec: str) -> Payload:
    """Bytes in the middle are others; without a checksum it still decompresses, to something else."""
    number, compress = _COMPRESS[codec]
    data = compress(_good())
    middle = len(data) // 2
    flipped = bytes(byte ^ 0xFF for byte in data[middle : middle + 8])
    return Payload(number, data[:middle] + flipped + data[middle + 8 :])


@functools.cache
def payload(name: str) -> Payload:
    """The payload of that name: `kind:detail`, for example `good:zstd`, `broken:gzip:cut`."""
    kind, _, detail = name.partition(":")
    return _MAKERS[kind](detail)


def _compressed(codec: str, data: bytes) -> Payload:
    number, compress = _COMPRESS[codec]
    return Payload(number, compress(data))


def _make_malformed(detail: str) -> Payload:
    codec, _, how = detail.partition(":")
    return _compressed(codec, _MALFORMED[how]())


def _make_broken(detail: str) -> Payload:
    codec, _, how = detail.partition(":")
    return Payload(_COMPRESS[codec][0], _broken(codec, how))


def _trailing(codec: str) -> Payload:
    whole = _compressed(codec, _good())
    return Payload(whole.compression_type, whole.data + b"\x00trailing bytes")


def _twice(codec: str) -> Payload:
    whole = _compressed(codec, _good())
    return Payload(whole.compression_type, whole.data * 2)


def _member_without_end(_: str) -> Payload:
    member = zlib.compressobj(wbits=31)
    return Payload(GZIP, member.compress(_good()) + member.flush(zlib.Z_SYNC_FLUSH))


_MAKERS: dict[str, Callable[[str], Payload]] = {
    "good": lambda codec: _compressed(codec, _good()),
    "empty": lambda codec: Payload(_COMPRESS[codec][0], b""),
    "compressed-empty": lambda codec: _compressed(codec, b""),
    "largest": lambda _: Payload(NONE, _padded(MAX_BYTES)),
    "too-large": lambda codec: Payload(_COMPRESS[codec][0], _padded(MAX_BYTES + 1)),
    "unknown-codec": lambda number: Payload(int(number), _good()),
    "malformed": _make_malformed,
    "broken": _make_broken,
    "garbled": _garbled,
    "trailing": _trailing,
    "twice": _twice,
    "unended": _member_without_end,
    "large-decompressed": lambda codec: _compressed(codec, _halfway(3 << 19)),
    "bomb": lambda codec: _compressed(codec, _inflating(17 << 20)),
}
