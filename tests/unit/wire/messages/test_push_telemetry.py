"""The fixed-shape reader of a push: null payloads, null ids, and every way to be malformed."""

import struct

import pytest

from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.push_telemetry import read_push_telemetry

ID = bytes(range(16))
FIXED = ID + struct.pack(">iBb", 5, 0, 0)


def test_the_null_payload_of_an_old_librdkafka_is_an_empty_one() -> None:
    assert read_push_telemetry(FIXED + b"\x00\x00", 0).metrics == b""


def test_what_follows_a_null_payload_is_checked_like_everything_else() -> None:
    with pytest.raises(ProtocolError, match="malformed_body"):
        read_push_telemetry(FIXED + b"\x00\x01\x05\x09xy", 0)
    with pytest.raises(ProtocolError, match="malformed_body"):
        read_push_telemetry(FIXED + b"\x00", 0)


def test_an_empty_payload_is_an_empty_one() -> None:
    assert read_push_telemetry(FIXED + b"\x01\x00", 0).metrics == b""


def test_the_zero_id_reaches_the_handler_as_none() -> None:
    assert read_push_telemetry(bytes(16) + FIXED[16:] + b"\x01\x00", 0).client_instance_id is None


@pytest.mark.parametrize(("byte", "terminating"), [(0, False), (1, True), (255, True)])
def test_every_byte_but_zero_means_terminating_as_in_kafka(byte: int, terminating: bool) -> None:
    assert read_push_telemetry(ID + struct.pack(">iBb", 5, byte, 0) + b"\x01\x00", 0).terminating is terminating


def test_a_payload_longer_than_127_bytes_has_a_longer_length() -> None:
    payload = bytes(300)
    assert read_push_telemetry(FIXED + b"\xad\x02" + payload + b"\x00", 0).metrics == payload


def test_a_push_cut_anywhere_is_refused() -> None:
    whole = FIXED + b"\x04abc\x01\x05\x02xy"
    assert read_push_telemetry(whole, 0).metrics == b"abc"
    for cut in range(len(whole)):
        with pytest.raises(ProtocolError) as caught:
            read_push_telemetry(whole[:cut], 0)
        assert caught.value.reason == "malformed_body"


@pytest.mark.parametrize(
    "rest",
    [b"\xff\xff\xff\xff\x0fabc", b"\xff\xff\xff\xff\xff\x01abc", b"\x05abc\x00", b"\x04abc\xff\xff\xff\xff\x0f"],
    ids=["2 GiB announced", "overlong varint", "one byte too few", "2^32 tagged fields"],
)
def test_a_lie_about_a_length_is_refused(rest: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed_body"):
        read_push_telemetry(FIXED + rest, 0)


def test_bytes_after_the_body_are_ignored() -> None:
    assert read_push_telemetry(b"head" + FIXED + b"\x04abc\x00trailing", 4).metrics == b"abc"
