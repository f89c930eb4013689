"""Peers that are slow or half there: they cost bounded memory, hold up nobody, and are gone in the end."""

import contextlib
import operator
import socket
import struct
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from support.clients.abuse import answer_of, connections, is_closed, metadata_request, send_until_nobody_takes_more
from support.clients.raw_client import get_request, push_request
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]  # long in make soak, on a busy machine
MIB = 1024 * 1024
Attacked = Callable[..., AbstractContextManager[Node]]
full_size = pytest.mark.soak


@pytest.mark.parametrize("clients", [50, pytest.param(1_000, marks=full_size)])
def test_requests_that_arrive_byte_by_byte_are_answered(attacked: Attacked, clients: int) -> None:
    request = get_request(7, None, "slow")
    with attacked(most_bytes=64 * MIB) as node, connections(node.port, clients) as slow:
        for position in range(len(request)):
            for connection in slow:
                connection.send(request[position : position + 1])
        for connection in slow:
            assert struct.unpack_from(">ixih", answer_of(connection)) == (7, 0, 0)


@pytest.mark.parametrize("clients", [20, pytest.param(500, marks=full_size)])
def test_peers_that_never_read_are_held_within_bounds(attacked: Attacked, clients: int) -> None:
    """Each may leave 256 KiB and one turn's responses unread; nothing more is read from it then."""
    request = metadata_request(1, 100) * 100
    with (
        attacked(most_bytes=32 * MIB + clients * MIB) as node,
        connections(node.port, clients, receive_buffer=4_096) as deaf,
    ):
        send_until_nobody_takes_more(deaf, request)
        assert not any(map(is_closed, deaf)), "each keeps within its bound"
        assert node.status()["connections"][0]["closed"] == {}


@pytest.mark.parametrize("clients", [60, pytest.param(500, marks=full_size)])
def test_what_all_peers_leave_unread_is_held_within_the_bound_of_all(attacked: Attacked, clients: int) -> None:
    """Each keeps within what one may leave, besides 2.6 MB in the kernel; those that leave most go till it fits.

    A next request of each may wait meanwhile: that is not unread, and below `queued.max.request.bytes`.
    """
    bound = 8 * MIB
    override = f"queued.max.response.bytes={bound}"
    request = metadata_request(1, 10, b"t" * 25_000)  # as large an answer, soon made
    with (
        attacked(override, most_bytes=48 * MIB + 2 * bound + clients * len(request)) as node,
        connections(node.port, clients, receive_buffer=4_096) as deaf,
    ):
        send_until_nobody_takes_more(deaf, request)
        status = node.wait_for(
            lambda s: s["connections"][0]["closed"].get("response_buffers_full", 0) > 0, what="connections to go"
        )
        assert status["connections"][0]["unread_response_bytes"] <= bound
        gone = check_who_is_closed(node, deaf, "response_buffers_full")
        assert gone < clients, "not all of them"


@pytest.mark.parametrize(("clients", "idle_ms"), [(100, 10_000), pytest.param(2_000, 30_000, marks=full_size)])
def test_half_requests_and_half_closed_connections_come_to_their_end(
    attacked: Attacked, clients: int, idle_ms: int
) -> None:
    """Silent ones go when they are idle for too long, closed ones when what they asked is answered."""
    whole = push_request(1, uuid.uuid4(), 1, metrics_data())
    with attacked(f"connections.max.idle.ms={idle_ms}", most_bytes=64 * MIB) as node:
        with connections(node.port, 3 * clients) as peers:
            for number, peer in enumerate(peers):
                if number % 3 == 0:
                    peer.sendall(whole[: 1 + number % (len(whole) - 1)])
                elif number % 3 == 1:
                    peer.sendall(get_request(1, None))
                    peer.shutdown(socket.SHUT_WR)
                    answer_of(peer)
            status = node.wait_for(
                lambda s: (
                    s["connections"][0]["closed"].keys() == {"idle", "client_closed"}
                    and sum(s["connections"][0]["closed"].values()) == 3 * clients
                ),
                what="silent peers to be closed",
            )
            wait_for(
                lambda: sum(not is_closed(each) for each in peers), "the end of every connection", until=operator.not_
            )
        assert status["connections"][0]["closed"] == {"idle": 2 * clients, "client_closed": clients}


@pytest.mark.parametrize("clients", [30, pytest.param(300, marks=full_size)])
def test_frames_that_are_announced_and_never_finished_are_held_within_the_bound_of_all(
    attacked: Attacked, clients: int
) -> None:
    """Each sends 8 MiB of a frame of 16, up to `queued.max.request.bytes` over all; beyond, connections go."""
    bound = 64 * MIB
    piece = bytes(MIB)
    override = f"queued.max.request.bytes={bound}"
    with attacked(override, most_bytes=3 * bound) as node, connections(node.port, clients) as peers:
        for peer in peers:
            peer.sendall(struct.pack(">i", 16 * MIB))
        for peer in peers:
            with contextlib.suppress(ConnectionError):
                for _ in range(8):
                    peer.sendall(piece)
        beyond = clients - bound // (8 * MIB) - 1
        node.wait_for(lambda s: s["connections"][0]["closed"].get("receive_buffers_full", 0) >= beyond, what="refusals")
        assert beyond <= check_who_is_closed(node, peers, "receive_buffers_full") < clients


def check_who_is_closed(node: Node, attackers: list[socket.socket], reason: str) -> int:
    """Attackers were closed, for that reason, and nobody else was; returns how many.

    The well-behaved clients stay to the end: their process says if one of them was closed.
    """
    gone = sum(map(is_closed, attackers))
    # To see it they were read from, which lets them send on: more of them may have been closed since.
    status = node.wait_for(
        lambda s: s["connections"][0]["closed"].get(reason, 0) >= gone, what="the count of those that are gone"
    )
    assert set(status["connections"][0]["closed"]) == {reason}
    return gone
