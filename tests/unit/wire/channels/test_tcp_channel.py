"""The shell of a connection on a transport that only remembers: reading, writing, closing and telling of it."""

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.accepted import accepted
from unit.wire.later import Later

from fleetgauge.base.clock import MockTime
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.channels.tcp_channel import TcpChannel
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_counters import ListenerCounters
from fleetgauge.wire.context.listener_settings import ListenerSettings
from fleetgauge.wire.context.request_buffers import RequestBuffers
from fleetgauge.wire.errors import LocalProtocolError, ProtocolError
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response

PUSH = struct.pack(">hhihB", 72, 0, 0, -1, 0) + bytes(16) + struct.pack(">iBb", 5, 0, 0) + b"\x01\x00"


def push(correlation_id: int) -> bytes:
    body = PUSH[:4] + struct.pack(">i", correlation_id) + PUSH[8:]
    return struct.pack(">i", len(body)) + body


def answer(correlation_id: int) -> bytes:
    return encode_push_telemetry_response(correlation_id, 0, 0)


class FakeTransport(asyncio.Transport):
    def __init__(self, channel: TcpChannel) -> None:
        super().__init__()
        self.channel = channel
        self.writes: list[bytes] = []
        self.is_reading_now = True
        self.is_closed = False
        self.is_aborted = False
        self.unread = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def write(self, data: Any) -> None:
        assert not self.is_closed, "written after the close"
        self.writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_reading(self) -> bool:
        return self.is_reading_now

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        assert self.is_reading_now, "paused twice"
        self.is_reading_now = False

    def resume_reading(self) -> None:
        assert not self.is_reading_now, "resumed twice"
        self.is_reading_now = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True


class Handler:
    """Answers at once by default; remembers everything."""

    request_clock = None

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.lost: list[str] = []
        self.not_served_requests: list[tuple[int, str | None]] = []
        self.on_request: Callable[[Channel, Request], bytes | None] = lambda _, request: answer(request.correlation_id)
        self.on_made: Callable[[Channel], None] = lambda _: None

    def push(self, channel: Channel, data: bytes, slot: int, now_ms: int) -> bytes | None:
        return None

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        self.requests.append(request)
        return self.on_request(channel, request)

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        self.not_served_requests.append((api_key, client_id))
        return api_key == 1

    def authentication_took(self, nanos: int) -> None:
        raise AssertionError("there is no clock")

    def authentication_ended(self, channel: Any, user: str, mechanism: str, failure: str) -> None:
        pass

    def connection_made(self, channel: Channel) -> None:
        self.on_made(channel)

    def connection_lost(self, channel: Channel, reason: str) -> None:
        self.lost.append(reason)


class Bench:
    def __init__(self, *, requests: RequestBuffers | None = None, **settings: int) -> None:
        self.handler = Handler()
        self.loop = Later()
        self.time = MockTime()
        self.context = ListenerContext(
            listener_name="EXTERNAL",
            handler=self.handler,
            api_table=ApiTable(),
            settings=ListenerSettings(**settings),
            time=self.time,
            loop=self.loop,  # type: ignore[arg-type]
            counters=ListenerCounters(),
            requests=requests,
        )

    def connect(self) -> tuple[TcpChannel, FakeTransport]:
        channel = TcpChannel(accepted(self.context, client=("b", 2)))
        transport = FakeTransport(channel)
        transport.is_reading_now = False
        channel.connection_made(transport)
        transport.is_reading_now = True  # as uvloop does, whatever was asked for while the connection was made
        return channel, transport

    @property
    def closed(self) -> dict[str, int]:
        return dict(self.context.counters.closed)


def test_all_requests_of_a_chunk_are_answered_with_one_write() -> None:
    bench = Bench()
    channel, transport = bench.connect()
    channel.data_received(push(1) + push(2) + push(3))
    assert transport.writes == [answer(1) + answer(2) + answer(3)]
    assert dict(bench.context.counters.requests) == {72: 3}
    assert bench.context.counters.frames == 3
    assert bench.context.counters.bytes_sent == 3 * len(answer(1))


