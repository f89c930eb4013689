"""The client's side of SASL: PLAIN and SCRAM, for connections that a node makes to a broker. No I/O.

See `wire.sasl.scram` for how Kafka's SCRAM differs from RFC 5802.
"""

import base64
import binascii
import functools
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final, Protocol

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.wire.sasl.credentials import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism

LOGIN_MECHANISMS: Final = ("PLAIN", *(each.value for each in ScramMechanism))

_SERVER_FIRST: Final = re.compile(r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[^,]+),i=(?P<iterations>\d{1,9})")


class LoginError(FleetgaugeError):
    """The broker's part of an exchange is wrong; the text is a sentence for an operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A user of a broker.

    Attributes:
        mechanism: one of `LOGIN_MECHANISMS`.
        username, password: as the broker knows them.

    Raises:
        ValueError: the mechanism is another one, the user has no name or password, or a NUL in one of them.
    """

    mechanism: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if self.mechanism not in LOGIN_MECHANISMS:
            raise ValueError(f"the mechanism {self.mechanism!r} is not one of {', '.join(LOGIN_MECHANISMS)}")
        if not self.username or not self.password or "\0" in self.username + self.password:
            raise ValueError("a user has a name and a password, without NUL")

    def exchange(self) -> "ClientExchange":
        """Begins an exchange."""
        if self.mechanism == "PLAIN":
            return _PlainClient(self)
        return ScramClient(ScramMechanism(self.mechanism), self)


class ClientExchange(Protocol):
    """The client's side of one exchange."""

    def first(self) -> bytes:
        """The first token."""

    def next(self, token: bytes) -> bytes | None:
        """The answer to the server's next token; None if the exchange is complete.

        Raises:
            LoginError: the server's token is wrong, or does not prove that the server knows the password (SCRAM).
        """


class _PlainClient:
    """SASL PLAIN (RFC 4616): one token, which is answered by an empty one."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def first(self) -> bytes:
        """See `ClientExchange`."""
        return f"\0{self._login.username}\0{self._login.password}".encode()

    def next(self, token: bytes) -> bytes | None:
        """See `ClientExchange`."""
        return None


class ScramClient:
    """SASL SCRAM (RFC 5802).

    Args:
        mechanism: SCRAM-SHA-256 or SCRAM-SHA-512.
        login: the user.
        nonce: the client's part of the nonce; random by default.
    """

    def __init__(self, mechanism: ScramMechanism, login: Login, *, nonce: str = "") -> None:
        self._mechanism = mechanism
        self._password = login.password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        name = login.username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={self._nonce}"
        self._signature = b""

    def first(self) -> bytes:
        """See `ClientExchange`."""
        return f"n,,{self._first_bare}".encode()

    def next(self, token: bytes) -> bytes | None:
        """See `ClientExchange`."""
        text = token.decode(errors="replace")
        if not self._signature:
            return self._final(text)
        expected = "v=" + base64.b64encode(self._signature).decode()
        if not hmac.compare_digest(text.partition(",")[0].encode(), expected.encode()):
            raise LoginError("the broker does not prove that it knows the password (SCRAM)")
        return None

    def _final(self, server_first: str) -> bytes:
        match = _SERVER_FIRST.match(server_first)
        if match is None or not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise LoginError("the broker's first SCRAM message is malformed, or answers another one")
        iterations = int(match["iterations"])
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            bounds = f"{MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed"
            raise LoginError(f"the broker asks for {iterations} iterations (SCRAM), and {bounds}")
        try:
            salt = base64.b64decode(match["salt"], validate=True)
        except binascii.Error as error:
            raise LoginError("the broker's salt is not base64 (SCRAM)") from error
        mechanism = self._mechanism
        salted = _salted(mechanism, self._password, salt, iterations)
        without_proof = f"c={base64.b64encode(b'n,,').decode()},r={match['nonce']}"
        signed = f"{self._first_bare},{server_first},{without_proof}".encode()
        client_key = mechanism.hmac(salted, b"Client Key")
        client_signature = mechanism.hmac(mechanism.hash(client_key), signed)
        proof = bytes(left ^ right for left, right in zip(client_key, client_signature, strict=True))
        self._signature = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


@functools.lru_cache(maxsize=8)
def _salted(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
    """Takes milliseconds once for each user and salt: every other connection to the broker has the same."""
    return mechanism.salted_password(password, salt, iterations)
