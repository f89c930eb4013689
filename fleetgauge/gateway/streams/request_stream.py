"""The bytes from a client to the broker. No I/O.

Frames are cut by their length, and their headers are read. Bodies pass as they arrive; they are collected only where
the gateway answers itself, or reads a user or a software name.
"""

import struct
from collections.abc import Callable, MutableMapping
from typing import Final

from fleetgauge.base.software import MAX_KEPT_CHARACTERS, is_valid_software
from fleetgauge.base.varint import UnreadableError, read_uvarint
from fleetgauge.gateway.apis import API_VERSIONS, PASSED, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.messages.walk import Walk
from fleetgauge.gateway.policy import ENDS_WITHIN, TELEMETRY, KeptBytes, Policy, ShortError, next_try, pass_on
from fleetgauge.gateway.responses.splices import read_text, unsupported_api_versions
from fleetgauge.gateway.rules import MAX_BODY_BYTES, WHOLE_FRAME, Answer, ClientConnection, More, NoRules, Rewrite
from fleetgauge.gateway.sasl import SaslGate, SaslWitness
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.frames import SIZE_PREFIX_BYTES, unknown_protocol
from fleetgauge.wire.messages.request_reader import skip_tagged_fields

# size, api key, api version, correlation id, length of the client id
_HEADER: Final = struct.Struct(">ihhih")
_MIN_REQUEST_BYTES: Final = _HEADER.size - SIZE_PREFIX_BYTES
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_MAX_SMALL_BYTES: Final = 64 * 1024
"""Largest ApiVersions and SaslHandshake request [B], which are collected."""
_MAX_SASL_BYTES: Final = 512 * 1024
"""Largest SaslAuthenticate request [B]: Kafka's default of `sasl.server.max.receive.size`."""
_MAX_HEADER_BYTES: Final = 128 * 1024
"""Longest header, up to the acks of a Produce: client id and transactional id have at most 32 kB each [B]."""

Serve = Callable[[InFlight, bytes], None]
"""Answers a request by itself, now or later; the second argument is its frame without size prefix."""


