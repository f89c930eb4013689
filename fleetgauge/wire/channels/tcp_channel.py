"""One TCP connection: the asyncio protocol around `wire.channels.connection`.

Every frame of a chunk is handled before one joined write. Nothing here blocks, and a fault of a peer or a handler ends
this one connection.
"""

import asyncio
import ssl
from typing import Any, Final, cast

from fleetgauge.base.library_log import get_logger
from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.base.software import UNKNOWN_SOFTWARE
from fleetgauge.wire.channels.connection import Connection
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.connection_limits import Place
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.errors import ApiNotServedError, ProtocolError
from fleetgauge.wire.messages.codec import parse_request
from fleetgauge.wire.messages.frames import SIZE_PREFIX_BYTES
from fleetgauge.wire.messages.push_telemetry import PUSH

log = get_logger(__name__)

_TURN_FRAMES: Final = 100
"""Maximum number of frames that one connection handles per turn. `max_in_flight_requests` limits pushes to the same
number; 1,000 Metadata requests in one turn would delay other connections by a quarter of a second.
"""

_TURN_BYTES: Final = 64 * 1024
"""Maximum size of these frames [B]. A single larger frame ends the turn."""


def as_protocol(channel: "TcpChannel") -> asyncio.Protocol:
    """Casts the channel to `asyncio.Protocol`: it has the methods, but is not a subclass."""
    return cast(asyncio.Protocol, channel)


def _lost_reason(error: Exception | None) -> CloseReason:
    if error is None:
        return CloseReason.CLIENT_CLOSED
    return CloseReason.TLS_ERROR if isinstance(error, ssl.SSLError) else CloseReason.CONNECTION_RESET


