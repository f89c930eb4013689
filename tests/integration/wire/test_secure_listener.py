"""A listener with TLS, SASL or a load balancer in front, over real sockets on uvloop: slow, silent and lying peers."""

import asyncio
import contextlib
import operator
import ssl
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs
from support.certificates import Authority
from support.waiting import PATIENCE_S, wait_for_async

from fleetgauge.base.clock import MockTime, SystemTime, Time
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.listener import Channel, Listener, ListenerSettings
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response
from fleetgauge.wire.messages.proxy_header import ProxyTrust
from fleetgauge.wire.sasl.authenticator import MECHANISMS, SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.security_protocol import SecurityProtocol
from fleetgauge.wire.tls.principal_mapping import PrincipalMapper
from fleetgauge.wire.tls.server import ClientAuth, TlsSettings, make_server_context

pytestmark = pytest.mark.integration

_TAIL = bytes(16) + struct.pack(">iBb", 5, 0, 0)
STORE = CredentialStore({"alice": (ScramCredential.make(ScramMechanism.SCRAM_SHA_256, "secret", iterations=4096),)})


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def push(correlation_id: int) -> bytes:
    return framed(struct.pack(">hhihB", 72, 0, correlation_id, -1, 0) + _TAIL + b"\x01\x00")


def answer(correlation_id: int) -> bytes:
    return encode_push_telemetry_response(correlation_id, 0, 0)


def handshake(mechanism: str) -> bytes:
    name = mechanism.encode()
    return framed(struct.pack(">hhih", 17, 1, 1, -1) + struct.pack(">h", len(name)) + name)


def authenticate(token: bytes) -> bytes:
    return framed(struct.pack(">hhih", 36, 1, 2, -1) + struct.pack(">i", len(token)) + token)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Handler:
    """Answers every push; remembers who was there."""

    request_clock = None

    def __init__(self) -> None:
        self.channels: list[Channel] = []
        self.lost: list[str] = []
        self.handled: list[tuple[str, str]] = []

    def push(self, channel: Channel, data: bytes, slot: int, now_ms: int) -> bytes | None:
        return None

    def handle(self, channel: Channel, request: Request) -> bytes:
        self.handled.append((str(channel.principal), channel.client_address))
        return answer(request.correlation_id)

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        return False

    def authentication_took(self, nanos: int) -> None:
        raise AssertionError("there is no clock")

    def authentication_ended(self, channel: Any, user: str, mechanism: str, failure: str) -> None:
        pass

    def connection_made(self, channel: Channel) -> None:
        self.channels.append(channel)

    def connection_lost(self, channel: Channel, reason: str) -> None:
        self.lost.append(reason)


def on_uvloop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        await asyncio.wait_for(scenario(), 3 * PATIENCE_S)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


@contextlib.asynccontextmanager
async def listening(
    security: ListenerSecurity, *, time: Time | None = None, **settings: int
) -> AsyncIterator[tuple[Listener, Handler]]:
    handler = Handler()
    listener = Listener(
        name="EXTERNAL",
        host="127.0.0.1",
        port=0,
        handler=handler,
        settings=ListenerSettings(**settings),
        time=time or SystemTime(),
        security=security,
    )
    await listener.start()
    try:
        yield listener, handler
    finally:
        await listener.stop(1_000)
        await close_clients()
        assert listener.connection_count == 0
        assert listener.counters()["unfinished_handshakes"] == 0


async def until_closed(listener: Listener, expected: dict[str, int]) -> None:
    await wait_for_async(
        lambda: listener.counters()["closed"], f"ends by {expected}", until=lambda closed: closed == expected
    )


async def until_accepted(listener: Listener, count: int) -> None:
    await wait_for_async(
        lambda: listener.counters()["accepted"], f"{count} to be accepted", until=lambda accepted: accepted == count
    )


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


CLIENTS: list[asyncio.StreamWriter] = []


async def close_clients() -> None:
    """What a scenario leaves open."""
    while CLIENTS:
        writer = CLIENTS.pop()
        writer.close()
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(writer.wait_closed(), PATIENCE_S)


async def connect(
    listener: Listener, tls: ssl.SSLContext | None = None, *, first: bytes = b"", source: str = "127.0.0.1"
) -> Streams:
    """A client; `first` goes out before TLS begins, as a load balancer's header does."""
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, local_addr=(source, 0))
    CLIENTS.append(writer)
    writer.write(first)
    if tls is not None:
        await writer.start_tls(tls, server_hostname="localhost", ssl_handshake_timeout=PATIENCE_S)
    return reader, writer


