"""A channel with SASL on a transport that only remembers: what is let through, answered and counted, and when."""

import asyncio
import ssl
import struct
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.accepted import accepted

from fleetgauge.base.clock import MockTime
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.channels.secure_channel import SecureChannel
from fleetgauge.wire.context.channel import Channel
from fleetgauge.wire.context.handshakes import Handshakes
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_counters import AuthenticationCounters, ListenerCounters
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.context.listener_settings import ListenerSettings
from fleetgauge.wire.context.secure_context import SecureContext
from fleetgauge.wire.messages.codec import Request
from fleetgauge.wire.sasl.authenticator import SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.mechanism import PasswordCheck
from fleetgauge.wire.security_protocol import SecurityProtocol

ALICE = ScramCredential.make(ScramMechanism.SCRAM_SHA_256, "secret", iterations=4096)


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


API_VERSIONS = framed(struct.pack(">hhih", 18, 0, 1, -1))
HANDSHAKE = framed(struct.pack(">hhihh", 17, 1, 2, -1, 5) + b"PLAIN")
METADATA = framed(struct.pack(">hhihi", 3, 1, 4, -1, -1))
ANSWER = framed(b"answer")


def login(token: bytes) -> bytes:
    return framed(struct.pack(">hhihi", 36, 0, 3, -1, len(token)) + token)


class Transport(asyncio.Transport):
    def __init__(self, ssl_object: object = None) -> None:
        super().__init__({"ssl_object": ssl_object})
        self.sent = b""
        self.is_closed = False
        self.is_reading_now = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def is_reading(self) -> bool:
        return self.is_reading_now

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        self.is_reading_now = False

    def resume_reading(self) -> None:
        self.is_reading_now = True

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class Later:
    """The part of a loop that the channel uses, by hand."""

    def __init__(self) -> None:
        self.delayed: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, call: Callable[..., None], *arguments: Any) -> None:
        self.delayed.append((delay_s, lambda: call(*arguments)))

    def call_soon(self, call: Callable[[], None]) -> None:
        call()


class Shared(SecureContext):
    """Password checks that end when the test says so."""

    checks: list[tuple[PasswordCheck, Any]]  # type: ignore[assignment]  # instead of the queue of a thread

    def check(self, check: PasswordCheck, network: str, loop: Any) -> Any:
        future: asyncio.Future[bool | None] = asyncio.Future(loop=Waiting())  # type: ignore[arg-type]
        self.checks.append((check, future))
        return future

    def finish(self) -> None:
        check, future = self.checks.pop()
        if not future.cancelled():
            future.set_result(check.run())


class Waiting:
    """A future's loop: its callbacks are called at once."""

    def call_soon(self, call: Callable[..., None], *arguments: Any, context: Any = None) -> None:
        call(*arguments)

    def get_debug(self) -> bool:
        return False


class Handler:
    request_clock: Callable[[], int] | None = None

    def __init__(self) -> None:
        self.handled: list[tuple[int, str]] = []
        self.authenticated: list[bool] = []
        self.exempt_ns: list[int] = []
        self.log_ins: list[tuple[str, str, str, str]] = []

    def push(self, channel: Channel, data: bytes, slot: int, now_ms: int) -> bytes | None:
        return None

    def handle(self, channel: Channel, request: Request) -> bytes:
        self.handled.append((request.api_key, str(channel.principal)))
        self.authenticated.append(channel.is_authenticated)
        return ANSWER

    def not_served(self, channel: Channel, api_key: int, client_id: str | None) -> bool:
        return False

    def authentication_took(self, nanos: int) -> None:
        self.exempt_ns.append(nanos)

    def authentication_ended(self, channel: Any, user: str, mechanism: str, failure: str) -> None:
        self.log_ins.append((str(channel.principal), user, mechanism, failure))

    def connection_made(self, channel: Channel) -> None:
        pass

    def connection_lost(self, channel: Channel, reason: str) -> None:
        pass


class Certified:
    """A TLS connection whose peer has a certificate that is not even readable."""

    def getpeercert(self, *, binary_form: bool) -> bytes:
        return b"\x30"


