"""SASL that ends at the gateway: the gateway's own authentication at the broker, and that of its clients."""

import dataclasses
import gc
import struct
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from support.clients.raw_sasl import authenticate, handshake
from support.gateway.gateway_pair import FETCH, FETCHED, IDLE_MS, PUSH, Pair
from support.gateway.gateway_traffic import framed, produce, request, response

from fleetgauge.gateway.client_channel import ClientChannel
from fleetgauge.wire.messages.codec import encode_push_telemetry_response
from fleetgauge.wire.sasl.authenticator import SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.login import Login
from fleetgauge.wire.sasl.scram import ScramServer

SHA_256 = ScramMechanism.SCRAM_SHA_256
GATEWAY = Login(mechanism="PLAIN", username="gateway", password="gateway-secret")
ALICE = Login(mechanism=SHA_256.value, username="alice", password="secret")
USERS = CredentialStore({"alice": (ScramCredential.make(SHA_256, "secret", iterations=4096),)})
API_VERSIONS = request(18, 3, 9, b"\x04abc\x041.0\0")
ENABLED = framed(struct.pack(">ihi", 714, 0, 0))


def own(api_key: int, body: bytes) -> bytes:
    """A request of the gateway itself."""
    return framed(struct.pack(">hhih", api_key, 1, 714, -1) + body)


def token_answer(token: bytes = b"", *, lifetime_ms: int = 0, error: int = 0, message: str = "") -> bytes:
    text = struct.pack(">h", len(message)) + message.encode()
    body = struct.pack(">h", error) + text + struct.pack(">i", len(token)) + token + struct.pack(">q", lifetime_ms)
    return framed(struct.pack(">i", 714) + body)


PLAIN_HANDSHAKE = own(17, b"\0\x05PLAIN")
PLAIN_TOKEN = own(36, struct.pack(">i", 23) + b"\0gateway\0gateway-secret")


def logged_in(lifetime_ms: int = 0, **settings: Any) -> Pair:
    pair = Pair(login=GATEWAY, **settings)
    pair.channel.broker_sent(ENABLED)
    pair.channel.broker_sent(token_answer(lifetime_ms=lifetime_ms))
    pair.broker.written = b""
    return pair


def test_the_gateway_authenticates_before_anything_of_the_client_passes() -> None:
    pair = Pair(login=GATEWAY)
    pair.channel.data_received(FETCH)
    assert pair.broker.written == PLAIN_HANDSHAKE
    pair.channel.broker_sent(ENABLED)
    assert pair.broker.written == PLAIN_HANDSHAKE + PLAIN_TOKEN
    answer = token_answer()
    for byte in answer[:-1]:
        pair.channel.broker_sent(bytes([byte]))
    assert pair.broker.written == PLAIN_HANDSHAKE + PLAIN_TOKEN
    pair.channel.broker_sent(answer[-1:])
    assert pair.broker.written == PLAIN_HANDSHAKE + PLAIN_TOKEN + FETCH
    pair.channel.broker_sent(FETCHED)
    assert pair.client.written == FETCHED
    assert pair.gateway.status()["broker_logins"] == 1
    assert pair.gateway.status()["requests"] == {"Fetch": 1}


