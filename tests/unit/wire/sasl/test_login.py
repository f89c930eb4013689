"""PLAIN and SCRAM on the client's side: RFC 7677's exchange, our own servers, and brokers that are none."""

import pytest

from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential, ScramMechanism
from fleetgauge.wire.sasl.login import LOGIN_MECHANISMS, Login, LoginError, ScramClient
from fleetgauge.wire.sasl.mechanism import PasswordCheck, SaslTokenError
from fleetgauge.wire.sasl.plain import PlainServer
from fleetgauge.wire.sasl.scram import ScramServer

SHA_256 = ScramMechanism.SCRAM_SHA_256
NAME = "a,b=c"
STORE = CredentialStore(
    {NAME: tuple(ScramCredential.make(mechanism, "secret", iterations=4096) for mechanism in ScramMechanism)}
)
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def login(mechanism: str, name: str = NAME, password: str = "secret") -> Login:
    return Login(mechanism=mechanism, username=name, password=password)


def rfc_client() -> ScramClient:
    return ScramClient(SHA_256, login("SCRAM-SHA-256", "user", "pencil"), nonce=NONCE)


def test_the_exchange_of_rfc_7677_is_reproduced() -> None:
    client = rfc_client()
    assert client.first() == f"n,,n=user,r={NONCE}".encode()
    final = client.next(SERVER_FIRST.encode())
    assert final is not None
    assert final.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert client.next(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_server_and_its_user_prove_the_password_to_each_other(mechanism: ScramMechanism) -> None:
    client, server = login(mechanism.value).exchange(), ScramServer(mechanism, STORE)
    final = client.next(server.evaluate(client.first()))
    assert final is not None
    assert client.next(server.evaluate(final)) is None
    assert (server.is_complete, server.user) == (True, NAME)


def test_a_wrong_password_is_refused_by_the_server() -> None:
    client, server = login("SCRAM-SHA-256", password="wrong").exchange(), ScramServer(SHA_256, STORE)
    final = client.next(server.evaluate(client.first()))
    assert final is not None
    with pytest.raises(SaslTokenError, match="proof is wrong"):
        server.evaluate(final)


def test_plain_is_one_token() -> None:
    client, server = login("PLAIN").exchange(), PlainServer(STORE)
    check = server.evaluate(client.first())
    assert isinstance(check, PasswordCheck)
    assert check.run() is True
    assert client.next(server.checked(fits=True)) is None


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        (f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "answers another one"),
        ("r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "answers another one"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "asks for 1 iterations"),
        (f"r={NONCE}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999", "asks for 999999999 iterations"),
        (f"r={NONCE}x,s=!,i=4096", "salt is not base64"),
        ("e=other-error", "malformed"),
        ("\udcff", "malformed"),
    ],
)
def test_a_first_message_that_is_none_is_an_error(first: str, problem: str) -> None:
    with pytest.raises(LoginError, match=problem):
        rfc_client().next(first.encode(errors="surrogateescape"))


@pytest.mark.parametrize("last", [b"v=AAAA", b"", b"e=invalid-proof"])
def test_a_server_that_does_not_know_the_password_is_not_believed(last: bytes) -> None:
    client = rfc_client()
    client.next(SERVER_FIRST.encode())
    with pytest.raises(LoginError, match="does not prove"):
        client.next(last)


def test_a_login_shows_no_password() -> None:
    assert "secret" not in repr(login("PLAIN"))


@pytest.mark.parametrize(
    "values", [{"mechanism": "GSSAPI"}, {"username": ""}, {"password": ""}, {"username": "a\0b"}, {"password": "a\0b"}]
)
def test_a_login_that_cannot_work_is_refused(values: dict[str, str]) -> None:
    good = {"mechanism": LOGIN_MECHANISMS[0], "username": "a", "password": "b"}
    assert Login(**good)
    with pytest.raises(ValueError, match=r"mechanism|NUL"):
        Login(**{**good, **values})
