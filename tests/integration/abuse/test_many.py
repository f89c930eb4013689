"""Too many of everything: instance ids from one connection, connections, characters of a client id."""

import socket
import struct
import sys
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from integration.abuse.crowd import Crowd
from support.clients.abuse import connections, exactly
from support.clients.raw_client import get_request
from support.programs.node import Node
from support.rss import rss_bytes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]  # long in make soak, on a busy machine
KIB, MIB = 1024, 1024 * 1024
Attacked = Callable[..., AbstractContextManager[Node]]
full_size = pytest.mark.soak
PIPELINED = 50
UNBOUNDED = "telemetry.max.new.instance.rate.per.ip=0"
"""What an address may make known is `test_fresh_ids`' subject."""


def collide(number: int) -> uuid.UUID:
    """Ids that are one and the same to Python's hash of integers."""
    return uuid.UUID(int=2 + sys.hash_info.modulus * number)


def pid_of(node: Node) -> int:
    assert node.process is not None
    return node.process.pid


def ask(connection: socket.socket, requests: list[bytes]) -> int:
    """Sends the requests, so many at a time; returns how many were answered NONE."""
    served = 0
    for start in range(0, len(requests), PIPELINED):
        sent = requests[start : start + PIPELINED]
        connection.sendall(b"".join(sent))
        for _ in sent:
            (size,) = struct.unpack(">i", exactly(connection, 4))
            served += struct.unpack_from(">h", exactly(connection, size), 9) == (0,)
    return served


@pytest.mark.parametrize(("ids", "instances_max"), [(20_000, 2_000), pytest.param(100_000, 16_384, marks=full_size)])
def test_any_number_of_instance_ids_from_one_connection_leaves_memory_flat(
    attacked: Attacked, ids: int, instances_max: int
) -> None:
    """Beyond `telemetry.client.instances.max` the oldest goes, and the log says so once."""
    overrides = (f"telemetry.client.instances.max={instances_max}", UNBOUNDED)
    most_bytes = 32 * MIB + instances_max * 4 * KIB
    with attacked(*overrides, most_bytes=most_bytes) as node, connections(node.port, 1) as (connection,):
        requests = [get_request(number, collide(number)) for number in range(ids)]
        warm = len(requests) // 2
        assert ask(connection, requests[:warm]) == warm
        before = rss_bytes(pid_of(node))
        assert ask(connection, requests[warm:]) == ids - warm
        grown = rss_bytes(pid_of(node)) - before
        print(f"{ids} ids, {instances_max} kept: the second half took {grown / MIB:.1f} MiB more")
        assert grown < 16 * MIB
        counters = node.status()["telemetry"]["counters"]
        assert counters["instances"] <= instances_max
        assert counters["instances_evicted"] >= ids - instances_max
    assert node.log.read_text().count("telemetry.instance_cache_full") == 1


@pytest.mark.parametrize("gets", [5_000, pytest.param(100_000, marks=full_size)])
def test_clients_without_an_id_on_one_crowded_connection_are_served(attacked: Attacked, gets: int) -> None:
    """Each Get is another client's, and none is the known one: looking for it may not cost more and more."""
    with attacked(UNBOUNDED, most_bytes=128 * MIB) as node, connections(node.port, 1) as (connection,):
        assert ask(connection, [get_request(n, None, f"client-{n}") for n in range(gets)]) == gets


@pytest.mark.parametrize("ids", [2_000, pytest.param(16_384, marks=full_size)])
def test_the_longest_client_ids_are_kept_within_bounds(attacked: Attacked, ids: int) -> None:
    """32 KiB come with each request, 1,024 characters of up to 4 bytes are kept."""
    longest = "\N{GRINNING FACE}" * 8_000
    with attacked(UNBOUNDED, most_bytes=64 * MIB + ids * 8 * KIB) as node, connections(node.port, 1) as (connection,):
        assert ask(connection, [get_request(n, collide(n), longest) for n in range(ids)]) == ids


@pytest.mark.parametrize("count", [1_500, pytest.param(15_000, marks=full_size)])
def test_idle_connections_take_two_kilobytes_each_and_hold_up_nobody(attacked: Attacked, count: int) -> None:
    with attacked(most_bytes=16 * MIB + count * 4 * KIB) as node:
        pid = pid_of(node)
        before = rss_bytes(pid)
        with Crowd(node.port, count) as crowd:
            node.wait_for(lambda s: s["connections"][0]["open"] >= count, what="the crowd")
            print(f"{count} connections: {(rss_bytes(pid) - before) / count:.0f} B each")
            assert crowd.is_there()
