"""The listener over real sockets on uvloop: many peers, bad peers, slow peers, and an orderly stop."""

import asyncio
import contextlib
import errno
import gc
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime, SystemTime, Time
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.wire.listener import Channel, Listener, ListenerSettings
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response

pytestmark = pytest.mark.integration

RESPONSE_BYTES = 16
_TAIL = bytes(16) + struct.pack(">iBb", 5, 0, 0)


def push(correlation_id: int, metrics: bytes = b"") -> bytes:
    length = len(metrics) + 1
    varint = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
    body = struct.pack(">hhihB", 72, 0, correlation_id, -1, 0) + _TAIL + varint + metrics + b"\x00"
    return struct.pack(">i", len(body)) + body


def answer(correlation_id: int) -> bytes:
    return encode_push_telemetry_response(correlation_id, 0, 0)


class Handler:
    request_clock = None

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.lost: list[str] = []
        self.handled = 0
        self.pending: list[tuple[Channel, Request]] = []
        self.answers_later = False
        self.mutes_new_channels = False
        self.response: Callable[[Request], bytes] = lambda request: answer(request.correlation_id)

    def push(self, channel: Channel, data: bytes, slot: int, now_ms: int) -> bytes | None:
        return None

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        self.handled += 1
        if self.answers_later:
            self.pending.append((channel, request))
            return None
        return self.response(request)

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        return False

    def authentication_took(self, nanos: int) -> None:
        raise AssertionError("there is no clock")

    def authentication_ended(self, channel: Any, user: str, mechanism: str, failure: str) -> None:
        pass

    def connection_made(self, channel: Channel) -> None:
        self.channels.append(channel)
        if self.mutes_new_channels:
            channel.mute()

    def connection_lost(self, channel: Channel, reason: str) -> None:
        self.lost.append(reason)

    def answer_all(self) -> None:
        for channel, request in reversed(self.pending):
            channel.respond(request.slot, self.response(request))
            channel.flush()
        self.pending.clear()


def run(main: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(main, 3 * PATIENCE_S))


