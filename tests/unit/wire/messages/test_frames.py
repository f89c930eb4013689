"""Cutting a stream into frames: every malformed case whole, byte by byte, and with trailing data."""

import struct

import pytest

from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.frames import FrameDecoder

LIMIT = 1_000


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def byte_by_byte(decoder: FrameDecoder, data: bytes) -> list[bytes]:
    return [frame for at in range(len(data)) for frame in decoder.receive(data[at : at + 1])]


FIRST, SECOND = b"first-request", b"second" * 10
MALFORMED = {
    "negative_frame_size": struct.pack(">i", -1),
    "empty_frame": struct.pack(">i", 0),
    "short_frame": struct.pack(">i", 7) + b"1234567",
    "frame_too_large": struct.pack(">i", LIMIT + 1),
}


def test_a_frame_comes_out_without_its_size() -> None:
    assert FrameDecoder(LIMIT).receive(framed(FIRST)) == [FIRST]


def test_all_frames_of_a_chunk_come_out_together() -> None:
    assert FrameDecoder(LIMIT).receive(framed(FIRST) + framed(SECOND) + framed(FIRST)) == [FIRST, SECOND, FIRST]


def test_frames_come_out_when_their_last_byte_arrives() -> None:
    decoder = FrameDecoder(LIMIT)
    data = framed(FIRST)
    assert byte_by_byte(decoder, data[:-1]) == []
    assert decoder.buffered_bytes == len(data) - 1
    assert decoder.receive(data[-1:]) == [FIRST]
    assert decoder.buffered_bytes == 0


def test_a_chunk_that_ends_one_frame_and_begins_the_next_gives_both_in_the_end() -> None:
    decoder = FrameDecoder(LIMIT)
    stream = framed(FIRST) + framed(SECOND)
    for cut in range(1, len(stream)):
        assert decoder.receive(stream[:cut]) + decoder.receive(stream[cut:]) == [FIRST, SECOND]


def test_frames_of_exactly_the_smallest_and_the_largest_size_are_taken() -> None:
    smallest, largest = b"8" * 8, b"x" * LIMIT
    assert FrameDecoder(LIMIT).receive(framed(smallest) + framed(largest)) == [smallest, largest]


@pytest.mark.parametrize("reason", MALFORMED)
@pytest.mark.parametrize("trailing", [b"", framed(SECOND)], ids=["alone", "with trailing data"])
def test_a_malformed_size_is_refused_with_its_reason(reason: str, trailing: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        FrameDecoder(LIMIT).receive(MALFORMED[reason] + trailing)
    assert caught.value.reason == reason


@pytest.mark.parametrize("reason", MALFORMED)
def test_a_malformed_size_is_refused_as_soon_as_its_four_bytes_are_there(reason: str) -> None:
    decoder = FrameDecoder(LIMIT)
    assert byte_by_byte(decoder, MALFORMED[reason][:3]) == []
    with pytest.raises(ProtocolError) as caught:
        decoder.receive(MALFORMED[reason][3:4])
    assert caught.value.reason == reason


@pytest.mark.parametrize("reason", MALFORMED)
def test_frames_before_a_malformed_one_are_handed_out_however_the_bytes_arrive(reason: str) -> None:
    stream = framed(FIRST) + MALFORMED[reason][:4]
    whole = FrameDecoder(LIMIT)
    assert whole.receive(stream) == [FIRST]
    assert whole.error is not None
    assert whole.error.reason == reason

    pieces = FrameDecoder(LIMIT)
    assert byte_by_byte(pieces, stream[:-1]) == [FIRST]
    with pytest.raises(ProtocolError, match=reason):
        pieces.receive(stream[-1:])


@pytest.mark.parametrize("reason", MALFORMED)
def test_nothing_is_read_after_an_error(reason: str) -> None:
    decoder = FrameDecoder(LIMIT)
    decoder.receive(framed(FIRST) + MALFORMED[reason])
    for _ in range(2):
        with pytest.raises(ProtocolError, match=reason):
            decoder.receive(framed(SECOND))
    assert decoder.buffered_bytes == 0


def test_an_announced_size_takes_no_memory_before_its_bytes_arrive() -> None:
    decoder = FrameDecoder(1 << 30)
    decoder.receive(struct.pack(">i", 1 << 30) + b"abc")
    assert decoder.buffered_bytes == 7


@pytest.mark.parametrize(
    ("knock", "hint"), [(b"GET / HTTP/1.1\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS"), (b"SSH-2.0-x", "SSH")]
)
def test_a_stranger_is_named_in_the_refusal(knock: bytes, hint: str) -> None:
    with pytest.raises(ProtocolError, match=f"frame_too_large: .*it looks like {hint}"):
        FrameDecoder(16 * 1024 * 1024).receive(knock)


def test_the_smallest_size_can_be_set_for_streams_without_headers() -> None:
    assert FrameDecoder(LIMIT, min_frame_bytes=1).receive(framed(b"t")) == [b"t"]
