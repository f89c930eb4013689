"""The bytes from the broker to a client. No I/O.

Each response is matched with the oldest request in flight; answers of the gateway itself take their turn among those of
the broker. Bodies pass as they arrive, except for the few parts that the gateway replaces. What is read of a body is
read once, as it arrives, in turns.
"""

import struct
from collections.abc import Callable
from typing import Final

from fleetgauge.base.varint import UnreadableError, read_uvarint
from fleetgauge.gateway.apis import API_VERSIONS, PASSED, SASL_AUTHENTICATE
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.messages.layout import response_layout
from fleetgauge.gateway.messages.walk import Walk
from fleetgauge.gateway.policy import ENDS_WITHIN, KeptBytes, Policy, pass_on
from fleetgauge.gateway.responses.hidden_endpoints import HiddenEndpoints, has_hidden_endpoints
from fleetgauge.gateway.responses.splices import AddressSplice, has_addresses, read_text
from fleetgauge.gateway.rules import MAX_BODY_BYTES, WHOLE_FRAME, ClientConnection, NoRules
from fleetgauge.gateway.streams.request_stream import RequestStream
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.frames import SIZE_PREFIX_BYTES
from fleetgauge.wire.messages.request_reader import skip_tagged_fields

_HEADER: Final = struct.Struct(">ii")
"""Size and correlation id."""
_ID_BYTES: Final = 4
"""Size of the correlation id [B]; the size of a response includes it."""
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_MAX_WHOLE_BYTES: Final = 64 * 1024
"""Longest response that is read as a whole [B], and the longest header."""
_PIECE_BYTES: Final = 4 * 1024
"""Bytes of a body that are read between two checks of the clock [B]: a millisecond for the densest bodies."""