class TcpChannel:
    """A plaintext connection; see `wire.context.channel.Channel` for the interface of request handlers, and
    `wire.channels.secure_channel` for TLS and SASL. It implements the methods of `asyncio.Protocol` without inheriting
    from it: mypyc cannot compile a subclass of a Python class to a native class (docs/decisions/007-mypyc.md).

    Args:
        context: shared state of the listener's connections.
        connection_id, client_address, client_port: as in `Channel`.
        place: the connection's place in the connection limits, released when the connection ends.

    Attributes:
        buffered_bytes: size of received requests that are not yet handled [B].
        last_active_ms: time of the last activity [ms, monotonic].
    """

    __slots__ = (
        "_close_reason",
        "_closing_since_ms",
        "_connection",
        "_context",
        "_continues",
        "_end_reason",
        "_is_pumping",
        "_place",
        "_transport",
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

    def __init__(
        self,
        context: ListenerContext,
        *,
        connection_id: str,
        client_address: str,
        client_port: int,
        place: Place = None,
    ) -> None:
        settings = context.settings
        self._context = context
        self._connection = Connection(
            max_frame_bytes=settings.socket_request_max_bytes,
            max_in_flight_requests=settings.max_in_flight_requests,
        )
        self._place = place
        self._transport: asyncio.Transport | None = None
        self._is_pumping = False
        self._continues = False
        self.buffered_bytes = 0
        self._close_reason: str | None = None
        self._closing_since_ms = 0
        self._end_reason: str | None = None
        self.last_active_ms = context.time.hi_res_clock_ms()
        self.connection_id = connection_id
        self.listener_name = context.listener_name
        self.security_protocol = "PLAINTEXT"
        self.principal: KafkaPrincipal = ANONYMOUS
        self.client_address = client_address
        self.client_port = client_port
        self.client_software_name = UNKNOWN_SOFTWARE
        self.client_software_version = UNKNOWN_SOFTWARE
        self.attachment: object = None
        self.push_templates: tuple[Any, ...] = ()

    def respond(self, slot: int, response: bytes) -> None:
        """See `Channel.respond`."""
        self._connection.respond(slot, response)

    def answer(self, slot: int, response: bytes) -> bool:
        """See `Channel.answer`."""
        transport = self._transport
        if transport is None or self._is_pumping or not self._connection.complete_alone(slot):
            self._connection.respond(slot, response)
            return True
        self._write(transport, response)
        return False

    def flush(self) -> None:
        """See `Channel.flush`."""
        # A client that awaits each response has no waiting frames: the response is written, nothing else changes.
        if not self._connection.blocked and not self._is_pumping and self._transport is not None:
            self._write(self._transport, self._connection.data_to_send())
        else:
            self._pump()

    def mute(self) -> None:
        """See `Channel.mute`."""
        self._connection.mute()
        self._settle()

    def unmute(self) -> None:
        """See `Channel.unmute`."""
        if self._connection.unmute():
            self.last_active_ms = self._context.time.hi_res_clock_ms()
            if self.buffered_bytes:
                self._context.requests.restart(self, self.last_active_ms)
            self._pump()

    def close(self, reason: str) -> None:
        """See `Channel.close`."""
        if self._close_reason is not None or self._transport is None:
            return
        if self._connection.has_output:
            self._write(self._transport, self._connection.data_to_send())
        self._close_reason = reason
        self._closing_since_ms = self._context.time.hi_res_clock_ms()
        self._connection.close()
        self._account()
        self._transport.close()

    def abort(self, reason: str) -> None:
        """Ends the connection at once; unread responses are dropped."""
        if self._transport is None:
            return
        if self._close_reason is None:
            self._close_reason = reason
        self._connection.close()
        self._account()
        self._transport.abort()

    def shed(self, reason: CloseReason, event: str, detail: str) -> None:
        """Ends the connection at once because a shared limit is exceeded; logs `event` and `detail`."""
        self._report(event, reason, detail)
        self.abort(reason)

    def drain(self, reason: CloseReason = CloseReason.LISTENER_STOPPED) -> None:
        """Stops handling requests; closes the connection after the responses in flight."""
        self._connection.drain()
        self._end_reason = self._end_reason or reason
        self._pump()

    @property
    def is_authenticated(self) -> bool:
        """See `Channel.is_authenticated`."""
        return True

    def revoke(self, security: ListenerSecurity) -> bool:
        """See `OpenConnection.revoke`: a client without SASL has no credential."""
        return False

    @property
    def is_closed(self) -> bool:
        """True if the connection is closed, or closing."""
        return self._close_reason is not None

    @property
    def is_ending(self) -> bool:
        """True if the connection is closing, or closes after the responses in flight."""
        return self._close_reason is not None or self._end_reason is not None

    @property
    def is_held_up(self) -> bool:
        """True if this side has paused reading."""
        return self._connection.is_held_up

    @property
    def is_muted(self) -> bool:
        """See `OpenConnection.is_muted`."""
        return self._connection.is_muted

    @property
    def unread_bytes(self) -> int:
        """Size of responses that the peer has not read [B]."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def expire(self, now_ms: int) -> None:
        """Ends the connection if no data arrived for `connections_max_idle_ms`, or if closing it takes too long.

        A muted connection is not idle, since its client cannot send; its idle time restarts when it is unmuted.
        """
        settings = self._context.settings
        if self._close_reason is not None:
            if now_ms - self._closing_since_ms >= settings.close_linger_ms:
                self.abort(self._close_reason)
        elif now_ms - self.last_active_ms >= settings.connections_max_idle_ms and not self._connection.is_muted:
            if self._connection.peer_reads:
                self.close(CloseReason.IDLE)
            else:
                self.abort(CloseReason.RESPONSES_UNREAD)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop: the connection is open."""
        context = self._context
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=context.settings.write_high_water_bytes)
        context.channels[self] = None
        context.all_closed.clear()
        try:
            context.handler.connection_made(self)
        except Exception as error:  # noqa: BLE001  # a handler's fault ends one connection, never the listener
            self._fail(error)

    def data_received(self, data: bytes) -> None:
        """Called by the loop: bytes arrived."""
        context = self._context
        context.counters.bytes_received += len(data)
        self.last_active_ms = now_ms = context.time.hi_res_clock_ms()
        if data.startswith(PUSH, SIZE_PREFIX_BYTES) and self._handle_push(data, now_ms):
            return
        completed = self._connection.receive_data(data)
        context.counters.frames += completed
        self._pump()
        if self.buffered_bytes:
            requests = context.requests
            if completed:
                requests.restart(self, now_ms)
            if requests.held_bytes > requests.max_bytes:
                requests.close_heaviest(now_ms)

    def eof_received(self) -> bool:
        """Called by the loop: the peer has closed its side. Requests that it sent are still answered."""
        self._connection.end_input()
        is_cut = self._connection.is_cut
        self._end_reason = CloseReason.TRUNCATED_FRAME if is_cut else CloseReason.CLIENT_CLOSED
        self._settle()
        return True

    def pause_writing(self) -> None:
        """Called by the loop: too many responses are unread."""
        self._connection.peer_reads = False
        self._settle()

    def resume_writing(self) -> None:
        """Called by the loop: the peer has read enough responses."""
        self._connection.peer_reads = True
        self.last_active_ms = self._context.time.hi_res_clock_ms()
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: the connection has ended. Notifies the handler."""
        context = self._context
        lost = _lost_reason(exc)
        reason = self._close_reason or self._end_reason or lost
        self._close_reason = reason
        self._transport = None
        self._connection.close()
        self._account()
        context.counters.closed[str(reason)] += 1
        del context.channels[self]
        context.limits.give_back(self._place)
        if not context.channels:
            context.all_closed.set()
        try:
            context.handler.connection_lost(self, str(reason))
        except Exception:
            log.exception("wire.connection_lost_callback_failed", reason=str(reason))

    def _handle_push(self, data: bytes, now_ms: int) -> bool:
        """Passes a chunk that is a single push, the usual case, to `RequestHandler.push`; False if the chunk must take
        the general path.
        """
        context, connection = self._context, self._connection
        if self._is_pumping or context.unread.left_bytes < 0:
            return False
        slot = connection.open_slot_for(data)
        if slot < 0:
            return False
        try:
            response = context.handler.push(self, data, slot, now_ms)
        except Exception as error:  # noqa: BLE001  # a handler's fault ends one connection, never the listener
            self._fail(error)
            return True
        if response is None:
            connection.withdraw_slot()
            return False
        context.counters.fast_pushes += 1
        if response:
            connection.respond(slot, response)
            self.flush()
        return True

    def _pump(self) -> None:
        """Handles waiting frames and writes responses until none is left, or the connection's turn ends."""
        if self._is_pumping or self._transport is None:
            return
        self._is_pumping = True
        try:
            if self._context.unread.left_bytes < 0 and self._connection.may_take:
                self._continue_soon()  # after the review, which comes first
            else:
                self._pump_turn(self._transport)
        except ProtocolError as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001  # a handler's fault ends one connection, never the listener
            self._fail(error)
        finally:
            self._is_pumping = False
        self._settle()

    def _pump_turn(self, transport: asyncio.Transport) -> None:
        connection = self._connection
        high_water_bytes = self._context.settings.write_high_water_bytes
        frames = taken = written = started_ms = 0
        while frames < _TURN_FRAMES and taken < _TURN_BYTES and written < high_water_bytes:
            frame = connection.take()
            if frame is not None:
                self._handle(frame)
                frames += 1
                taken += len(frame)
                if frames > 1:  # a single frame is the usual case: save reading the clock
                    now_ms = self._context.time.hi_res_clock_ms()
                    if frames == 2:
                        started_ms = now_ms
                    if now_ms - started_ms >= self._context.turns.turn_ms:
                        break
                if connection.may_take:
                    continue
            if not connection.has_output:
                return
            written += self._write(transport, connection.data_to_send())
            # Written responses may have freed slots for frames that wait.
            if not connection.may_take:
                return
        if connection.has_output:
            self._write(transport, connection.data_to_send())
        self._continue_soon()

    def _handle(self, frame: bytes) -> None:
        context = self._context
        clock = context.handler.request_clock
        started_ns = 0 if clock is None else clock()
        request = parse_request(frame, context.api_table)
        request.started_ns = started_ns
        request.slot = self._connection.open_slot()
        context.counters.requests[request.api_key] += 1
        response = context.handler.handle(self, request)
        if response is not None:
            self._connection.respond(request.slot, response)

    def _write(self, transport: asyncio.Transport, data: bytes) -> int:
        size = len(data)
        if size:
            transport.write(data)
            context = self._context
            context.counters.bytes_sent += size
            unread = context.unread
            unread.left_bytes -= size
            if unread.left_bytes < 0:
                unread.review_soon(context.loop)
        return size

    def _continue_soon(self) -> None:
        """Queues the next turn; in between the loop writes, and calls `pause_writing` if the peer does not read."""
        if not self._continues:
            self._continues = True
            self._context.turns.wait_for(self)

    def take_turn(self) -> None:
        """Continues with the waiting frames; called by `wire.context.turns.Turns`."""
        self._continues = False
        self._pump()

    def _settle(self) -> None:
        """Applies the connection's state to the transport: reading or paused, closed after the last response.

        Queries the transport for its reading state, because the loop begins to read after `connection_made` even if
        that call muted the channel; the first chunk then pauses reading.
        """
        if self._transport is None or self._close_reason is not None:
            return
        connection = self._connection
        if not self.buffered_bytes and connection.is_at_rest and self._transport.is_reading():
            return
        if connection.is_finished and not self._is_pumping:
            self.close(self._end_reason or CloseReason.CLIENT_CLOSED)
            return
        wants_read = connection.wants_read
        if wants_read is not self._transport.is_reading() and not connection.input_ended:
            if wants_read:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
        self._account()

    def _account(self) -> None:
        """Updates the process's sum of buffered request bytes."""
        buffered = self._connection.buffered_bytes
        if buffered != self.buffered_bytes:
            self._context.requests.note(self, self.buffered_bytes, buffered)
            self.buffered_bytes = buffered

    def _refuse(self, error: ProtocolError) -> None:
        """Closes a connection after a malformed request, or one of an API that is not served."""
        known = isinstance(error, ApiNotServedError) and self._context.handler.not_served(
            self, error.api_key, error.client_id
        )
        if not known:
            self._report("wire.connection_malformed", error.reason, error.detail)
        self.close(error.reason)

    def _report(self, event: str, reason: str, detail: str) -> None:
        self._context.report(event, reason, reason=str(reason), detail=detail, connection_id=self.connection_id)

    def _fail(self, error: Exception) -> None:
        """Closes the connection after an error of this node, such as an exception of the request handler."""
        self._context.report(
            "wire.request_handler_failed",
            CloseReason.HANDLER_ERROR,
            level="error",
            connection_id=self.connection_id,
            exc_info=error,
        )
        self.close(CloseReason.HANDLER_ERROR)
