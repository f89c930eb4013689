"""Connection quotas at work on a listener: who waits, who is closed, and that every end of a connection gives back."""

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs
from support.certificates import Authority
from support.programs.node import Node
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime, SystemTime, Time
from fleetgauge.node.config import load_config
from fleetgauge.node.listener.connection_limits import NodeConnectionLimits
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.listener import Listener, ListenerSettings
from fleetgauge.wire.messages.codec import Request
from fleetgauge.wire.messages.proxy_header import ProxyTrust
from fleetgauge.wire.security_protocol import SecurityProtocol
from fleetgauge.wire.tls.server import TlsSettings, make_server_context

pytestmark = pytest.mark.integration

API_VERSIONS = struct.pack(">i", 10) + struct.pack(">hhih", 18, 0, 1, -1)
ME = "127.0.0.1"


class Handler:
    """Answers nothing; remembers when each connection was let in."""

    request_clock = None

    def __init__(self) -> None:
        self.made_ms: list[int] = []
        self.channels: list[Channel] = []

    def push(self, channel: Channel, data: bytes, slot: int, now_ms: int) -> bytes | None:
        return None

    def handle(self, channel: Channel, request: Request) -> bytes | None:
        raise RuntimeError("a fault of ours")

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        return False

    def authentication_took(self, nanos: int) -> None:
        raise AssertionError("there is no clock")

    def authentication_ended(self, channel: Any, user: str, mechanism: str, failure: str) -> None:
        pass

    def connection_made(self, channel: Channel) -> None:
        self.made_ms.append(SystemTime().hi_res_clock_ms())
        self.channels.append(channel)

    def connection_lost(self, channel: Channel, reason: str) -> None:
        self.channels.remove(channel)


