"""The state of a client's connection, and how it begins and ends: the same at a listener and at a gateway.

The classes of channels implement the methods of `asyncio.Protocol` without inheriting from it: mypyc cannot compile a
subclass of a Python class to a native class (docs/decisions/007-mypyc.md).
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Any, cast

from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.base.software import UNKNOWN_SOFTWARE
from fleetgauge.wire.channels.sasl_session import SaslSession
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.accepted import Accepted
from fleetgauge.wire.context.listener_security import ListenerSecurity


def as_protocol(channel: "BaseChannel") -> asyncio.Protocol:
    """Casts a channel to `asyncio.Protocol`: it has the methods, but is not a subclass."""
    return cast(asyncio.Protocol, channel)


class BaseChannel(ABC):
    """A client's connection; see `wire.context.channel.Channel` and `wire.context.open_connection.OpenConnection`.

    Args:
        accepted: the connection.

    Attributes:
        buffered_bytes: size of received requests that are not yet handled [B].
        last_active_ms: time of the last activity [ms, monotonic].
    """

    __slots__ = (
        "_close_reason",
        "_closing_since_ms",
        "_context",
        "_end_reason",
        "_handshake",
        "_place",
        "_security",
        "_session",
        "_transport",
        "_waits",
        "attachment",
        "buffered_bytes",
        "client_address",
        "client_port",
        "client_software_name",
        "client_software_version",
        "connection_id",
        "last_active_ms",
        "listener_name",
        "principal",
        "push_templates",
        "security_protocol",
    )

    def __init__(self, accepted: Accepted) -> None:
        context = accepted.context
        self._context = context
        self._security = accepted.security
        self._handshake = accepted.handshake
        self._place = accepted.place
        self._session: SaslSession | None = None
        self._transport: asyncio.Transport | None = None
        self._waits = False  # for its turn
        self._close_reason: str | None = None
        self._closing_since_ms = 0
        self._end_reason: CloseReason | None = None  # of a connection that closes after the requests in flight
        self.buffered_bytes = 0
        self.last_active_ms = context.time.hi_res_clock_ms()
        self.connection_id = accepted.connection_id
        self.listener_name = context.listener_name
        self.security_protocol: str = accepted.security.protocol.value
        self.principal: KafkaPrincipal = ANONYMOUS
        self.client_address, self.client_port = accepted.client
        self.client_software_name = UNKNOWN_SOFTWARE
        self.client_software_version = UNKNOWN_SOFTWARE
        self.attachment: object = None
        self.push_templates: tuple[Any, ...] = ()

    @property
    def is_authenticated(self) -> bool:
        """See `Channel.is_authenticated`; also False during re-authentication."""
        return self._session is None or self._session.is_authenticated

    @property
    def is_closed(self) -> bool:
        """True if the connection is closed, or closing."""
        return self._close_reason is not None

    @property
    def is_ending(self) -> bool:
        """True if the connection is closing, or closes after the requests in flight."""
        return self._close_reason is not None or self._end_reason is not None

    @property
    def unread_bytes(self) -> int:
        """Size of responses that the peer has not read [B]."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """See `wire.channels.sasl_session.SaslConnection`."""
        self.principal = principal
        self.push_templates = ()

    def revoke(self, security: ListenerSecurity) -> bool:
        """See `OpenConnection.revoke`: a client without SASL has no credential."""
        return self._session is not None and self._session.revoke(security)

    def shed(self, reason: CloseReason, event: str, detail: str) -> None:
        """Ends the connection at once because a shared limit is exceeded; logs `event` and `detail`."""
        self._report(event, reason, detail)
        self.abort(reason)

    def expire(self, now_ms: int) -> None:
        """Ends the connection if it was idle for `connections_max_idle_ms`, or if closing it takes too long."""
        settings = self._context.settings
        if self._close_reason is None:
            self._expire_open(now_ms, now_ms - self.last_active_ms >= settings.connections_max_idle_ms)
        elif now_ms - self._closing_since_ms >= settings.close_linger_ms:
            self.abort(self._close_reason)

    @property
    @abstractmethod
    def is_held_up(self) -> bool:
        """See `OpenConnection.is_held_up`."""

    @property
    @abstractmethod
    def is_muted(self) -> bool:
        """See `OpenConnection.is_muted`."""

    @abstractmethod
    def take_turn(self) -> None:
        """See `OpenConnection.take_turn`."""

    @abstractmethod
    def drain(self, reason: CloseReason = CloseReason.LISTENER_STOPPED) -> None:
        """See `OpenConnection.drain`."""

    @abstractmethod
    def close(self, reason: str) -> None:
        """See `Channel.close`."""

    @abstractmethod
    def abort(self, reason: str) -> None:
        """See `OpenConnection.abort`."""

    @abstractmethod
    def _expire_open(self, now_ms: int, is_idle: bool) -> None:
        """Ends the connection if it was idle, or waits for its peer, for too long."""

    def _begin(self, transport: asyncio.BaseTransport, high_water_bytes: int) -> None:
        """Takes its place among the listener's connections."""
        context = self._context
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=high_water_bytes)
        context.channels[self] = None
        context.all_closed.clear()

    def _end(self, reason: str) -> None:
        """Leaves the listener's connections, for this reason unless it was closed for another one."""
        context = self._context
        self._close_reason = reason = self._close_reason or reason
        self._transport = None
        if self._handshake is not None:
            self._handshake.finish()
        if self._session is not None:
            self._session.end()
        # Both refer to this connection: a cycle would wait for the garbage collector.
        self._handshake = self._session = None
        context.counters.closed[str(reason)] += 1
        del context.channels[self]
        context.limits.give_back(self._place)
        if not context.channels:
            context.all_closed.set()

    def _set_reading(self, transport: asyncio.Transport, wanted: bool) -> None:
        """Reads from a transport, or pauses. Queries its state, because the loop begins to read after `connection_made`
        even if that call muted the channel; the first chunk then pauses reading.
        """
        if wanted is not transport.is_reading() and not transport.is_closing():
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _note_buffered(self, buffered_bytes: int) -> None:
        """Updates the process's sum of request bytes that are not handled."""
        if buffered_bytes != self.buffered_bytes:
            self._context.requests.note(self, self.buffered_bytes, buffered_bytes)
            self.buffered_bytes = buffered_bytes

    def _note_unread(self, size: int) -> None:
        """Adds bytes to those that the client has to read."""
        unread = self._context.unread
        unread.left_bytes -= size
        if unread.left_bytes < 0:
            unread.review_soon(self._context.loop)

    def _wait_for_turn(self) -> None:
        """Queues the next turn; in between the loop writes, and calls `pause_writing` if the peer does not read."""
        if not self._waits:
            self._waits = True
            self._context.turns.wait_for(self)

    def _report(self, event: str, reason: str, detail: str) -> None:
        self._context.report(event, reason, reason=str(reason), detail=detail, connection_id=self.connection_id)

    def _fail(self, error: Exception, event: str = "wire.request_handler_failed") -> None:
        """Closes the connection after an error of this node, such as an exception of the request handler."""
        self._context.report(
            event, CloseReason.HANDLER_ERROR, level="error", connection_id=self.connection_id, exc_info=error
        )
        self.close(CloseReason.HANDLER_ERROR)