def test_a_response_made_later_leaves_with_its_flush() -> None:
    bench = Bench()
    bench.handler.on_request = lambda *_: None
    channel, transport = bench.connect()
    channel.data_received(push(1) + push(2))
    first, second = bench.handler.requests
    channel.respond(second.slot, answer(2))
    channel.flush()
    assert transport.writes == []
    channel.respond(first.slot, answer(1))
    channel.flush()
    assert transport.writes == [answer(1) + answer(2)]


def test_the_answer_to_the_only_request_in_flight_is_written_at_once_and_others_wait_for_their_turn() -> None:
    bench = Bench()
    bench.handler.on_request = lambda *_: None
    channel, transport = bench.connect()
    channel.data_received(push(1))
    assert channel.answer(bench.handler.requests[0].slot, answer(1)) is False
    assert transport.writes == [answer(1)]
    assert bench.context.counters.bytes_sent == len(answer(1))
    channel.data_received(push(2) + push(3))
    _, second, third = bench.handler.requests
    assert channel.answer(third.slot, answer(3)) is True
    assert channel.answer(second.slot, answer(2)) is True
    assert transport.writes == [answer(1)]
    channel.flush()
    assert transport.writes == [answer(1), answer(2) + answer(3)]
    with pytest.raises(LocalProtocolError):
        channel.answer(third.slot, answer(3))


def test_an_answer_leaves_before_the_close_after_the_end_of_the_input() -> None:
    bench = Bench()
    bench.handler.on_request = lambda *_: None
    channel, transport = bench.connect()
    channel.data_received(push(1))
    channel.eof_received()
    assert channel.answer(bench.handler.requests[0].slot, answer(1)) is True
    channel.flush()
    assert transport.writes == [answer(1)]
    assert transport.is_closed


def test_a_handler_may_respond_and_flush_by_itself_for_very_many_pipelined_requests() -> None:
    bench = Bench()
    depth = deepest = 0

    def respond_through_channel(channel: Channel, request: Request) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        channel.respond(request.slot, answer(request.correlation_id))
        channel.flush()
        depth -= 1

    bench.handler.on_request = respond_through_channel
    channel, transport = bench.connect()
    channel.data_received(b"".join(push(number) for number in range(900)))
    while bench.loop.run():
        pass
    assert b"".join(transport.writes) == b"".join(answer(number) for number in range(900))
    assert deepest == 1, "a request was handled within another"


def test_requests_beyond_those_in_flight_are_handled_once_responses_leave() -> None:
    bench = Bench(max_in_flight_requests=2)
    bench.handler.on_request = lambda *_: None
    channel, transport = bench.connect()
    channel.data_received(push(1) + push(2) + push(3))
    assert len(bench.handler.requests) == 2
    assert not transport.is_reading_now
    channel.respond(0, answer(1))
    channel.flush()
    assert len(bench.handler.requests) == 3
    assert transport.is_reading_now


def test_a_mute_by_the_handler_ends_the_chunk_and_its_response_still_leaves() -> None:
    bench = Bench()

    def throttle(channel: Channel, request: Request) -> bytes:
        channel.mute()
        return answer(request.correlation_id)

    bench.handler.on_request = throttle
    channel, transport = bench.connect()
    channel.data_received(push(1) + push(2))
    assert transport.writes == [answer(1)]
    assert not transport.is_reading_now
    channel.unmute()
    assert transport.writes == [answer(1), answer(2)]
    channel.unmute()
    assert transport.is_reading_now


def test_a_connection_muted_when_it_is_made_is_read_no_further_than_its_first_chunk() -> None:
    bench = Bench()
    bench.handler.on_made = lambda channel: channel.mute()
    channel, transport = bench.connect()
    channel.data_received(push(1))
    muted = transport.is_reading_now
    assert bench.handler.requests == []
    channel.unmute()
    assert (muted, transport.is_reading_now) == (False, True)
    assert transport.writes == [answer(1)]