class ResponseStream:
    """The responses to one client connection.

    Args:
        policy: shared by all connections.
        connection: the client's; its principal is set here.
        in_flight: as in `RequestStream`; taken from here.
        requests: the other direction.
        take_own: takes the body of the answer to a request of the gateway itself.
        may_go_on: as in `RequestStream`, after each response or piece of one.
        max_kept_bytes: most bytes that are kept of a response [B].

    Attributes:
        output: bytes for the client, in order; the caller takes them.
        turn_is_over: True if bytes wait for the next turn; nothing is handled until the caller resets it.
    """

    __slots__ = (
        "_connection",
        "_drops",
        "_front",
        "_in_flight",
        "_judges",
        "_kept",
        "_left",
        "_max_kept_bytes",
        "_may_go_on",
        "_policy",
        "_request",
        "_requests",
        "_rewriter",
        "_size",
        "_take_own",
        "_walk",
        "_wanted",
        "output",
        "turn_is_over",
    )

    def __init__(
        self,
        policy: Policy,
        connection: ClientConnection,
        in_flight: list[InFlight],
        requests: RequestStream,
        take_own: Callable[[bytes], None] = lambda _: None,
        may_go_on: Callable[[], bool] = lambda: True,
        *,
        max_kept_bytes: int,
    ) -> None:
        self._take_own = take_own
        self._may_go_on = may_go_on
        self._max_kept_bytes = max_kept_bytes
        self._policy = policy
        self._judges = type(policy.rules) is not NoRules
        self._connection = connection
        self._in_flight = in_flight
        self._requests = requests
        self.output: list[bytes] = []
        self.turn_is_over = False
        self._kept = KeptBytes()
        self._wanted = 0
        # Of the response under way:
        self._request: InFlight | None = None
        self._size = 0
        self._left = 0  # bytes that have not been handled
        self._walk: Walk | None = None
        self._rewriter: AddressSplice | HiddenEndpoints | None = None
        self._front: bytearray | None = None  # collected from behind the correlation id on; None if bytes pass
        self._drops = False  # the rest is not for the client

    @property
    def awaits_local(self) -> bool:
        """True if the next response is the gateway's own and not ready yet: nothing is read from the broker
        meanwhile.
        """
        return bool(self._in_flight) and self._in_flight[0].local == b"" and self._request is None

    @property
    def wants_bytes(self) -> bool:
        """True if the broker is to be read from."""
        return not self.turn_is_over and not self.awaits_local

    @property
    def is_cut(self) -> bool:
        """True within a response, or if bytes are waiting."""
        return self._request is not None or len(self._kept) > 0

    @property
    def kept_bytes(self) -> int:
        """Size of the bytes kept for later [B]."""
        kept = len(self._kept)
        if self._front is not None:
            kept += len(self._front)
        return kept if self._rewriter is None else kept + self._rewriter.kept_bytes

    def receive(self, data: bytes, now_ns: int) -> None:
        """Takes the next bytes; empty bytes when the gateway's own response is ready, or when a turn begins.

        Raises:
            ProtocolError: the stream is malformed, or its answers are not in the order of requests.
        """
        joined = self._kept.join(data)
        if joined is None:
            return
        data, end = joined, len(joined)
        start = position = self._wanted = 0
        while not self.turn_is_over:
            if self._request is None:
                moved = self._next(data, start, position, now_ns)
            elif position < end:
                moved = self._continue(self._request, data, start, position, now_ns)
            else:
                break
            if moved is None:
                break
            start, position = moved
            self.turn_is_over = position < end and not self._may_go_on()
        pass_on(self.output, data, start, position)
        if position < end:
            self._kept.keep(data, position, self._wanted)

    def _next(self, data: bytes, start: int, position: int, now_ns: int) -> tuple[int, int] | None:
        """Passes the gateway's own response, or starts the response at `position`; None if neither is possible.

        Returns:
            From where on bytes are yet to pass, and where the next ones are, as `_continue`.
        """
        if self._in_flight and self._in_flight[0].local is not None:
            if not self._in_flight[0].local:
                return None
            pass_on(self.output, data, start, position)
            self._release(self._in_flight[0], now_ns)
            return position, position
        size = self._match(data, position)
        if size is None:
            return None
        request = self._in_flight[0]
        self._begin(request, size, now_ns)
        body = position + _HEADER.size
        if self._front is not None:
            pass_on(self.output, data, start, position)
            start = body
        return self._continue(request, data, start, body, now_ns)

    def _continue(self, request: InFlight, data: bytes, start: int, position: int, now_ns: int) -> tuple[int, int]:
        """Handles the bytes of the current response at `position`: all that arrived, or a piece if they have to be
        read.
        """
        walk, is_plain = self._walk, self._front is None and self._rewriter is None and not self._drops
        count = min(self._left, len(data) - position)
        if walk is not None:
            count = min(count, walk.ahead + _PIECE_BYTES)
        self._left -= count
        end = position + count
        piece = b"" if walk is None and is_plain else data[position:end]
        if walk is not None:
            walk.feed(piece)
            if (walk.is_done or walk.problem) and self._rewriter is None:
                self._walk = None
        if not is_plain:
            pass_on(self.output, data, start, position)
            start = end
            self._take(piece, request, now_ns)
        if not self._left:
            self._end(request)
        return start, end

    def pause_ms(self, now_ns: int) -> int:
        """Delay of the next turn because of the client's quota [ms]; 0 for none."""
        if self._request is None or not self._judges:
            return 0
        return self._policy.rules.interrupted(self._connection, self._request, now_ns)

    def close(self) -> None:
        """See `RequestStream.close`; also drops kept bytes."""
        del self._connection, self._take_own, self._may_go_on
        self._kept, self._front, self._rewriter = KeptBytes(), None, None

    def release(self) -> None:
        """Writes the gateway's own responses that are due, before the connection ends."""
        in_flight = self._in_flight
        while not self.is_cut and in_flight and in_flight[0].local:
            self.output.append(in_flight[0].local)
            del in_flight[0]

    def _release(self, request: InFlight, now_ns: int) -> None:
        """Passes on the gateway's own answer."""
        assert request.local
        del self._in_flight[0]
        if self._judges:
            self._policy.rules.sent(self._connection, request, len(request.local) - SIZE_PREFIX_BYTES, now_ns)
        self.output.append(request.local)

    def _match(self, data: bytes, position: int) -> int | None:
        """Returns the size of the response at `position`; None, and sets `_wanted`, if its header is not at hand."""
        at_hand = len(data) - position
        if at_hand < SIZE_PREFIX_BYTES:
            self._wanted = SIZE_PREFIX_BYTES
            return None
        size: int
        (size,) = _INT32.unpack_from(data, position)
        if size < _ID_BYTES:
            raise ProtocolError("broker_malformed", f"a response of {size} bytes is announced")
        if at_hand < _HEADER.size:
            self._wanted = _HEADER.size
            return None
        (correlation_id,) = _INT32.unpack_from(data, position + SIZE_PREFIX_BYTES)
        if not self._in_flight:
            raise ProtocolError("broker_unasked", f"a response (correlation id {correlation_id}) without a request")
        expected = self._in_flight[0].correlation_id
        if correlation_id != expected:
            detail = f"correlation id {correlation_id} in place of {expected}"
            raise ProtocolError("broker_out_of_order", detail)
        return size

    def _begin(self, request: InFlight, size: int, now_ns: int) -> None:
        self._request = request
        self._size, self._left, self._walk = size, size - _ID_BYTES, request.response_walk
        key, version, addresses = request.api_key, request.api_version, self._policy.addresses
        if request.is_own or key in _WHOLE:
            if size > _MAX_WHOLE_BYTES:
                detail = f"a response of {size} bytes to {self._name(request)}, more than {_MAX_WHOLE_BYTES}"
                raise ProtocolError("broker_malformed", detail)
            self._front = bytearray()
        elif addresses is not None:
            if has_addresses(key, version):
                is_flexible = version >= PASSED[key].flexible_from
                self._rewriter = AddressSplice(addresses, self._needed_walk(request), flexible=is_flexible)
                self._front = bytearray()
            elif has_hidden_endpoints(key, version):
                self._needed_walk(request)
                self._rewriter = HiddenEndpoints(key, self._left)
        if request.response_bytes:
            self._front = bytearray()
        if self._front is None:
            self._sent(request, now_ns)

    def _needed_walk(self, request: InFlight) -> Walk:
        """The walk over the current response, with no limit on the number of fields."""
        if self._walk is None:
            layout = response_layout(request.api_key, request.api_version)
            assert layout is not None  # of every version that passes
            self._walk = Walk(layout.from_header)
        self._walk.is_bounded = False
        return self._walk

    def _sent(self, request: InFlight, now_ns: int) -> None:
        del self._in_flight[0]
        if self._judges and not request.is_own:
            self._policy.rules.sent(self._connection, request, self._size, now_ns)

    def _take(self, piece: bytes, request: InFlight, now_ns: int) -> None:
        """Takes bytes of a response that do not pass unchanged; the walk has had them."""
        rewriter = self._rewriter
        if rewriter is not None:
            assert self._walk is not None
            try:
                piece = rewriter.take(piece, self._walk)
            except UnreadableError as error:
                raise self._malformed(request, f": {error}") from None
            if rewriter.is_done:
                self._end_rewriting(request)
        if self._front is not None:
            self._front += piece
            if self._is_at_hand(request, self._front):
                self._decide(request, self._front, now_ns)
            if self.kept_bytes > self._max_kept_bytes:
                share = f"a connection's share of queued.max.response.bytes is {self._max_kept_bytes}"
                detail = f"{self.kept_bytes} bytes of the response to {self._name(request)} are kept, {share}"
                raise ProtocolError(CloseReason.RESPONSE_BUFFERS_FULL, detail)
        elif piece and not self._drops:
            self.output.append(piece)

    def _end_rewriting(self, request: InFlight) -> None:
        self._rewriter = None
        if request.response_walk is None:
            self._walk = None
        else:
            request.response_walk.bound()

    def _end(self, request: InFlight) -> None:
        if self._front is not None or self._rewriter is not None:
            raise self._malformed(request)
        self._request, self._walk, self._drops = None, None, False

    def _body_at(self, request: InFlight, front: bytearray) -> int | None:
        """Offset of the body, after tagged fields of the header; None if they have not arrived."""
        if request.api_version < PASSED[request.api_key].flexible_from or request.api_key == API_VERSIONS:
            return 0
        if front[:1] == b"\0":
            return 1
        try:
            return skip_tagged_fields(bytes(front[:_MAX_WHOLE_BYTES]), 0)
        except ENDS_WITHIN:
            if not self._left or len(front) >= _MAX_WHOLE_BYTES:
                raise self._malformed(request) from None
            return None

    def _is_at_hand(self, request: InFlight, front: bytearray) -> bool:
        """True if enough of the response has arrived to replace a part."""
        kept = 0 if self._rewriter is None else self._rewriter.kept_bytes
        if self._left == 0 and not kept:
            return True
        if isinstance(self._rewriter, AddressSplice) or request.is_own or request.api_key in _WHOLE:
            return False
        body = self._body_at(request, front)
        return body is not None and len(front) - body >= _shown_bytes(request)

    def _decide(self, request: InFlight, front: bytearray, now_ns: int) -> None:
        """Replaces the parts of a response's beginning that must be replaced, and passes it."""
        if request.is_own:
            self._take_own(bytes(front))
        else:
            try:
                self._replace(request, front, now_ns)
            except ENDS_WITHIN:
                raise self._malformed(request) from None
            size = _ID_BYTES + len(front)
            if not self._drops:
                size += self._left + (0 if self._rewriter is None else self._rewriter.kept_bytes)
            self.output.append(b"".join((_HEADER.pack(size, request.correlation_id), front)))
        self._front = None
        self._sent(request, now_ns)

    def _replace(self, request: InFlight, front: bytearray, now_ns: int) -> None:
        body = self._body_at(request, front)
        assert body is not None
        if request.api_key == API_VERSIONS:
            start, end, replacement = self._policy.api_versions(bytes(front), request.api_version)
            front[start:end] = replacement
            request.throttle_time_at = start + len(replacement)  # of versions that have one
        if request.response_bytes:
            self._ask_rules(request, front, body, now_ns)
        if request.api_key == SASL_AUTHENTICATE:
            self._read_sasl_answer(request, bytes(front), body)

    def _ask_rules(self, request: InFlight, front: bytearray, body: int, now_ns: int) -> None:
        shown = bytes(front[body : body + _shown_bytes(request)])
        walk = request.response_walk
        if walk is not None and walk.throttle_time_at is not None:
            request.throttle_time_at = walk.throttle_time_at - body
        patched = self._policy.rules.response(self._connection, request, self._size, shown, now_ns)
        if patched is None:
            return
        if patched.replaces_all:
            del front[body:]
            front += patched.body
            self._drops = True
            if self._rewriter is not None:
                self._end_rewriting(request)
        else:
            front[body : body + len(shown)] = patched.body

    def _read_sasl_answer(self, request: InFlight, frame: bytes, body: int) -> None:
        (error,) = _INT16.unpack_from(frame, body)
        claim, sasl = request.claim, self._requests.sasl
        if error or claim is None or sasl is None:
            return
        is_flexible = request.api_version >= 2
        _, at = read_text(frame, body + 2, flexible=is_flexible)  # error message
        if is_flexible:
            length, at = read_uvarint(frame, at)
            length -= 1
        else:
            (length,) = _INT32.unpack_from(frame, at)
            at += 4
        principal = sasl.taken(claim, has_answer=length > 0)
        if principal is not None:
            self._connection.principal = principal

    def _malformed(self, request: InFlight, problem: str = "") -> ProtocolError:
        detail = f"the response to {self._name(request)} does not follow its schema{problem}"
        return ProtocolError("broker_malformed", detail)

    def _name(self, request: InFlight) -> str:
        whose = "the gateway's own " if request.is_own else ""
        return f"{whose}{PASSED[request.api_key].name} v{request.api_version}"


_WHOLE: Final = frozenset({API_VERSIONS, SASL_AUTHENTICATE})
"""Responses that are read as a whole."""


def _shown_bytes(request: InFlight) -> int:
    """Most bytes of the body that the rules get [B]."""
    asked = request.response_bytes
    return MAX_BODY_BYTES if asked == WHOLE_FRAME else min(asked, MAX_BODY_BYTES)
