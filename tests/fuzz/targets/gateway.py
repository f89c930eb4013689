"""`gateway`'s two streams: any bytes of client and broker end in `ProtocolError` at most, and in any pieces alike."""

from collections.abc import Iterator
from contextlib import suppress

from fuzz.target import Target
from support.gateway.gateway_traffic import Relay, produce, request, response

from fleetgauge.base.varint import encode_varint
from fleetgauge.gateway.apis import API_VERSIONS
from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.quotas.mutations import STRICT_SINCE, MutationRequest
from fleetgauge.gateway.requests.layout import request_layout, response_layout
from fleetgauge.gateway.requests.walk import Walk
from fleetgauge.gateway.rules import WHOLE_FRAME, ClientConnection, More, NoRules, RequestVerdict
from fleetgauge.wire.errors import ProtocolError

MAX_REQUEST_BYTES = 1 << 16
_LEAST_ADDRESS_BYTES = 9
_REPLACED_BYTES = 24
"""A node id, a port and the longest host of `_relay`."""
_ANNOUNCED = (0, 1, 99_999, 1 << 20, (1 << 31) - 1, (1 << 32) - 1)
"""Lengths of arrays, as far as they fit in their prefix."""


class _Curious(NoRules):
    """Rules that look at everything and change nothing."""

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        request.response_bytes = WHOLE_FRAME if request.api_key == 0 else 4
        if request.note is None:
            request.note = "seen"
            self._look(request)
            if request.size > 100 or request.api_key in STRICT_SINCE:
                return More(WHOLE_FRAME)
        if request.api_key in STRICT_SINCE:
            with suppress(ProtocolError, LookupError):
                MutationRequest(request, body, lambda topic: None)
        return None

    def _look(self, request: InFlight) -> None:
        key, version = request.api_key, request.api_version
        if key != API_VERSIONS:
            asked, answered = request_layout(key, version), response_layout(key, version)
            request.request_walk = None if asked is None else Walk(asked.from_header, read_batches=True)
            request.response_walk = None if answered is None else Walk(answered.from_header)


def _relay(curious: bool, *, takes_turns: bool = False) -> Relay:
    rules = _Curious() if curious else None
    may_go_on = (lambda: False) if takes_turns else (lambda: True)
    nodes = ("1=gateway:1", "*=g{id}:2+id")
    return Relay(nodes, rules=rules, max_request_bytes=MAX_REQUEST_BYTES, may_go_on=may_go_on)


def _from_broker(relay: Relay, part: bytes) -> bytes:
    """What the client gets for these bytes, however many turns they take."""
    got = relay.from_broker(part)
    while relay.responses.turn_is_over:
        relay.responses.turn_is_over = False
        got += relay.from_broker(b"")
    return got


def _talk(relay: Relay, data: bytes, step: int) -> tuple[bytes, bytes, str]:
    """Feeds what the bytes say: for each piece a direction and a length; returns what passed, and the error."""
    to_broker = to_client = b""
    position = 0
    try:
        while position + 3 <= len(data):
            is_client, size = data[position] & 1, int.from_bytes(data[position + 1 : position + 3])
            piece = data[position + 3 : position + 3 + size]
            position += 3 + size
            for at in range(0, len(piece), step or max(len(piece), 1)):
                part = piece[at : at + step] if step else piece
                if is_client:
                    to_broker += relay.from_client(part)
                else:
                    to_client += _from_broker(relay, part)
            for in_flight, _ in relay.served:
                in_flight.local = b"own"
            to_client += _from_broker(relay, b"")
            to_broker += relay.from_client(b"")
    except ProtocolError as error:
        return to_broker, to_client, error.reason
    return to_broker, to_client, ""


def run(data: bytes) -> None:
    for curious in (False, True):
        whole = _talk(_relay(curious), data, 0)
        relay = _relay(curious, takes_turns=True)
        pieces = _talk(relay, data, 5)
        assert whole[2] == pieces[2], "pieces make a difference"
        if not whole[2]:
            assert whole == pieces
        assert relay.requests.kept_bytes <= len(data)
        assert relay.responses.kept_bytes <= 2 * len(data) + _REPLACED_BYTES * len(data) // _LEAST_ADDRESS_BYTES