def test_a_peer_that_does_not_read_is_neither_read_nor_served() -> None:
    bench = Bench()
    channel, transport = bench.connect()
    channel.pause_writing()
    assert not transport.is_reading_now
    channel.data_received(push(1))
    assert bench.handler.requests == []
    channel.resume_writing()
    assert transport.writes == [answer(1)]
    assert transport.is_reading_now


def test_many_small_requests_with_large_responses_are_written_in_bounded_turns() -> None:
    bench = Bench(write_high_water_bytes=10_000, max_in_flight_requests=4)
    large = struct.pack(">i", 4_000) + bytes(4_000)
    bench.handler.on_request = lambda *_: large
    channel, transport = bench.connect()
    channel.data_received(b"".join(push(number) for number in range(50)))
    assert len(bench.handler.requests) <= 8
    channel.pause_writing()
    bench.loop.run()
    assert len(bench.handler.requests) <= 8, "the peer does not read, and more was handled"
    channel.resume_writing()
    while bench.loop.run():
        pass
    assert len(bench.handler.requests) == 50
    assert sum(map(len, transport.writes)) == 50 * len(large)
    assert transport.is_reading_now


def test_one_connection_with_very_many_requests_lets_others_have_their_turn() -> None:
    bench = Bench()
    channel, transport = bench.connect()
    channel.data_received(b"".join(push(number) for number in range(2_500)))
    assert len(bench.handler.requests) == 100
    while bench.loop.run():
        pass
    assert b"".join(transport.writes) == b"".join(answer(number) for number in range(2_500))


def test_a_connection_with_slow_requests_lets_others_have_their_turn_earlier() -> None:
    bench = Bench()

    def slow(_: Channel, request: Request) -> bytes:
        bench.time.sleep(3)
        return answer(request.correlation_id)

    bench.handler.on_request = slow
    channel, transport = bench.connect()
    channel.data_received(b"".join(push(number) for number in range(50)))
    assert len(bench.handler.requests) == 4
    assert b"".join(transport.writes) == b"".join(answer(number) for number in range(4)), "they are answered, too"
    while bench.loop.run():
        pass
    assert b"".join(transport.writes) == b"".join(answer(number) for number in range(50))


@pytest.mark.slow
def test_hundreds_of_connections_with_slow_requests_hold_up_an_answer_for_milliseconds_only() -> None:
    bench = Bench()

    def slowly(_: object, request: Request) -> bytes:
        bench.time.sleep(1)
        return answer(request.correlation_id)

    bench.handler.on_request = slowly
    for _ in range(300):
        bench.connect()[0].data_received(b"".join(map(push, range(80))))
    channel, transport = bench.connect()
    for number in range(20):
        started_ms = bench.time.hi_res_clock_ms()
        bench.loop.run()  # what is left of the others' requests, before the next chunk is read
        channel.data_received(push(number))
        assert transport.writes == [answer(each) for each in range(number + 1)]
        assert bench.time.hi_res_clock_ms() - started_ms <= 10
    while bench.loop.run():
        pass
    assert len(bench.handler.requests) == 300 * 80 + 20


def test_a_connection_with_large_requests_lets_others_have_their_turn_earlier() -> None:
    bench = Bench()
    channel, _ = bench.connect()
    large = PUSH[:-2] + b"\x81\x80\x02" + bytes(32 * 1024) + b"\x00"
    channel.data_received((struct.pack(">i", len(large)) + large) * 10)
    assert len(bench.handler.requests) == 2
    while bench.loop.run():
        pass
    assert len(bench.handler.requests) == 10


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (struct.pack(">i", -5), "negative_frame_size"),
        (struct.pack(">ihhih", 10, 0, 9, 1, -1), "unknown_api_key"),
        (struct.pack(">ihhih", 10, 72, 9, 1, -1), "unsupported_version"),
        (push(2)[:-1].replace(struct.pack(">i", len(PUSH)), struct.pack(">i", len(PUSH) - 1), 1), "malformed_body"),
    ],
)
def test_a_malformed_peer_gets_the_responses_before_and_is_closed_with_its_reason(data: bytes, reason: str) -> None:
    bench = Bench()
    channel, transport = bench.connect()
    with capture_logs() as logs:
        channel.data_received(push(1) + data + push(3))
    assert transport.writes == [answer(1)]
    assert transport.is_closed
    assert [(entry["reason"], entry["log_level"]) for entry in logs] == [(reason, "warning")]
    channel.connection_lost(None)
    assert bench.closed == {reason: 1}
    assert bench.handler.lost == [reason]
    assert len(bench.handler.requests) == 1


