"""Connections through a gateway before a broker that a test scripts: order, deaths, slow peers, TLS, memory."""

import asyncio
import contextlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs
from support.certificates import Authority
from support.gateway.gateway_traffic import framed, produce, request, response
from support.ports import free_ports
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.varint import encode_varint
from fleetgauge.gateway.addresses import parse_brokers, parse_nodes
from fleetgauge.gateway.gateway import Gateway, GatewaySettings
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.rules import Answer, ClientConnection, NoRules, RequestVerdict
from fleetgauge.gateway.server_names import ServerNames
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.listener import Listener, ListenerSettings
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response
from fleetgauge.wire.messages.proxy_header import ProxyTrust
from fleetgauge.wire.security_protocol import SecurityProtocol
from fleetgauge.wire.tls.server import ClientAuth, TlsSettings, make_server_context

pytestmark = pytest.mark.integration
Broker = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
FETCH = request(1, 15, 1, b"\0" * 10)
PUSH = request(72, 0, 2, bytes(16) + struct.pack(">iBb", 5, 0, 0) + b"\x01\x00")


class Handler:
    """Answers pushes, at once or when the test says so."""

    request_clock = None

    def __init__(self) -> None:
        self.answers_later = False
        self.waiting: list[tuple[Channel, Request]] = []
        self.lost: list[str] = []
        self.made: list[Channel] = []

    def push(self, channel: Channel, data: bytes, slot: int, now_ms: int) -> bytes | None:
        return None

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        if self.answers_later:
            self.waiting.append((channel, request))
            return None
        return encode_push_telemetry_response(request.correlation_id, 0, 0)

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        return False

    def authentication_took(self, nanos: int) -> None: ...

    def authentication_ended(self, channel: Channel, user: str, mechanism: str, failure: str) -> None: ...

    def connection_made(self, channel: Channel) -> None:
        self.made.append(channel)

    def connection_lost(self, channel: Channel, reason: str) -> None:
        self.lost.append(reason)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(scenario, 2 * PATIENCE_S))


