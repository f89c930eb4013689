"""The codecs on what attackers and other people's encoders send."""

import gzip
import zlib
from collections.abc import Callable

import lz4.frame
import pytest
import snappy
import zstandard

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.telemetry.codecs import CompressionType, decompressors
from fleetgauge.telemetry.codecs.snappy import XERIAL_MAGIC

MAX_BYTES = 1 << 20
DATA = bytes(range(256)) * 40
Encode = Callable[[bytes], bytes]
Decompress = Callable[[CompressionType, bytes], bytes]


def zstd_unstated(data: bytes, window_log: int = 21) -> bytes:
    """A frame without its content size, as streaming encoders (librdkafka, Java) write it."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=window_log)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(data) + stream.flush()


def xerial(data: bytes, block_bytes: int = 1_000) -> bytes:
    blocks = [snappy.compress(data[at : at + block_bytes]) for at in range(0, len(data), block_bytes)]
    header = XERIAL_MAGIC + (1).to_bytes(4, "big") * 2
    return header + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


ENCODERS = [
    pytest.param(CompressionType.GZIP, gzip.compress, id="gzip"),
    pytest.param(CompressionType.GZIP, lambda data: gzip.compress(data, 0), id="gzip level 0"),
    pytest.param(CompressionType.SNAPPY, snappy.compress, id="snappy raw"),
    pytest.param(CompressionType.SNAPPY, xerial, id="snappy xerial"),
    pytest.param(CompressionType.LZ4, lz4.frame.compress, id="lz4"),
    pytest.param(CompressionType.LZ4, lambda data: lz4.frame.compress(data, store_size=False), id="lz4 unstated"),
    pytest.param(CompressionType.ZSTD, zstandard.compress, id="zstd stated"),
    pytest.param(CompressionType.ZSTD, zstd_unstated, id="zstd unstated"),
]


@pytest.fixture
def decompress() -> Decompress:
    functions = decompressors(MAX_BYTES)
    return lambda kind, data: functions[kind](data)


@pytest.mark.parametrize(("kind", "encode"), ENCODERS)
def test_what_clients_write_is_read(decompress: Decompress, kind: CompressionType, encode: Encode) -> None:
    for data in (b"", b"x", DATA):
        assert decompress(kind, encode(data)) == data


@pytest.mark.parametrize(("kind", "encode"), ENCODERS)
def test_the_bound_is_met_exactly(decompress: Decompress, kind: CompressionType, encode: Encode) -> None:
    assert len(decompress(kind, encode(bytes(MAX_BYTES)))) == MAX_BYTES
    with pytest.raises(TelemetryTooLargeError, match=f"more than {MAX_BYTES} bytes"):
        decompress(kind, encode(bytes(MAX_BYTES + 1)))


@pytest.mark.parametrize(("kind", "encode"), ENCODERS)
def test_a_stream_cut_anywhere_is_refused(decompress: Decompress, kind: CompressionType, encode: Encode) -> None:
    # A xerial stream has no end mark: cut between two blocks it is a shorter stream.
    data = DATA[:900]
    encoded = encode(data)
    start = 17 if encoded.startswith(XERIAL_MAGIC) else 1
    for end in range(start, len(encoded)):
        with pytest.raises(InvalidRecordError):
            decompress(kind, encoded[:end])


@pytest.mark.parametrize("garbage", [b"\x00", b"garbage", bytes(64)])
@pytest.mark.parametrize(("kind", "encode"), ENCODERS)
def test_garbage_behind_the_stream_is_ignored_where_a_broker_ignores_it_and_else_refused(
    decompress: Decompress, kind: CompressionType, encode: Encode, garbage: bytes
) -> None:
    for data in (DATA, b""):
        if kind in (CompressionType.GZIP, CompressionType.LZ4):
            assert decompress(kind, encode(data) + garbage) == data
            continue
        with pytest.raises(InvalidRecordError):
            decompress(kind, encode(data) + garbage)


@pytest.mark.parametrize(("kind", "encode"), [each for each in ENCODERS if each.id != "snappy raw"])
def test_streams_may_be_joined_and_are_bounded_together(
    decompress: Decompress, kind: CompressionType, encode: Encode
) -> None:
    joined = encode(DATA) + encode(b"") + encode(DATA)
    assert decompress(kind, joined) == DATA + DATA
    half = encode(bytes(MAX_BYTES // 2 + 1))
    with pytest.raises(TelemetryTooLargeError):
        decompress(kind, half + half)


@pytest.mark.parametrize(
    ("kind", "encode"), [each for each in ENCODERS if each.values[0] is not CompressionType.SNAPPY]
)
def test_a_payload_of_countless_empty_frames_is_refused(
    decompress: Decompress, kind: CompressionType, encode: Encode
) -> None:
    with pytest.raises(TelemetryTooLargeError, match=r"more than 256 \w+ frames"):
        decompress(kind, encode(b"") * 10_000)


def test_a_payload_of_countless_snappy_blocks_is_refused(decompress: Decompress) -> None:
    blocks = xerial(b"x") + b"\x00\x00\x00\x01\x00" * 100_000
    with pytest.raises(TelemetryTooLargeError, match="more than 16384 snappy frames"):
        decompress(CompressionType.SNAPPY, blocks)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff\xff\xff",
        b"\xff\xff",
        XERIAL_MAGIC,
        XERIAL_MAGIC + bytes(8) + b"\xff\xff\xff\xff",
        XERIAL_MAGIC + bytes(8) + b"\x00\x00\x00\x09\x00",
        XERIAL_MAGIC + bytes(8) + b"\x00\x00",
        b"\x80\x80\x10\x00",  # 256 KiB out of 4 bytes
    ],
)
def test_broken_snappy_is_refused(decompress: Decompress, data: bytes) -> None:
    with pytest.raises(InvalidRecordError):
        decompress(CompressionType.SNAPPY, data)


def test_a_zstd_level_with_a_larger_window_than_ours_is_too_large_not_invalid(decompress: Decompress) -> None:
    # INVALID_RECORD would switch the client off for good.
    with pytest.raises(TelemetryTooLargeError):
        decompress(CompressionType.ZSTD, zstd_unstated(DATA, window_log=27))


def test_a_zstd_frame_that_lies_about_its_size_is_refused(decompress: Decompress) -> None:
    honest = zstandard.compress(DATA)
    at = honest.index(len(DATA).to_bytes(2, "little")) if len(DATA) < 256 else 5
    lying = honest[:at] + ((int.from_bytes(honest[at : at + 2], "little") - 9) & 0xFFFF).to_bytes(2, "little")
    with pytest.raises(InvalidRecordError):
        decompress(CompressionType.ZSTD, lying + honest[at + 2 :])


def test_a_codec_is_as_good_as_new_after_a_refusal(decompress: Decompress) -> None:
    for bad in (b"nonsense", zstd_unstated(bytes(MAX_BYTES * 2)), zstandard.compress(DATA)[:-3]):
        with pytest.raises((InvalidRecordError, TelemetryTooLargeError)):
            decompress(CompressionType.ZSTD, bad)
        assert decompress(CompressionType.ZSTD, zstd_unstated(DATA)) == DATA


def test_zlib_without_the_gzip_wrapper_is_not_gzip(decompress: Decompress) -> None:
    with pytest.raises(InvalidRecordError, match="the payload is not gzip"):
        decompress(CompressionType.GZIP, zlib.compress(DATA))


def test_an_uncompressed_payload_is_bounded_too(decompress: Decompress) -> None:
    assert decompress(CompressionType.NONE, bytes(MAX_BYTES)) == bytes(MAX_BYTES)
    with pytest.raises(TelemetryTooLargeError):
        decompress(CompressionType.NONE, bytes(MAX_BYTES + 1))
