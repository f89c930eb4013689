"""SASL PLAIN (RFC 4616): the password itself, checked against its salted hash."""

from functools import partial
from typing import Final

from fleetgauge.wire.sasl.credentials import CredentialStore, ScramCredential
from fleetgauge.wire.sasl.mechanism import MAX_TOKEN_BYTES, PasswordCheck, SaslAuthenticationError

_PARTS: Final = 3  # [authzid] NUL authcid NUL password


class PlainServer:
    """The server's side of one exchange; see `SaslMechanism`. Errors have the texts of Kafka's `PlainSaslServer`."""

    __slots__ = ("_store", "credential", "expires_in_ms", "is_complete", "name", "user")

    def __init__(self, store: CredentialStore) -> None:
        self._store = store
        self.name = "PLAIN"
        self.user = ""
        self.is_complete = False
        self.credential: ScramCredential | None = None
        self.expires_in_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes | PasswordCheck:
        """Handles the only token of PLAIN."""
        if len(token) > MAX_TOKEN_BYTES:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: {len(token)} bytes")
        authorization_id, self.user, password = _parts(token)
        if not self.user:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        # Before the password is checked, and the same for known and unknown users.
        if authorization_id and authorization_id != self.user:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.credential = self._store.plain(self.user)
        if self._store.remembers(self.user, password.encode()):
            return self.checked(fits=True)
        return PasswordCheck(partial(self._store.verify, self.user, password.encode()))

    def checked(self, fits: bool) -> bytes:
        """See `SaslMechanism`."""
        if not fits:
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        self.is_complete = True
        return b""


def _parts(token: bytes) -> tuple[str, str, str]:
    parts = token.decode(errors="replace").split("\0")
    if len(parts) != _PARTS:
        raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
    return parts[0], parts[1], parts[2]
