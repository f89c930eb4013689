"""A client's connection and the one to the broker behind it: the asyncio protocols around both streams.

A side that is not read from holds up the other one, so that at most a chunk and a transport's write buffer wait in
either direction. The end of one connection ends the other, and no third one.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.gateway.apis import PASSED, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fleetgauge.gateway.brokers import CONNECT_WITHIN_S
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.shared import Shared
from fleetgauge.gateway.streams.own_login import LOGIN_WITHIN_MS, OwnLogin
from fleetgauge.gateway.streams.request_stream import RequestStream
from fleetgauge.gateway.streams.response_stream import ResponseStream
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.channels.base_channel import BaseChannel
from fleetgauge.wire.channels.sasl_session import SaslSession
from fleetgauge.wire.channels.secure_channel import certificate_principal
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.accepted import Accepted
from fleetgauge.wire.context.handshakes import Handshake, HandshakeStage
from fleetgauge.wire.errors import LocalProtocolError, ProtocolError
from fleetgauge.wire.messages.codec import parse_request
from fleetgauge.wire.sasl.login import LoginError
from fleetgauge.wire.tls.server_name import NamedServer, expect_server_name

_BUFFER_BYTES: Final = 256 * 1024
"""Unwritten bytes for one peer from which on the other one is not read [B]."""
_TABLE: Final = ApiTable()
_MIN_SHARE_BYTES: Final = 2 << 20
_MAX_SHARE_BYTES: Final = 16 << 20
_SHARE: Final = 8
"""A connection keeps at most an eighth of `queued.max.response.bytes` of a response, within these bounds [B]: twice as
much as rules may want (`gateway.rules.MAX_BODY_BYTES`), and more than the addresses of any cluster."""


class ClientChannel(BaseChannel):
    """A client's connection through the gateway: also a `gateway.rules.ClientConnection` for the rules.

    Args:
        shared: by all connections of the gateway.
        accepted: the client's connection.
    """

    __slots__ = (
        "_broker",
        "_broker_reads",
        "_client_ended",
        "_client_reads",
        "_clock",
        "_connecting",
        "_in_flight",
        "_local",
        "_loop_ns",
        "_named",
        "_next_slot",
        "_own_login",
        "_requests",
        "_response_bytes",
        "_responses",
        "_shared",
        "_since_ns",
        "_turn_ends_ns",
        "_unanswered_ns",
        "spends_unanswered",
        "traffic",
    )

    def __init__(self, shared: Shared, accepted: Accepted) -> None:
        super().__init__(accepted)
        self._shared = shared
        self._named: NamedServer | None = None
        if self._security.tls is not None and shared.server_names is not None:
            self._named = expect_server_name(self._security.tls, shared.server_names.find)
        self._broker: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._make_streams(accepted)
        self._response_bytes = 0  # kept of responses
        self._local: dict[int, InFlight] = {}  # requests that the gateway is answering, by slot
        self._clock = accepted.context.time.nanoseconds
        self._loop_ns = self._unanswered_ns = 0
        self._since_ns = 0  # from when on the loop's time is not counted yet; 0 while it does something else
        self.spends_unanswered = False
        self._turn_ends_ns = 0
        self._next_slot = 0
        self._client_reads = self._broker_reads = True
        self._client_ended = False
        self.traffic: Any = None

    def _make_streams(self, accepted: Accepted) -> None:
        shared, context, sasl = self._shared, accepted.context, self._security.sasl
        if sasl is not None:
            handshake = cast(Handshake, accepted.handshake)  # which every listener with SASL has
            self._session = SaslSession(self, context, accepted.shared, sasl, handshake)
        self._in_flight: list[InFlight] = []
        self._requests = RequestStream(
            shared.policy,
            self,
            self._in_flight,
            self._serve,
            shared.requests,
            self._may_go_on,
            ends_sasl=sasl is not None or shared.own_user is not None,
            gate=self._session,
        )
        self._own_login: OwnLogin | None = None
        if shared.own_user is not None:
            self._own_login = OwnLogin(shared.own_user, self._requests, self._in_flight)
        share = context.settings.queued_max_response_bytes // _SHARE
        self._responses = ResponseStream(
            shared.policy,
            self,
            self._in_flight,
            self._requests,
            self._take_login_answer,
            self._may_go_on,
            max_kept_bytes=min(max(share, _MIN_SHARE_BYTES), _MAX_SHARE_BYTES),
        )

    # The client's side, called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is connected, TLS is done: connects to the broker."""
        context = self._context
        self._begin(transport, _BUFFER_BYTES)
        self._requests.mutes = 1  # until there is a broker
        context.handler.connection_made(self)
        if self._handshake is not None:
            if self._session is None:
                self._handshake.finish()
                self._handshake = None
            else:
                self._handshake.abort, self._handshake.stage = self.abort, HandshakeStage.SASL
                self._handshake.wait_for_node()  # until there is a broker
        if self._security.tls is not None and self._session is None:  # else SASL's user is the principal
            try:
                self.principal = certificate_principal(transport, self._security.principal_mapper)
            except ProtocolError as error:
                self._refuse(error)
                return
        self._connecting = context.loop.create_task(self._connect(cast(asyncio.Transport, transport)))

    def data_received(self, data: bytes) -> None:
        """The client sent bytes."""
        self._context.counters.bytes_received += len(data)
        now_ns = self._clock()
        self.last_active_ms = now_ns // 1_000_000
        self._since_ns, self.spends_unanswered = now_ns, self._requests.is_within_unanswered
        self._take_requests(data, now_ns)
        self._stop_meter()

    def eof_received(self) -> bool:
        """The client has closed its side. Its requests are still passed and answered."""
        self._client_ended = True
        self._requests.end()
        self._settle()
        return self._security.tls is None

    def pause_writing(self) -> None:
        """The client does not read."""
        self._client_reads = False
        self._settle()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._client_reads = True
        self.last_active_ms = self._context.time.hi_res_clock_ms()
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client's connection has ended."""
        is_cut = self._client_ended and self._requests.is_cut
        lost = CloseReason.TRUNCATED_FRAME if is_cut else CloseReason.CLIENT_CLOSED
        self._end(lost if exc is None else CloseReason.CONNECTION_RESET)
        if self._connecting is not None:
            self._connecting.cancel()
        if self._broker is not None:
            self._broker.close()  # after what was written, such as records without acks
        self._account()
        self._context.handler.connection_lost(self, str(self._close_reason))
        self._requests.close()
        self._responses.close()

    # The broker's side

    async def _connect(self, transport: asyncio.Transport) -> None:
        shared = self._shared
        named = None if self._named is None else self._named.address
        address = named or (shared.brokers.host, shared.brokers.port)
        try:
            await shared.brokers.connect(
                self._context.loop,
                self,
                address,
                client=(self.client_address, self.client_port),
                local=transport.get_extra_info("sockname")[:2],
            )
        except (OSError, ValueError) as error:  # SSLError, TimeoutError; UnicodeError of a name such as `a..b`
            shared.broker_connect_failures += 1
            problem = str(error) or f"no connection within {CONNECT_WITHIN_S:.0f} s"
            self._end_pair("broker_unreachable", f"cannot connect to the broker {address[0]}:{address[1]}: {problem}")
        self._connecting = None  # a task that is done still takes 1 kB

    def broker_connected(self, transport: asyncio.Transport) -> None:
        """The broker is connected: passes on what the client has sent meanwhile, after the gateway's authentication."""
        self._shared.broker_connections += 1
        self._broker = transport
        transport.set_write_buffer_limits(high=_BUFFER_BYTES)
        if self._transport is None or self._close_reason is not None:
            transport.close()
            return
        if self._own_login is None:
            self._serve_client()
            self.unmute()
        else:
            transport.write(self._own_login.begin(self._clock()))

    def _serve_client(self) -> None:
        if self._handshake is not None:
            self._handshake.wait_for_client()

    def _take_login_answer(self, body: bytes) -> None:
        own_login = self._own_login
        assert own_login is not None
        try:
            request = own_login.receive(body, self._clock())
        except LoginError as error:
            self._shared.broker_connect_failures += 1
            raise ProtocolError("broker_refuses_login", f"the broker rejects the gateway's login: {error}") from error
        if request:
            assert self._broker is not None
            self._broker.write(request)
        else:
            self._serve_client()

    def broker_sent(self, data: bytes) -> None:
        """The broker sent bytes."""
        self._shared.bytes_from_broker += len(data)
        if self._transport is None:
            return
        now_ns = self._clock()
        self.last_active_ms = now_ns // 1_000_000
        self._since_ns, self.spends_unanswered = now_ns, False
        self._take_responses(data, now_ns)
        self._stop_meter()

    def broker_reads(self, reads: bool) -> None:
        """The broker takes bytes, or too many wait for it."""
        self._broker_reads = reads
        self._settle()

    def broker_lost(self, error: Exception | None) -> None:
        """The connection to the broker is closed or lost: the client gets the bytes that arrived, then its connection
        ends.
        """
        self._shared.broker_connections -= 1
        self._broker = None
        if self._close_reason is not None or self._transport is None:
            return
        waiting = len(self._in_flight)
        how = f"reset the connection ({error})" if error is not None else "closed the connection"
        detail = f"the broker {how}; {waiting} requests were unanswered"
        if waiting or error is not None:
            self._end_pair("broker_lost", detail)
        else:
            self.close("broker_closed")  # an idle connection, or a failed authentication: the broker logs it

    # Both streams

    def _take_requests(self, data: bytes, now_ns: int) -> None:
        """Handles requests, and those that the gateway's own responses make room for."""
        requests = self._requests
        while self._pass_requests(data, now_ns):
            was_held = requests.is_held
            if self._in_flight and self._in_flight[0].local:
                if not self._pass_responses(b"", now_ns):
                    return
                if was_held and not requests.is_held:
                    data = b""
                    continue
            self._settle()
            return

    def _take_responses(self, data: bytes, now_ns: int) -> None:
        was_held = self._requests.is_held
        if not self._pass_responses(data, now_ns):
            return
        if was_held and not self._requests.is_held:
            self._take_requests(b"", now_ns)
        else:
            self._settle()

    def _pass_requests(self, data: bytes, now_ns: int) -> bool:
        """Passes requests to the broker; False if that ended the connection."""
        requests = self._requests
        own_login = self._own_login
        if own_login is not None:
            own_login.hold_if_due(now_ns)
        at_hand = requests.kept_bytes + len(data)
        if not self._receive(requests, data, now_ns):
            return False
        if self.buffered_bytes and requests.kept_bytes < at_hand:  # what is kept belongs to a later request
            self._context.requests.restart(self, now_ns // 1_000_000)
        self._write_requests()
        if own_login is not None and self._broker is not None and (renewal := own_login.renew(now_ns)):
            self._broker.write(renewal)
        if requests.turn_is_over:
            self._wait_for_turn()
        return True

    def _pass_responses(self, data: bytes, now_ns: int) -> bool:
        """Passes responses to the client; False if that ended the connection."""
        responses = self._responses
        if not self._receive(responses, data, now_ns):
            return False
        self._write_responses()
        self._note_kept(responses.kept_bytes)
        if responses.turn_is_over:
            self._wait_for_turn()
        return True

    def _receive(self, stream: RequestStream | ResponseStream, data: bytes, now_ns: int) -> bool:
        self._turn_ends_ns = now_ns + self._context.turns.turn_ms * 1_000_000
        try:
            stream.receive(data, now_ns)
        except ProtocolError as error:
            if stream is self._requests:
                self._write_requests()
            else:
                self._write_responses()
            self._refuse(error)
            return False
        except Exception as error:  # noqa: BLE001  # a fault of rules or handlers ends one connection, never the listener
            self._fail(error, "gateway.handler_failed")
            return False
        return True

    def _write_requests(self) -> None:
        output, broker = self._requests.output, self._broker
        if output and broker is not None:
            self._shared.bytes_to_broker += _write(broker, output)
        output.clear()

    def _write_responses(self) -> None:
        output, transport = self._responses.output, self._transport
        if output and transport is not None:
            size = _write(transport, output)
            self._context.counters.bytes_sent += size
            self._note_unread(size)
        output.clear()

    def _note_kept(self, kept: int) -> None:
        if kept > self._response_bytes:
            self._note_unread(kept - self._response_bytes)
        self._response_bytes = kept

    def _settle(self) -> None:
        """Reads from each side as fast as the other one takes it; ends the pair when the client has ended and all its
        requests are answered.
        """
        transport, broker = self._transport, self._broker
        if transport is None or self._close_reason is not None:
            return
        if (self._end_reason is not None or self._client_ended) and self._is_answered:
            requests = self._requests
            if self._end_reason is not None:
                self.close(self._end_reason)
                return
            if not (requests.is_held and requests.kept_bytes):
                self.close(CloseReason.TRUNCATED_FRAME if requests.is_cut else CloseReason.CLIENT_CLOSED)
                return
        self._read_client(transport)
        if broker is not None:
            self._set_reading(broker, self._client_reads and self._responses.wants_bytes)
        if self._requests.kept_bytes or self.buffered_bytes:
            self._account()

    @property
    def _is_answered(self) -> bool:
        return not self._in_flight and not self._responses.is_cut

    def _read_client(self, transport: asyncio.Transport) -> None:
        if not self._client_ended:
            self._set_reading(transport, self._requests.wants_bytes and self._client_reads and self._broker_reads)

    def _account(self) -> None:
        """Updates the process's sum of kept request bytes."""
        buffered = self._requests.kept_bytes if self._transport is not None else 0
        if buffered != self.buffered_bytes:
            self._note_buffered(buffered)
            requests = self._context.requests
            if requests.held_bytes > requests.max_bytes:
                requests.close_heaviest(self.last_active_ms)

    # Telemetry: a `wire.context.channel.Channel`

    def _serve(self, in_flight: InFlight, frame: bytes) -> None:
        """Answers a request of telemetry or SASL."""
        slot, self._next_slot = self._next_slot, self._next_slot + 1
        self._local[slot] = in_flight
        session = self._session
        if session is not None and in_flight.api_key in _SASL and session.concerns(frame):
            session.follow(session.receive(frame), slot)
            return
        request = parse_request(frame, _TABLE)
        request.slot = slot
        response = self._context.handler.handle(self, request)
        if response is not None:
            self.respond(slot, response)

    def authenticated(self, principal: KafkaPrincipal) -> None:
        """See `wire.channels.sasl_session.SaslConnection`."""
        super().authenticated(principal)
        self._handshake = None

    def respond(self, slot: int, response: bytes) -> None:
        """See `Channel.respond`."""
        request = self._local.pop(slot, None)
        if request is None:
            raise LocalProtocolError(f"slot {slot} awaits no response")
        request.local = response

    def answer(self, slot: int, response: bytes) -> bool:
        """See `Channel.answer`."""
        self.respond(slot, response)
        return True

    def flush(self) -> None:
        """See `Channel.flush`."""
        if self._in_flight and self._in_flight[0].local and self._close_reason is None:
            self._take_metered(self._take_responses, self._clock())

    def mute(self) -> None:
        """See `Channel.mute`."""
        self._requests.mutes += 1
        # Does not settle: the rules mute within a request, which is in no list yet, and the pair would seem to be done.
        if self._transport is not None and self._close_reason is None:
            self._read_client(self._transport)

    def unmute(self) -> None:
        """See `Channel.unmute`."""
        requests = self._requests
        if requests.mutes == 0:
            raise LocalProtocolError("the connection is not muted")
        requests.mutes -= 1
        now_ns = self._clock()
        self.last_active_ms = now_ns // 1_000_000
        if self._close_reason is None and self._transport is not None and not requests.is_held:
            if self.buffered_bytes:
                self._context.requests.restart(self, self.last_active_ms)
            self._take_metered(self._take_requests, now_ns)

    def take_loop_ns(self, *, to_now: bool = False) -> int:
        """See `ClientConnection.take_loop_ns`."""
        if to_now:
            self._read_meter()
        taken, self._loop_ns = self._loop_ns, 0
        return taken

    def take_unanswered_ns(self) -> int:
        """See `ClientConnection.take_unanswered_ns`."""
        taken, self._unanswered_ns = self._unanswered_ns, 0
        return taken

    def begin_request(self, is_answered: bool) -> None:
        """See `ClientConnection.begin_request`."""
        self._read_meter()
        self.spends_unanswered = not is_answered

    def _take_metered(self, take: Callable[[bytes, int], None], now_ns: int) -> None:
        """Takes what is at hand, and counts its time once: also within a call, as when the rules unmute it."""
        if self._since_ns:
            take(b"", now_ns)
        else:
            self._since_ns, self.spends_unanswered = now_ns, False
            take(b"", now_ns)
            self._stop_meter()

    def _read_meter(self) -> None:
        """Adds the time of the current call, so far, to the category that it was spent on."""
        if self._since_ns:
            self._since_ns = self._stop_meter()

    def _stop_meter(self) -> int:
        """Adds the time of a call to the category that it was spent on; returns the time [ns]."""
        now_ns = self._clock()
        took_ns, self._since_ns = now_ns - self._since_ns, 0
        if self.spends_unanswered:
            self._unanswered_ns += took_ns
        else:
            self._loop_ns += took_ns
        return now_ns

    def _may_go_on(self) -> bool:
        return self._clock() < self._turn_ends_ns

    # The end: a `wire.context.open_connection.OpenConnection`

    @property
    def is_ending(self) -> bool:
        """See `OpenConnection.is_ending`."""
        return self._close_reason is not None or self._end_reason is not None or self._client_ended

    @property
    def is_held_up(self) -> bool:
        """See `OpenConnection.is_held_up`."""
        return self._requests.is_held or not self._broker_reads or not self._client_reads

    @property
    def is_muted(self) -> bool:
        """See `OpenConnection.is_muted`."""
        return self._requests.mutes > 0

    @property
    def unread_bytes(self) -> int:
        """See `OpenConnection.unread_bytes`."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size() + self._response_bytes

    def take_turn(self) -> None:
        """See `OpenConnection.take_turn`: continues with the responses and requests at hand."""
        self._waits = False
        if self._close_reason is not None or self._transport is None:
            return
        now_ns = self._clock()
        self.last_active_ms = now_ns // 1_000_000
        requests, responses = self._requests, self._responses
        pause_ms = responses.pause_ms(now_ns) if responses.turn_is_over else 0
        if pause_ms:
            self._waits = True
            self._context.loop.call_later(pause_ms / 1_000, self._context.turns.wait_for, self)
            return
        self._since_ns, self.spends_unanswered = now_ns, False
        requests.turn_is_over = False
        if responses.turn_is_over:
            responses.turn_is_over = False
            self._take_responses(b"", now_ns)
        if self._close_reason is None and not requests.is_held:
            self._take_requests(b"", now_ns)
        self._stop_meter()

    def _expire_open(self, now_ms: int, is_idle: bool) -> None:
        """Also ends a connection whose broker does not answer."""
        if is_idle and not self._client_reads:
            self.abort(CloseReason.RESPONSES_UNREAD)
        elif self._in_flight:
            oldest = self._in_flight[0]
            timeout_ms = LOGIN_WITHIN_MS if oldest.is_own else self._shared.response_timeout_ms
            if now_ms - oldest.arrived_ns // 1_000_000 >= timeout_ms and now_ms - self.last_active_ms >= timeout_ms:
                name = PASSED[oldest.api_key].name
                within = f"{timeout_ms} ms" if oldest.is_own else f"gateway.response.timeout.ms ({timeout_ms})"
                self._end_pair("broker_silent", f"{name} was not answered within {within}")
        elif is_idle and not self._requests.mutes:
            self.close(CloseReason.IDLE)

    def drain(self, reason: CloseReason = CloseReason.LISTENER_STOPPED) -> None:
        """See `OpenConnection.drain`: ends after the pending responses; reads the rest of a partly received request,
        and no further one.
        """
        if self._is_answered:
            self.close(reason)
        elif self._end_reason is None:
            self._end_reason = reason
            self.mute()

    def close(self, reason: str) -> None:
        """Closes both connections after the bytes written to them and the gateway's own due responses."""
        if self._close_reason is not None or self._transport is None:
            return
        self._close_reason = reason
        self._closing_since_ms = self._context.time.hi_res_clock_ms()
        self._responses.release()
        self._write_responses()
        self._transport.close()
        if self._broker is not None:
            self._broker.close()

    def abort(self, reason: str) -> None:
        """Ends both connections at once."""
        self._close_reason = self._close_reason or reason
        if self._transport is not None:
            self._transport.abort()
        if self._broker is not None:
            self._broker.abort()

    def _end_pair(self, reason: str, detail: str) -> None:
        self._report("gateway.connection_ended", reason, detail)
        self.close(reason)

    def _refuse(self, error: ProtocolError) -> None:
        self._end_pair(error.reason, error.detail)


_SASL: Final = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})


def _write(transport: asyncio.Transport, output: list[bytes]) -> int:
    """Writes all parts; returns their size [B]."""
    if len(output) == 1:
        transport.write(output[0])
        return len(output[0])
    transport.writelines(output)
    return sum(map(len, output))