async def is_served(streams: Streams) -> None:
    reader, writer = streams
    writer.write(push(7))
    assert await asyncio.wait_for(reader.readexactly(len(answer(7))), PATIENCE_S) == answer(7)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def keystore(authority: Authority) -> Path:
    return authority.issue("server", "/CN=localhost").keystore


def client_context(authority: Authority, certificate: Any = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.certificate))
    if certificate is not None:
        context.load_cert_chain(certificate.keystore)
    return context


def tls_security(
    authority: Authority, keystore: Path, auth: ClientAuth = ClientAuth.NONE, **more: Any
) -> ListenerSecurity:
    settings = TlsSettings(
        keystore_location=str(keystore), truststore_location=str(authority.certificate), client_auth=auth
    )
    protocol = SecurityProtocol.SASL_SSL if "sasl" in more else SecurityProtocol.SSL
    return ListenerSecurity(protocol=protocol, tls=make_server_context(settings), **more)


def sasl_security(**settings: Any) -> ListenerSecurity:
    sasl = SaslSettings(mechanisms=tuple(MECHANISMS), store=STORE, **settings)
    return ListenerSecurity(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=sasl)


def test_a_tls_client_is_served_and_its_certificate_names_it(authority: Authority, keystore: Path) -> None:
    certificate = authority.issue("orders", "/C=DE/O=Example, Inc/OU=Orders+UID=7/CN=orders")

    async def scenario() -> None:
        security = tls_security(authority, keystore, ClientAuth.REQUESTED)
        async with listening(security) as (listener, handler):
            await is_served(await connect(listener, client_context(authority, certificate)))
            await is_served(await connect(listener, client_context(authority)))
            names = [name for name, _ in handler.handled]
            assert names == ["User:CN=orders,OU=Orders+UID=7,O=Example\\, Inc,C=DE", "User:ANONYMOUS"]
            assert handler.channels[0].security_protocol == "SSL"

    on_uvloop(scenario)


def test_mapping_rules_name_a_client_and_who_fits_none_is_closed(authority: Authority, keystore: Path) -> None:
    good = authority.issue("good", "/OU=Services/CN=Orders")
    bad = authority.issue("bad", "/OU=People/CN=Somebody")

    async def scenario() -> None:
        mapper = PrincipalMapper("RULE:^CN=(.*?),OU=Services$/$1/L")
        security = tls_security(authority, keystore, ClientAuth.REQUIRED, principal_mapper=mapper)
        async with listening(security) as (listener, handler):
            served = await connect(listener, client_context(authority, good))
            await is_served(served)
            assert handler.handled[0][0] == "User:orders"
            # The node may close before the client takes its side of the handshake for done.
            with capture_logs() as logs, contextlib.suppress(ConnectionError):
                reader, _ = await connect(listener, client_context(authority, bad))
                assert await reader.read() == b""
            await until_closed(listener, {"no_principal_mapping_rule": 1})
            assert [(entry["reason"], entry["detail"]) for entry in logs] == [
                ("no_principal_mapping_rule", "no rule of ssl.principal.mapping.rules fits 'CN=Somebody,OU=People'")
            ]
            assert [name for name, _ in handler.handled] == ["User:orders"]

    on_uvloop(scenario)


def test_a_client_without_a_certificate_or_with_a_strangers_is_refused(
    authority: Authority, keystore: Path, tmp_path: Path
) -> None:
    strange = Authority(tmp_path / "strange", "Strange CA").issue("stranger", "/CN=stranger")

    async def scenario() -> None:
        security = tls_security(authority, keystore, ClientAuth.REQUIRED)
        async with listening(security) as (listener, handler):
            with capture_logs() as logs:
                for certificate in (None, strange):
                    with contextlib.suppress(ssl.SSLError, ConnectionError):
                        reader, writer = await connect(listener, client_context(authority, certificate))
                        writer.write(push(1))
                        assert await reader.read() == b""
                await until_closed(listener, {"tls_handshake_failed": 2})
            assert handler.handled == []
            assert "the client sent no certificate" in logs[0]["detail"]

    on_uvloop(scenario)


