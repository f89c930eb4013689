"""The principal of a SASL exchange between a client and the broker, through the gateway. No I/O.

The broker judges the exchange. What the client claims counts once the broker has accepted it. Where SASL ends at the
gateway, `wire.channels.sasl_session` judges.
"""

import base64
import binascii
import json
from typing import NamedTuple, Protocol

from fleetgauge.base.principal import KafkaPrincipal

MAX_NAME_CHARACTERS = 4_096
_ENDS_WITHOUT_BYTES = ("OAUTHBEARER", "GSSAPI")


class SaslGate(Protocol):
    """Requests that a client may send if SASL ends at the gateway: a `wire.channels.sasl_session.SaslSession`.

    Attributes:
        max_receive_bytes: largest SaslAuthenticate request [B].
    """

    max_receive_bytes: int

    def admit(self, api_key: int) -> None:
        """Checks that the client may send a request of this API now.

        Raises:
            ProtocolError: it may not.
        """


class Claim(NamedTuple):
    """User that a token claims on its way to the broker.

    It stays with its request: a client may send the next exchange before the broker has judged this one.

    Attributes:
        mechanism: of the exchange.
        user: that the exchange names; empty if it cannot be read.
        is_last: True if the broker's acceptance of this token can end the exchange.
    """

    mechanism: str
    user: str
    is_last: bool


class SaslWitness:
    """Follows the exchange of one connection, including re-authentication (KIP-368).

    Attributes:
        is_accepted: True once the broker has accepted the client; for a mechanism that is unknown here, once it has
            accepted a token.
    """

    __slots__ = ("_claimed", "_mechanism", "_tokens", "is_accepted")

    def __init__(self) -> None:
        self.is_accepted = False
        self._mechanism = ""
        self._claimed = ""
        self._tokens = 0

    def begin(self, mechanism: str) -> None:
        """Records a SaslHandshake request."""
        self._mechanism, self._claimed, self._tokens = mechanism, "", 0

    def token(self, auth_bytes: bytes) -> Claim:
        """Returns the claim in the token of a SaslAuthenticate request; a password in it is not kept."""
        self._tokens += 1
        if self._tokens == 1:
            self._claimed = claimed_user(self._mechanism, auth_bytes)[:MAX_NAME_CHARACTERS]
        ends_at = 2 if self._mechanism.startswith("SCRAM-") else 1
        return Claim(self._mechanism, self._claimed, self._tokens == ends_at or self._mechanism == "GSSAPI")

    def taken(self, claim: Claim, *, has_answer: bool) -> KafkaPrincipal | None:
        """Records that the broker answered a token without an error; returns the principal if that ends the exchange.

        None for a mechanism whose tokens are opaque here, such as GSSAPI. An invalid token of OAUTHBEARER is answered
        without an error, too, and with bytes that say what is wrong (RFC 7628, 3.2.2); a valid one without bytes. Of
        GSSAPI's tokens, whose number differs, the last is answered without bytes, the others with a challenge
        (RFC 4752, 3.2).

        Args:
            claim: of the token.
            has_answer: True if the broker's answer has bytes for the mechanism.
        """
        if not claim.is_last or (has_answer and claim.mechanism in _ENDS_WITHOUT_BYTES):
            return None
        self.is_accepted = True
        return KafkaPrincipal("User", claim.user) if claim.user else None


def claimed_user(mechanism: str, token: bytes) -> str:
    r"""The user that a client's first token names; empty if it cannot be read.

    >>> claimed_user("PLAIN", b"\0alice\0secret"), claimed_user("SCRAM-SHA-256", b"n,,n=bo=2Cb,r=x")
    ('alice', 'bo,b')
    """
    try:
        if mechanism == "PLAIN":
            return token.split(b"\0")[1].decode()
        if mechanism.startswith("SCRAM-"):
            fields = token.decode().split(",")
            name = next(each for each in fields if each.startswith("n="))
            return name[2:].replace("=2C", ",").replace("=3D", "=")
        if mechanism == "OAUTHBEARER":
            # Of several, which one counts is the broker's to know: none is read, rather than another than its.
            (value,) = (each[5:] for each in token.decode().split("\x01")[1:] if each.startswith("auth="))
            claims = value.split()[1].split(".")[1]
            subject = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
            return subject if isinstance(subject, str) else ""
    except (IndexError, UnicodeDecodeError, StopIteration, ValueError, KeyError, TypeError, binascii.Error):
        pass
    return ""
