"""Kafka's exchange around a mechanism: what may come when, and what is answered."""

import struct

import pytest

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.sasl.authenticator import FailedAuthentication, SaslAuthenticator, SaslSettings
from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.mechanism import PasswordCheck

ALICE = ScramCredential.make(ScramMechanism.SCRAM_SHA_256, "secret", iterations=4096)


def authenticator(**more: object) -> SaslAuthenticator:
    settings = SaslSettings(
        mechanisms=("SCRAM-SHA-256", "PLAIN"), store=CredentialStore({"alice": (ALICE,)}), max_reauth_ms=60_000
    )
    return SaslAuthenticator(settings, ApiTable(), **more)  # type: ignore[arg-type]


def handshake(mechanism: bytes, version: int = 1) -> bytes:
    return struct.pack(">hhihh", 17, version, 5, -1, len(mechanism)) + mechanism


def authenticate(token: bytes, version: int = 1) -> bytes:
    if version == 2:
        return struct.pack(">hhihBB", 36, 2, 6, -1, 0, len(token) + 1) + token + b"\0"
    return struct.pack(">hhihi", 36, version, 6, -1, len(token)) + token


def test_a_handshake_tells_the_enabled_mechanisms() -> None:
    step = authenticator().receive(handshake(b"PLAIN"))
    assert step.failure is None
    assert step.response[4:] == struct.pack(">ihi", 5, 0, 2) + b"\0\x0dSCRAM-SHA-256" + b"\0\x05PLAIN"


def test_another_mechanism_is_answered_33_with_those_that_there_are() -> None:
    step = authenticator().receive(handshake(b"GSSAPI"))
    assert step.failure is FailedAuthentication.UNSUPPORTED_SASL_MECHANISM
    assert step.response[4:] == struct.pack(">ihi", 5, 33, 2) + b"\0\x0dSCRAM-SHA-256" + b"\0\x05PLAIN"
    assert "requests mechanism 'GSSAPI'" in step.detail


def fits_of(check: PasswordCheck) -> bool:
    """Whether the password was right."""
    fits = check.run()
    assert fits is not None
    return fits


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_right_password_completes_the_exchange_in_every_version(version: int) -> None:
    sasl = authenticator()
    sasl.receive(handshake(b"PLAIN"))
    check = sasl.receive(authenticate(b"\0alice\0secret", version)).check
    assert check is not None
    step = sasl.checked(fits_of(check))
    assert step.is_complete
    assert sasl.principal == KafkaPrincipal("User", "alice")
    lifetime = struct.pack(">q", 60_000) if version else b""
    body = b"\0" * 1 + b"\0\0" + b"\0" + b"\x01" if version == 2 else b"\0\0" + b"\xff\xff" + bytes(4)
    assert step.response[8:] == body + lifetime + (b"\0" if version == 2 else b"")


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0nobody\0secret"])
def test_wrong_credentials_are_answered_58_with_kafkas_words(token: bytes) -> None:
    sasl = authenticator()
    sasl.receive(handshake(b"PLAIN"))
    check = sasl.receive(authenticate(token, 0)).check
    assert check is not None
    step = sasl.checked(fits_of(check))
    told = b"Authentication failed: Invalid username or password"
    assert step.failure is FailedAuthentication.SASL_AUTHENTICATION_FAILED
    assert step.response[4:] == struct.pack(">ihh", 6, 58, len(told)) + told + bytes(4)
    assert sasl.user == ("alice" if b"alice" in token else ""), "what is no user may be a password"


def test_a_broken_scram_token_is_told_no_more_than_that_the_credentials_are_invalid() -> None:
    sasl = authenticator()
    sasl.receive(handshake(b"SCRAM-SHA-256"))
    step = sasl.receive(authenticate(b"nonsense", 0))
    told = b"Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
    assert told + bytes(4) == step.response[-len(told) - 4 :]
    assert "not a SCRAM client-first-message" in step.detail


def test_after_the_oldest_handshake_tokens_travel_bare_and_a_failure_has_no_words() -> None:
    sasl = authenticator()
    assert sasl.receive(handshake(b"SCRAM-SHA-256", 0)).failure is None
    first = sasl.receive(b"n,,n=alice,r=abc").response
    assert first[4:].startswith(b"r=abc")
    assert struct.unpack(">i", first[:4])[0] == len(first) - 4
    failed = sasl.receive(b"nonsense")
    assert (failed.failure, failed.response) == (FailedAuthentication.SASL_AUTHENTICATION_FAILED, b"")


def test_a_bare_plain_token_is_answered_with_an_empty_frame() -> None:
    """Kafka's own clients wait for a frame, and PLAIN has no token of the server's to put in it."""
    sasl = authenticator()
    sasl.receive(handshake(b"PLAIN", 0))
    check = sasl.receive(b"\0alice\0secret").check
    assert check is not None
    assert sasl.checked(fits_of(check)).response == bytes(4)


@pytest.mark.parametrize("api_key", [0, 1, 3, 36, 60, 71, 72, 999])
def test_no_other_request_is_served_before_authentication(api_key: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        authenticator().receive(struct.pack(">hhih", api_key, 0, 1, -1))
    assert refused.value.reason == "unauthenticated_request"


@pytest.mark.parametrize("api_key", [3, 17, 18, 72])
def test_after_the_handshake_only_tokens_may_come(api_key: int) -> None:
    sasl = authenticator()
    sasl.receive(handshake(b"PLAIN"))
    with pytest.raises(ProtocolError) as refused:
        sasl.receive(struct.pack(">hhih", api_key, 0, 1, -1))
    assert refused.value.reason == "unauthenticated_request"


@pytest.mark.parametrize("frame", [b"\0", b"\0\x11\0\1", handshake(b"PLAIN")[:-1], handshake(b"PLAIN", 9)])
def test_a_malformed_request_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        authenticator().receive(frame)


def test_api_versions_is_left_to_the_listeners_handler() -> None:
    request = authenticator().receive(struct.pack(">hhih", 18, 0, 1, -1)).passes
    assert request is not None
    assert request.api_key == 18


def test_a_renewal_keeps_mechanism_and_principal() -> None:
    alice, bob = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
    for previous, says in (
        (("PLAIN", alice), ""),
        (("PLAIN", bob), "Cannot change principals during re-authentication from User:bob: User:alice"),
        (("SCRAM-SHA-256", alice), "is not supported for re-authentication of mechanism 'SCRAM-SHA-256'"),
    ):
        sasl = authenticator(previous=previous)
        sasl.receive(handshake(b"PLAIN"))
        step = sasl.receive(authenticate(b"\0alice\0secret"))
        step = sasl.checked(fits_of(step.check)) if step.check else step
        assert (step.is_complete, says in step.detail) == (not says, True)