@pytest.mark.parametrize(
    ("frame", "told", "lines"),
    [
        (struct.pack(">hhih", 1, 9, 1, 6) + b"orders", (1, "orders"), 0),
        (struct.pack(">hhih", 10, 4, 1, 5) + b"audit", (10, "audit"), 1),
        (struct.pack(">hhih", 10, 4, 1, -1), (10, None), 1),
        (struct.pack(">hhih", 10, 4, 1, 99) + b"cut", (10, None), 1),
    ],
)
def test_a_request_that_is_not_served_is_told_to_the_handler_which_may_log_it_itself(
    frame: bytes, told: tuple[int, str | None], lines: int
) -> None:
    bench = Bench()
    channel, transport = bench.connect()
    with capture_logs() as logs:
        channel.data_received(struct.pack(">i", len(frame)) + frame)
    assert bench.handler.not_served_requests == [told]
    assert len(logs) == lines
    assert transport.is_closed
    channel.connection_lost(None)
    assert bench.closed == {"unknown_api_key": 1}


def test_a_thousand_malformed_peers_are_one_line_a_second() -> None:
    bench = Bench()
    with capture_logs() as logs:
        for _ in range(1_000):
            channel, _transport = bench.connect()
            channel.data_received(struct.pack(">i", -1))
            channel.connection_lost(None)
    assert len(logs) == 1
    assert bench.closed == {"negative_frame_size": 1_000}


def test_a_protocol_error_of_the_handler_closes_with_its_reason() -> None:
    bench = Bench()

    def refuse(_: Channel, __: Request) -> bytes:
        raise ProtocolError("wrong_order", "said too early")

    bench.handler.on_request = refuse
    channel, transport = bench.connect()
    with capture_logs():
        channel.data_received(push(1) + push(2))
    channel.connection_lost(None)
    assert transport.is_closed
    assert bench.closed == {"wrong_order": 1}
    assert len(bench.handler.requests) == 1


def test_a_fault_of_the_handler_closes_that_connection_alone_and_is_logged() -> None:
    bench = Bench()
    good, good_transport = bench.connect()
    bad, bad_transport = bench.connect()

    def fail(channel: Channel, request: Request) -> bytes:
        if channel is bad:
            raise RuntimeError("our fault")
        return answer(request.correlation_id)

    bench.handler.on_request = fail
    with capture_logs() as logs:
        bad.data_received(push(1))
        good.data_received(push(2))
    assert bad_transport.is_closed
    assert good_transport.writes == [answer(2)]
    assert [entry["log_level"] for entry in logs] == ["error"]
    bad.connection_lost(None)
    assert bench.closed == {"handler_error": 1}


def test_a_handler_that_fails_on_the_notices_harms_nobody() -> None:
    bench = Bench()

    def fail(_: Channel) -> None:
        raise RuntimeError("our fault")

    bench.handler.on_made = fail
    with capture_logs():
        channel, transport = bench.connect()
    assert transport.is_closed
    channel.connection_lost(None)
    assert bench.closed == {"handler_error": 1}
    assert bench.context.channels == {}


@pytest.mark.parametrize(("error", "reason"), [(None, "client_closed"), (ConnectionResetError(), "connection_reset")])
def test_an_ended_connection_is_told_once_with_its_reason(error: Exception | None, reason: str) -> None:
    bench = Bench()
    channel, _ = bench.connect()
    assert not bench.context.all_closed.is_set()
    channel.connection_lost(error)
    assert bench.handler.lost == [reason]
    assert bench.context.all_closed.is_set()


