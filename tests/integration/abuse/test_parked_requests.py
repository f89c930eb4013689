"""Peers that begin requests and do not finish them: they are closed, and nobody else is."""

import contextlib
import operator
import socket
import struct
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.clients.abuse import is_closed
from support.clients.raw_client import RawClient, parse_push, push_request
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import PATIENCE_S, pause, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
KIB, MIB = 1 << 10, 1 << 20
SUBSCRIPTION = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "100"\n'
PUSHES = 50
SEGMENTS_APART_S = 0.02


@pytest.fixture
def peers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def park(peers: ExitStack, port: int, addresses: Sequence[str], announced: int, sent: int) -> list[socket.socket]:
    """One connection from each address, with so many bytes of a request behind the 4 that announce it to be longer."""
    opened = []
    for address in addresses:
        peer = peers.enter_context(socket.socket())
        peer.bind((address, 0))
        peer.settimeout(PATIENCE_S)
        peer.connect(("127.0.0.1", port))
        peer.sendall(struct.pack(">i", announced))
        opened.append(peer)
    data = bytes(sent)
    for peer in opened:
        with contextlib.suppress(ConnectionError):
            peer.sendall(data)
    return opened


def push_in_two_segments(client: RawClient, metrics: bytes, times: int = PUSHES) -> list[int]:
    """The error codes of so many pushes of new clients on one connection."""
    codes = []
    for number in range(times):
        subscription = client.get(uuid.uuid4())
        request = push_request(number, subscription.client_instance_id, subscription.subscription_id, metrics)
        half = len(request) // 2
        client.send(request[:half])
        pause(SEGMENTS_APART_S, "the node reads the first half by itself")
        client.send(request[half:])
        codes.append(parse_push(client.receive_frame()[5:]).error_code)
    return codes


def held(node: Node) -> int:
    return int(node.status()["connections"][0]["unfinished_request_bytes"])


def check(node: Node, attackers: Sequence[socket.socket], expected: str) -> None:
    """Attackers were closed, some and not all, and nobody else was, but the clients that closed by themselves."""
    status = node.wait_for(
        lambda s: (
            s["connections"][0]["closed"].keys() == {expected, "client_closed"}
            and s["connections"][0]["closed"][expected] == sum(map(is_closed, attackers))
        ),
        what="the count of the closed",
    )
    assert 0 < status["connections"][0]["closed"][expected] < len(attackers)
    assert "malformed peer" not in node.log.read_text()


@pytest.mark.parametrize(
    ("connections", "announced", "overrides"),
    [
        (33, MIB, ("socket.request.max.bytes=1048576", "queued.max.request.bytes=33554432")),
        pytest.param(33, 16 * MIB, ("queued.max.request.bytes=536870912",), marks=pytest.mark.soak),
    ],
)
def test_33_connections_that_park_half_requests_are_closed_in_place_of_those_who_push(
    tmp_path: Path, peers: ExitStack, connections: int, announced: int, overrides: tuple[str, ...]
) -> None:
    """The bound is nearly reached, so that a push in two segments passes it. All have one address, as behind a NAT."""
    bound = int(overrides[-1].partition("=")[2])
    with Node(tmp_path, *overrides, config=SUBSCRIPTION) as node, RawClient(node.port, timeout_s=PATIENCE_S) as client:
        sent = (bound - 64) // connections - 4
        attackers = park(peers, node.port, ["127.0.0.1"] * connections, announced, sent)
        node.wait_for(lambda _: held(node) >= connections * sent, what="the half requests")
        with RawClient(node.port, timeout_s=PATIENCE_S) as other:
            assert push_in_two_segments(other, metrics_data(10)) == [0] * PUSHES
        assert push_in_two_segments(client, metrics_data(10)) == [0] * PUSHES
        check(node, attackers, "receive_buffers_full")


