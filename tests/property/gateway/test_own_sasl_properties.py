"""SASL that ends at the gateway: whatever a client or a broker sends, nothing else passes before a login."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st
from support.clients.raw_sasl import authenticate, handshake
from support.gateway.gateway_pair import FETCH, PUSH, Pair
from support.gateway.gateway_traffic import framed, produce, request

from fleetgauge.gateway.streams.broker_login import BrokerLogin
from fleetgauge.wire.sasl.authenticator import SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.login import LOGIN_MECHANISMS, Login, LoginError

SHA_256 = ScramMechanism.SCRAM_SHA_256
USERS = CredentialStore({"alice": (ScramCredential.make(SHA_256, "secret", iterations=4096),)})
API_VERSIONS = request(18, 3, 9, b"\x04abc\x041.0\0")
TOKENS = st.one_of(
    st.binary(max_size=60), st.just(b"n,,n=alice,r=x"), st.binary(max_size=60).map(lambda each: b"c=biws,r=x" + each)
)
SENT = st.one_of(
    st.sampled_from([API_VERSIONS, FETCH, PUSH, produce(1, 0), handshake(SHA_256.value), handshake("PLAIN")]),
    TOKENS.map(authenticate),
    st.binary(max_size=60).map(framed),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(SENT, max_size=8), st.integers(1, 80))
def test_before_a_login_a_client_reaches_the_broker_with_apiversions_alone(frames: list[bytes], chunk: int) -> None:
    pair = Pair(sasl=SaslSettings(mechanisms=(SHA_256.value,), store=USERS))
    stream = b"".join(frames)
    for at in range(0, len(stream), chunk):
        if pair.close_reason() is None:
            pair.channel.data_received(stream[at : at + chunk])
    assert not pair.channel._session or not pair.channel.is_authenticated
    assert pair.broker.written.replace(API_VERSIONS, b"") == b""
    assert pair.close_reason() != "handler_error"


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(LOGIN_MECHANISMS), st.lists(st.binary(max_size=80), min_size=1, max_size=4))
def test_a_broker_ends_the_gateways_login_with_a_sentence_at_most(mechanism: str, bodies: list[bytes]) -> None:
    login = BrokerLogin(Login(mechanism=mechanism, username="gateway", password="secret"))
    login.begin()
    try:
        for body in (b"\0\0\0\0\0\0", *(b"\0\0" + body for body in bodies)):
            if not login.receive(body):
                break
    except LoginError:
        pass
    assert 0 <= login.renews_after_ms < 2**63


@given(st.integers(0, 2**63 - 1))
def test_a_session_is_renewed_within_its_lifetime(lifetime_ms: int) -> None:
    login = BrokerLogin(Login(mechanism="PLAIN", username="gateway", password="secret"))
    login.begin()
    login.receive(b"\0\0\0\0\0\0")
    assert login.receive(struct.pack(">hhiq", 0, -1, 0, lifetime_ms)) == b""
    assert login.renews_after_ms <= lifetime_ms