def test_a_response_for_a_client_that_is_gone_is_dropped_in_silence() -> None:
    bench = Bench()
    bench.handler.on_request = lambda *_: None
    channel, transport = bench.connect()
    channel.data_received(push(1))
    channel.mute()
    channel.connection_lost(None)
    channel.respond(0, answer(1))
    channel.flush()
    channel.unmute()
    channel.close("late")
    assert transport.writes == []
    assert bench.closed == {"client_closed": 1}


def test_a_half_closed_client_gets_its_pending_responses_before_the_close() -> None:
    bench = Bench()
    bench.handler.on_request = lambda *_: None
    channel, transport = bench.connect()
    channel.data_received(push(1))
    assert channel.eof_received() is True
    before = transport.is_closed
    channel.respond(0, answer(1))
    channel.flush()
    assert transport.writes == [answer(1)]
    assert (before, transport.is_closed) == (False, True)
    channel.connection_lost(None)
    assert bench.closed == {"client_closed": 1}


def test_an_input_that_ends_within_a_frame_is_counted_as_truncated() -> None:
    bench = Bench()
    channel, transport = bench.connect()
    channel.data_received(push(1)[:-1])
    channel.eof_received()
    assert transport.is_closed
    channel.connection_lost(None)
    assert bench.closed == {"truncated_frame": 1}


def test_a_silent_connection_is_closed_after_its_idle_time_and_not_before() -> None:
    bench = Bench(connections_max_idle_ms=1_000)
    channel, transport = bench.connect()
    bench.time.sleep(900)
    channel.data_received(push(1))
    bench.time.sleep(999)
    channel.expire(bench.time.hi_res_clock_ms())
    before = transport.is_closed
    bench.time.sleep(1)
    channel.expire(bench.time.hi_res_clock_ms())
    assert (before, transport.is_closed) == (False, True)
    channel.connection_lost(None)
    assert bench.closed == {"idle": 1}


def test_a_connection_that_is_held_is_not_idle_and_its_time_starts_anew_when_it_is_let_go() -> None:
    bench = Bench(connections_max_idle_ms=1_000)
    channel, _ = bench.connect()
    channel.mute()
    bench.time.sleep(5_000)
    channel.expire(bench.time.hi_res_clock_ms())
    channel.unmute()
    bench.time.sleep(999)
    channel.expire(bench.time.hi_res_clock_ms())
    assert not channel.is_ending
    bench.time.sleep(1)
    channel.expire(bench.time.hi_res_clock_ms())
    assert channel.is_ending


def test_a_peer_that_never_reads_is_cut_off_after_the_idle_time() -> None:
    bench = Bench(connections_max_idle_ms=1_000)
    channel, transport = bench.connect()
    channel.pause_writing()
    bench.time.sleep(1_000)
    channel.expire(bench.time.hi_res_clock_ms())
    assert transport.is_aborted
    channel.connection_lost(None)
    assert bench.closed == {"responses_unread": 1}


def test_a_closing_connection_whose_peer_does_not_read_is_cut_off_after_the_linger_time() -> None:
    bench = Bench(close_linger_ms=500)
    channel, transport = bench.connect()
    channel.close("because")
    bench.time.sleep(499)
    channel.expire(bench.time.hi_res_clock_ms())
    before = transport.is_aborted
    bench.time.sleep(1)
    channel.expire(bench.time.hi_res_clock_ms())
    assert (before, transport.is_aborted) == (False, True)
    channel.connection_lost(None)
    assert bench.closed == {"because": 1}


def test_draining_answers_what_is_in_flight_and_then_closes() -> None:
    bench = Bench(max_in_flight_requests=1)
    bench.handler.on_request = lambda *_: None
    channel, transport = bench.connect()
    channel.data_received(push(1) + push(2))
    channel.drain()
    before = transport.is_closed
    channel.respond(0, answer(1))
    channel.flush()
    assert transport.writes == [answer(1)]
    assert (before, transport.is_closed) == (False, True)
    assert len(bench.handler.requests) == 1
    channel.connection_lost(None)
    assert bench.closed == {"listener_stopped": 1}


