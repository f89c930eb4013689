"""Every codec against its own encoder, on any bytes and any damage."""

import gzip
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.telemetry.codecs import CompressionType, decompressors
from fleetgauge.telemetry.codecs.snappy import XERIAL_MAGIC

MAX_BYTES = 2_000
Encode = Callable[[bytes], bytes]


def zstd_streamed(data: bytes) -> bytes:
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(data) + stream.flush()


def xerial(data: bytes) -> bytes:
    blocks = [snappy.compress(data[at : at + 100]) for at in range(0, len(data), 100)]
    framed = (len(block).to_bytes(4, "big") + block for block in blocks)
    return XERIAL_MAGIC + bytes([0, 0, 0, 1] * 2) + b"".join(framed)


ENCODERS: list[tuple[CompressionType, Encode]] = [
    (CompressionType.NONE, bytes),
    (CompressionType.GZIP, gzip.compress),
    (CompressionType.SNAPPY, snappy.compress),
    (CompressionType.SNAPPY, xerial),
    (CompressionType.LZ4, lz4.frame.compress),
    (CompressionType.ZSTD, zstandard.compress),
    (CompressionType.ZSTD, zstd_streamed),
]
FUNCTIONS = decompressors(MAX_BYTES)

payloads = st.one_of(
    st.binary(max_size=4_000),
    st.builds(lambda piece, times: piece * times, st.binary(max_size=40), st.integers(0, 200)),
)


@pytest.mark.parametrize(("kind", "encode"), ENCODERS)
@given(data=payloads)
def test_a_payload_comes_back_whole_or_is_too_large(kind: CompressionType, encode: Encode, data: bytes) -> None:
    encoded = encode(data)
    if len(data) <= MAX_BYTES:
        assert FUNCTIONS[kind](encoded) == data
    else:
        with pytest.raises(TelemetryTooLargeError):
            FUNCTIONS[kind](encoded)


@pytest.mark.parametrize(("kind", "encode"), ENCODERS)
@given(data=payloads, damage=st.data())
def test_damage_is_refused_with_our_own_errors_or_stays_within_the_bound(
    kind: CompressionType, encode: Encode, data: bytes, damage: st.DataObject
) -> None:
    encoded = bytearray(encode(data))
    for _ in range(damage.draw(st.integers(1, 4))):
        if encoded:
            at = damage.draw(st.integers(0, len(encoded) - 1))
            encoded[at] = damage.draw(st.integers(0, 255))
    try:
        out = FUNCTIONS[kind](bytes(encoded))
    except (InvalidRecordError, TelemetryTooLargeError):
        return
    assert len(out) <= MAX_BYTES


@pytest.mark.parametrize("kind", list(CompressionType))
@given(noise=st.binary(max_size=300))
def test_noise_is_refused_with_our_own_errors_or_stays_within_the_bound(kind: CompressionType, noise: bytes) -> None:
    try:
        out = FUNCTIONS[kind](noise)
    except (InvalidRecordError, TelemetryTooLargeError):
        return
    assert len(out) <= MAX_BYTES
