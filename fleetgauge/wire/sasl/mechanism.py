"""The interface of a SASL mechanism."""

from collections.abc import Callable
from typing import Final, Protocol

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.wire.sasl.credentials import ScramCredential

MAX_TOKEN_BYTES: Final = 16 * 1024
"""Longest token of a mechanism [B]: far more than a name and password need, but small, since many may be queued."""


class SaslAuthenticationError(FleetgaugeError):
    """The authentication failed; the text is sent to the client with SASL_AUTHENTICATION_FAILED.

    Attributes:
        detail: a sentence for the log; by default that text.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail or message


class SaslTokenError(FleetgaugeError):
    """A token is invalid; the client only learns that its credentials are invalid."""


class PasswordCheck:
    """Work that takes milliseconds: `run` it in another thread, and pass the result to `SaslMechanism.checked`.

    Attributes:
        run: None is no result: the client is not told anything, and has to come again.
        problem: why there is no result, in one sentence.
    """

    __slots__ = ("problem", "run")

    def __init__(self, run: Callable[[], bool | None]) -> None:
        self.run = run
        self.problem = ""


class SaslMechanism(Protocol):
    """One exchange of one client.

    Attributes:
        name: Kafka's name of it, for example `PLAIN`.
        user: the user name sent by the client; verified once `is_complete`.
        is_complete: True once the client is authenticated.
        credential: the credential of that user; None before the user name is known, and of users with tokens.
        expires_in_ms: after what time the authentication is no longer valid, once `is_complete` [ms]; None: never.
    """

    name: str
    user: str
    is_complete: bool
    credential: ScramCredential | None
    expires_in_ms: int | None

    def evaluate(self, token: bytes) -> bytes | PasswordCheck:
        """Handles the client's next token; returns the server's token, or a check whose result `checked` takes.

        Raises:
            SaslAuthenticationError, SaslTokenError: the exchange failed.
        """

    def checked(self, fits: bool) -> bytes:
        """Handles the result of a `PasswordCheck`; returns the server's token.

        Raises:
            SaslAuthenticationError: the password is wrong.
        """
