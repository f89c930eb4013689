"""What a listener asks before it serves a connection: is there room for it? No I/O here.

The rules stand elsewhere (`quotas.connection_quotas`); this room knows no quotas.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

Place: TypeAlias = object
"""What stands for a connection that has its place; made and understood by the limits alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A connection is to be closed.

    Attributes:
        reason: a short stable word to count by.
        detail: a sentence for an operator.
        hold_ms: keep the connection open for so long, unread, before it is closed [ms]: its client connects again at
            once, and comes later that way.
    """

    reason: str
    detail: str
    hold_ms: int = 0


class ConnectionLimits(Protocol):
    """Who may connect now. Called on the listener's loop."""

    async def take(self, listener_name: str, address: str | None, on_wait: Callable[[str], None]) -> Place | Refusal:
        """A place for a connection that was just accepted, when there is one; nothing is taken if that is cancelled.

        Args:
            listener_name: on which it came.
            address: of the client; None if it is known later (`identify`).
            on_wait: told in a sentence what is waited for.
        """
        ...

    def identify(self, place: Place, address: str) -> Refusal | None:
        """Says whose connection it is, where `take` was not told; a refusal leaves the place to be given back."""
        ...

    def give_back(self, place: Place) -> None:
        """The connection has ended, in whatever way; may be said more than once."""
        ...


class _NoLimits:
    """Room for everybody."""

    async def take(self, listener_name: str, address: str | None, on_wait: Callable[[str], None]) -> Place | Refusal:
        return None

    def identify(self, place: Place, address: str) -> Refusal | None:
        return None

    def give_back(self, place: Place) -> None:
        pass


NO_LIMITS: Final[ConnectionLimits] = _NoLimits()