def test_draining_closes_a_quiet_connection_at_once() -> None:
    channel, transport = Bench().connect()
    channel.drain()
    assert transport.is_closed


def test_of_those_who_hold_too_much_together_the_ones_that_held_most_for_longest_go() -> None:
    bench = Bench(queued_max_request_bytes=100)
    parked, parked_transport = bench.connect()
    client, transport = bench.connect()
    parked.data_received(struct.pack(">i", 1_000) + bytes(76))
    assert bench.context.requests.held_bytes == 80
    bench.time.sleep(10)
    half = len(push(1)) - 1
    with capture_logs() as logs:
        client.data_received(push(1)[:half])
    assert parked_transport.is_aborted
    assert [(entry["reason"], entry["log_level"]) for entry in logs] == [("receive_buffers_full", "warning")]
    assert "malformed" not in logs[0]["event"]
    assert bench.context.requests.held_bytes == half
    client.data_received(push(1)[half:])
    assert transport.writes == [answer(1)]
    assert bench.context.requests.held_bytes == 0
    parked.connection_lost(None)
    assert bench.closed == {"receive_buffers_full": 1}


def test_a_request_that_comes_whole_is_answered_however_much_others_hold() -> None:
    bench = Bench(queued_max_request_bytes=100)
    parked, parked_transport = bench.connect()
    client, transport = bench.connect()
    parked.data_received(struct.pack(">i", 1_000) + bytes(90))
    client.data_received(push(1) + push(2) + push(3))
    assert transport.writes == [answer(1) + answer(2) + answer(3)]
    assert not parked_transport.is_closed


def test_listeners_that_share_a_bound_keep_it_together() -> None:
    requests = RequestBuffers(100, 1_000)
    first, second = Bench(requests=requests), Bench(requests=requests)
    parked, parked_transport = first.connect()
    client, transport = second.connect()
    parked.data_received(struct.pack(">i", 1_000) + bytes(76))
    second.time.sleep(10)
    client.data_received(push(1)[:30])
    assert parked_transport.is_aborted
    assert not transport.is_closed


def test_a_request_that_arrives_byte_by_byte_does_not_outlast_its_time() -> None:
    bench = Bench(request_receive_timeout_ms=1_000)
    slow, transport = bench.connect()
    slow.data_received(push(1)[:1])
    for byte in push(1)[1:20]:
        bench.time.sleep(50)
        bench.context.requests.expire(bench.time.hi_res_clock_ms())
        assert not transport.is_aborted
        slow.data_received(bytes([byte]))
    bench.time.sleep(50)
    with capture_logs() as logs:
        bench.context.requests.expire(bench.time.hi_res_clock_ms())
    assert transport.is_aborted
    assert [entry["reason"] for entry in logs] == ["request_unfinished"]
    assert "20 bytes" in logs[0]["detail"]
    assert bench.context.requests.held_bytes == 0


def test_the_time_for_which_a_client_was_muted_does_not_count_for_its_request() -> None:
    bench = Bench(request_receive_timeout_ms=1_000)
    held, transport = bench.connect()
    held.data_received(push(1)[:20])
    held.mute()
    bench.time.sleep(5_000)
    assert held.is_muted
    held.unmute()
    bench.context.requests.expire(bench.time.hi_res_clock_ms())
    assert not transport.is_aborted
    bench.time.sleep(1_000)
    bench.context.requests.expire(bench.time.hi_res_clock_ms())
    assert transport.is_aborted


def test_every_request_has_a_time_of_its_own() -> None:
    """A chunk that ends one request and begins the next begins the next one's time."""
    bench = Bench(request_receive_timeout_ms=1_000)
    steady, transport = bench.connect()
    stream = b"".join(push(number) for number in range(1, 7))
    for start in range(0, len(stream) - 25, 25):
        steady.data_received(stream[start : start + 25])
        bench.time.sleep(400)
        bench.context.requests.expire(bench.time.hi_res_clock_ms())
    assert not transport.is_closed
    assert len(transport.writes) >= 3
    bench.time.sleep(600)
    bench.context.requests.expire(bench.time.hi_res_clock_ms())
    assert transport.is_aborted