def test_by_scram_both_prove_the_password() -> None:
    pair, server = Pair(login=ALICE), ScramServer(SHA_256, USERS)
    pair.channel.data_received(FETCH)
    pair.channel.broker_sent(ENABLED)
    for _ in range(2):
        sent = pair.broker.written
        length = struct.unpack_from(">i", sent, sent.rindex(struct.pack(">hhih", 36, 1, 714, -1)) + 10)[0]
        pair.channel.broker_sent(token_answer(server.evaluate(sent[-length:])))
    assert server.is_complete
    assert pair.broker.written.endswith(FETCH)


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        (
            [framed(struct.pack(">ihih", 714, 33, 1, 13) + b"SCRAM-SHA-512")],
            "its listener has SCRAM-SHA-512, and gateway.sasl.mechanism is PLAIN",
        ),
        ([framed(struct.pack(">ihi", 714, 34, 0))], "its listener has no SASL: set gateway.security.protocol"),
        ([framed(struct.pack(">ihi", 714, 35, 0))], "answered with error code 35"),
        ([framed(struct.pack(">i", 714))], "does not follow the schema"),
        (
            [ENABLED, token_answer(error=58, message="Authentication failed: Invalid username or password")],
            "refuses the user gateway of gateway.sasl.username: Authentication failed: Invalid username or password",
        ),
        ([ENABLED, framed(struct.pack(">ih", 714, 0))], "does not follow the schema"),
    ],
)
def test_a_broker_that_refuses_the_gateway_ends_the_connection_and_the_log_tells_why(
    answers: list[bytes], problem: str
) -> None:
    pair = Pair(login=GATEWAY)
    pair.channel.data_received(FETCH)
    with capture_logs() as logs:
        for answer in answers:
            pair.channel.broker_sent(answer)
    assert pair.close_reason() == "broker_refuses_login"
    assert problem in logs[0]["detail"]
    assert "gateway-secret" not in str(logs)
    assert pair.client.written == b""
    assert FETCH not in pair.broker.written
    assert pair.gateway.status()["broker_connect_failures"] == 1


def test_a_broker_that_does_not_answer_the_gateways_login_ends_the_connection() -> None:
    pair = Pair(login=GATEWAY)
    pair.time.sleep(9_999)
    pair.channel.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() is None
    pair.time.sleep(1)
    pair.channel.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() == "broker_silent"


def test_a_session_is_renewed_by_the_first_request_that_comes_late_in_it() -> None:
    pair = logged_in(lifetime_ms=10_000)
    pair.time.sleep(8_400)
    pair.channel.data_received(FETCH)
    pair.channel.broker_sent(FETCHED)
    assert pair.broker.written == FETCH
    pair.time.sleep(100)
    pair.channel.data_received(FETCH + PUSH)
    assert pair.broker.written == FETCH + PLAIN_HANDSHAKE
    meanwhile = pair.client.reads
    pair.channel.broker_sent(ENABLED)
    pair.channel.broker_sent(token_answer(lifetime_ms=10_000))
    assert pair.broker.written == FETCH + PLAIN_HANDSHAKE + PLAIN_TOKEN + FETCH
    pair.channel.broker_sent(FETCHED)
    assert pair.client.written == FETCHED + FETCHED + encode_push_telemetry_response(2, 0, 0)
    assert (meanwhile, pair.client.reads) == (False, True)
    assert pair.gateway.status()["broker_logins"] == 2


def test_a_renewal_waits_for_the_end_of_the_request_under_way_and_for_the_answers_before_it() -> None:
    pair = logged_in(lifetime_ms=10_000)
    long = produce(1, records=b"r" * 1000)
    pair.channel.data_received(long[:500])
    pair.time.sleep(20_000)
    pair.channel.data_received(long[500:900])
    assert pair.broker.written == long[:900]
    pair.channel.data_received(long[900:] + FETCH)
    assert pair.broker.written == long + PLAIN_HANDSHAKE
    produced = response(0, 9, 1, b"done")
    pair.channel.broker_sent(produced + ENABLED)
    assert pair.client.written == produced
    pair.channel.broker_sent(token_answer() + b"")
    assert pair.broker.written == long + PLAIN_HANDSHAKE + PLAIN_TOKEN + FETCH
    pair.time.sleep(1_000_000)
    pair.channel.data_received(FETCH)
    assert pair.broker.written.endswith(FETCH + FETCH), "the last session has no end"