class Bench:
    def __init__(
        self, *, ssl_object: object = None, protocol: SecurityProtocol = SecurityProtocol.SASL_PLAINTEXT
    ) -> None:
        sasl = SaslSettings(mechanisms=("PLAIN",), store=CredentialStore({"alice": (ALICE,)}))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if protocol.has_tls else None
        security = ListenerSecurity(protocol=protocol, sasl=sasl if protocol.has_sasl else None, tls=tls)
        self.handshakes = Handshakes(max_unfinished=10, timeout_ms=1_000)
        self.shared = Shared(security, self.handshakes, AuthenticationCounters())
        self.shared.checks = []
        self.handler, self.loop, self.transport = Handler(), Later(), Transport(ssl_object)
        self.context = ListenerContext(
            listener_name="EXTERNAL",
            handler=self.handler,
            api_table=ApiTable(),
            settings=ListenerSettings(),
            time=MockTime(),
            loop=self.loop,  # type: ignore[arg-type]
            counters=ListenerCounters(),
        )
        handshake = self.handshakes.begin(lambda _: None, 0)
        self.channel = SecureChannel(accepted(self.context, self.shared, handshake, client=("b", 2)))
        self.channel.connection_made(self.transport)

    @property
    def closed(self) -> dict[str, int]:
        self.channel.connection_lost(None)
        return dict(self.context.counters.closed)


@pytest.mark.replaces
def test_requests_wait_for_the_password_check_and_are_served_under_the_new_name() -> None:
    bench = Bench()
    bench.channel.data_received(API_VERSIONS + HANDSHAKE + login(b"\0alice\0secret") + METADATA)
    assert bench.handler.handled == [(18, "User:ANONYMOUS")]
    meanwhile = bench.transport.is_reading_now
    assert len(bench.handshakes) == 1
    bench.shared.finish()
    assert bench.handler.handled == [(18, "User:ANONYMOUS"), (3, "User:alice")]
    assert (meanwhile, bench.transport.is_reading_now) == (False, True)
    assert len(bench.handshakes) == 0
    assert bench.transport.sent.startswith(ANSWER)
    assert bench.transport.sent.endswith(ANSWER)
    assert bench.shared.counters.successful_authentications == 1
    assert bench.handler.log_ins == [("User:alice", "", "PLAIN", "")]
    assert dict(bench.context.counters.requests) == {18: 1, 17: 1, 36: 1, 3: 1}


@pytest.mark.replaces
def test_the_time_of_an_exchange_is_told_apart_and_what_comes_before_its_end_is_not_authenticated() -> None:
    bench = Bench()
    bench.handler.request_clock = iter(range(0, 1_000, 10)).__next__
    bench.channel.data_received(API_VERSIONS + HANDSHAKE + login(b"\0alice\0secret") + METADATA)
    bench.shared.finish()
    assert bench.handler.authenticated == [False, True]
    assert bench.handler.exempt_ns == [10, 10], "the handshake and the login, a reading of the clock each"


@pytest.mark.replaces
def test_a_failure_is_told_after_the_delay_and_nothing_more_is_served() -> None:
    bench = Bench()
    with capture_logs() as logs:
        bench.channel.data_received(HANDSHAKE + login(b"\0alice\0wrong") + METADATA)
        bench.shared.finish()
    before = bench.transport.sent
    closed_before = bench.transport.is_closed
    ((delay_s, tell),) = bench.loop.delayed
    assert delay_s == 0.1
    tell()
    assert b"Invalid username or password" in bench.transport.sent.removeprefix(before)
    assert (closed_before, bench.transport.is_closed) == (False, True)
    assert bench.handler.handled == []
    assert bench.closed == {"sasl_authentication_failed": 1}
    assert [(entry["user"], entry["mechanism"]) for entry in logs] == [("alice", "PLAIN")]
    assert bench.shared.counters.failed_authentications == 1
    assert bench.handler.log_ins == [("User:ANONYMOUS", "alice", "PLAIN", "sasl_authentication_failed")]