def test_what_a_muted_client_has_not_sent_is_not_late() -> None:
    """It is not read from, so that it cannot send."""
    bench = Bench(request_receive_timeout_ms=1_000)
    channel, transport = bench.connect()
    channel.data_received(push(1)[:30])
    channel.mute()
    bench.time.sleep(5_000)
    bench.context.requests.expire(bench.time.hi_res_clock_ms())
    channel.unmute()
    bench.time.sleep(900)
    bench.context.requests.expire(bench.time.hi_res_clock_ms())
    channel.data_received(push(1)[30:])
    assert transport.writes == [answer(1)]


def test_who_leaves_responses_unread_gets_no_more_time_for_a_request() -> None:
    bench = Bench(request_receive_timeout_ms=1_000)
    channel, transport = bench.connect()
    channel.data_received(push(1) + push(2)[:30])
    channel.pause_writing()
    bench.time.sleep(1_000)
    bench.context.requests.expire(bench.time.hi_res_clock_ms())
    assert transport.is_aborted


def test_of_those_who_leave_too_much_unread_together_the_ones_with_most_go() -> None:
    bench = Bench(queued_max_response_bytes=100)
    held = {"most": 90, "much": 60, "little": 10, "nothing": 0}
    peers = {name: bench.connect() for name in held}
    channel, transport = peers["nothing"]
    for number in range(7):  # 112 bytes of answers: as much as may be unread
        channel.data_received(push(number))
    for name, size in held.items():
        peers[name][1].unread = size
    with capture_logs() as logs:
        bench.loop.run()
    assert [name for name, (_, transport) in peers.items() if transport.is_aborted] == ["most"]
    assert bench.context.unread.held_bytes == 70
    assert [entry["reason"] for entry in logs] == ["response_buffers_full"]
    assert "160 bytes" in logs[0]["detail"]
    peers["most"][0].connection_lost(None)
    assert bench.closed == {"response_buffers_full": 1}
    channel.data_received(push(8))
    assert transport.writes[-1] == answer(8)


def test_thousands_who_never_read_are_held_within_the_bound_of_all() -> None:
    bound = 1_000_000
    bench = Bench(queued_max_response_bytes=bound)
    peers = [bench.connect() for _ in range(3_000)]
    response = answer(1) * 100
    bench.handler.on_request = lambda _, request: response
    most = 0
    for turn in range(3):
        for channel, transport in peers:
            if not transport.is_closed:
                channel.data_received(push(turn))
                transport.unread = sum(map(len, transport.writes))
            if bench.context.unread.left_bytes < 0:  # as much as there will be
                most = max(most, sum(transport.unread for _, transport in peers if not transport.is_aborted))
            bench.loop.run()
    assert bound < most <= bound + bound // 8 + 2 * len(response)
    assert bench.context.unread.held_bytes <= bound
    assert any(not transport.is_closed for _, transport in peers)


def test_no_request_is_handled_between_too_many_responses_and_the_look_at_who_reads() -> None:
    bench = Bench(queued_max_response_bytes=100)
    first, first_transport = bench.connect()
    second, second_transport = bench.connect()
    for number in range(7):
        first.data_received(push(number))
    handled = len(bench.handler.requests)
    second.data_received(push(1))
    first.data_received(push(7))
    assert len(bench.handler.requests) == handled
    bench.loop.run()
    assert second_transport.writes == [answer(1)]
    assert first_transport.writes[-1] == answer(7)


def test_who_a_client_is_stands_on_its_channel() -> None:
    channel, _ = Bench().connect()
    assert str(channel.principal) == "User:ANONYMOUS"
    assert (channel.listener_name, channel.security_protocol) == ("EXTERNAL", "PLAINTEXT")
    assert (channel.client_software_name, channel.client_software_version) == ("unknown", "unknown")
