"""What the exchange needs of a SASL mechanism."""

from collections.abc import Callable
from typing import Final, Protocol

from base.errors import FleetgaugeError
from wire.sasl.credentials import ScramCredential

MAX_TOKEN_BYTES: Final = 16 * 1024
"""Longest token of a mechanism [B]: far more than names and passwords take, and many may wait for their check."""


class SaslAuthenticationError(FleetgaugeError):
    """The client is not let in; the text is what it is told with SASL_AUTHENTICATION_FAILED."""


class SaslTokenError(FleetgaugeError):
    """The mechanism refuses a token; the client is told no more than that its credentials are invalid."""


class PasswordCheck:
    """Work that takes milliseconds and must not be done on the loop: `run` it anywhere, then tell the mechanism."""

    __slots__ = ("run",)

    def __init__(self, run: Callable[[], bool]) -> None:
        self.run = run


class SaslMechanism(Protocol):
    """One exchange of one client.

    Attributes:
        name: Kafka's name of it, for example `PLAIN`.
        user: who the client says it is, once it has said so; proven when `is_complete`.
        is_complete: True once the client has proven who it is.
        credential: what it has proven that against; None before it has said who it is.
    """

    name: str
    user: str
    is_complete: bool
    credential: ScramCredential | None

    def evaluate(self, token: bytes) -> bytes | PasswordCheck:
        """Takes the client's next token; returns the server's, or a check whose result `checked` is to be told.

        Raises:
            SaslAuthenticationError, SaslTokenError: the exchange has failed.
        """
        ...

    def checked(self, fits: bool) -> bytes:
        """Takes the result of a `PasswordCheck`; returns the server's token.

        Raises:
            SaslAuthenticationError: the password is wrong.
        """
        ...
