"""What a response costs the other clients: it is read in turns, each byte once, and what is kept of it has a bound."""

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from support.gateway.gateway_pair import FETCH, FETCHED, Pair
from support.gateway.gateway_traffic import Relay, encoded, produce, request, response, response_schema
from support.gateway.judged_relay import JudgedRelay
from support.payloads.made_messages import Made

from fleetgauge.gateway.in_flight import InFlight
from fleetgauge.gateway.requests.layout import Step, response_layout
from fleetgauge.gateway.requests.walk import Walk
from fleetgauge.gateway.rules import ClientConnection, NoRules, RequestVerdict
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.turns import TURN_MS
from fleetgauge.wire.context.unread_responses import UnreadResponses
from fleetgauge.wire.errors import ProtocolError

NODES = ("*=gateway:1",)
PIECE_BYTES = 4_096
FIND_COORDINATOR = request(10, 4, 1, b"")
MANY = 99_000


def coordinators(count: int = MANY) -> bytes:
    """The response to a FindCoordinator of as many groups."""
    address = b"\x04key" + struct.pack(">i", 1) + b"\x07broker" + struct.pack(">i", 9092) + b"\0\0\x01\0"
    return response(10, 4, 1, struct.pack(">i", 0) + varint(count + 1) + address * count + b"\0")


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14])


def repeated(api_key: int, version: int, times: int, *path: str) -> bytes:
    """A response in which the array at `path` has one element many times."""

    def grown(value: Any, first: str, *rest: str) -> Any:
        elements = getattr(value, first)
        inner = (grown(elements[0], *rest),) if rest else elements[:1] * times
        return dataclasses.replace(value, **{first: inner})

    made = Made([1, 2]).message(response_schema(api_key, version))
    return response(api_key, version, 1, encoded(grown(made, *path)))


class CountedWalk(Walk):
    """Counts the bytes that it is given to read: those that it does not pass over anyway."""

    __slots__ = ("fed", "read")

    def __init__(self, steps: tuple[Step, ...]) -> None:
        super().__init__(steps)
        self.fed = self.read = 0

    def feed(self, chunk: bytes) -> None:
        self.fed += len(chunk)
        self.read += max(len(chunk) - self.ahead, 0)
        super().feed(chunk)


class Counting(NoRules):
    """Counts what is read of the responses."""

    def __init__(self) -> None:
        self.walks: list[CountedWalk] = []

    def request(self, connection: ClientConnection, request: InFlight, body: bytes, now_ns: int) -> RequestVerdict:
        layout = response_layout(request.api_key, request.api_version)
        assert layout is not None
        request.response_walk = CountedWalk(layout.from_header)
        self.walks.append(request.response_walk)
        return None


def in_turns(relay: Relay, data: bytes) -> Iterator[bytes]:
    """What passes in each turn."""
    yield relay.from_broker(data)
    while relay.responses.turn_is_over:
        relay.responses.turn_is_over = False
        yield relay.from_broker(b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api_key", "version", "times", "path"),
    [
        (10, 4, 50_000, ("coordinators",)),
        (0, 11, 10_000, ("responses",)),
        (0, 11, 10_000, ("node_endpoints",)),
        (3, 12, 10_000, ("brokers",)),
        (60, 1, 10_000, ("brokers",)),
        (1, 17, 500, ("responses", "partitions")),
    ],
)
def test_a_large_response_is_read_in_turns_and_no_byte_twice(
    api_key: int, version: int, times: int, path: tuple[str, ...]
) -> None:
    raw = coordinators(times) if api_key == 10 else repeated(api_key, version, times, *path)
    rules = Counting()
    relay = Relay(NODES, rules=rules, may_go_on=lambda: False)
    sent = produce(1, version=version) if api_key == 0 else request(api_key, version, 1, b"")
    relay.from_client(sent)
    (walk,) = rules.walks
    got, read = b"", 0
    for passed in in_turns(relay, raw):
        got += passed
        assert walk.read - read <= PIECE_BYTES
        read = walk.read
    assert walk.fed == len(raw) - 8
    assert walk.is_done
    assert relay.responses.kept_bytes == 0
    whole = Relay(NODES)
    whole.from_client(sent)
    assert got == whole.from_broker(raw)


def test_many_small_responses_in_one_chunk_are_passed_in_turns() -> None:
    relay = Relay(may_go_on=lambda: False)
    relay.from_client(FETCH * 3)
    assert list(in_turns(relay, FETCHED * 3)) == [FETCHED] * 3


def test_the_response_to_99000_keys_is_passed_in_turns_beside_another_client() -> None:
    pair = Pair(nodes=NODES)
    read: list[int] = []

    def clock() -> int:
        """Each look takes a millisecond."""
        pair.time.sleep(1)
        read.append(pair.time.nanoseconds())
        return read[-1]

    pair.channel._clock = clock
    pair.channel.data_received(FIND_COORDINATOR)
    raw = coordinators()
    pair.channel.broker_sent(raw[:100_000])
    assert pair.client.written == b""
    turns = 0
    while not pair.broker.reads:
        looks = len(read)
        pair.loop.next()
        assert len(read) - looks <= TURN_MS + 3
        turns += 1
    assert turns >= 100_000 // PIECE_BYTES // (TURN_MS + 1)


