"""The connection without its socket: order of responses, bounds, mute and unmute, the state table."""

import struct

import pytest

from fleetgauge.wire.channels.connection import TRANSITIONS, Connection, ConnectionEvent, ConnectionState
from fleetgauge.wire.errors import LocalProtocolError, ProtocolError


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def requests(count: int) -> bytes:
    return b"".join(framed(b"request%03d" % number) for number in range(count))


def connection(max_in_flight_requests: int = 100) -> Connection:
    return Connection(max_frame_bytes=1_000, max_in_flight_requests=max_in_flight_requests)


def take_all(conn: Connection) -> list[int]:
    slots = []
    while conn.take() is not None:
        slots.append(conn.open_slot())
    return slots


def test_a_later_response_waits_for_the_earlier_one() -> None:
    conn = connection()
    conn.receive_data(requests(3))
    first, second, third = take_all(conn)
    conn.respond(third, b"3")
    conn.respond(second, b"2")
    assert not conn.has_output
    conn.respond(first, b"1")
    assert conn.data_to_send() == b"123"
    assert conn.in_flight == 0


def test_what_is_ready_leaves_while_the_rest_is_awaited() -> None:
    conn = connection()
    conn.receive_data(requests(3))
    first, second, third = take_all(conn)
    conn.respond(first, b"1")
    conn.respond(third, b"3")
    assert conn.data_to_send() == b"1"
    assert conn.in_flight == 2
    conn.respond(second, b"2")
    assert conn.data_to_send() == b"23"


def test_a_request_without_response_takes_its_turn_with_no_bytes() -> None:
    conn = connection()
    conn.receive_data(requests(2))
    first, second = take_all(conn)
    conn.respond(second, b"2")
    conn.respond(first, b"")
    assert conn.has_output
    assert conn.data_to_send() == b"2"
    assert conn.in_flight == 0


def test_a_slot_takes_one_response() -> None:
    conn = connection()
    conn.receive_data(requests(3))
    first, second, _ = take_all(conn)
    conn.respond(first, b"1")
    conn.respond(second + 1, b"3")
    for answered in (first, second + 1):
        with pytest.raises(LocalProtocolError, match="awaits no response"):
            conn.respond(answered, b"again")
    with pytest.raises(LocalProtocolError, match="slot 3 awaits no response"):
        conn.respond(3, b"never asked")
    conn.respond(second, b"2")
    assert conn.data_to_send() == b"123"


def test_no_more_than_the_allowed_requests_are_in_flight() -> None:
    conn = connection(max_in_flight_requests=2)
    conn.receive_data(requests(5))
    slots = take_all(conn)
    assert len(slots) == 2
    assert not conn.wants_read
    conn.respond(slots[0], b"1")
    assert conn.take() is None
    conn.data_to_send()
    assert len(take_all(conn)) == 1


def test_nothing_is_handed_out_while_the_peer_does_not_read() -> None:
    conn = connection()
    conn.receive_data(requests(1))
    conn.peer_reads = False
    assert conn.take() is None
    assert not conn.wants_read
    conn.peer_reads = True
    assert conn.take() == b"request000"


def test_reading_waits_until_every_received_frame_was_handed_out() -> None:
    conn = connection()
    at_first = conn.wants_read
    conn.receive_data(requests(2))
    with_frames = conn.wants_read
    take_all(conn)
    assert (at_first, with_frames, conn.wants_read) == (True, False, True)


def test_a_muted_connection_keeps_its_frames_and_still_sends_its_responses() -> None:
    conn = connection()
    conn.receive_data(requests(2))
    conn.take()
    slot = conn.open_slot()
    conn.mute()
    assert conn.take() is None
    assert not conn.wants_read
    conn.respond(slot, b"1")
    assert conn.data_to_send() == b"1"
    assert conn.unmute()
    assert conn.take() == b"request001"


def test_each_mute_takes_one_unmute() -> None:
    conn = connection()
    conn.receive_data(requests(1))
    conn.mute()
    conn.mute()
    assert not conn.unmute()
    assert conn.take() is None
    assert conn.unmute()
    assert conn.take() is not None
    with pytest.raises(LocalProtocolError, match="an unmute without its mute"):
        conn.unmute()


@pytest.mark.parametrize("end", [Connection.close, Connection.drain])
def test_a_throttle_may_end_after_its_connection(end: object) -> None:
    conn = connection()
    conn.receive_data(requests(1))
    conn.mute()
    end(conn)  # type: ignore[operator]
    assert not conn.unmute()
    assert conn.take() is None
    with pytest.raises(LocalProtocolError):
        conn.unmute()


def test_an_error_of_the_stream_shows_after_every_frame_before_it() -> None:
    conn = connection()
    assert conn.receive_data(requests(2) + struct.pack(">i", -1)) == 2
    assert conn.take() == b"request000"
    assert conn.take() == b"request001"
    with pytest.raises(ProtocolError, match="negative_frame_size"):
        conn.take()
    assert not conn.wants_read
    assert conn.receive_data(requests(1)) == 0


def test_a_draining_connection_answers_what_is_in_flight_and_nothing_else() -> None:
    conn = connection(max_in_flight_requests=1)
    conn.receive_data(requests(2))
    (slot,) = take_all(conn)
    conn.drain()
    before_its_answer = conn.is_finished
    assert conn.receive_data(requests(1)) == 0
    assert conn.buffered_bytes == 0
    conn.respond(slot, b"1")
    assert conn.data_to_send() == b"1"
    assert (before_its_answer, conn.is_finished) == (False, True)
    assert conn.take() is None


def test_a_connection_whose_input_ended_is_finished_once_all_is_answered() -> None:
    conn = connection()
    conn.receive_data(requests(2))
    conn.end_input()
    finished = [conn.is_finished]
    first, second = take_all(conn)
    conn.respond(first, b"1")
    conn.respond(second, b"2")
    finished.append(conn.is_finished)
    conn.data_to_send()
    assert [*finished, conn.is_finished] == [False, False, True]
    assert not conn.is_cut


def test_an_input_that_ends_within_a_frame_is_seen_as_cut() -> None:
    conn = connection()
    conn.receive_data(requests(1)[:-1])
    assert not conn.is_cut
    conn.end_input()
    assert conn.is_cut


def test_responses_after_the_end_are_dropped() -> None:
    conn = connection()
    conn.receive_data(requests(2))
    first, second = take_all(conn)
    conn.respond(second, b"2")
    conn.close()
    conn.respond(first, b"1")
    assert not conn.has_output
    assert conn.data_to_send() == b""
    assert conn.is_finished


def test_what_no_handler_has_seen_is_counted() -> None:
    conn = connection()
    conn.receive_data(requests(2) + b"\x00\x00\x00")
    assert conn.buffered_bytes == 10 + 10 + 3
    conn.take()
    assert conn.buffered_bytes == 10 + 3
    conn.close()
    assert conn.buffered_bytes == 0, "a closed connection holds nothing"


def test_the_state_table_names_every_state_and_closed_is_final() -> None:
    assert set(TRANSITIONS) == set(ConnectionState)
    assert set(TRANSITIONS[ConnectionState.CLOSED].values()) == {ConnectionState.CLOSED}
    for moves in TRANSITIONS.values():
        assert moves[ConnectionEvent.CLOSE] is ConnectionState.CLOSED
