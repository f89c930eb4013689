"""An open connection as the listener and its bounds see it; `wire.channels.tcp_channel.TcpChannel` is one."""

from typing import Any, Protocol

from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.listener_security import ListenerSecurity


class OpenConnection(Protocol):
    """One of the connections that share a `ListenerContext`. Hashable by identity.

    Attributes:
        last_active_ms: when it was last used [ms, monotonic].
        buffered_bytes: bytes of requests that no handler has seen [B].
        push_templates: see `wire.context.channel.Channel`.
    """

    listener_name: str
    client_address: str
    last_active_ms: int
    buffered_bytes: int
    push_templates: tuple[Any, ...]

    @property
    def is_ending(self) -> bool:
        """True if it is closing, or will be when its requests in flight are answered."""

    @property
    def is_held_up(self) -> bool:
        """True if it is not read from for our own sake."""

    @property
    def is_muted(self) -> bool:
        """True if it is not read from for a quota's sake, whatever its peer does."""

    @property
    def unread_bytes(self) -> int:
        """Bytes of responses that its peer has not read [B]."""

    def take_turn(self) -> None:
        """Continues with what it has to handle."""

    def expire(self, now_ms: int) -> None:
        """Ends if it was idle, or is closing, for too long at `now_ms` [ms, monotonic]."""

    def drain(self, reason: CloseReason = ...) -> None:
        """Handles no further request and closes once those in flight are answered."""

    def shed(self, reason: CloseReason, event: str, detail: str) -> None:
        """Ends at once for the sake of others; `event` and `detail` tell an operator why."""

    def abort(self, reason: str) -> None:
        """Ends at once, whatever its peer has not read."""

    def revoke(self, security: ListenerSecurity) -> bool:
        """Ends, as `drain`, if these new settings of the listener no longer have the credential that its client has
        authenticated with; True if so.
        """