@pytest.mark.parametrize("count", [1_000, pytest.param(8_000, marks=pytest.mark.soak)])
def test_thousands_of_connections_of_one_address_that_hold_little_each_are_closed_in_place_of_a_large_push(
    tmp_path: Path, peers: ExitStack, count: int
) -> None:
    """The push holds thirty times as much as any of them."""
    bound = count * 16 * KIB
    overrides = (f"queued.max.request.bytes={bound}", "socket.request.max.bytes=1048576")
    with Node(tmp_path, *overrides, config=SUBSCRIPTION) as node:
        attackers = park(peers, node.port, ["127.0.0.9"] * count, MIB, 16 * KIB - 8)
        node.wait_for(lambda _: held(node) >= count * (16 * KIB - 8), what="the half requests")
        with RawClient(node.port, timeout_s=PATIENCE_S) as client:
            assert push_in_two_segments(client, metrics_data(9_000), 10) == [0] * 10
        check(node, attackers, "receive_buffers_full")


def test_attackers_of_many_addresses_are_closed_in_place_of_those_who_push(tmp_path: Path, peers: ExitStack) -> None:
    count, bound = 400, 32 * MIB
    overrides = (f"queued.max.request.bytes={bound}", "socket.request.max.bytes=1048576")
    sent = (bound - 64) // count - 4
    with Node(tmp_path, *overrides, config=SUBSCRIPTION) as node:
        addresses = [f"127.0.{2 + n // 200}.{1 + n % 200}" for n in range(count)]
        attackers = park(peers, node.port, addresses, MIB, sent)
        node.wait_for(lambda _: held(node) >= count * sent, what="the half requests")
        pause(1, "a request is parked for longer than a push takes between its segments")
        with RawClient(node.port, timeout_s=PATIENCE_S) as client:
            assert push_in_two_segments(client, metrics_data(1_000), 20) == [0] * 20
        check(node, attackers, "receive_buffers_full")


def test_each_of_two_workers_closes_those_who_park_there(tmp_path: Path, peers: ExitStack) -> None:
    """Each has half of the bound."""
    count, bound = 80, 32 * MIB
    overrides = ("workers=2", f"queued.max.request.bytes={bound}", "socket.request.max.bytes=1048576")
    with Node(tmp_path, *overrides, config=SUBSCRIPTION) as node:
        attackers = park(peers, node.port, ["127.0.0.9"] * count, MIB, MIB - 1)
        node.wait_for(lambda _: held(node) > bound // 2, what="the half requests")
        for _ in range(8):  # of which either worker gets some
            with RawClient(node.port, timeout_s=PATIENCE_S) as client:
                assert push_in_two_segments(client, metrics_data(10), 10) == [0] * 10
        check(node, attackers, "receive_buffers_full")


def test_a_request_that_comes_byte_by_byte_ends_at_its_time_and_a_slow_large_one_is_answered(
    tmp_path: Path, peers: ExitStack
) -> None:
    """Of the same time: the bytes of one would take for ever, those of the other take a quarter of it."""
    timeout_s = 12.0
    with Node(tmp_path, f"request.receive.timeout.ms={timeout_s * 1000:.0f}", config=SUBSCRIPTION) as node:
        attackers = park(peers, node.port, ["127.0.0.9"] * 5, MIB, 1)
        (silent,) = park(peers, node.port, ["127.0.0.9"], MIB, 1)
        with RawClient(node.port, timeout_s=PATIENCE_S) as client, RawClient(node.port) as idle:
            subscription = client.get()
            request = push_request(
                1, subscription.client_instance_id, subscription.subscription_id, metrics_data(9_000)
            )
            pieces = [
                request[start : start + len(request) // 30 + 1]
                for start in range(0, len(request), len(request) // 30 + 1)
            ]
            for piece in pieces:
                client.send(piece)
                pause(timeout_s / 4 / len(pieces), "the pace of a slow client")
            assert parse_push(client.receive_frame()[5:]).error_code == 0

            def still_open() -> int:
                for attacker in attackers:
                    with contextlib.suppress(ConnectionError):
                        attacker.send(b"x")
                return sum(not is_closed(each) for each in (silent, *attackers))

            wait_for(still_open, "the end of those that do not finish", until=operator.not_)
            assert idle.get().error_code == 0, "a connection at rest has no such time"
            assert client.get().error_code == 0
        ends = {"client_closed": 2, "request_unfinished": 6}
        node.wait_for(lambda s: s["connections"][0]["closed"] == ends, what=f"ends by {ends}")
