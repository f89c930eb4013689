"""SASL OAUTHBEARER (RFC 7628, KIP-255): a token in place of a password. Responses are those of Kafka's
`OAuthBearerSaslServer`; the log has the reason, which the client is not told.
"""

import re
from dataclasses import dataclass
from typing import Final, Protocol

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.wire.sasl.credentials import ScramCredential
from fleetgauge.wire.sasl.mechanism import MAX_TOKEN_BYTES, PasswordCheck, SaslAuthenticationError, SaslTokenError

_SASLNAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIRS: Final = rb"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_INITIAL = re.compile(rb"n,(?:a=(?P<authzid>" + _SASLNAME + rb"))?,\x01(?P<pairs>" + _PAIRS + rb")\x01")
_AUTH = re.compile(rb"(?:\A|\x01)auth=Bearer +(?P<token>[-_.a-zA-Z0-9]+)\x01", re.IGNORECASE)
_INVALID: Final = '{"status":"invalid_token"}'


class TokenError(FleetgaugeError):
    """A token is not valid; the text repeats nothing of it."""


class KeysUnavailableError(FleetgaugeError):
    """A token cannot be checked now, and may be valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedToken:
    """Content of a valid token: the user's name, and the time after which it expires, at least 1 [ms]."""

    user: str
    expires_in_ms: int


class TokenVerifier(Protocol):
    """Checks tokens, in a thread."""

    def verify(self, token: str) -> VerifiedToken:
        """The user of a valid token.

        Raises:
            TokenError: it is not valid.
            KeysUnavailableError: it cannot be checked now.
        """


class OAuthBearerServer:
    """The server's side of one exchange; see `SaslMechanism`.

    Args:
        verifier: checks the token.
    """

    __slots__ = ("_problem", "_token", "_verifier", "credential", "expires_in_ms", "is_complete", "name", "user")

    def __init__(self, verifier: TokenVerifier) -> None:
        self._verifier = verifier
        self._token: VerifiedToken | None = None
        self._problem = ""
        self.name = "OAUTHBEARER"
        self.user = ""
        self.is_complete = False
        self.credential: ScramCredential | None = None
        self.expires_in_ms: int | None = None

    def evaluate(self, token: bytes) -> bytes | PasswordCheck:
        """Takes the initial response with the token; after a refusal the client's answer, one control character."""
        if self._problem:
            raise SaslAuthenticationError(_INVALID, detail=self._problem)
        if self.is_complete or len(token) > MAX_TOKEN_BYTES:
            raise SaslTokenError(f"an unexpected OAUTHBEARER message of {len(token)} bytes")
        match = _INITIAL.fullmatch(token)
        auth = _AUTH.search(match["pairs"]) if match is not None else None
        if match is None or auth is None:
            raise SaslTokenError("not an OAUTHBEARER initial response with a bearer token")
        authorization_id = (match["authzid"] or b"").decode("ascii").replace("=2C", ",").replace("=3D", "=")
        check = PasswordCheck(lambda: self._verify(auth["token"].decode("ascii"), authorization_id, check))
        return check

    def checked(self, fits: bool) -> bytes:
        """See `SaslMechanism`; of an invalid token the challenge says so, to which the client has to answer."""
        token = self._token
        if not fits or token is None:
            return _INVALID.encode()
        self.user, self.is_complete, self.expires_in_ms = token.user, True, token.expires_in_ms
        return b""

    def _verify(self, token: str, authorization_id: str, check: PasswordCheck) -> bool | None:
        try:
            verified = self._verifier.verify(token)
        except KeysUnavailableError as error:
            check.problem = str(error)
            return None
        except TokenError as error:
            self._problem = str(error)
            return False
        if authorization_id not in ("", verified.user):
            self._problem = "the client requests an authorization id that is different from the token's user"
            return False
        self._token = verified
        return True