class Relay:
    """A gateway before a scripted broker."""

    def __init__(self, listener: Listener, gateway: Gateway, handler: Handler) -> None:
        self.listener, self.gateway, self.handler = listener, gateway, handler
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, **tls: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port, **tls)
        self._writers.append(writer)
        return reader, writer

    async def disconnect(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def closed(self) -> dict[str, int]:
        return dict(self.listener.counters()["closed"])

    async def wait_for_open(self, number: int) -> None:
        """Waits until so many clients' connections are open."""
        await wait_for_async(
            lambda: self.listener.connection_count, f"{number} connections", until=lambda count: count == number
        )


@contextlib.asynccontextmanager
async def relay(
    broker: Broker,
    *,
    security: ListenerSecurity | None = None,
    broker_tls: ssl.SSLContext | None = None,
    **settings: Any,
) -> AsyncIterator[Relay]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await broker(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=broker_tls, limit=1 << 16)
    clock = settings.pop("time", SystemTime())
    listener_keys = {key: settings.pop(key) for key in ("connections_max_idle_ms",) if key in settings}
    gateway = Gateway(
        GatewaySettings(
            host="127.0.0.1",
            port=settings.pop("port", server.sockets[0].getsockname()[1]),
            **{
                "request_max_bytes": 200 << 20,
                "telemetry_max_bytes": 1 << 20,
                "max_in_flight_requests": 100,
                "response_timeout_ms": 600_000,
                **settings,
            },
        )
    )
    handler = Handler()
    listener = Listener(
        name="PLAINTEXT",
        host="127.0.0.1",
        port=0,
        handler=handler,
        settings=ListenerSettings(**listener_keys),
        time=clock,
        security=security,
        new_channel=gateway.channel,
    )
    await listener.start()
    way = Relay(listener, gateway, handler)
    try:
        yield way
    finally:
        await way.disconnect()
        await listener.stop(1_000)
        server.close()
        await server.wait_closed()


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(struct.unpack(">i", head)[0])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers each request with its own body."""
    while True:
        frame = await read_frame(reader)
        writer.write(framed(frame[8:12] + b"\0" + frame[12:]))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


def answer_to(sent: bytes) -> bytes:
    return framed(sent[8:12] + b"\0" + sent[12:])


def test_answers_of_broker_and_gateway_come_in_the_order_of_requests() -> None:
    async def scenario() -> None:
        async with relay(echo) as way:
            way.handler.answers_later = True
            reader, writer = await way.connect()
            writer.write(FETCH + PUSH + FETCH)
            assert await read_frame(reader) == answer_to(FETCH)
            await wait_for_async(lambda: way.handler.waiting, "the push")
            ((channel, pushed),) = way.handler.waiting
            channel.respond(pushed.slot, encode_push_telemetry_response(pushed.correlation_id, 0, 0))
            channel.flush()
            assert await read_frame(reader) == encode_push_telemetry_response(2, 0, 0)
            assert await read_frame(reader) == answer_to(FETCH)

    run(scenario())


def test_a_client_that_closes_its_side_gets_its_answers() -> None:
    async def scenario() -> None:
        async with relay(echo) as way:
            reader, writer = await way.connect()
            writer.write(FETCH + PUSH)
            writer.write_eof()
            assert await reader.read() == answer_to(FETCH) + encode_push_telemetry_response(2, 0, 0)
            await way.wait_for_open(0)
            assert way.closed() == {"client_closed": 1}
            assert way.handler.lost == ["client_closed"]

    run(scenario())


def test_records_without_acks_reach_the_broker_though_the_client_closes_at_once() -> None:
    got: list[bytes] = []

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.read(-1))

    async def scenario() -> None:
        async with relay(broker) as way:
            _, writer = await way.connect()
            sent = b"".join(produce(number, 0, b"r" * 100_000) for number in range(30))
            writer.write(sent)
            await writer.drain()
            writer.close()
            await wait_for_async(lambda: got, "the records at the broker")
            assert got == [sent]

    run(scenario())


async def _wrong_id(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_frame(reader)
    writer.write(response(1, 15, 77, b"x"))
    await reader.read()


async def _unasked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(response(1, 15, 1, b"x"))
    await reader.read()


async def _dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_frame(reader)


async def _dies_within_an_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_frame(reader)
    writer.write(response(1, 15, 1, b"x" * 100)[:50])


@pytest.mark.parametrize(
    ("broker", "sent", "reason", "logged"),
    [
        (_wrong_id, FETCH, "broker_out_of_order", "correlation id 77 in place of 1"),
        (_unasked, b"", "broker_unasked", "without a request"),
        (_dies, FETCH, "broker_lost", "1 requests were unanswered"),
        (_dies_within_an_answer, FETCH + FETCH, "broker_lost", "1 requests were unanswered"),
        (silent, request(999, 0, 1, b""), "unknown_api_key", "api key 999"),
        (silent, b"GET / HTTP/1.1\r\n\r\n", "frame_too_large", "it looks like HTTP"),
        (silent, struct.pack(">ihhih", 13, 0, 9, 1, 30) + b"abc", "malformed_header", "a client id of 30 bytes"),
    ],
)
def test_a_fault_of_one_peer_ends_that_pair_alone_and_is_logged(
    broker: Broker, sent: bytes, reason: str, logged: str
) -> None:
    is_first = [True]

    async def faulty_but_for_the_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_first:
            is_first.pop()
            await echo(reader, writer)
        else:
            await broker(reader, writer)

    async def scenario() -> None:
        async with relay(faulty_but_for_the_first) as way:
            other_reader, other_writer = await way.connect()
            other_writer.write(FETCH)
            assert await read_frame(other_reader) == answer_to(FETCH)
            with capture_logs() as logs:
                reader, writer = await way.connect()
                writer.write(sent)
                assert len(await reader.read()) < 100
                await way.wait_for_open(1)
            assert way.closed() == {reason: 1}
            (line,) = [each for each in logs if each["event"] == "gateway.connection_ended"]
            assert logged in line["detail"]
            assert line["reason"] == reason
            other_writer.write(FETCH)
            assert await read_frame(other_reader) == answer_to(FETCH)
            await wait_for_async(
                lambda: way.gateway.status()["broker_connections"],
                "the end at the broker",
                until=lambda count: count == 1,
            )

    run(scenario())


def test_a_broker_that_cannot_be_reached_ends_the_client_and_is_counted() -> None:
    async def scenario() -> None:
        async with relay(silent, port=1) as way:
            reader, writer = await way.connect()
            writer.write(FETCH)
            with capture_logs() as logs:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                await way.wait_for_open(0)
            assert way.closed() == {"broker_unreachable": 1}
            assert way.gateway.status()["broker_connect_failures"] == 1
            assert "cannot connect to the broker 127.0.0.1:1" in logs[0]["detail"]

    run(scenario())


def test_a_broker_that_does_not_answer_ends_the_pair_and_an_idle_pair_ends_too() -> None:
    async def scenario() -> None:
        async with relay(silent, response_timeout_ms=200, connections_max_idle_ms=3_000) as way:
            reader, writer = await way.connect()
            idle_reader, _ = await way.connect()
            writer.write(FETCH)
            assert await reader.read() == b""
            assert await idle_reader.read() == b""
            await way.wait_for_open(0)
            assert way.closed() == {"broker_silent": 1, "idle": 1}

    run(scenario())


def _transport_buffers(way: Relay) -> int:
    channel: Any = way.handler.made[0]
    return sum(side.get_write_buffer_size() for side in (channel._transport, channel._broker) if side is not None)


def test_a_large_request_waits_for_a_slow_broker_in_the_clients_own_buffers() -> None:
    go = asyncio.Event()
    size = 100 << 20

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        left = size
        while left > 0:
            left -= len(await reader.read(1 << 20))
        writer.write(response(0, 9, 1, b"done"))
        await reader.read()

    async def scenario() -> None:
        async with relay(broker) as way:
            reader, writer = await way.connect()
            start = produce(1, 1)[4:]

            async def send() -> None:
                writer.write(struct.pack(">i", size - 4) + start)
                left = size - 4 - len(start)
                while left > 0:
                    writer.write(bytes(min(left, 1 << 20)))
                    left -= 1 << 20
                    await writer.drain()

            sending = asyncio.ensure_future(send())
            looks: list[int] = []

            def look() -> list[int]:
                looks.append(_transport_buffers(way))
                return looks[-50:]

            await wait_for_async(lambda: way.handler.made, "the connection")
            await wait_for_async(look, "full buffers", until=lambda last: len(last) == 50 and last[0] == last[-1] > 0)
            assert not sending.done()
            go.set()
            answered = asyncio.ensure_future(read_frame(reader))
            await wait_for_async(look, "the answer", until=lambda _: answered.done())
            assert answered.result() == response(0, 9, 1, b"done")
            assert 0 < max(looks) < 2 << 20
            await sending

    run(scenario())


def test_a_client_that_does_not_read_holds_up_its_broker_and_no_other_client() -> None:
    sent = [0]

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = await read_frame(reader)
        if frame != FETCH:
            writer.write(answer_to(frame))
            await reader.read()
            return
        size = 100 << 20
        writer.write(struct.pack(">iiB", size + 5, 1, 0))
        while sent[0] < size:
            writer.write(bytes(1 << 20))
            sent[0] += 1 << 20
            await writer.drain()
        await reader.read()

    async def scenario() -> None:
        async with relay(broker) as way:
            _, slow = await way.connect()
            slow.write(FETCH)
            looks: list[int] = []

            def look() -> list[int]:
                looks.append(sent[0])
                return looks[-60:]

            await wait_for_async(
                look, "the broker to be held up", until=lambda last: len(last) == 60 and last[0] == last[-1] > 0
            )
            assert sent[0] < 50 << 20
            assert _transport_buffers(way) < 2 << 20
            reader, writer = await way.connect()
            other = request(1, 15, 5, b"other")
            writer.write(other)
            assert await read_frame(reader) == answer_to(other)

    run(scenario())


class _Throttled(NoRules):
    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        if request.correlation_id == 1:
            connection.mute()
            asyncio.get_running_loop().call_later(3, connection.unmute)
            return Answer(response(1, 15, 1, b"empty"))
        return None


def test_a_muted_connection_is_answered_and_goes_on_afterwards() -> None:
    passed: list[bytes] = []

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            passed.append(await read_frame(reader))
            writer.write(answer_to(passed[-1]))

    async def scenario() -> None:
        async with relay(broker, rules=_Throttled()) as way:
            reader, writer = await way.connect()
            later, of_another = request(1, 15, 9, b"later"), request(1, 15, 10, b"another")
            writer.write(FETCH + later)
            assert await read_frame(reader) == response(1, 15, 1, b"empty")
            other_reader, other_writer = await way.connect()
            other_writer.write(of_another)
            assert await read_frame(other_reader) == answer_to(of_another)
            assert passed == [of_another]
            writer.write(later)
            got = await reader.readexactly(2 * len(answer_to(later)))
            assert got == 2 * answer_to(later)

    run(scenario())


def test_tls_on_both_sides_and_the_certificates_principal(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    server, client = authority.issue("server", "/CN=localhost"), authority.issue("client", "/CN=alice")
    tls = make_server_context(
        TlsSettings(
            keystore_location=str(server.keystore),
            truststore_location=str(authority.certificate),
            client_auth=ClientAuth.REQUIRED,
        )
    )
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    trusting.load_cert_chain(client.certificate, client.key)
    broker_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker_side.load_cert_chain(server.certificate, server.key)

    async def scenario() -> None:
        security = ListenerSecurity(protocol=SecurityProtocol.SSL, tls=tls)
        to_broker = ssl.create_default_context(cafile=str(authority.certificate))
        async with relay(echo, security=security, broker_tls=broker_side, tls=to_broker) as way:
            reader, writer = await way.connect(ssl=trusting, server_hostname="localhost")
            large = request(1, 15, 1, b"r" * 3_000_000)
            writer.write(large + PUSH)
            assert await read_frame(reader) == answer_to(large)
            assert await read_frame(reader) == encode_push_telemetry_response(2, 0, 0)
            (channel,) = way.handler.made
            assert (channel.principal.name, channel.security_protocol) == ("CN=alice", "SSL")

    run(scenario())


def test_a_broker_whose_certificate_is_not_trusted_is_not_connected_to(tmp_path: Path) -> None:
    server = Authority(tmp_path / "ca").issue("server", "/CN=localhost")
    broker_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    broker_side.load_cert_chain(server.certificate, server.key)

    async def scenario() -> None:
        async with relay(echo, broker_tls=broker_side, tls=ssl.create_default_context()) as way:
            reader, _ = await way.connect()
            assert await reader.read() == b""
            await way.wait_for_open(0)
            assert way.closed() == {"broker_unreachable": 1}

    run(scenario())


def test_a_stop_waits_for_the_answers_in_flight() -> None:
    go = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frame = await read_frame(reader)
        await go.wait()
        writer.write(answer_to(frame))
        await reader.read()

    async def scenario() -> None:
        async with relay(late) as way:
            reader, writer = await way.connect()
            writer.write(FETCH)
            await wait_for_async(lambda: way.gateway.status()["requests"], "the request")
            channel: Any = way.handler.made[0]
            stopping = asyncio.ensure_future(way.listener.stop(int(PATIENCE_S * 1_000)))
            await wait_for_async(lambda: channel.is_ending, "the begin of the stop")
            go.set()
            assert await reader.read() == answer_to(FETCH)
            await stopping

    run(scenario())


class SlowTime(SystemTime):
    """A clock by which everything between two readings takes a millisecond."""

    def __init__(self) -> None:
        self._read = 0

    def nanoseconds(self) -> int:
        self._read += 1
        return super().nanoseconds() + self._read * 1_000_000

    def hi_res_clock_ms(self) -> int:
        return super().nanoseconds() // 1_000_000 + self._read


def test_a_client_that_sends_thousands_of_requests_at_once_takes_turns_with_the_others() -> None:
    flood = b"".join(produce(number, 0) for number in range(20_000))
    passed = 0

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal passed
        frame = await read_frame(reader)
        while frame[4:6] == b"\0\0":
            passed += len(frame)
            frame = await read_frame(reader)
        writer.write(answer_to(frame))
        await reader.read()

    async def scenario() -> None:
        async with relay(broker, time=SlowTime()) as way:
            _, flooding = await way.connect()
            reader, writer = await way.connect()
            await wait_for_async(
                lambda: way.gateway.status()["broker_connections"], "both at the broker", until=lambda count: count == 2
            )
            flooding.write(flood)
            while not passed:
                await asyncio.sleep(0)
            writer.write(FETCH)
            assert await read_frame(reader) == answer_to(FETCH)
            assert passed < len(flood)
            await wait_for_async(lambda: passed, "the whole flood", until=lambda size: size == len(flood))
            assert way.gateway.status()["requests"]["Produce"] == 20_000

    run(scenario())


def test_a_client_with_a_response_of_99000_addresses_takes_turns_with_the_others() -> None:
    asked = request(10, 4, 1, b"")
    address = b"\x04key" + struct.pack(">i", 1) + b"\x07broker" + struct.pack(">i", 9092) + b"\0\0\x01\0"
    body = struct.pack(">i", 0) + encode_varint(99_001) + address * 99_000 + b"\0"

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            frame = await read_frame(reader)
            writer.write(response(10, 4, 1, body) if frame == asked else answer_to(frame))

    async def scenario() -> None:
        async with relay(broker, time=SlowTime(), addresses=parse_nodes(["*=gateway:1"])) as way:
            large, asking = await way.connect()
            reader, writer = await way.connect()
            asking.write(asked)
            passed = 0
            answered = asyncio.create_task(read_frame(large))
            while not answered.done():
                writer.write(FETCH)
                assert await read_frame(reader) == answer_to(FETCH)
                passed += 1
            assert passed > 10
            assert answered.result().count(b"gateway") == 99_000

    run(scenario())


def proxied(client: str) -> bytes:
    """What a load balancer sends before the bytes of a client."""
    return f"PROXY TCP4 {client} 127.0.0.1 40000 9092\r\n".encode()


async def ended(reader: asyncio.StreamReader) -> None:
    """Waits for the end of a connection, which is reset if bytes of the client were not read."""
    with contextlib.suppress(ConnectionResetError):
        assert await reader.read() == b""


def test_a_client_behind_a_load_balancer_is_known_by_its_own_address() -> None:
    async def scenario() -> None:
        async with relay(echo, security=ListenerSecurity(proxy=ProxyTrust(["127.0.0.1"]))) as way:
            reader, writer = await way.connect()
            writer.write(proxied("192.0.2.7") + FETCH)
            assert await read_frame(reader) == answer_to(FETCH)
            (channel,) = way.handler.made
            assert (channel.client_address, channel.client_port) == ("192.0.2.7", 40_000)
            reader, writer = await way.connect()
            writer.write(FETCH)
            await ended(reader)
            assert way.closed() == {"malformed_proxy_header": 1}

    run(scenario())


def test_a_connection_that_bypasses_the_load_balancer_is_closed() -> None:
    async def scenario() -> None:
        async with relay(echo, security=ListenerSecurity(proxy=ProxyTrust(["192.0.2.1"]))) as way:
            reader, writer = await way.connect()
            writer.write(proxied("192.0.2.7") + FETCH)
            await ended(reader)
            assert way.closed() == {"untrusted_proxy": 1}

    run(scenario())


def test_the_broker_gets_the_clients_address_before_tls(tmp_path: Path) -> None:
    """The broker is a listener that reads PROXY headers, as a load balancer before a broker does."""
    authority = Authority(tmp_path / "ca")
    server = authority.issue("server", "/CN=localhost")
    tls = make_server_context(TlsSettings(keystore_location=str(server.keystore)))
    trust = ProxyTrust(["127.0.0.1"])

    async def scenario(security: ListenerSecurity, to_broker: ssl.SSLContext | None) -> None:
        at_broker = Handler()
        broker = Listener(
            name="BROKER",
            host="127.0.0.1",
            port=0,
            handler=at_broker,
            settings=ListenerSettings(),
            time=SystemTime(),
            security=security,
        )
        await broker.start()
        settings: dict[str, Any] = {
            "tls": to_broker,
            "sends_proxy_header": True,
            "answers_telemetry": False,
            "port": broker.port,
        }
        async with relay(echo, **settings) as way:
            reader, writer = await way.connect()
            writer.write(PUSH)
            assert await read_frame(reader) == encode_push_telemetry_response(2, 0, 0)
            (seen,) = at_broker.made
            assert (seen.client_address, seen.client_port) == writer.get_extra_info("sockname")
        async with relay(echo, security=ListenerSecurity(proxy=trust), **settings) as way:
            reader, writer = await way.connect()
            writer.write(proxied("192.0.2.7") + PUSH)
            assert await read_frame(reader) == encode_push_telemetry_response(2, 0, 0)
            assert (at_broker.made[-1].client_address, at_broker.made[-1].client_port) == ("192.0.2.7", 40_000)
        await broker.stop(1_000)

    run(scenario(ListenerSecurity(proxy=trust), None))
    to_broker = ssl.create_default_context(cafile=str(authority.certificate))
    run(scenario(ListenerSecurity(protocol=SecurityProtocol.SSL, tls=tls, proxy=trust), to_broker))


def test_a_broker_that_cannot_be_reached_ends_a_connection_with_a_proxy_header_too() -> None:
    async def scenario() -> None:
        (port,) = free_ports(1)
        async with relay(echo, sends_proxy_header=True, port=port) as way:
            reader, _ = await way.connect()
            assert await reader.read() == b""
            assert way.closed() == {"broker_unreachable": 1}
            assert way.gateway.status()["broker_connect_failures"] == 1

    run(scenario())


def server_names(*brokers: str) -> dict[str, Any]:
    """Settings of a gateway before several brokers; `brokers` as in `gateway.brokers`."""
    nodes, behind = parse_nodes(["*=kafka-{id}.example.com:9093"]), parse_brokers(brokers)
    assert nodes is not None
    assert behind is not None
    return {"addresses": nodes, "server_names": ServerNames(nodes, behind, ["kafka.example.com"])}


def numbered(number: int) -> Broker:
    """A broker that answers with its number."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)
        writer.write(response(1, 15, 1, bytes([number])))
        await reader.read()
        writer.close()

    return answer


@pytest.fixture(scope="module")
def example_authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    authority = Authority(tmp_path_factory.mktemp("ca"))
    authority.issue("server", "/CN=gateway", names="DNS:*.example.com")
    return authority


def example_security(authority: Authority) -> ListenerSecurity:
    keystore = authority.directory / "server.keystore.pem"
    return ListenerSecurity(
        protocol=SecurityProtocol.SSL, tls=make_server_context(TlsSettings(keystore_location=str(keystore)))
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_server_name_of_a_tls_client_leads_to_its_broker(
    example_authority: Authority, version: ssl.TLSVersion
) -> None:
    client = ssl.create_default_context(cafile=str(example_authority.certificate))
    client.minimum_version = client.maximum_version = version
    names = ["kafka-2.example.com", "KAFKA-1.Example.com", "kafka.example.com"]

    async def scenario() -> None:
        async with contextlib.AsyncExitStack() as stack:
            servers = [await asyncio.start_server(numbered(node), "127.0.0.1", 0) for node in (1, 2)]
            for server in servers:
                stack.callback(server.close)
            brokers = [f"{node}=127.0.0.1:{each.sockets[0].getsockname()[1]}" for node, each in enumerate(servers, 1)]
            security = example_security(example_authority)
            way = await stack.enter_async_context(relay(numbered(0), security=security, **server_names(*brokers)))

            async def reached(name: str) -> int:
                reader, writer = await way.connect(ssl=client, server_hostname=name)
                writer.write(FETCH)
                return (await read_frame(reader))[-1]

            assert await asyncio.gather(*(reached(name) for name in names * 5)) == [2, 1, 0] * 5
            way.listener.security = example_security(example_authority)  # as with a new certificate
            assert [await reached(name) for name in names] == [2, 1, 0]

    run(scenario())


def hello(name: str | None, old: bytes = b"", new: bytes = b"") -> bytes:
    """The first message of a TLS client, with bytes of it replaced by as many."""
    assert len(old) == len(new)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    sent = outgoing.read()
    assert sent.count(old) == 1 or not old
    return sent.replace(old, new)


OF_255 = ".".join(["a" * 63] * 4)
NO_NAME = "the client sent no server name (SNI), as for an IP address or a name without a dot"
NO_HOST = "is not a host of gateway.nodes or advertised.listeners"


def named_twice(name: bytes) -> bytes:
    """A list of two names in the bytes of a list of one."""
    first, second = name[: len(name) // 2 - 3], name[len(name) // 2 :]
    return b"".join(b"\0" + struct.pack(">H", len(part)) + part for part in (first, second))


def named_once(name: bytes) -> bytes:
    return b"\0" + struct.pack(">H", len(name)) + name


@pytest.mark.parametrize(
    ("sent", "reason", "detail"),
    [
        (hello(None), "unknown_server_name", NO_NAME),
        (hello("127.0.0.1"), "unknown_server_name", NO_NAME),
        (hello("other.example.com"), "unknown_server_name", f"'other.example.com' {NO_HOST}"),
        (hello("kafka-1.example.com.other.example"), "unknown_server_name", NO_HOST),
        (hello(OF_255), "unknown_server_name", f"{OF_255!r} {NO_HOST}"),
        (hello("kafka-3.example.com"), "unknown_node", "kafka-3.example.com is node 3, and gateway.brokers has no"),
        (hello("kafka-1.example.com", b"kafka-1", b"kaf\x1b[1m"), "unknown_server_name", r"'kaf\x1b[1m.example.com'"),
        (hello("kafka-1.example.com", b"kafka-1", b"k\xc3\xa4fk-1"), "tls_handshake_failed", "(SNI) is not ASCII"),
        (hello("kafka-1.example.com", b"1.example", b"1\0example"), "tls_handshake_failed", "extension"),
        (
            hello("a" * 40 + ".com", named_once(b"a" * 40 + b".com"), named_twice(b"a" * 40 + b".com")),
            "tls_handshake_failed",
            "extension",
        ),
    ],
    ids=["none", "address", "unknown", "longer", "255 bytes", "no broker", "control", "not ASCII", "NUL", "two"],
)
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # logged by a node, see fleetgauge/node/logs.py
def test_a_handshake_with_another_server_name_is_refused_and_logged(
    example_authority: Authority, sent: bytes, reason: str, detail: str
) -> None:
    async def scenario() -> None:
        security = example_security(example_authority)
        with capture_logs() as lines:
            async with relay(silent, security=security, **server_names("1=127.0.0.1:1", "2=127.0.0.1:2")) as way:
                reader, writer = await way.connect()
                writer.write(sent)
                await ended(reader)
                await wait_for_async(way.closed, "the end of the connection")
                assert way.closed() == {reason: 1}
                assert way.gateway.status()["broker_connections"] == 0
        (line,) = (line for line in lines if line["event"] == "wire.handshake_failed")
        assert detail in line["detail"]
        assert line["client"].startswith("127.0.0.1:")

    run(scenario())