@contextlib.asynccontextmanager
async def listening(
    handler: Handler, *, time: Time | None = None, host: str = "127.0.0.1", **settings: int
) -> AsyncIterator[Listener]:
    listener = Listener(
        name="EXTERNAL",
        host=host,
        port=0,
        handler=handler,
        settings=ListenerSettings(**settings),
        time=time or SystemTime(),
    )
    await listener.start()
    try:
        yield listener
    finally:
        await listener.stop(1_000)


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def connect(cls, listener: Listener, host: str = "127.0.0.1") -> "Client":
        return cls(*await asyncio.open_connection(host, listener.port))

    async def receive(self, count: int) -> bytes:
        return await asyncio.wait_for(self.reader.readexactly(count), PATIENCE_S)

    async def receive_rest(self) -> bytes:
        """What comes until the end; a reset is an end too."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while chunk := await asyncio.wait_for(self.reader.read(65_536), PATIENCE_S):
                received += chunk
        return received

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def turns() -> None:
    """Lets the loop, which clients and listener share, turn so often that what was sent has long been received."""
    for _ in range(1_000):
        await asyncio.sleep(0)


async def handled(handler: Handler, count: int) -> None:
    await wait_for_async(lambda: handler.handled, f"{count} requests", until=lambda handled: handled == count)


async def connected(handler: Handler) -> None:
    await wait_for_async(lambda: handler.channels, "the connection", until=lambda channels: len(channels) == 1)


async def lost(handler: Handler, *reasons: str) -> None:
    await wait_for_async(lambda: handler.lost, f"ends by {reasons}", until=lambda lost: lost == [*reasons])


async def connections(listener: Listener, count: int) -> None:
    await wait_for_async(lambda: listener.connection_count, f"{count} connections", until=lambda open_: open_ == count)


def test_pipelined_requests_are_answered_in_order() -> None:
    async def main() -> None:
        handler = Handler()
        handler.answers_later = True
        async with listening(handler) as listener:
            client = await Client.connect(listener)
            client.writer.write(push(1) + push(2) + push(3))
            await handled(handler, 3)
            handler.answer_all()
            assert await client.receive(3 * RESPONSE_BYTES) == answer(1) + answer(2) + answer(3)
            await client.close()

    run(main())


def test_a_request_that_arrives_byte_by_byte_is_answered() -> None:
    async def main() -> None:
        async with listening(Handler()) as listener:
            client = await Client.connect(listener)
            for at in range(len(push(7))):
                client.writer.write(push(7)[at : at + 1])
                await asyncio.sleep(0)
            assert await client.receive(RESPONSE_BYTES) == answer(7)
            await client.close()

    run(main())


def test_a_channel_says_who_is_connected_in_kafkas_form() -> None:
    async def main() -> None:
        handler = Handler()
        async with listening(handler) as listener:
            client = await Client.connect(listener)
            await connected(handler)
            port = client.writer.get_extra_info("sockname")[1]
            channel = handler.channels[0]
            assert channel.connection_id == f"127.0.0.1:{listener.port}-127.0.0.1:{port}-0"
            assert (channel.client_address, channel.client_port) == ("127.0.0.1", port)
            await client.close()

    run(main())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no dual-stack IPv6")
def test_an_ipv4_client_of_a_wildcard_listener_is_seen_under_its_own_address() -> None:
    async def main() -> None:
        handler = Handler()
        async with listening(handler, host="") as listener:
            client = await Client.connect(listener)
            await connected(handler)
            assert handler.channels[0].client_address == "127.0.0.1"
            await client.close()

    run(main())


MALFORMED = {
    "negative_frame_size": struct.pack(">i", -1),
    "empty_frame": struct.pack(">i", 0),
    "frame_too_large": b"GET / HTTP/1.1\r\n\r\n",
    "unknown_api_key": struct.pack(">ihhih", 10, 999, 0, 1, -1),
    "unsupported_version": struct.pack(">ihhih", 10, 72, 5, 1, -1),
    "malformed_body": struct.pack(">ihhih", 14, 3, 0, 1, -1) + b"\x7f\xff\xff\xff",
}


@pytest.mark.parametrize("reason", MALFORMED)
@pytest.mark.parametrize("manner", ["whole", "byte by byte", "with trailing data"])
def test_a_malformed_peer_is_closed_and_everyone_else_goes_on(reason: str, manner: str) -> None:
    async def main() -> None:
        handler = Handler()
        async with listening(handler) as listener:
            good, bad = await Client.connect(listener), await Client.connect(listener)
            data = MALFORMED[reason] + (push(1) * 3 if manner == "with trailing data" else b"")
            for piece in [data] if manner != "byte by byte" else [data[at : at + 1] for at in range(len(data))]:
                if not bad.writer.is_closing():  # the refusal may come before the last byte is sent
                    bad.writer.write(piece)
                await asyncio.sleep(0)
            assert await bad.receive_rest() == b""
            good.writer.write(push(2))
            assert await good.receive(RESPONSE_BYTES) == answer(2)
            await lost(handler, reason)
            assert listener.counters()["closed"] == {reason: 1}
            assert listener.counters()["open"] == 1
            await bad.close()
            await good.close()

    with capture_logs() as logs:
        run(main())
    assert [entry["reason"] for entry in logs] == [reason]


def test_a_client_that_never_reads_is_held_to_a_bound_and_reads_everything_later() -> None:
    async def main() -> None:
        handler = Handler()
        large = struct.pack(">i", 8_000) + bytes(8_000)
        handler.response = lambda _: large
        total = 4_000
        async with listening(handler, write_high_water_bytes=65_536) as listener:
            slow, other = await Client.connect(listener), await Client.connect(listener)
            slow.writer.transport.pause_reading()  # type: ignore[attr-defined]
            slow.writer.write(b"".join(push(number) for number in range(total)))
            await wait_for_async(lambda: handler.handled, "the first requests")
            await turns()
            assert handler.handled < total, "everything was handled for a client that reads nothing"
            other.writer.write(push(5))
            assert await other.receive(len(large)) == large
            slow.writer.transport.resume_reading()  # type: ignore[attr-defined]
            await slow.receive(total * len(large))
            assert handler.handled == total + 1
            await slow.close()
            await other.close()

    run(main())


def test_a_client_that_never_reads_is_cut_off_after_the_idle_time() -> None:
    async def main() -> None:
        handler = Handler()
        handler.response = lambda _: struct.pack(">i", 100_000) + bytes(100_000)
        clock = MockTime()
        async with listening(handler, time=clock) as listener:
            client = await Client.connect(listener)
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            client.writer.write(b"".join(push(number) for number in range(500)))
            await wait_for_async(lambda: handler.handled, "the first requests")
            await turns()
            clock.sleep(600_000)
            listener.close_idle(clock.hi_res_clock_ms())
            await lost(handler, "responses_unread")
            client.writer.transport.abort()

    run(main())


def test_a_half_closed_client_gets_its_response_and_then_the_end() -> None:
    async def main() -> None:
        handler = Handler()
        handler.answers_later = True
        async with listening(handler) as listener:
            client = await Client.connect(listener)
            client.writer.write(push(1) + push(2))
            client.writer.write_eof()
            await handled(handler, 2)
            await turns()
            assert handler.lost == []
            handler.answer_all()
            assert await client.receive_rest() == answer(1) + answer(2)
            await lost(handler, "client_closed")
            await client.close()

    run(main())


def test_a_client_that_vanishes_within_a_frame_is_told_apart() -> None:
    async def main() -> None:
        handler = Handler()
        async with listening(handler) as listener:
            cut, reset = await Client.connect(listener), await Client.connect(listener)
            cut.writer.write(push(1)[:-1])
            await cut.close()
            await lost(handler, "truncated_frame")
            linger = struct.pack("ii", 1, 0)
            reset.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            reset.writer.transport.abort()
            await lost(handler, "truncated_frame", "connection_reset")

    run(main())


def test_an_idle_connection_is_closed_by_the_listeners_own_sweep() -> None:
    async def main() -> None:
        handler = Handler()
        clock = MockTime()
        async with listening(handler, time=clock, connections_max_idle_ms=3_000) as listener:
            client = await Client.connect(listener)
            client.writer.write(push(1))
            assert await client.receive(RESPONSE_BYTES) == answer(1)
            clock.sleep(3_001)
            assert await client.receive_rest() == b""
            await lost(handler, "idle")
            await client.close()

    run(main())


def test_a_muted_channel_is_not_served_until_it_is_unmuted() -> None:
    async def main() -> None:
        handler = Handler()
        async with listening(handler) as listener:
            client = await Client.connect(listener)
            await connected(handler)
            handler.channels[0].mute()
            client.writer.write(push(1))
            await turns()
            assert handler.handled == 0
            handler.channels[0].unmute()
            assert await client.receive(RESPONSE_BYTES) == answer(1)
            await client.close()

    run(main())


def test_a_channel_muted_when_it_is_made_holds_one_chunk_until_its_unmute() -> None:
    async def main() -> None:
        handler = Handler()
        handler.mutes_new_channels = True
        async with listening(handler) as listener:
            client = await Client.connect(listener)
            total = 40_000
            client.writer.write(b"".join(push(number) for number in range(total)))
            await connected(handler)
            await turns()
            assert handler.handled == 0
            assert listener.counters()["bytes_received"] <= 256 * 1024 < total * len(push(0))
            handler.channels[0].unmute()
            received = await client.receive(total * RESPONSE_BYTES)
            assert received == b"".join(answer(number) for number in range(total))
            await client.close()

    run(main())


def test_a_stop_refuses_new_clients_answers_what_is_in_flight_and_closes() -> None:
    async def main() -> None:
        handler = Handler()
        handler.answers_later = True
        async with listening(handler) as listener:
            busy, quiet = await Client.connect(listener), await Client.connect(listener)
            busy.writer.write(push(1))
            await handled(handler, 1)
            await connections(listener, 2)  # what waits to be accepted is reset by a stop, and never counted
            stopping = asyncio.ensure_future(listener.stop(10_000))
            assert await quiet.receive_rest() == b""
            with pytest.raises(ConnectionRefusedError):
                await Client.connect(listener)
            busy.writer.write(push(2))
            await turns()
            assert not stopping.done()
            handler.answer_all()
            assert await busy.receive_rest() == answer(1)
            await asyncio.wait_for(stopping, PATIENCE_S)
            assert handler.handled == 1
            assert handler.lost == ["listener_stopped", "listener_stopped"]
            assert listener.connection_count == 0
            await busy.close()
            await quiet.close()

    run(main())


@pytest.mark.parametrize("runner", [uvloop.run, asyncio.run], ids=["uvloop", "asyncio"])
@pytest.mark.parametrize("iterations", range(6))
def test_a_connection_that_arrives_while_the_listener_stops_is_closed(
    runner: Callable[[Coroutine[Any, Any, None]], None], iterations: int
) -> None:
    async def main() -> None:
        async with listening(Handler()) as listener:
            await turns()
            with socket.create_connection(("127.0.0.1", listener.port)) as client:
                for _ in range(iterations):  # of the loop, in one of which the listener accepts
                    await asyncio.sleep(0)
                await listener.stop(10_000)
                client.settimeout(PATIENCE_S)
                with contextlib.suppress(ConnectionError):
                    assert client.recv(1) == b""
                gc.collect()  # a socket that was left open is an error here

    runner(asyncio.wait_for(main(), 3 * PATIENCE_S))


def test_a_stop_ends_at_its_deadline_even_if_a_response_never_comes() -> None:
    async def main() -> None:
        handler = Handler()
        handler.answers_later = True
        async with listening(handler) as listener:
            client = await Client.connect(listener)
            client.writer.write(push(1))
            await handled(handler, 1)
            await asyncio.wait_for(listener.stop(50), PATIENCE_S)
            assert handler.lost == ["listener_stopped"]
            await client.close()

    run(main())


def test_a_thousand_connections_are_served_at_once() -> None:
    async def main() -> None:
        handler = Handler()
        async with listening(handler) as listener:
            clients = [await Client.connect(listener) for _ in range(1_000)]
            await connections(listener, 1_000)
            for number, client in enumerate(clients):
                client.writer.write(push(number) + push(number + 1))
            for number, client in enumerate(clients):
                assert await client.receive(2 * RESPONSE_BYTES) == answer(number) + answer(number + 1)
            assert len({channel.connection_id for channel in handler.channels}) == 1_000
            for client in clients:
                client.writer.close()
            await connections(listener, 0)
            counters = listener.counters()
            assert counters["accepted"] == 1_000
            assert counters["closed"] == {"client_closed": 1_000}
            assert counters["requests"] == {"PUSH_TELEMETRY": 2_000}

    run(main())


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS, errno.EPERM])
def test_a_process_that_cannot_accept_pauses_and_accepts_again(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    async def main() -> None:
        handler = Handler()
        async with listening(handler, accept_error_pause_ms=20) as listener:
            real = socket.socket.accept

            def exhausted(_: socket.socket) -> Any:
                raise OSError(number, os.strerror(number))

            monkeypatch.setattr(socket.socket, "accept", exhausted)
            client = await Client.connect(listener)
            await wait_for_async(
                lambda: listener.counters()["accept_errors"], "three errors", until=lambda errors: errors >= 3
            )
            monkeypatch.setattr(socket.socket, "accept", real)
            client.writer.write(push(1))
            assert await client.receive(RESPONSE_BYTES) == answer(1)
            await client.close()

    with capture_logs() as logs:
        run(main())
    assert [entry["event"] for entry in logs] == ["wire.accept_failed"]


def test_a_connection_that_ends_before_it_is_accepted_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with listening(Handler(), accept_error_pause_ms=60_000) as listener:
            real, failures = socket.socket.accept, iter([errno.ECONNABORTED, errno.EPROTO])

            def aborted(listening: socket.socket) -> Any:
                for number in failures:
                    raise OSError(number, os.strerror(number))
                return real(listening)

            monkeypatch.setattr(socket.socket, "accept", aborted)
            client = await Client.connect(listener)
            client.writer.write(push(1))
            assert await client.receive(RESPONSE_BYTES) == answer(1)
            await client.close()
            assert listener.counters()["accept_errors"] == 0

    run(main())


def test_an_address_in_use_is_said_in_one_sentence() -> None:
    async def main() -> None:
        async with listening(Handler()) as listener:
            second = Listener(
                name="SECOND",
                host="127.0.0.1",
                port=listener.port,
                handler=Handler(),
                settings=ListenerSettings(),
                time=SystemTime(),
            )
            with pytest.raises(InvalidConfigError, match=f"listener SECOND cannot bind 127.0.0.1:{listener.port}"):
                await second.start()
            await second.stop(0)

    run(main())