def _turns(*turns: tuple[bool, bytes]) -> bytes:
    return b"".join(bytes([is_client]) + len(piece).to_bytes(2) + piece for is_client, piece in turns)


def _seeds() -> Iterator[bytes]:
    broker = b"\0\0\0\x01\x07broker\0\0\x23\x84\0\0"
    metadata = response(3, 9, 1, b"\0\0\0\0\x02" + broker + b"\0\0\0\0\x01\x01\x00")
    push = request(72, 0, 2, bytes(16) + b"\0\0\0\x05\0\0\x01\x00")
    yield _turns((True, request(3, 9, 1, b"\x00\x01\x00\x00") + push), (False, metadata))
    yield _turns(
        (True, produce(4, 0, b"r" * 50) + produce(5, 1, b"r" * 200)), (False, response(0, 9, 5, b"\x01\0\0\0\0\0"))
    )
    apis = b"\0\0\x03\0\0\0\0\0\x0d\0\0\x03\0\0\0\x0d\0\0\0\0\0\x00"
    yield _turns((True, request(18, 3, 1, b"\x05java\x064.4.0\x00")), (False, response(18, 3, 1, apis)))
    coordinator = b"\0\0\0\0\x02\x04key\0\0\0\x01\x07broker\0\0\x23\x84\0\0\x01\0\0"
    yield _turns((True, request(10, 4, 1, b"\x00\x02\x04key\x00")), (False, response(10, 4, 1, coordinator)))
    produced = (
        b"\x02\x02t\x02" + bytes(30) + b"\x01\x00\x00\x00\0\0\0\0\x01\x00\x13\x02\0\0\0\x01\x07broker\0\0\x23\x84\0\0"
    )
    yield _turns((True, produce(1, 1, version=10)), (False, response(0, 10, 1, produced)))
    handshake, token = request(17, 1, 1, b"\x00\x05PLAIN"), request(36, 2, 2, b"\x09\0alice\0p\x00")
    yield _turns(
        (True, handshake),
        (False, response(17, 1, 1, b"\0\0")),
        (True, token),
        (False, response(36, 2, 2, b"\0\0\0\x01\0")),
    )
    cluster = bytes(6) + b"\x00\x01\x03id\0\0\0\x01\x02" + broker[:-1] + b"\0\x00\0" + b"\0\0\0\0\x00"
    yield _turns((True, request(60, 2, 1, b"\x00\x01\x00")), (False, response(60, 2, 1, cluster)))
    yield from _announced()


def _announced() -> Iterator[bytes]:
    """Responses that are rewritten, and requests that are walked over, with arrays of any announced length."""
    heads = {(3, 9): 4, (10, 4): 4, (60, 2): 17, (0, 10): 0, (0, 13): 0, (1, 16): 10, (78, 2): 11, (18, 3): 2}
    for (key, version), size in heads.items():
        sent = produce(1, 1, version=version) if key == 0 else request(key, version, 1, b"")
        for count in _ANNOUNCED:
            head = bytes(6) + b"\0\0\x01" + bytes(8) if key == 60 else bytes(size)
            body = head + encode_varint(count) + b"\x01\x02\x03abcdefghijklmnopqrst" * 8
            yield _turns((True, sent), (False, response(key, version, 1, body)))
    for key, version in ((19, 7), (20, 6), (37, 3)):
        for count in _ANNOUNCED:
            yield _turns((True, request(key, version, 1, encode_varint(count) + b"\x02t" + bytes(60))))
    for count in _ANNOUNCED[:-1]:
        body = b"\xff\xff\0\x01\0\0\0\0" + count.to_bytes(4) + b"\0\x01t" + count.to_bytes(4)
        yield _turns((True, request(0, 8, 1, body)), (False, response(0, 8, 1, count.to_bytes(4) + bytes(60))))


TARGET = Target(run=run, seeds=_seeds, max_bytes=4_096, memory_bytes=2 << 20, steps_per_byte=400)