def test_another_password_of_the_gateway_is_used_by_new_connections_and_renewals_alone() -> None:
    pair, waiting = logged_in(lifetime_ms=10_000), Pair(login=GATEWAY, is_connected=False)
    renewed = dataclasses.replace(GATEWAY, password="another-secret")
    token = own(36, struct.pack(">i", 23) + b"\0gateway\0another-secret")
    for each in (pair, waiting):
        each.gateway.replace_login(renewed)
    assert pair.broker.written == b"", "a session goes on until it is renewed"
    pair.time.sleep(8_500)
    pair.channel.data_received(FETCH)
    waiting.channel.broker_connected(cast(Any, waiting.broker))
    for each in (pair, waiting):
        each.channel.broker_sent(ENABLED)
        assert each.broker.written == PLAIN_HANDSHAKE + token


def test_a_login_under_way_is_not_changed_by_another_password() -> None:
    pair = Pair(login=GATEWAY)
    pair.gateway.replace_login(dataclasses.replace(GATEWAY, password="another-secret"))
    pair.channel.broker_sent(ENABLED)
    assert pair.broker.written == PLAIN_HANDSHAKE + PLAIN_TOKEN


def test_an_unused_connection_is_not_renewed_and_ends() -> None:
    pair = logged_in(lifetime_ms=10_000)
    pair.time.sleep(IDLE_MS)
    pair.channel.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() == "idle"
    assert pair.broker.written == b""


@pytest.mark.parametrize("api_key", [38, 39, 40, 41])
def test_no_delegation_token_of_the_gateways_user_can_be_made(api_key: int) -> None:
    pair = logged_in()
    pair.channel.data_received(request(api_key, 2, 1, b""))
    assert pair.close_reason() == "unknown_api_key"
    assert pair.broker.written == b""
    assert Pair().channel._shared.policy.withheld == frozenset()


def sasl_pair(**settings: Any) -> Pair:
    sasl = SaslSettings(mechanisms=(SHA_256.value,), store=USERS, **settings)
    return logged_in(sasl=sasl)


def answer_of(pair: Pair) -> bytes:
    """The token of the last answer to `authenticate`; what the client got is forgotten."""
    sent, pair.client.written = pair.client.written, b""
    error, message_length = struct.unpack_from(">hh", sent, 8)
    assert error == 0
    start = 12 + max(message_length, 0)
    (length,) = struct.unpack_from(">i", sent, start)
    return sent[start + 4 : start + 4 + length]


def log_in(pair: Pair, login: Login = ALICE) -> None:
    exchange = login.exchange()
    pair.channel.data_received(handshake(SHA_256.value))
    assert struct.unpack_from(">h", pair.client.written, 8) == (0,)
    pair.client.written = b""
    pair.channel.data_received(authenticate(exchange.first()))
    final = exchange.next(answer_of(pair))
    assert final is not None
    pair.channel.data_received(authenticate(final))


def test_a_client_authenticates_at_the_gateway_and_the_broker_sees_nothing_of_it() -> None:
    pair = sasl_pair()
    pair.channel.data_received(API_VERSIONS)
    assert pair.broker.written == API_VERSIONS
    at_first = pair.channel.is_authenticated
    versions = framed(
        struct.pack(">ih", 9, 0) + b"\x02" + struct.pack(">hhhb", 38, 0, 3, 0) + struct.pack(">i", 0) + b"\0"
    )
    pair.channel.broker_sent(versions)
    assert struct.pack(">h", 38) not in pair.client.written[10:], "no delegation tokens"
    pair.client.written = b""
    log_in(pair)
    assert (at_first, pair.channel.is_authenticated) == (False, True)
    assert str(pair.channel.principal) == "User:alice"
    assert pair.handler.log_ins == [("User:alice", "")]
    assert len(pair.handshakes) == 0
    assert pair.shared.counters.successful_authentications == 1
    pair.channel.data_received(FETCH)
    assert pair.broker.written == API_VERSIONS + FETCH