def test_tls_1_1_is_refused(authority: Authority, keystore: Path) -> None:
    old = client_context(authority)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")

    async def scenario() -> None:
        async with listening(tls_security(authority, keystore)) as (listener, _):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connect(listener, old)
            await until_closed(listener, {"tls_handshake_failed": 1})

    on_uvloop(scenario)


@pytest.mark.parametrize(
    ("first", "looks"),
    [(push(1), "plaintext Kafka request"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (b"SSH-2.0-x\r\n", "SSH")],
)
def test_what_is_no_tls_is_closed_and_the_log_says_what_it_looks_like(
    authority: Authority, keystore: Path, first: bytes, looks: str
) -> None:
    async def scenario() -> None:
        async with listening(tls_security(authority, keystore)) as (listener, _):
            with capture_logs() as logs:
                reader, _writer = await connect(listener, first=first)
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                await until_closed(listener, {"no_tls": 1})
            assert [looks in entry["detail"] for entry in logs] == [True]

    on_uvloop(scenario)


def test_silent_and_half_tls_handshakes_are_closed_in_time_and_keep_nobody_waiting(
    authority: Authority, keystore: Path
) -> None:
    hello = ssl.MemoryBIO()
    half = client_context(authority).wrap_bio(ssl.MemoryBIO(), hello, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        half.do_handshake()
    client_hello = hello.read()

    async def scenario() -> None:
        security = tls_security(authority, keystore)
        async with listening(security, handshake_timeout_ms=5_000) as (listener, _):
            await is_served(await connect(listener, client_context(authority)))
            before = descriptors()
            silent = [await connect(listener) for _ in range(20)]
            cut = [await connect(listener, first=client_hello[:40]) for _ in range(20)]
            waiting = [await connect(listener, first=client_hello) for _ in range(20)]
            served = await connect(listener, client_context(authority))
            await is_served(served)
            await until_closed(listener, {"tls_timeout": 60})
            await is_served(served)
            for reader, writer in (*silent, *cut, *waiting):
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            await wait_for_async(
                descriptors, "every descriptor to be given back", until=lambda count: count <= before + 2
            )

    on_uvloop(scenario)


def test_a_thousand_silent_connections_make_room_for_those_who_come_to_talk(
    authority: Authority, keystore: Path
) -> None:
    async def scenario() -> None:
        for security in (sasl_security(), tls_security(authority, keystore)):
            context = client_context(authority) if security.tls else None
            async with listening(security, max_unfinished_handshakes=200) as (listener, handler):
                silent = [await connect(listener) for _ in range(1_000)]
                await until_accepted(listener, 1_000)
                assert listener.counters()["unfinished_handshakes"] == 200
                reader, writer = await connect(listener, context)
                if security.sasl:
                    writer.write(handshake("PLAIN"))
                    await receive(reader)
                    writer.write(authenticate(b"\0alice\0secret"))
                    await receive(reader)
                await is_served((reader, writer))
                assert listener.counters()["closed"] == {"too_many_handshakes": 801}
                assert len(handler.handled) == 1
                for _, one in silent:
                    one.close()

    on_uvloop(scenario)


def test_a_slow_client_keeps_its_handshake_while_silent_ones_of_another_address_come(
    authority: Authority, keystore: Path
) -> None:
    """Whose handshake makes room: not the oldest of all, but the oldest of the address that has most of them."""

    async def scenario() -> None:
        for security in (sasl_security(), tls_security(authority, keystore)):
            async with listening(security, max_unfinished_handshakes=20) as (listener, handler):
                reader, writer = await connect(listener, source="127.0.0.2")
                if security.sasl:
                    writer.write(handshake("PLAIN"))
                    await receive(reader)
                silent = [await connect(listener) for _ in range(100)]
                await until_accepted(listener, 101)
                if security.sasl:
                    writer.write(authenticate(b"\0alice\0secret"))
                    await receive(reader)
                else:
                    await writer.start_tls(client_context(authority), server_hostname="localhost")
                await is_served((reader, writer))
                assert listener.counters()["closed"] == {"too_many_handshakes": 81}
                assert len(handler.handled) == 1
                for _, one in silent:
                    one.close()

    on_uvloop(scenario)


async def receive(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
    return await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)


def test_a_client_that_never_authenticates_is_closed_in_time() -> None:
    async def scenario() -> None:
        async with listening(sasl_security(), handshake_timeout_ms=3_000) as (listener, _):
            reader, writer = await connect(listener)
            writer.write(handshake("SCRAM-SHA-256"))
            await receive(reader)
            assert await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
            await until_closed(listener, {"sasl_timeout": 1})

    on_uvloop(scenario)


def test_slow_password_checks_do_not_hold_up_other_clients() -> None:
    """Each check takes milliseconds; a hundred at once are done beside the loop, and every one gets its answer."""

    async def login(listener: Listener, password: bytes) -> bytes:
        reader, writer = await connect(listener)
        writer.write(handshake("PLAIN"))
        await receive(reader)
        writer.write(authenticate(b"\0alice\0" + password))
        told = await receive(reader)
        writer.close()
        return told

    async def scenario() -> None:
        async with listening(sasl_security(failure_delay_ms=1)) as (listener, _):
            told = await asyncio.gather(*(login(listener, b"secret" if i % 2 else b"wrong") for i in range(100)))
            codes = [struct.unpack_from(">h", answered, 4)[0] for answered in told]
            assert codes == [58, 0] * 50
            counted = listener.counters()
            assert (counted["successful_authentications"], counted["failed_authentications"]) == (50, 50)

    on_uvloop(scenario)


def test_a_password_check_outlives_its_client_without_harm() -> None:
    async def scenario() -> None:
        async with listening(sasl_security()) as (listener, _):
            for _ in range(50):
                reader, writer = await connect(listener)
                writer.write(handshake("PLAIN") + authenticate(b"\0alice\0secret"))
                await receive(reader)
                writer.transport.abort()
            await wait_for_async(lambda: listener.connection_count, "all to be gone", until=operator.not_)

    on_uvloop(scenario)


def test_tokens_and_frames_before_authentication_are_bounded() -> None:
    async def scenario() -> None:
        async with listening(sasl_security(max_receive_bytes=2_000)) as (listener, handler):
            reader, writer = await connect(listener)
            with capture_logs() as logs:
                writer.write(handshake("PLAIN") + authenticate(b"\0alice\0" + b"x" * 3_000))
                await receive(reader)
                assert await reader.read() == b""
            await until_closed(listener, {"frame_too_large": 1})
            assert "sasl.server.max.receive.size is 2000" in logs[0]["detail"]
            assert handler.handled == []

    on_uvloop(scenario)


def test_after_authentication_the_ordinary_bounds_hold() -> None:
    async def scenario() -> None:
        async with listening(sasl_security(max_receive_bytes=1_024)) as (listener, handler):
            reader, writer = await connect(listener)
            writer.write(handshake("PLAIN"))
            await receive(reader)
            writer.write(authenticate(b"\0alice\0secret"))
            await receive(reader)
            large = struct.pack(">hhihB", 72, 0, 9, -1, 0) + _TAIL + b"\x81\x20" + bytes(4_096) + b"\x00"
            writer.write(framed(large))
            assert await asyncio.wait_for(reader.readexactly(len(answer(9))), PATIENCE_S) == answer(9)
            assert handler.handled == [("User:alice", "127.0.0.1")]

    on_uvloop(scenario)


def test_a_session_is_renewed_in_time_or_ends() -> None:
    async def log_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        writer.write(handshake("PLAIN"))
        await receive(reader)
        writer.write(authenticate(b"\0alice\0secret"))
        told = await receive(reader)
        assert struct.unpack_from(">h", told, 4)[0] == 0
        return int(struct.unpack(">q", told[-8:])[0])

    async def scenario() -> None:
        clock = MockTime()
        async with listening(sasl_security(max_reauth_ms=1_500), time=clock) as (listener, _):
            streams = await connect(listener)
            assert await log_in(*streams) == 1_500
            clock.sleep(1_100)
            assert await log_in(*streams) == 1_500
            clock.sleep(1_000)
            await is_served(streams)
            assert listener.counters()["successful_reauthentications"] == 1
            clock.sleep(1_000)
            with capture_logs():
                streams[1].write(push(1))
                assert await streams[0].read() == b""
            await until_closed(listener, {"session_expired": 1})

    on_uvloop(scenario)


V2 = b"\r\n\r\n\0\r\nQUIT\n"
TCP4 = V2 + b"\x21\x11" + struct.pack(">H4s4sHH", 12, bytes([203, 0, 113, 9]), bytes([10, 0, 0, 1]), 40_000, 9092)


def proxied(trusted: str = "127.0.0.0/8") -> ListenerSecurity:
    return ListenerSecurity(proxy=ProxyTrust([trusted]))


@pytest.mark.parametrize("piece", [1, 7, 1_000])
@pytest.mark.parametrize(
    ("header", "client"),
    [
        (b"PROXY TCP4 203.0.113.9 10.0.0.1 40000 9092\r\n", ("203.0.113.9", 40_000)),
        (b"PROXY TCP6 2001:db8::9 ::1 40000 9092\r\n", ("2001:db8::9", 40_000)),
        (TCP4, ("203.0.113.9", 40_000)),
    ],
)
def test_the_real_client_behind_a_load_balancer_is_known(header: bytes, client: tuple[str, int], piece: int) -> None:
    async def scenario() -> None:
        async with listening(proxied()) as (listener, handler):
            reader, writer = await connect(listener)
            sent = header + push(3)
            for start in range(0, len(sent), piece):
                writer.write(sent[start : start + piece])
                await asyncio.sleep(0)
            assert await asyncio.wait_for(reader.readexactly(len(answer(3))), PATIENCE_S) == answer(3)
            channel = handler.channels[0]
            assert (channel.client_address, channel.client_port) == client
            assert f"-{client[0]}:{client[1]}-" in channel.connection_id

    on_uvloop(scenario)


def test_a_header_stands_before_tls(authority: Authority, keystore: Path) -> None:
    async def scenario() -> None:
        security = tls_security(authority, keystore, proxy=ProxyTrust(["127.0.0.1"]))
        async with listening(security) as (listener, handler):
            await is_served(await connect(listener, client_context(authority), first=TCP4))
            assert handler.channels[0].client_address == "203.0.113.9"
            await is_served(await connect(listener, client_context(authority), first=V2 + b"\x20\x00\0\0"))
            assert handler.channels[1].client_address == "127.0.0.1"

    on_uvloop(scenario)


def test_a_connection_that_does_not_come_from_the_load_balancer_is_closed_whatever_it_says() -> None:
    async def scenario() -> None:
        async with listening(proxied("10.0.0.0/8")) as (listener, handler):
            with capture_logs() as logs:
                reader, _writer = await connect(listener, first=TCP4 + push(1))
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                await until_closed(listener, {"untrusted_proxy": 1})
            assert "127.0.0.1 is not in proxy.protocol.trusted.addresses" in logs[0]["detail"]
            assert handler.channels == []

    on_uvloop(scenario)


def test_a_load_balancer_without_a_header_and_one_that_stops_within_it_are_closed() -> None:
    async def scenario() -> None:
        async with listening(proxied(), handshake_timeout_ms=3_000) as (listener, handler):
            with capture_logs() as logs:
                await connect(listener, first=push(1))
                half = await connect(listener, first=TCP4[:20])
                _, gone = await connect(listener, first=TCP4[:20])
                gone.close()
                await until_closed(
                    listener, {"malformed_proxy_header": 1, "client_closed": 1, "proxy_header_timeout": 1}
                )
            assert {entry["reason"] for entry in logs} == {"malformed_proxy_header", "proxy_header_timeout"}
            assert handler.channels == []
            half[1].close()

    on_uvloop(scenario)


def test_a_stop_ends_unfinished_handshakes_at_once(authority: Authority, keystore: Path) -> None:
    async def scenario() -> None:
        async with listening(tls_security(authority, keystore)) as (listener, _):
            clients = [await connect(listener) for _ in range(5)]
            await wait_for_async(
                lambda: listener.counters()["unfinished_handshakes"], "all to be accepted", until=lambda n: n == 5
            )
        assert listener.counters()["closed"] == {"listener_stopped": 5}
        for _, writer in clients:
            writer.close()

    on_uvloop(scenario)


def test_certificates_can_be_exchanged_while_clients_are_connected(
    authority: Authority, keystore: Path, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with listening(tls_security(authority, keystore)) as (listener, _):
            old = await connect(listener, client_context(authority))
            other = Authority(tmp_path / "other", "Other CA")
            listener.security = tls_security(other, other.issue("server", "/CN=localhost").keystore)
            await is_served(await connect(listener, client_context(other)))
            await is_served(old)
            with capture_logs(), pytest.raises((ssl.SSLError, ConnectionError)):
                await connect(listener, client_context(authority))

    on_uvloop(scenario)
