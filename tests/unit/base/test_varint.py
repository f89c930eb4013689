"""Kafka's and protobuf's numbers of seven bits per byte, against kio's and protobuf's own writers and readers."""

import io

import pytest
from google.protobuf.wrappers_pb2 import UInt64Value
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.readers import read_unsigned_varint
from kio.serial.writers import write_unsigned_varint
from kio.static.primitive import uvarint

from fleetgauge.base.varint import UnreadableError, encode_varint, read_uvarint, read_varint, scan_varint

LONGEST = 1 << 64


@given(st.integers(0, LONGEST - 1))
def test_a_number_is_written_as_protobuf_writes_it_and_read_back(value: int) -> None:
    encoded = encode_varint(value)
    assert UInt64Value(value=value).SerializeToString() == (b"\x08" + encoded if value else b"")
    assert read_varint(b"." + encoded + b"\x81", 1, len(encoded) + 1) == (value, len(encoded) + 1)
    if value < LONGEST // 2:
        assert scan_varint(b"." + encoded + b"\x81", 1, len(encoded) + 1) == (value, len(encoded) + 1)


@given(st.integers(0, (1 << 31) - 1))
def test_a_length_is_written_and_read_as_kafka_does(value: int) -> None:
    buffer = io.BytesIO()
    write_unsigned_varint(buffer, uvarint(value))
    assert encode_varint(value) == buffer.getvalue()
    assert read_uvarint(buffer.getvalue(), 0) == (value, len(buffer.getvalue()))
    assert read_unsigned_varint(encode_varint(value), 0) == (value, len(buffer.getvalue()))


@pytest.mark.parametrize("length", range(1, 10))
def test_a_number_that_is_cut_or_too_long_is_refused(length: int) -> None:
    encoded = b"\x80" * length + b"\x01"
    for end, most in ((length, 10), (length + 1, length)):
        with pytest.raises(UnreadableError, match=f"a number is cut short or longer than {most} bytes"):
            read_varint(encoded, 0, end, most)
        assert scan_varint(encoded, 0, end, most) == (0, -1)
    assert read_varint(encoded, 0, length + 1, length + 1) == (1 << 7 * length, length + 1)


def test_a_length_of_kafka_has_five_bytes_at_most() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x0f", 0) == (0xFFFFFFFF, 5)
    assert read_uvarint(b"\x85\x80\x80\x80\x70", 0) == (5, 5)  # bits beyond the 32nd are dropped, as in Java
    for cut_or_long in (b"\x80" * 5 + b"\x01", b"\x80\x80"):
        with pytest.raises(UnreadableError):
            read_uvarint(cut_or_long, 0)
    with pytest.raises(IndexError):
        read_uvarint(b"", 0)
