"""Clients that want another principal at a gateway than the one that the broker has accepted."""

import base64
import struct

import pytest
from support.gateway.gateway_traffic import (
    Relay,
    authenticate,
    authenticated,
    begin,
    exchange,
    handshake,
    request,
    response,
)

from fleetgauge.wire.errors import ProtocolError

PUSH = request(72, 0, 8, bytes(16) + struct.pack(">iBb", 5, 0, 0) + b"\x03ab\x00")
ROOT, ALICE = (
    b"n,,\x01auth=Bearer h." + base64.urlsafe_b64encode(b'{"sub":"%s"}' % name) + b".s\x01\x01"
    for name in (b"root", b"alice")
)


@pytest.mark.parametrize("version", [1, 2])
def test_a_token_that_the_broker_answers_with_its_fault_is_not_accepted(version: int) -> None:
    """RFC 7628: an invalid token gets no error code, but bytes that say what is wrong."""
    relay = Relay(requires_sasl=True)
    begin(relay, b"OAUTHBEARER")
    relay.from_client(authenticate(ROOT, version))
    answered = authenticated(version, answer=b'{"status":"invalid_token"}')
    assert relay.from_broker(answered) == answered
    assert relay.client.principal.name == "ANONYMOUS"
    with pytest.raises(ProtocolError, match="before a SASL exchange"):
        relay.from_client(PUSH)


def test_a_kerberos_ticket_that_the_broker_answers_with_a_challenge_is_not_accepted_yet() -> None:
    """RFC 4752: the broker's last answer has no bytes."""
    relay = Relay(requires_sasl=True)
    begin(relay, b"GSSAPI")
    for challenge in (b"AP-REP", b"wrapped layers"):
        relay.from_client(authenticate(b"opaque"))
        relay.from_broker(authenticated(answer=challenge))
    with pytest.raises(ProtocolError, match="before a SASL exchange"):
        relay.from_client(PUSH)


def test_a_kerberos_client_is_accepted_with_the_answer_that_ends_its_exchange() -> None:
    relay = Relay(requires_sasl=True)
    begin(relay, b"GSSAPI")
    for challenge in (b"AP-REP", b"wrapped layers", b""):
        relay.from_client(authenticate(b"opaque"))
        relay.from_broker(authenticated(answer=challenge))
    assert relay.from_client(PUSH) == b""
    assert relay.client.principal.name == "ANONYMOUS"


def test_a_second_token_before_the_first_is_judged_is_not_accepted_with_it() -> None:
    relay = Relay(requires_sasl=True)
    begin(relay, b"SCRAM-SHA-256")
    relay.from_client(authenticate(b"n,,n=root,r=abc") + authenticate(b"c=biws,r=abc,p=guessed"))
    relay.from_broker(authenticated(answer=b"r=abcdef,s=c2FsdA==,i=4096"))
    assert relay.client.principal.name == "ANONYMOUS"
    with pytest.raises(ProtocolError, match="before a SASL exchange"):
        relay.from_client(PUSH)


def test_the_principal_is_that_of_the_exchange_that_was_accepted_not_of_one_sent_behind_it() -> None:
    relay = Relay()
    begin(relay)
    relay.from_client(authenticate(b"\0alice\0secret") + handshake(b"PLAIN") + authenticate(b"\0root\0guessed"))
    relay.from_broker(authenticated())
    assert relay.client.principal.name == "alice"
    relay.from_broker(response(17, 1, 0, b"\0\0") + authenticated(error=58))
    assert relay.client.principal.name == "alice"


def test_of_several_tokens_in_one_none_is_believed() -> None:
    """Kafka's broker takes the last."""
    relay = Relay()
    begin(relay, b"OAUTHBEARER")
    exchange(relay, ROOT[:-1] + ALICE[4:])
    assert relay.client.principal.name == "ANONYMOUS"
