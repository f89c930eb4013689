"""The interface between a listener and its connection limits. No I/O here.

`quotas.connections.connection_quotas` has the rules; `wire` does not import `quotas`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

Place: TypeAlias = object
"""An opaque token of an accepted connection, made by the limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A refused connection.

    Attributes:
        reason: a short stable name, for counters.
        detail: a sentence for an operator.
        hold_ms: how long to keep the connection open, unread, before it is closed [ms]; this delays the client's next
            attempt.
    """

    reason: str
    detail: str
    hold_ms: int = 0


class ConnectionLimits(Protocol):
    """Decides which connections are accepted. Called on the listener's loop."""

    async def take(self, listener_name: str, address: str | None, on_wait: Callable[[str], None]) -> Place | Refusal:
        """Waits for a place for a connection that was just accepted; a cancelled call takes none.

        Args:
            listener_name: the connection's listener.
            address: of the client; None if it is known later (`identify`).
            on_wait: called with a sentence on the limit that is waited for.
        """

    def identify(self, place: Place, address: str) -> Refusal | None:
        """Sets the client's address that `take` did not have; after a refusal the place must still be given back."""

    def give_back(self, place: Place) -> None:
        """Releases the place of a connection that has ended; may be called more than once."""


class _NoLimits:
    """Accepts every connection."""

    async def take(self, listener_name: str, address: str | None, on_wait: Callable[[str], None]) -> Place | Refusal:
        return None

    def identify(self, place: Place, address: str) -> Refusal | None:
        return None

    def give_back(self, place: Place) -> None:
        pass


NO_LIMITS: Final[ConnectionLimits] = _NoLimits()