def test_a_listener_that_stops_waits_for_the_rest_of_a_response() -> None:
    pair = Pair(nodes=NODES)
    pair.channel.data_received(FIND_COORDINATOR)
    raw = coordinators(10)
    pair.channel.broker_sent(raw[:50])
    pair.channel.drain()
    pair.channel.broker_sent(raw[50:])
    assert pair.client.written.count(b"gateway") == 10
    assert pair.close_reason() == CloseReason.LISTENER_STOPPED


def test_a_client_that_ends_gets_the_rest_of_a_response() -> None:
    pair = Pair()
    pair.channel.data_received(FETCH)
    whole = response(1, 15, 1, b"r" * 1_000)
    pair.channel.broker_sent(whole[:500])
    pair.channel.eof_received()
    pair.channel.broker_sent(whole[500:])
    assert pair.client.written == whole
    assert pair.close_reason() == CloseReason.CLIENT_CLOSED


def test_of_a_response_no_more_is_kept_than_a_connections_share() -> None:
    relay = Relay(NODES, max_kept_bytes=100_000)
    relay.from_client(FIND_COORDINATOR)
    raw = coordinators()
    pieces = [raw[at : at + 1_000] for at in range(0, 90_000, 1_000)]
    assert b"".join(map(relay.from_broker, pieces)) == b""
    assert 90_000 <= relay.responses.kept_bytes <= 100_000
    share = "of the response to FindCoordinator v4 are kept, a connection's share"
    with pytest.raises(ProtocolError, match=share) as error:
        relay.from_broker(raw[90_000:])
    assert relay.responses.kept_bytes < 100_000 + 2 * PIECE_BYTES
    assert error.value.reason == CloseReason.RESPONSE_BUFFERS_FULL


def test_what_is_kept_of_responses_counts_as_unread_and_is_given_back() -> None:
    unread = UnreadResponses(1 << 20)
    raw = coordinators(60_000)
    pairs = [Pair(nodes=NODES, unread=unread) for _ in range(3)]
    for pair, size in zip(pairs, (500_000, 600_000, 100_000), strict=True):
        pair.channel.data_received(FIND_COORDINATOR)
        pair.channel.broker_sent(raw[:size])
    for pair in pairs:
        pair.loop.run()
    assert [pair.close_reason() for pair in pairs] == [None, CloseReason.RESPONSE_BUFFERS_FULL, None]
    assert pairs[1].channel.unread_bytes > 600_000
    pairs[1].channel.connection_lost(None)
    assert [pair.channel.unread_bytes > 0 for pair in pairs] == [True, False, True]
    pairs[0].channel.broker_sent(raw[500_000:])
    assert pairs[0].client.written.count(b"gateway") == 60_000
    assert pairs[0].channel.unread_bytes == 0


def test_time_above_the_request_quota_interrupts_a_response() -> None:
    relay = JudgedRelay()
    relay.limit(relay.managers.request, 1)
    relay.responses._may_go_on = lambda: False
    relay.from_client(FIND_COORDINATOR)
    relay.from_broker(coordinators(10_000))
    assert relay.responses.turn_is_over
    relay.client.loop_ns = 5_000_000
    assert relay.responses.pause_ms(relay.time.nanoseconds()) == 0
    assert relay.client.mutes == 0
    relay.client.loop_ns = 400_000_000
    assert relay.responses.pause_ms(relay.time.nanoseconds()) > 0
    assert relay.client.mutes == 1
    assert relay.rules.judge.throttled["Request"] == 1
    for _ in in_turns(relay, b""):
        pass
    (counts,) = relay.rules.counts.roll().values()
    assert (counts.requests, counts.throttled, counts.gateway_ns) == (1, 1, 405_000_000)


class _Interrupting(NoRules):
    """Has a client wait after each turn but the last ones."""

    def __init__(self) -> None:
        self.pauses_ms = [250, 250]

    def interrupted(self, connection: ClientConnection, request: InFlight, now_ns: int) -> int:
        return self.pauses_ms.pop() if self.pauses_ms else 0


def test_a_response_that_is_interrupted_goes_on_after_the_throttle_time() -> None:
    rules = _Interrupting()
    pair = Pair(nodes=NODES, rules=rules)
    pair.channel._responses._may_go_on = lambda: False
    pair.channel.data_received(FIND_COORDINATOR)
    pair.channel.broker_sent(coordinators(1_000))
    for _ in range(2):
        pair.loop.run()
        assert pair.client.written == b""
        assert not pair.broker.reads
        (goes_on,) = pair.loop.later
        pair.loop.later.clear()
        goes_on()
    pair.loop.run()
    assert pair.client.written.count(b"gateway") == 1_000
    assert pair.broker.reads
