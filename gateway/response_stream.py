"""The bytes from the broker to a client. No I/O.

Each response is matched with the oldest request in flight; answers of the gateway itself take their turn among those of
the broker. Bodies pass as they arrive, except for the few parts that the gateway replaces.
"""

import struct
from collections.abc import Callable
from typing import Final

from gateway.apis import API_VERSIONS, PASSED, SASL_AUTHENTICATE
from gateway.hidden_endpoints import HiddenEndpoints, has_hidden_endpoints
from gateway.in_flight import InFlight
from gateway.policy import ENDS_WITHIN, KeptBytes, Policy, ShortError, next_try
from gateway.request_stream import RequestStream
from gateway.requests.walk import Walk
from gateway.rules import MAX_BODY_BYTES, WHOLE_FRAME, ClientConnection, NoRules
from gateway.splices import read_text
from wire.errors import ProtocolError
from wire.frames import SIZE_PREFIX_BYTES
from wire.request_reader import read_uvarint, skip_tagged_fields

_HEADER: Final = struct.Struct(">ii")
"""Size and correlation id."""
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_MAX_OWN_BYTES: Final = 64 * 1024
"""Longest answer to a request of the gateway itself [B]."""
_MAX_FRONT_BYTES: Final = 16 << 20
"""Most bytes of a response that are collected for a part that is replaced [B]: brokers of Metadata, or a whole Produce
response."""


