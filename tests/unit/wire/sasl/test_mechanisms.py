"""PLAIN and SCRAM on the server's side, against a client worked out by hand from RFC 5802 and RFC 4616."""

import base64
import hashlib
import hmac

import pytest

from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.mechanism import MAX_TOKEN_BYTES, PasswordCheck, SaslAuthenticationError, SaslTokenError
from fleetgauge.wire.sasl.plain import PlainServer
from fleetgauge.wire.sasl.scram import ScramServer

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
STORE = CredentialStore(
    {
        "alice": tuple(ScramCredential.make(mechanism, "secret", iterations=4096) for mechanism in ScramMechanism),
        "a,b=c": (ScramCredential.make(SHA_256, "secret", iterations=4096),),
    }
)


def final_message(
    server_first: bytes, bare: str, *, password: bytes = b"secret", hash_name: str = "sha256", channel: str = "biws"
) -> bytes:
    fields = dict(part.split(b"=", 1) for part in server_first.split(b","))
    salted = hashlib.pbkdf2_hmac(hash_name, password, base64.b64decode(fields[b"s"]), int(fields[b"i"]))
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    without_proof = b"c=" + channel.encode() + b",r=" + fields[b"r"]
    signed = b",".join([bare.encode(), server_first, without_proof])
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return without_proof + b",p=" + base64.b64encode(proof)


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(
    ("header", "bare", "channel"),
    [
        ("n,,", "n=alice,r=abc", "biws"),
        ("n,a=alice,", "n=alice,r=abc", base64.b64encode(b"n,a=alice,").decode()),
        ("n,,", "n=alice,r=abc,tokenauth=false,x=y", "biws"),
    ],
)
def test_a_client_with_the_right_password_is_let_in_and_can_tell_that_the_server_knows_it(
    mechanism: ScramMechanism, header: str, bare: str, channel: str
) -> None:
    server = ScramServer(mechanism, STORE)
    first = server.evaluate((header + bare).encode())
    after_the_first = server.is_complete
    final = final_message(first, bare, hash_name=mechanism.hash_name, channel=channel)
    told = server.evaluate(final)
    assert (after_the_first, server.is_complete) == (False, True)
    assert server.user == "alice"
    credential = STORE.scram("alice", mechanism)
    signed = b",".join([bare.encode(), first, final.rsplit(b",p=", 1)[0]])
    assert told == b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, mechanism.hash_name))


def test_the_exchange_of_rfc_7677_is_reproduced() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = ScramCredential.make(SHA_256, "pencil", iterations=4096, salt=salt)
    server = ScramServer(SHA_256, CredentialStore({"user": (credential,)}), nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    first = server.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert first == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.evaluate(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_a_name_with_comma_and_equals_sign_is_escaped_on_the_wire() -> None:
    server = ScramServer(SHA_256, STORE)
    bare = "n=a=2Cb=3Dc,r=abc"
    server.evaluate(final_message(server.evaluate(f"n,,{bare}".encode()), bare))
    assert (server.is_complete, server.user) == (True, "a,b=c")


@pytest.mark.parametrize(("user", "password"), [("alice", b"wrong"), ("nobody", b"secret"), ("alice", b"")])
def test_a_wrong_password_and_an_unknown_user_fail_alike_and_at_the_same_step(user: str, password: bytes) -> None:
    server = ScramServer(SHA_256, STORE)
    bare = f"n={user},r=abc"
    first = server.evaluate(f"n,,{bare}".encode())
    final = final_message(first, bare, password=password)
    with pytest.raises(SaslTokenError, match="the proof is wrong"):
        server.evaluate(final)
    assert not server.is_complete


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,",
        b"y,,n=alice,r=abc",
        b"p=tls-unique,,n=alice,r=abc",
        b"n,,n=,r=abc",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=abc",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=\xff",
        b"n,,n=al\0ice,r=abc",
        b"n,,n=alice,r=" + b"a" * MAX_TOKEN_BYTES,
    ],
)
def test_what_is_no_first_message_is_refused(token: bytes) -> None:
    with pytest.raises(SaslTokenError):
        ScramServer(SHA_256, STORE).evaluate(token)


def test_a_final_message_with_another_nonce_header_or_proof_is_refused() -> None:
    for changed in ("nonce", "channel", "proof", "short", "twice"):
        server = ScramServer(SHA_256, STORE)
        bare = "n=alice,r=abc"
        first = server.evaluate(f"n,,{bare}".encode())
        final = final_message(first, bare, channel="eSws" if changed == "channel" else "biws")
        if changed == "nonce":
            final = final.replace(b"r=abc", b"r=abd")
        elif changed == "proof":
            final = final[:-6] + b"AAAAA="
        elif changed == "short":
            final = final.rsplit(b",p=", 1)[0] + b",p=AAAA"
        elif changed == "twice":
            server.evaluate(final)
        with pytest.raises(SaslTokenError):
            server.evaluate(final)


def test_acting_for_another_is_refused_in_scram_and_in_plain() -> None:
    with pytest.raises(SaslAuthenticationError, match="authorization id that is different from username"):
        ScramServer(SHA_256, STORE).evaluate(b"n,a=bob,n=alice,r=abc")
    with pytest.raises(SaslAuthenticationError, match="authorization id that is different from username"):
        PlainServer(STORE).evaluate(b"bob\0alice\0secret")


def fits_of(check: bytes | PasswordCheck) -> bool:
    """Whether the password was right."""
    assert isinstance(check, PasswordCheck)
    fits = check.run()
    assert fits is not None
    return fits


@pytest.mark.parametrize("token", [b"\0alice\0secret", b"alice\0alice\0secret"])
def test_plain_lets_in_whoever_knows_the_password(token: bytes) -> None:
    credential = ScramCredential.make(SHA_512, "secret", iterations=4096)
    store = CredentialStore({"alice": (credential,)})
    server = PlainServer(store)
    check = server.evaluate(token)
    assert isinstance(check, PasswordCheck)
    assert not server.is_complete
    assert server.checked(fits_of(check)) == b""
    assert (server.is_complete, server.user, server.credential) == (True, "alice", credential)
    again = PlainServer(store)
    assert again.evaluate(token) == b"", "a password that was right once needs no check"
    assert (again.is_complete, again.credential) == (True, credential)


def test_a_plain_token_that_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(SaslAuthenticationError, match="100000 bytes"):
        PlainServer(STORE).evaluate(b"\0alice\0".ljust(100_000, b"x"))


@pytest.mark.parametrize("token", [b"\0alice\0wrong", b"\0nobody\0secret"])
def test_plain_says_the_same_of_a_wrong_password_and_an_unknown_user(token: bytes) -> None:
    server = PlainServer(STORE)
    fits = fits_of(server.evaluate(token))
    with pytest.raises(SaslAuthenticationError, match=r"^Authentication failed: Invalid username or password$"):
        server.checked(fits)


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (b"", "expected 3 tokens, got 1"),
        (b"a\0b", "expected 3 tokens, got 2"),
        (b"\0a\0b\0c", "expected 3 tokens, got 4"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
    ],
)
def test_plain_names_what_is_wrong_with_a_token_as_kafka_does(token: bytes, says: str) -> None:
    with pytest.raises(SaslAuthenticationError, match=says):
        PlainServer(STORE).evaluate(token)