@pytest.mark.replaces
def test_a_client_that_leaves_during_its_check_or_before_its_news_is_forgotten() -> None:
    for finishes_first in (False, True):
        bench = Bench()
        with capture_logs():
            bench.channel.data_received(HANDSHAKE + login(b"\0alice\0wrong"))
            if finishes_first:
                bench.shared.finish()
            assert bench.closed == {"client_closed": 1}
            if not finishes_first:
                bench.shared.finish()
        for _, call in bench.loop.delayed:
            call()
        assert len(bench.handshakes) == 0


@pytest.mark.replaces
@pytest.mark.parametrize("data", [METADATA, HANDSHAKE + METADATA, login(b"\0alice\0secret")])
def test_no_request_is_served_before_authentication(data: bytes) -> None:
    bench = Bench()
    with capture_logs():
        bench.channel.data_received(data)
    assert bench.transport.is_closed
    assert bench.handler.handled == []
    assert bench.closed == {"unauthenticated_request": 1}


@pytest.mark.replaces
def test_a_password_that_was_not_checked_closes_the_connection_without_an_answer() -> None:
    bench = Bench()
    with capture_logs() as logs:
        bench.channel.data_received(HANDSHAKE + login(b"\0alice\0secret") + METADATA)
        before = bench.transport.sent
        _, future = bench.shared.checks.pop()
        future.set_result(None)
    assert bench.transport.sent == before, "no answer: it would say that the password is wrong"
    assert bench.transport.is_closed
    assert bench.handler.handled == []
    assert [entry["client"] for entry in logs] == ["b"]
    assert bench.closed == {"too_many_password_checks": 1}


@pytest.mark.replaces
def test_a_handshake_is_held_while_its_password_is_checked() -> None:
    bench = Bench()
    bench.handshakes.max_unfinished = 1
    bench.channel.data_received(HANDSHAKE + login(b"\0alice\0secret"))
    ended: list[str] = []
    bench.handshakes.begin(ended.append, 0, "b")
    assert not bench.transport.is_closed
    bench.handshakes.begin(ended.append, 0, "b")
    assert (ended, bench.transport.is_closed) == (["too_many_handshakes"], False)
    bench.shared.finish()
    assert bench.shared.counters.successful_authentications == 1


@pytest.mark.replaces
@pytest.mark.parametrize("is_let_in_first", [True, False])
def test_a_user_who_is_removed_is_served_no_more_also_if_that_came_during_the_exchange(is_let_in_first: bool) -> None:
    bench = Bench()
    others = SaslSettings(mechanisms=("PLAIN",), store=CredentialStore({}))
    security = ListenerSecurity(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=others)
    bench.channel.data_received(HANDSHAKE + login(b"\0alice\0secret"))
    if is_let_in_first:
        bench.shared.finish()
    bench.shared.security = security
    assert bench.channel.revoke(security) is is_let_in_first
    if not is_let_in_first:
        bench.shared.finish()
    bench.channel.data_received(METADATA)
    assert bench.transport.is_closed
    assert bench.handler.handled == []
    assert bench.closed == {"credential_revoked": 1}


@pytest.mark.replaces
def test_a_name_that_is_no_user_is_not_logged() -> None:
    bench = Bench()
    with capture_logs() as logs:
        bench.channel.data_received(HANDSHAKE + login(b"\0my-password-in-the-wrong-field\0x"))
        bench.shared.finish()
    assert "my-password" not in str(logs)


@pytest.mark.replaces
def test_with_sasl_the_certificate_names_nobody_and_no_mapping_rule_has_to_fit() -> None:
    bench = Bench(ssl_object=Certified(), protocol=SecurityProtocol.SASL_SSL)
    bench.channel.data_received(HANDSHAKE + login(b"\0alice\0secret") + METADATA)
    bench.shared.finish()
    assert bench.handler.handled == [(3, "User:alice")]
    alone = Bench(ssl_object=Certified(), protocol=SecurityProtocol.SSL)
    assert alone.closed == {"unreadable_certificate": 1}