class Place:
    """A listener with its limits, and the clients that a test has connected to it."""

    def __init__(self, listener: Listener, limits: NodeConnectionLimits, handler: Handler) -> None:
        self.listener, self.limits, self.handler = listener, limits, handler
        self.clients: list[socket.socket] = []

    async def connect(self, source: str = ME) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)
        client.bind((source, 0))
        await asyncio.get_running_loop().sock_connect(client, (ME, self.listener.port))
        self.clients.append(client)
        return client

    async def ends(self, client: socket.socket) -> bytes:
        """What the client receives until its connection is closed."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while chunk := await asyncio.wait_for(asyncio.get_running_loop().sock_recv(client, 4096), PATIENCE_S):
                received += chunk
        return received

    async def counts(self, connections: int, addresses: int) -> None:
        expected = {"connections": connections, "addresses": addresses}
        await wait_for_async(self.limits.status, f"{expected}", until=lambda status: status == expected)

    async def lets_in(self, count: int) -> None:
        """Waits until so many were let in since the start."""
        await wait_for_async(
            lambda: len(self.handler.made_ms), f"{count} connections let in", until=lambda made: made == count
        )

    async def waits(self, count: int) -> None:
        """Waits until so many had to wait for a place since the start."""
        await wait_for_async(
            lambda: self.listener.counters()["accept_waits"], f"{count} waits", until=lambda waits: waits == count
        )

    async def closes(self, reason: str, count: int = 1) -> None:
        """Waits until so many were closed for that reason since the start."""
        await wait_for_async(self.closed, f"{count} x {reason}", until=lambda closed: closed[reason] == count)

    def closed(self) -> Counter[str]:
        return Counter(self.listener.counters()["closed"])


def run(main: Coroutine[Any, Any, None]) -> None:
    uvloop.run(asyncio.wait_for(main, 3 * PATIENCE_S))


@contextlib.asynccontextmanager
async def listening(
    *overrides: str, security: ListenerSecurity | None = None, clock: Time | None = None, **settings: int
) -> AsyncIterator[Place]:
    config = load_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0", *overrides])
    time, handler = clock or SystemTime(), Handler()
    limits = NodeConnectionLimits(config, Metrics(time=time), time, asyncio.get_running_loop())
    listener = Listener(
        name="PLAINTEXT",
        host=ME,
        port=0,
        handler=handler,
        settings=ListenerSettings(**settings),
        time=time,
        security=security,
        limits=limits,
    )
    limits.on_excess("PLAINTEXT", listener.close_excess)
    await listener.start()
    place = Place(listener, limits, handler)
    try:
        yield place
    finally:
        await listener.stop(1_000)
        for client in place.clients:
            client.close()
    assert limits.status() == {"connections": 0, "addresses": 0}, "a stop gives everything back"


def test_a_storm_from_many_addresses_is_held_to_its_rate() -> None:
    """From the first on, k seconds let rate x (k + 10) connections in, since a fresh rate is taken over 10 windows."""
    rate, clients, addresses = 10, 130, 40

    async def main() -> None:
        async with listening(f"max.connection.creation.rate={rate}") as place:
            start_ms = SystemTime().hi_res_clock_ms()
            await asyncio.gather(*(place.connect(f"127.0.1.{number % addresses + 1}") for number in range(clients)))
            await place.lets_in(clients)
            await place.counts(clients, addresses)
            for number, made_ms in enumerate(place.handler.made_ms, 1):
                assert number <= rate * ((made_ms - start_ms) / 1_000 + 10) + 1
            assert place.listener.counters()["accept_waits"] > 0
            for client in place.clients:
                client.close()
            await place.counts(0, 0)

    run(main())


def test_one_too_many_of_an_address_is_closed_and_others_are_let_in() -> None:
    async def main() -> None:
        async with listening("max.connections.per.ip=2", "max.connections.per.ip.overrides=127.0.0.3:1") as place:
            first, *_ = [await place.connect() for _ in range(2)]
            await place.counts(2, 1)
            assert await place.ends(await place.connect()) == b""
            await place.connect("127.0.0.2")
            await place.connect("127.0.0.3")
            await place.ends(await place.connect("127.0.0.3"))
            assert place.closed() == {"too_many_connections": 2}
            first.close()
            await place.counts(3, 3)
            await place.connect()
            await place.counts(4, 3)

    run(main())


def test_an_address_that_connects_too_fast_is_held_and_then_closed() -> None:
    async def main() -> None:
        async with listening() as place:
            place.limits.quotas.update_ip_connection_rate_quota(ME, 0)
            held = await place.connect()
            await place.closes("connection_throttled")
            with pytest.raises(BlockingIOError):
                held.recv(1)
            await place.connect("127.0.0.2")
            await place.counts(1, 1)
            await place.ends(held)
            await place.connect()  # and this one is still held when the listener stops
            await place.closes("connection_throttled", 2)
            assert place.closed() == {"connection_throttled": 2}

    run(main())


def test_who_comes_beyond_the_limit_waits_until_another_leaves() -> None:
    async def main() -> None:
        async with listening("max.connections=2") as place:
            first, *_ = [await place.connect() for _ in range(3)]
            await place.waits(1)
            assert len(place.handler.channels) == 2
            first.close()
            await place.lets_in(3)
            await place.connect()  # waits when the listener stops
            await place.waits(2)

    run(main())


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda client: client.close(), "client_closed"),
        (reset, "connection_reset"),
        (lambda client: client.send(b"GET / HTTP/1.1\r\n\r\n"), "frame_too_large"),
        (lambda client: client.send(API_VERSIONS), "handler_error"),
        (lambda client: None, "idle"),
    ],
    ids=["closed", "reset", "malformed", "handler fault", "idle"],
)
def test_every_end_of_a_connection_gives_its_place_back(end: Callable[[socket.socket], object], reason: str) -> None:
    async def main() -> None:
        with capture_logs():  # a fault of ours is logged at length
            await ended()

    async def ended() -> None:
        idle_ms = 300 if reason == "idle" else 60_000
        async with listening("max.connections=1", connections_max_idle_ms=idle_ms) as place:
            end(await place.connect())
            await place.closes(reason)
            await place.counts(0, 0)
            await place.connect()
            await place.lets_in(2)

    run(main())


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    authority = Authority(tmp_path_factory.mktemp("authority"))
    keystore: Path = authority.issue("server", "/CN=localhost").keystore
    return make_server_context(TlsSettings(keystore_location=str(keystore)))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda client: client.send(API_VERSIONS), "no_tls"),
        (lambda client: client.send(b"\x16\x03\x01\x00\x05hello"), "tls_handshake_failed"),
        (lambda client: client.close(), "client_closed"),
        (reset, "client_closed"),
        (lambda client: client.send(b"\x16"), "tls_timeout"),
    ],
    ids=["no tls", "broken tls", "closed", "reset", "silent"],
)
def test_every_end_of_a_tls_handshake_gives_its_place_back(
    tls: ssl.SSLContext, end: Callable[[socket.socket], object], reason: str
) -> None:
    async def main() -> None:
        security = ListenerSecurity(protocol=SecurityProtocol.SSL, tls=tls)
        timeout_ms = 3_000 if reason == "tls_timeout" else 60_000
        async with listening("max.connections=1", security=security, handshake_timeout_ms=timeout_ms) as place:
            client = await place.connect()
            await place.counts(1, 1)
            end(client)
            await place.closes(reason)
            await place.counts(0, 0)

    run(main())


def header(source: str) -> bytes:
    return f"PROXY TCP4 {source} 127.0.0.1 4000 9092\r\n".encode()


def test_behind_a_load_balancer_the_clients_own_address_counts() -> None:
    async def main() -> None:
        security = ListenerSecurity(proxy=ProxyTrust(["127.0.0.1"]))
        async with listening("max.connections.per.ip=1", security=security) as place:
            place.limits.quotas.update_ip_connection_rate_quota("203.0.113.9", 0)
            loop = asyncio.get_running_loop()
            first, second, third, silent, throttled = [await place.connect() for _ in range(5)]
            await place.counts(5, 0)
            await loop.sock_sendall(first, header("203.0.113.7"))
            await place.counts(5, 1)
            await loop.sock_sendall(second, header("203.0.113.7"))
            await place.ends(second)
            await loop.sock_sendall(third, header("203.0.113.8"))
            await loop.sock_sendall(throttled, header("203.0.113.9"))
            await place.counts(3, 2)
            assert place.limits.quotas.get("203.0.113.7") == 1
            await place.ends(throttled)
            await loop.sock_sendall(silent, b"PROXY nonsense\r\n")
            await place.ends(silent)
            await place.ends(await place.connect("127.0.0.2"))
            await place.counts(2, 2)
            assert place.closed() == {
                "too_many_connections": 1,
                "connection_throttled": 1,
                "malformed_proxy_header": 1,
                "untrusted_proxy": 1,
            }

    run(main())


def test_the_connections_used_longest_ago_go_where_there_are_too_many() -> None:
    async def main() -> None:
        clock = MockTime()
        async with listening(clock=clock) as place:
            clients = []
            for number in range(4):
                clients.append(await place.connect())
                await place.lets_in(number + 1)
                clock.sleep(1)
            clients[0].send(API_VERSIONS[:4])
            place.listener.close_excess(0)
            await wait_for_async(
                lambda: place.listener.counters()["bytes_received"],
                "the first to be used once more",
                until=lambda received: received == 4,
            )
            config = load_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0", "max.connections=2"])
            place.limits.reconfigure(config, place.limits.look_up(config))
            assert await place.ends(clients[1]) == b""
            assert await place.ends(clients[2]) == b""
            await place.counts(2, 1)
            assert place.closed() == {"excess_connection": 2}

    run(main())


def expect(node: Node, *, connections: int, addresses: int, closed: int) -> None:
    limits = {"connections": connections, "addresses": addresses}
    node.wait_for(
        lambda s: (
            (s["connection_limits"], s["connections"][0]["closed"].get("too_many_connections")) == (limits, closed)
        ),
        what=f"{limits} and {closed} closed",
    )


def test_a_node_keeps_to_its_limits_and_shows_them(tmp_path: Path) -> None:
    config = '"max.connections.per.ip" = 2\nmax.connections.per.ip.overrides = "127.0.0.9:3"\n'
    with Node(tmp_path, config=config) as node, contextlib.ExitStack() as clients:

        def connect(source: str, count: int) -> None:
            for _ in range(count):
                clients.enter_context(socket.create_connection((ME, node.port), source_address=(source, 0)))

        connect("127.0.0.8", 5)
        connect("127.0.0.9", 5)
        expect(node, connections=5, addresses=2, closed=5)
        node.reread(config.replace("2", "4", 1))
        connect("127.0.0.8", 3)
        expect(node, connections=7, addresses=2, closed=6)
        clients.close()
        expect(node, connections=0, addresses=0, closed=6)