@pytest.mark.parametrize("early", [FETCH, PUSH, authenticate(b"n,,n=alice,r=x")])
def test_what_a_client_sends_before_its_login_neither_passes_nor_is_answered(early: bytes) -> None:
    pair = sasl_pair()
    pair.channel.data_received(early)
    assert pair.close_reason() == "unauthenticated_request"
    assert pair.broker.written == pair.client.written == b""


def test_a_wrong_password_is_told_after_the_delay_and_ends_the_connection() -> None:
    pair = sasl_pair()
    with capture_logs() as logs:
        log_in(pair, Login(mechanism=SHA_256.value, username="alice", password="wrong"))
        pair.channel.data_received(FETCH)
    assert pair.client.written == pair.broker.written == b""
    (tell,) = pair.loop.later
    tell()
    assert struct.unpack_from(">h", pair.client.written, 8) == (58,)
    assert pair.close_reason() == "sasl_authentication_failed"
    assert pair.broker.written == b""
    assert [(each["user"], each["mechanism"]) for each in logs] == [("alice", SHA_256.value)]


def test_a_client_has_to_authenticate_again_within_connections_max_reauth_ms() -> None:
    pair = sasl_pair(max_reauth_ms=60_000)
    log_in(pair)
    pair.time.sleep(59_000)
    log_in(pair)
    assert pair.shared.counters.successful_reauthentications == 1
    pair.time.sleep(60_001)
    pair.channel.data_received(FETCH)
    assert pair.close_reason() == "session_expired"
    assert pair.broker.written == b""


def test_a_second_login_without_such_a_limit_is_refused_and_nothing_else() -> None:
    pair = sasl_pair()
    log_in(pair)
    pair.client.written = b""
    pair.channel.data_received(handshake(SHA_256.value) + FETCH)
    assert pair.handler.handled == [17], "as on a node"
    assert pair.broker.written == FETCH


def test_a_client_without_sasl_cannot_authenticate_the_gateways_connection_as_another_user() -> None:
    pair = logged_in()
    pair.channel.data_received(handshake("PLAIN"))
    assert pair.broker.written == b""
    assert pair.handler.handled == [17]


def test_a_user_that_is_removed_is_closed_after_the_answers_in_flight() -> None:
    pair = sasl_pair()
    log_in(pair)
    pair.client.written = b""
    pair.channel.data_received(FETCH)
    assert pair.channel.revoke(pair.security.with_users(USERS)) is False
    assert pair.channel.revoke(pair.security.with_users(CredentialStore({}))) is True
    assert pair.close_reason() is None
    pair.channel.broker_sent(FETCHED)
    assert pair.client.written == FETCHED
    assert pair.close_reason() == "credential_revoked"


def test_a_handshake_that_waits_for_the_broker_is_not_closed_to_make_room() -> None:
    sasl = SaslSettings(mechanisms=(SHA_256.value,), store=USERS)
    pair = Pair(login=GATEWAY, sasl=sasl)
    assert pair.handshakes._by_network == {}
    pair.channel.broker_sent(ENABLED)
    pair.channel.broker_sent(token_answer())
    assert len(pair.handshakes._by_network) == 1
    pair.time.sleep(30_000)
    pair.handshakes.expire(pair.time.hi_res_clock_ms())
    assert pair.close_reason() == "sasl_timeout"


def alive() -> int:
    return sum(isinstance(each, ClientChannel) for each in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize("has_sasl", [False, True])
def test_a_connection_that_has_ended_is_freed_without_the_garbage_collector(has_sasl: bool) -> None:
    gc.collect()
    before = alive()
    gc.disable()
    try:
        pair = sasl_pair(max_reauth_ms=60_000) if has_sasl else Pair()
        if has_sasl:
            log_in(pair)
        pair.channel.data_received(FETCH + PUSH)
        assert alive() == before + 1
        pair.channel.connection_lost(None)
        pair.channel.broker_sent(FETCHED)
        pair.channel.broker_lost(None)
        del pair
        assert alive() == before
    finally:
        gc.enable()
