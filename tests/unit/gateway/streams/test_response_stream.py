"""The bytes from the broker to clients: order, what is replaced, what ends the connection."""

import struct

import pytest
from support.gateway.gateway_traffic import Relay, produce, request, response

from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.rules import WHOLE_FRAME, ClientConnection, NoRules, Patched, RequestVerdict
from fleetgauge.wire.errors import ProtocolError

FETCH = request(1, 15, 1, b"")


def push(correlation_id: int) -> bytes:
    return request(72, 0, correlation_id, bytes(16) + struct.pack(">iBb", 5, 0, 0) + b"\x01\x00")


def byte_by_byte(relay: Relay, data: bytes) -> None:
    for at in range(len(data)):
        relay.from_broker(data[at : at + 1])


def test_responses_pass_as_they_are() -> None:
    relay = Relay()
    relay.from_client(FETCH + FETCH)
    data = response(1, 15, 1, b"r" * 300_000) + response(1, 15, 1, b"x")
    assert relay.from_broker(data[:100_000]) == data[:100_000]
    assert relay.from_broker(data[100_000:]) == data[100_000:]
    assert not relay.in_flight


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_answers_of_the_gateway_take_their_turn(step: int) -> None:
    relay = Relay()
    relay.from_client(request(1, 15, 1, b"") + push(2) + request(1, 15, 3, b"") + push(4))
    first, second = response(1, 15, 1, b"a" * 50), response(1, 15, 3, b"b" * 50)
    data = first + second
    got = b"".join(relay.from_broker(data[at : at + step]) for at in range(0, len(data), step))
    assert got == first
    assert relay.responses.awaits_local
    relay.served[1][0].local = b"fourth"
    assert relay.from_broker(b"") == b""
    relay.served[0][0].local = b"second"
    assert relay.from_broker(b"") == b"second" + second + b"fourth"
    assert not relay.in_flight


def test_an_answer_of_the_gateway_does_not_cut_into_a_response() -> None:
    relay = Relay()
    relay.from_client(request(1, 15, 1, b"") + push(2))
    first = response(1, 15, 1, b"a" * 50)
    relay.served[0][0].local = b"second"
    assert relay.from_broker(first[:20]) == first[:20]
    assert relay.from_broker(b"") == b""
    assert relay.from_broker(first[20:]) == first[20:] + b"second"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (response(1, 15, 2, b""), "broker_out_of_order"),
        (struct.pack(">ii", 3, 1) + b"xxx", "broker_malformed"),
        (struct.pack(">ii", -5, 1) + b"xxx", "broker_malformed"),
        (struct.pack(">i", 0), "broker_malformed"),
        (struct.pack(">i", 3), "broker_malformed"),
        (response(1, 15, 1, b"") + response(1, 15, 1, b""), "broker_unasked"),
    ],
)
def test_a_broker_that_breaks_the_protocol_ends_the_connection(data: bytes, reason: str) -> None:
    relay = Relay()
    relay.from_client(FETCH)
    with pytest.raises(ProtocolError) as caught:
        byte_by_byte(relay, data)
    assert caught.value.reason == reason


def test_a_response_that_does_not_follow_its_schema_ends_the_connection() -> None:
    relay = Relay(("*=:1",))
    relay.from_client(request(3, 12, 1, b""))
    with pytest.raises(ProtocolError, match="the response to Metadata v12"):
        relay.from_broker(response(3, 12, 1, b"\0\0\0\0\x09abc"))


def test_api_versions_is_what_the_broker_says_without_what_does_not_pass() -> None:
    relay = Relay(("*=:1",))
    relay.from_client(request(18, 0, 1, b""))
    apis = ((0, 3, 99), (1, 4, 18), (4, 0, 7), (71, 0, 9), (78, 0, 2), (79, 0, 0), (500, 0, 1))
    listed = b"".join(struct.pack(">hhh", *api) for api in apis)
    got = relay.from_broker(response(18, 0, 1, struct.pack(">hi", 0, len(apis)) + listed))
    kept = ((0, 3, 13), (1, 4, 18), (71, 0, 0), (72, 0, 0), (78, 1, 2))
    assert got == response(18, 0, 1, struct.pack(">hi", 0, 5) + b"".join(struct.pack(">hhh", *api) for api in kept))