class RequestStream:
    """The requests of one client connection.

    Args:
        policy: shared by all connections.
        connection: the client's; its software is set here.
        in_flight: requests that await their answer, oldest first; appended to here.
        serve: answers telemetry requests, and those of SASL where it ends here.
        counts: number of requests by api key; counted here.
        may_go_on: called after each request that others follow in the same bytes; False ends the connection's turn.
        ends_sasl: True if SASL ends here: a client's exchange does not pass.
        gate: which requests the client may send; None if it does not authenticate here.

    Attributes:
        output: bytes for the broker, in order; the caller takes them.
        turn_is_over: True if requests wait for the next turn; no request is handled until the caller resets it.
        mutes: no request is handled while it is above 0.
        sasl: the exchange of a client that authenticates.
    """

    __slots__ = (
        "_asked",
        "_connection",
        "_counts",
        "_drops",
        "_ends_sasl",
        "_gate",
        "_in_flight",
        "_judges",
        "_kept",
        "_left",
        "_may_go_on",
        "_pending",
        "_policy",
        "_serve",
        "_under_way",
        "_walk",
        "_wanted",
        "mutes",
        "output",
        "sasl",
        "turn_is_over",
    )

    def __init__(
        self,
        policy: Policy,
        connection: ClientConnection,
        in_flight: list[InFlight],
        serve: Serve,
        counts: MutableMapping[int, int],
        may_go_on: Callable[[], bool] = lambda: True,
        *,
        ends_sasl: bool = False,
        gate: SaslGate | None = None,
    ) -> None:
        self._ends_sasl = ends_sasl
        self._gate = gate
        self._policy = policy
        self._may_go_on = may_go_on
        self._counts = counts
        self._judges = type(policy.rules) is not NoRules
        self._connection = connection
        self._in_flight = in_flight
        self._serve = serve
        self.output: list[bytes] = []
        self.mutes = 0
        self.turn_is_over = False
        self.sasl: SaslWitness | None = None
        self._kept = KeptBytes()
        self._wanted = 0
        self._left = 0  # of the frame under way
        self._under_way: InFlight | None = None  # the request of that frame
        self._drops = False  # these bytes are not for the broker
        self._walk: Walk | None = None  # over the frame under way
        self._pending: InFlight | None = None  # the header is read, more is needed
        self._asked = 0  # what the rules wanted of its body

    @property
    def is_held(self) -> bool:
        """True if no further request is handled now."""
        if self.mutes > 0 or self.turn_is_over:
            return True
        return len(self._in_flight) >= self._policy.max_in_flight

    @property
    def wants_bytes(self) -> bool:
        """True if the client is to be read from: also for the rest of the request that a hold began with."""
        return self._left > 0 or not self.is_held

    @property
    def is_within(self) -> bool:
        """True if the rest of a request has yet to pass: nothing else can be written to the broker."""
        return self._left > 0

    @property
    def is_within_unanswered(self) -> bool:
        """True if that request has no response."""
        return self._under_way is not None and not self._under_way.is_answered

    @property
    def kept_bytes(self) -> int:
        """Size of the bytes kept for later [B]."""
        return len(self._kept)

    @property
    def is_cut(self) -> bool:
        """True if the stream would end within a request."""
        return self._left > 0 or len(self._kept) > 0

    def receive(self, data: bytes, now_ns: int) -> None:
        """Takes the next bytes; empty ones to continue after a hold.

        Raises:
            ProtocolError: the stream is malformed, or has a request that does not pass.
        """
        joined = self._kept.join(data)
        if joined is None:
            return
        data, end = joined, len(joined)
        if self._left >= end:
            self._left -= end
            if end and not self._drops:
                self.output.append(data)
            self._feed(data)
            if not self._left:
                self._under_way = None
            return
        position = self._left
        start = position if self._drops else 0
        self._left, self._drops, self._under_way = 0, False, None
        self._feed(data[:position])
        while position < end:
            judged = self._judge(data, position, now_ns)
            if judged is None:
                self._kept.keep(data, position, self._wanted)
                break
            request, replacement = judged
            frame_end = position + SIZE_PREFIX_BYTES + request.size
            if replacement is not None:
                pass_on(self.output, data, start, position)
                pass_on(self.output, replacement, 0, len(replacement))
                start = min(frame_end, end)
            self._accept(request, data, position)
            position = min(frame_end, end)
            if frame_end > end:
                self._left, self._drops, self._under_way = frame_end - end, replacement is not None, request
            self.turn_is_over = position < end and not self._may_go_on()
        pass_on(self.output, data, start, position)

    def end(self) -> None:
        """Records that no more bytes come. A request that is cut off is no longer awaited, since the broker never
        answers it.
        """
        request = self._under_way
        if request is not None and request.local is None and request in self._in_flight:
            self._in_flight.remove(request)

    def close(self) -> None:
        """Drops references to the ended connection, so that it is freed at once without waiting for the garbage
        collector. No bytes can be taken any more.
        """
        del self._connection, self._serve, self._may_go_on
        self._gate = None

    def _feed(self, data: bytes) -> None:
        """Passes the next bytes to the walk over the current frame; `_left` bytes follow them."""
        if self._walk is not None:
            self._walk.feed(data)
            if not self._left:
                self._walk = None

    def _accept(self, request: InFlight, data: bytes, position: int) -> None:
        self._counts[request.api_key] += 1
        walk = request.request_walk
        if walk is not None:
            (id_length,) = _INT16.unpack_from(data, position + _HEADER.size - 2)
            body, end = position + _HEADER.size + max(id_length, 0), position + SIZE_PREFIX_BYTES + request.size
            walk.feed(data[body:end])
            self._walk = walk if end > len(data) else None
        if request.is_answered:
            self._in_flight.append(request)
        if request.local == b"":
            start = position + SIZE_PREFIX_BYTES
            self._serve(request, data[start : start + request.size])

    def _judge(self, data: bytes, position: int, now_ns: int) -> tuple[InFlight, bytes | None] | None:
        """Returns the request at `position` and its bytes for the broker: None for unchanged, empty for none. Returns
        None, and sets `_wanted`, if more of the frame is needed, or if requests are held.
        """
        if self.is_held:
            self._wanted = 0
            return None
        at_hand = len(data) - position
        request = self._pending
        try:
            if request is None:
                request = self._pending = self._read_header(data, position, now_ns)
            replacement = self._decide(request, data, position, now_ns)
        except ShortError as short:
            wanted = short.wanted
        except ENDS_WITHIN:
            wanted = next_try(at_hand)
            if at_hand > _MAX_HEADER_BYTES:
                detail = f"the header takes more than {_MAX_HEADER_BYTES} bytes"
                raise ProtocolError("malformed_header", detail) from None
        else:
            self._pending = None
            return request, replacement
        if request is not None:
            whole = SIZE_PREFIX_BYTES + request.size
            if at_hand >= whole:
                raise ProtocolError("malformed_request", f"{self._name(request)} does not follow its schema")
            wanted = min(wanted, whole)
        self._wanted = wanted
        return None

    def _decide(self, request: InFlight, data: bytes, position: int, now_ns: int) -> bytes | None:
        """Bytes that are passed in place of the request: None for the request itself, empty bytes for nothing."""
        key = request.api_key
        if key == PRODUCE:
            self._read_acks(request, data, position)
        replacement = None
        if self._judges and (key in _BEFORE_SASL or self._is_accepted):
            replacement = self._ask_rules(request, data, position, now_ns)
        if replacement is None and (key in _COLLECTED or (key in TELEMETRY and self._policy.answers_telemetry)):
            return self._collected(request, data, position)
        return replacement

    def _read_header(self, data: bytes, position: int, now_ns: int) -> InFlight:
        policy, at_hand = self._policy, len(data) - position
        if at_hand < SIZE_PREFIX_BYTES:
            raise ShortError(SIZE_PREFIX_BYTES)
        (size,) = _INT32.unpack_from(data, position)
        if not _MIN_REQUEST_BYTES <= size <= policy.max_request_bytes:
            raise _wrong_size(size, policy.max_request_bytes, data[position : position + SIZE_PREFIX_BYTES])
        if at_hand < _HEADER.size:
            raise ShortError(_HEADER.size)
        _, key, version, correlation_id, id_length = _HEADER.unpack_from(data, position)
        api = PASSED.get(key)
        if api is None or key in policy.withheld:
            raise ProtocolError("unknown_api_key", f"api key {key} (version {version}) does not pass the gateway")
        if not api.min_version <= version <= api.max_version and key != API_VERSIONS:
            passed = f"those from {api.min_version} to {api.max_version} pass the gateway"
            raise ProtocolError("unsupported_version", f"version {version} of {api.name} ({key}); {passed}")
        if self._gate is not None:
            self._gate.admit(key)
        start = position + _HEADER.size
        end = start + id_length if id_length > 0 else start
        if id_length > size - _MIN_REQUEST_BYTES:
            raise ProtocolError("malformed_header", f"a client id of {id_length} bytes in a frame of {size}")
        if end > len(data):
            raise ShortError(end - position)
        return InFlight(key, version, correlation_id, str(data[start:end], "utf-8", "replace"), size, now_ns)

    def _body(self, request: InFlight, data: bytes, position: int) -> int:
        """Offset of the request's body."""
        (id_length,) = _INT16.unpack_from(data, position + _HEADER.size - 2)
        start = position + _HEADER.size + max(id_length, 0)
        api = PASSED[request.api_key]
        return skip_tagged_fields(data, start) if request.api_version >= api.flexible_from else start

    def _read_acks(self, request: InFlight, data: bytes, position: int) -> None:
        """Sets whether a Produce has a response: not with acks=0."""
        body = self._body(request, data, position)
        if request.api_version >= 3:
            _, body = read_text(data, body, flexible=request.api_version >= 9)
        (acks,) = _INT16.unpack_from(data, body)
        if body + 2 > position + SIZE_PREFIX_BYTES + request.size:
            raise ProtocolError("malformed_request", "a Produce without acks")
        request.is_answered = acks != 0

    @property
    def _is_accepted(self) -> bool:
        """True if the broker has accepted the client, or requires no SASL.

        Until then its requests are charged to no quota, which others share: the broker refuses them.
        """
        return not self._policy.requires_sasl or (self.sasl is not None and self.sasl.is_accepted)

    def _ask_rules(self, request: InFlight, data: bytes, position: int, now_ns: int) -> bytes | None:
        rules = self._policy.rules
        frame_end = position + SIZE_PREFIX_BYTES + request.size
        while True:
            body, body_at = b"", position
            if self._asked:
                body_at = self._body(request, data, position)
                if body_at > frame_end:
                    raise UnreadableError("a header beyond its frame")
                most = MAX_BODY_BYTES if self._asked == WHOLE_FRAME else min(self._asked, MAX_BODY_BYTES)
                end = min(body_at + most, frame_end)
                if end > len(data):
                    raise ShortError(end - position)
                body = data[body_at:end]
            verdict = rules.request(self._connection, request, body, now_ns)
            if not isinstance(verdict, More):
                break
            self._asked = verdict.body_bytes
        self._asked = 0
        if verdict is None:
            return None
        if isinstance(verdict, Answer):
            request.local = verdict.response or None
            request.is_answered = bool(verdict.response)
            return b""
        assert isinstance(verdict, Rewrite)
        header = data[position + SIZE_PREFIX_BYTES : body_at]
        return _INT32.pack(len(header) + len(verdict.body)) + header + verdict.body

    def _collected(self, request: InFlight, data: bytes, position: int) -> bytes | None:
        """Handles a request that is read as a whole; returns empty bytes if it is not for the broker."""
        most = self._max_collected_bytes(request.api_key)
        if request.size > most:
            raise ProtocolError("frame_too_large", f"{self._name(request)} of {request.size} bytes, more than {most}")
        whole = SIZE_PREFIX_BYTES + request.size
        if len(data) - position < whole:
            raise ShortError(whole)
        if request.api_key in TELEMETRY:
            if not self._is_accepted:
                raise ProtocolError("not_authenticated", f"{self._name(request)} before a SASL exchange")
            request.local = b""
            return b""
        if request.api_key == API_VERSIONS and request.api_version > PASSED[API_VERSIONS].max_version:
            request.local = unsupported_api_versions(request.correlation_id)
            return b""
        frame = data[position : position + whole]
        body = self._body(request, frame, 0)
        if request.api_key == API_VERSIONS:
            self._read_software(request, frame, body)
            return None
        if request.api_key == SASL_HANDSHAKE and request.api_version == 0:
            detail = "SaslHandshake v0, whose tokens have no header, does not pass: use a client of Kafka 1.0 or later"
            raise ProtocolError("unsupported_version", detail)
        if self._ends_sasl:
            request.local = b""
            return b""
        self._read_sasl(request, frame, body)
        return None

    def _max_collected_bytes(self, api_key: int) -> int:
        if api_key in TELEMETRY:
            return self._policy.max_local_bytes
        if api_key == SASL_AUTHENTICATE:
            return _MAX_SASL_BYTES if self._gate is None else self._gate.max_receive_bytes
        return _MAX_SMALL_BYTES

    def _read_software(self, request: InFlight, frame: bytes, body: int) -> None:
        if request.api_version < 3:
            return
        name, body = read_text(frame, body, flexible=True)
        version, _ = read_text(frame, body, flexible=True)
        software = name.decode(errors="replace"), version.decode(errors="replace")
        if all(map(is_valid_software, software)):  # else the broker answers INVALID_REQUEST
            connection = self._connection
            connection.client_software_name = software[0][:MAX_KEPT_CHARACTERS]
            connection.client_software_version = software[1][:MAX_KEPT_CHARACTERS]

    def _read_sasl(self, request: InFlight, frame: bytes, body: int) -> None:
        if request.api_key == SASL_HANDSHAKE:
            mechanism, _ = read_text(frame, body, flexible=False)
            self.sasl = self.sasl or SaslWitness()
            self.sasl.begin(mechanism.decode(errors="replace"))
            return
        if self.sasl is None:
            return  # the broker refuses it
        if request.api_version >= 2:
            length, start = read_uvarint(frame, body)
            length -= 1
        else:
            (length,) = _INT32.unpack_from(frame, body)
            start = body + 4
        if not 0 <= length <= len(frame) - start:
            raise UnreadableError("a token beyond its frame")
        request.claim = self.sasl.token(frame[start : start + length])

    def _name(self, request: InFlight) -> str:
        api = PASSED[request.api_key]
        return f"{api.name} v{request.api_version}"


_COLLECTED: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
_BEFORE_SASL: Final = _COLLECTED
"""Requests that a broker answers before it has accepted a client."""


def _wrong_size(size: int, most: int, prefix: bytes) -> ProtocolError:
    looks = unknown_protocol(prefix)
    hint = f"; {looks}" if looks else ""
    if size < _MIN_REQUEST_BYTES:
        return ProtocolError("short_frame", f"a request of {size} bytes is announced{hint}")
    detail = f"a request of {size} bytes is announced, gateway.request.max.bytes is {most}{hint}"
    return ProtocolError("frame_too_large", detail)