class ResponseStream:
    """The responses to one client connection.

    Args:
        policy: shared by all connections.
        connection: the client's; its principal is set here.
        in_flight: as in `RequestStream`; taken from here.
        requests: the other direction.
        take_own: takes the body of the answer to a request of the gateway itself.

    Attributes:
        output: bytes for the client, in order; the caller takes them.
        mute_ms: as in `RequestStream`.
    """

    __slots__ = (
        "_connection",
        "_drops",
        "_hiding",
        "_in_flight",
        "_judges",
        "_kept",
        "_left",
        "_policy",
        "_requests",
        "_take_own",
        "_walk",
        "_wanted",
        "mute_ms",
        "output",
    )

    def __init__(
        self,
        policy: Policy,
        connection: ClientConnection,
        in_flight: list[InFlight],
        requests: RequestStream,
        take_own: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        self._take_own = take_own
        self._policy = policy
        self._judges = type(policy.rules) is not NoRules
        self._connection = connection
        self._in_flight = in_flight
        self._requests = requests
        self.output: list[bytes] = []
        self.mute_ms = 0
        self._kept = KeptBytes()
        self._wanted = 0
        self._left = 0  # of the response under way
        self._drops = False  # these bytes are not for the client
        self._walk: Walk | None = None  # over the response under way
        self._hiding: HiddenEndpoints | None = None  # the same

    @property
    def awaits_local(self) -> bool:
        """True if the next answer is the gateway's, and not made yet: nothing is read from the broker meanwhile."""
        return bool(self._in_flight) and self._in_flight[0].local == b"" and self._left == 0

    @property
    def is_cut(self) -> bool:
        """True within a response."""
        return self._left > 0 or len(self._kept) > 0

    def receive(self, data: bytes, now_ns: int) -> None:
        """Takes the next bytes; empty ones when an answer of the gateway has been made.

        Raises:
            ProtocolError: the stream is malformed, or its answers are not in the order of requests.
        """
        joined = self._kept.join(data)
        if joined is None:
            return
        data, end = joined, len(joined)
        position = self._continue(data)
        if self._left:
            return
        start = position if self._drops or self._hiding is not None else 0
        in_flight = self._in_flight
        while not self._left:
            if in_flight and in_flight[0].local is not None:
                self._pass(data, start, position)
                start = position
                if self._release(now_ns):
                    continue
                self._wanted = 0
                break
            if position >= end:
                break
            self._drops = False
            self._hiding = None
            size = self._match(data, position)
            front = self._front(data, position, size, now_ns) if size > 0 else None
            if front is None:
                break
            frame_end = position + SIZE_PREFIX_BYTES + size
            consumed, replacement = front
            if self._hides(in_flight[0]) or consumed:
                self._pass(data, start, position)
                start = self._begin(in_flight[0], data, position, frame_end, consumed, replacement)
            self._begin_walk(in_flight[0], data, position, frame_end)
            del in_flight[0]
            position = min(frame_end, end)
            self._left = frame_end - position
        self._pass(data, start, position)
        if position < end:
            self._kept.keep(data, position, self._wanted)

    def _continue(self, data: bytes) -> int:
        """Takes what `data` has of the response under way; returns where the next one begins."""
        end = min(self._left, len(data))
        self._left -= end
        if end and self._walk is not None:
            self._walk.feed(data if end == len(data) else data[:end])
            if not self._left:
                self._walk = None  # it keeps the request
        if self._hiding is not None:
            passed = self._hiding.feed(data[:end])
            self._pass(passed, 0, len(passed))
            return end
        if self._left and not self._drops:
            self._pass(data, 0, end)
        return end

    def close(self) -> None:
        """See `RequestStream.close`."""
        del self._connection, self._take_own

    def release(self) -> None:
        """Puts out the gateway's own answers that are due, of a connection that is about to end."""
        in_flight = self._in_flight
        while not self.is_cut and in_flight and in_flight[0].local:
            self.output.append(in_flight[0].local)
            del in_flight[0]

    def _own(self, data: bytes, position: int, size: int) -> tuple[int, bytes] | None:
        """`_front` for the answer to a request of the gateway itself: nothing of it is for the client."""
        whole = SIZE_PREFIX_BYTES + size
        if size > _MAX_OWN_BYTES:
            raise ProtocolError("broker_malformed", f"a response of {size} bytes to the gateway's own request")
        if len(data) - position < whole:
            self._wanted = whole
            return None
        self._take_own(data[position + _HEADER.size : position + whole])
        return whole, b""

    def _hides(self, request: InFlight) -> bool:
        hides = self._policy.hides_endpoints and not self._drops
        return hides and has_hidden_endpoints(request.api_key, request.api_version)

    def _begin(
        self, request: InFlight, data: bytes, position: int, frame_end: int, consumed: int, replacement: bytes
    ) -> int:
        """Passes the beginning of a response that is not passed as it is; returns where the rest begins."""
        if not self._hides(request):
            self._pass(replacement, 0, len(replacement))
            return position + consumed
        front = replacement or data[position : position + _HEADER.size]
        rest = data[position + (consumed or _HEADER.size) : frame_end]
        size = frame_end - position - consumed + len(replacement) - _HEADER.size
        self._hiding = HiddenEndpoints(request.api_key, request.api_version, size)
        passed = front[: _HEADER.size] + self._hiding.feed(front[_HEADER.size :] + rest)
        self._pass(passed, 0, len(passed))
        return min(frame_end, len(data))

    def _begin_walk(self, request: InFlight, data: bytes, position: int, frame_end: int) -> None:
        walk = request.response_walk
        if walk is not None:
            walk.feed(data[position + _HEADER.size : frame_end])
            self._walk = walk if frame_end > len(data) else None

    def _pass(self, data: bytes, start: int, end: int) -> None:
        if start < end:
            self.output.append(data if end - start == len(data) else data[start:end])

    def _release(self, now_ns: int) -> bool:
        """Passes on the gateway's own answer, if it is made."""
        request = self._in_flight[0]
        if not request.local:
            return False
        self.output.append(request.local)
        del self._in_flight[0]
        if self._judges:
            self._policy.rules.sent(self._connection, request, len(request.local) - SIZE_PREFIX_BYTES, now_ns)
        return True

    def _match(self, data: bytes, position: int) -> int:
        """Returns the size of the response at `position`, or -1 if its header is not at hand."""
        if len(data) - position < _HEADER.size:
            self._wanted = _HEADER.size
            return -1
        size: int
        size, correlation_id = _HEADER.unpack_from(data, position)
        if not self._in_flight:
            raise ProtocolError("broker_unasked", f"a response (correlation id {correlation_id}) without a request")
        expected = self._in_flight[0].correlation_id
        if correlation_id != expected:
            detail = f"correlation id {correlation_id} in place of {expected}"
            raise ProtocolError("broker_out_of_order", detail)
        if size < SIZE_PREFIX_BYTES:
            raise ProtocolError("broker_malformed", f"a response of {size} bytes is announced")
        return size

    def _front(self, data: bytes, position: int, size: int, now_ns: int) -> tuple[int, bytes] | None:
        """Returns how many bytes of the response are replaced, from its size prefix on, and by what.

        Returns None, and sets `_wanted`, if more of it is needed.
        """
        request = self._in_flight[0]
        if request.is_own:
            return self._own(data, position, size)
        is_plain = not request.response_bytes and request.api_key != SASL_AUTHENTICATE
        if is_plain and request.api_key not in self._policy.splicers:
            front = 0, b""
        else:
            whole = SIZE_PREFIX_BYTES + size
            at_hand = min(len(data) - position, whole)
            try:
                front = self._replaced(request, data[position : position + at_hand], whole, now_ns)
            except ShortError as short:
                wanted = short.wanted
            except ENDS_WITHIN:
                wanted = next_try(at_hand)
            else:
                wanted = 0
            if wanted:
                if at_hand == whole:
                    name = PASSED[request.api_key].name
                    detail = f"the response to {name} v{request.api_version} does not follow its schema"
                    raise ProtocolError("broker_malformed", detail)
                if at_hand > _MAX_FRONT_BYTES:
                    raise ProtocolError("broker_malformed", f"a response of {size} bytes cannot be rewritten")
                self._wanted = min(wanted, whole)
                return None
        if self._judges:
            self._policy.rules.sent(self._connection, request, size, now_ns)
        return front

    def _replaced(self, request: InFlight, frame: bytes, whole: int, now_ns: int) -> tuple[int, bytes]:
        """`_front` for a response whose first bytes are `frame`, of `whole` bytes in all."""
        policy = self._policy
        is_flexible = request.api_version >= PASSED[request.api_key].flexible_from
        body = _HEADER.size
        if is_flexible and request.api_key != API_VERSIONS:
            body = skip_tagged_fields(frame, body)
        consumed, front = body, frame[:body]
        splicer = policy.splicers.get(request.api_key)
        if splicer is not None:
            splice = splicer(frame, body, request.api_version)
            consumed, front = splice.end, frame[: splice.start] + splice.replacement
        if request.response_bytes:
            consumed, front = self._ask_rules(request, frame, whole, body, consumed, front, now_ns)
        if request.api_key == SASL_AUTHENTICATE:
            self._read_sasl_answer(request, frame, body)
        return consumed, _INT32.pack(whole - consumed + len(front) - SIZE_PREFIX_BYTES) + front[SIZE_PREFIX_BYTES:]

    def _ask_rules(
        self, request: InFlight, frame: bytes, whole: int, body: int, consumed: int, front: bytes, now_ns: int
    ) -> tuple[int, bytes]:
        asked = request.response_bytes
        most = MAX_BODY_BYTES if asked == WHOLE_FRAME else min(asked, MAX_BODY_BYTES)
        missing = min(body + most - len(front), whole - consumed)
        if missing > 0:
            if consumed + missing > len(frame):
                raise ShortError(consumed + missing)
            front += frame[consumed : consumed + missing]
            consumed += missing
        shown = front[body : body + most]
        size = whole - SIZE_PREFIX_BYTES
        patched = self._policy.rules.response(self._connection, request, size, shown, now_ns)
        if patched is not None:
            self.mute_ms = max(self.mute_ms, patched.mute_ms)
            if patched.replaces_all:
                front = front[:body] + patched.body
                self._drops = True
                return whole, front
            front = front[:body] + patched.body + front[body + len(shown) :]
        return consumed, front

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
