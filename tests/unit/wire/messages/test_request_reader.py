"""The schema-driven reader, against bytes that lie."""

import struct
import tracemalloc

import pytest
from kio.index import load_request_schema

from fleetgauge.base.varint import UnreadableError, read_uvarint
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.request_reader import MAX_ARRAY_ELEMENTS, MAX_TAGGED_FIELDS, read_body, skip_tagged_fields

METADATA_V0, METADATA_V13 = load_request_schema(3, 0), load_request_schema(3, 13)


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        (METADATA_V0, b"\x7f\xff\xff\xff"),
        (METADATA_V13, b"\xff\xff\xff\xff\x07"),
        (METADATA_V13, b"\xff\xff\xff\xff\x0f"),
    ],
    ids=["int32", "varint", "largest varint"],
)
def test_an_array_of_two_billion_elements_is_refused_without_taking_memory(schema: type, count: bytes) -> None:
    read_body(METADATA_V0, b"\x00\x00\x00\x00", 0)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="malformed_body: MetadataRequest"):
            read_body(schema, count + bytes(100), 0)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_an_array_of_more_elements_than_anybody_needs_is_refused() -> None:
    count = MAX_ARRAY_ELEMENTS + 1
    with pytest.raises(ProtocolError, match=f"an array of {count} elements"):
        read_body(METADATA_V0, struct.pack(">i", count) + bytes(2 * count), 0)


def test_a_count_beyond_the_bytes_is_refused_before_an_element_is_read() -> None:
    with pytest.raises(ProtocolError, match="an array of 101 elements in 100 bytes"):
        read_body(METADATA_V0, struct.pack(">i", 101) + bytes(100), 0)


def test_null_where_the_schema_has_none_is_refused() -> None:
    with pytest.raises(ProtocolError, match="null where an array is required"):
        read_body(METADATA_V0, b"\xff\xff\xff\xff", 0)
    with pytest.raises(ProtocolError, match="null where a value is required"):
        read_body(METADATA_V0, b"\x00\x00\x00\x01\xff\xff", 0)


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError, match="malformed_body"):
        read_body(METADATA_V0, b"\x00\x00\x00\x01\x00\x01\xff", 0)


def test_a_struct_that_may_be_null_is_read_either_way() -> None:
    schema = load_request_schema(75, 0)  # DescribeTopicPartitions: a nullable cursor (KIP-893)
    head = b"\x01" + struct.pack(">i", 10)
    assert read_body(schema, head + b"\xff" + b"\x00", 0).cursor is None
    cursor = b"\x01" + b"\x02a" + struct.pack(">i", 3) + b"\x00"
    assert read_body(schema, head + cursor + b"\x00", 0).cursor.partition_index == 3


def test_known_tagged_fields_are_read_and_unknown_ones_stepped_over() -> None:
    schema = load_request_schema(1, 13)  # Fetch: tag 0 is the cluster id
    head = struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, -1) + b"\x01\x01\x01"
    assert read_body(schema, head + b"\x02\x00\x03\x03ab\x05\x01z", 0).cluster_id == "ab"


def test_a_struct_with_more_tagged_fields_than_any_real_one_is_refused() -> None:
    schema = load_request_schema(71, 0)
    fields = [bytes((tag, 0)) for tag in range(100)]
    most = bytes(16) + bytes((MAX_TAGGED_FIELDS,)) + b"".join(fields[:MAX_TAGGED_FIELDS])
    assert read_body(schema, most, 0).client_instance_id is None
    more = bytes(16) + bytes((MAX_TAGGED_FIELDS + 1,)) + b"".join(fields[: MAX_TAGGED_FIELDS + 1])
    with pytest.raises(ProtocolError, match="33 tagged fields, at most 32"):
        read_body(schema, more, 0)
    with pytest.raises(UnreadableError, match="33 tagged fields, at most 32"):
        skip_tagged_fields(more, 16)


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"\x00", 0), (b"\x7f", 127), (b"\x80\x01", 128), (b"\xff\xff\xff\xff\x0f", 2**32 - 1), (b"\x80\x80\x00", 0)],
)
def test_a_varint_ends_at_its_first_low_byte(data: bytes, value: int) -> None:
    assert read_uvarint(b"x" + data + b"y", 1) == (value, 1 + len(data))
