"""One TCP connection: the asyncio protocol around `wire.channels.connection`.

Every frame of a chunk is handled before one joined write. Nothing here blocks, and a fault of a peer or a handler ends
this one connection.
"""

import asyncio
import ssl
from typing import Final

from fleetgauge.base.library_log import get_logger
from fleetgauge.wire.channels.base_channel import BaseChannel
from fleetgauge.wire.channels.connection import Connection
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.accepted import Accepted
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


def _lost_reason(error: Exception | None) -> CloseReason:
    if error is None:
        return CloseReason.CLIENT_CLOSED
    return CloseReason.TLS_ERROR if isinstance(error, ssl.SSLError) else CloseReason.CONNECTION_RESET


class TcpChannel(BaseChannel):
    """A plaintext connection; see `wire.context.channel.Channel` for the interface of request handlers, and
    `wire.channels.secure_channel` for TLS and SASL.
    """

    __slots__ = ("_connection", "_is_pumping")

    def __init__(self, accepted: Accepted) -> None:
        super().__init__(accepted)
        settings = accepted.context.settings
        self._connection = Connection(
            max_frame_bytes=settings.socket_request_max_bytes,
            max_in_flight_requests=settings.max_in_flight_requests,
        )
        self._is_pumping = False

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

    def drain(self, reason: CloseReason = CloseReason.LISTENER_STOPPED) -> None:
        """Stops handling requests; closes the connection after the responses in flight."""
        self._connection.drain()
        self._end_reason = self._end_reason or reason
        self._pump()

    @property
    def is_held_up(self) -> bool:
        """True if this side has paused reading."""
        return self._connection.is_held_up

    @property
    def is_muted(self) -> bool:
        """See `OpenConnection.is_muted`."""
        return self._connection.is_muted

    def _expire_open(self, now_ms: int, is_idle: bool) -> None:
        # A muted connection is not idle, since its client cannot send; its idle time restarts when it is unmuted.
        if is_idle and not self._connection.is_muted:
            if self._connection.peer_reads:
                self.close(CloseReason.IDLE)
            else:
                self.abort(CloseReason.RESPONSES_UNREAD)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop: the connection is open."""
        context = self._context
        self._begin(transport, context.settings.write_high_water_bytes)
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
        self._connection.close()
        self._account()
        self._end(self._end_reason or _lost_reason(exc))
        reason = str(self._close_reason)
        try:
            self._context.handler.connection_lost(self, reason)
        except Exception:
            log.exception("wire.connection_lost_callback_failed", reason=reason)

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
                self._wait_for_turn()  # after the review, which comes first
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
        self._wait_for_turn()

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
            self._context.counters.bytes_sent += size
            self._note_unread(size)
        return size

    def take_turn(self) -> None:
        """Continues with the waiting frames; called by `wire.context.turns.Turns`."""
        self._waits = False
        self._pump()

    def _settle(self) -> None:
        """Applies the connection's state to the transport: reading or paused, closed after the last response."""
        if self._transport is None or self._close_reason is not None:
            return
        connection = self._connection
        if not self.buffered_bytes and connection.is_at_rest and self._transport.is_reading():
            return
        if connection.is_finished and not self._is_pumping:
            self.close(self._end_reason or CloseReason.CLIENT_CLOSED)
            return
        if not connection.input_ended:
            self._set_reading(self._transport, connection.wants_read)
        self._account()

    def _account(self) -> None:
        self._note_buffered(self._connection.buffered_bytes)

    def _refuse(self, error: ProtocolError) -> None:
        """Closes a connection after a malformed request, or one of an API that is not served."""
        known = isinstance(error, ApiNotServedError) and self._context.handler.not_served(
            self, error.api_key, error.client_id
        )
        if not known:
            self._report("wire.connection_malformed", error.reason, error.detail)
        self.close(error.reason)