def test_api_versions_keeps_features_and_throttle_time() -> None:
    relay = Relay()
    relay.from_client(request(18, 4, 1, b"\x05java\x064.4.0\x00"))
    tail = struct.pack(">i", 9) + b"\x01\x00\x02\x01\x01"
    body = b"\0\0\x03" + struct.pack(">hhh", 3, 0, 13) + b"\0" + struct.pack(">hhh", 18, 0, 4) + b"\0" + tail
    own = struct.pack(">hhh", 71, 0, 0) + b"\0" + struct.pack(">hhh", 72, 0, 0) + b"\0"
    expected = b"\0\0\x05" + body[3 : -len(tail)] + own + tail
    assert relay.from_broker(response(18, 4, 1, body)) == response(18, 4, 1, expected)


def test_a_broker_that_refuses_the_version_of_api_versions_is_passed_on() -> None:
    relay = Relay()
    relay.from_client(request(18, 4, 1, b"\x05java\x064.4.0\x00"))
    answer = response(18, 4, 1, struct.pack(">hihhh", 35, 1, 18, 0, 3))
    assert relay.from_broker(answer) == answer


class _Throttling(NoRules):
    """Rules that look at responses, and patch them."""

    def __init__(self, wanted: int, patched: Patched | None) -> None:
        self.wanted, self.patched = wanted, patched
        self.shown: list[tuple[int, bytes]] = []
        self.sizes: list[int] = []

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        request.response_bytes = self.wanted
        return None

    def response(
        self, connection: ClientConnection, request: InFlight, size: int, body: bytes, now_ns: int
    ) -> Patched | None:
        self.shown.append((size, body))
        return self.patched

    def sent(self, connection: ClientConnection, request: InFlight, size: int, now_ns: int) -> None:
        self.sizes.append(size)


@pytest.mark.parametrize("step", [1, 5, 10_000])
class TestRules:
    def answers(self, relay: Relay, data: bytes, step: int) -> bytes:
        return b"".join(relay.from_broker(data[at : at + step]) for at in range(0, len(data), step))

    def test_they_patch_the_beginning_of_a_response(self, step: int) -> None:
        rules = _Throttling(4, Patched(b"\0\0\0\x09"))
        relay = Relay(rules=rules)
        relay.from_client(FETCH + FETCH)
        plain = response(1, 15, 1, b"\0\0\0\0" + b"r" * 900)
        assert self.answers(relay, plain + plain, step) == 2 * response(1, 15, 1, b"\0\0\0\x09" + b"r" * 900)
        assert rules.shown == 2 * [(len(plain) - 4, b"\0\0\0\0")]
        assert rules.sizes == 2 * [len(plain) - 4]

    def test_they_rewrite_a_whole_response(self, step: int) -> None:
        relay = Relay(rules=_Throttling(WHOLE_FRAME, Patched(b"another, longer body")))
        relay.from_client(produce(1))
        assert self.answers(relay, response(0, 9, 1, b"body"), step) == response(0, 9, 1, b"another, longer body")

    def test_they_see_addresses_as_clients_do(self, step: int) -> None:
        rules = _Throttling(4, Patched(b"\0\0\0\x07"))
        relay = Relay(("*=gateway:1",), rules=rules)
        relay.from_client(request(3, 3, 1, b"\0\0\0\0"))
        node, rest = struct.pack(">i", 1), b"\0\0\xff\xff" + struct.pack(">ii", 1, 0)
        before = node + b"\0\x01b" + struct.pack(">i", 9092) + rest
        after = node + b"\0\x07gateway" + struct.pack(">i", 1) + rest
        got = self.answers(relay, response(3, 3, 1, b"\0\0\0\0\0\0\0\x01" + before), step)
        assert got == response(3, 3, 1, b"\0\0\0\x07\0\0\0\x01" + after)
