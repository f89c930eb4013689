"""As much as one peer can send: Gets, ApiVersions, Metadata for thousands of topics, payloads made to be slow."""

import socket
import struct
import threading
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from support.clients.abuse import connections, exactly, metadata_request
from support.clients.raw_client import API_VERSIONS, RawClient, framed, get_request, header, uvarint
from support.programs.node import Node
from support.waiting import PATIENCE_S

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]  # long in make soak, on a busy machine
MIB = 1024 * 1024
Attacked = Callable[..., AbstractContextManager[Node]]
full_size = pytest.mark.soak


def flood(connection: socket.socket, request: bytes, times: int) -> int:
    """Sends a request so often, reading all the while; returns how many answers came."""
    data = request * 200

    def send() -> None:
        for _ in range(times // 200):
            connection.sendall(data)

    sender = threading.Thread(target=send)
    sender.start()
    answers = 0
    for _ in range(times // 200 * 200):
        (size,) = struct.unpack(">i", exactly(connection, 4))
        exactly(connection, size)
        answers += 1
    sender.join(PATIENCE_S)
    return answers


def api_versions(name: str) -> bytes:
    text = uvarint(len(name) + 1) + name.encode()
    return framed(header(API_VERSIONS, 3, 1, "flood") + text + text + b"\0")


@pytest.mark.parametrize("times", [10_000, pytest.param(300_000, marks=full_size)])
@pytest.mark.parametrize(
    "request_",
    [get_request(1, uuid.UUID(int=99)), api_versions("kafka"), metadata_request(1, 3)],
    ids=["gets", "api-versions", "metadata"],
)
def test_a_flood_from_one_connection_is_answered_and_disturbs_nobody(
    attacked: Attacked, request_: bytes, times: int
) -> None:
    with attacked(most_bytes=32 * MIB) as node, connections(node.port, 1) as (connection,):
        assert flood(connection, request_, times) == times


@pytest.mark.parametrize("times", [4, pytest.param(50, marks=full_size)])
def test_metadata_of_thousands_of_topics_with_long_names_stays_within_bounds(attacked: Attacked, times: int) -> None:
    """10,000 topics are answered one by one; a request of more closes its connection."""
    with attacked(most_bytes=256 * MIB) as node, connections(node.port, 2) as (first, second):
        for _ in range(times):
            for name in (b"t", b"t" * 1_500):
                first.sendall(metadata_request(5, 10_000, name))
                (size,) = struct.unpack(">i", exactly(first, 4))
                assert size > 10_000 * len(name)
                exactly(first, size)
        second.sendall(metadata_request(5, 10_001))
        assert second.recv(1) == b""


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=full_size)])
def test_payloads_that_are_slow_to_check_are_checked_within_bounds(attacked: Attacked, times: int) -> None:
    """A payload of a MiB full of fields next to empty is the slowest that telemetry.max.bytes lets through."""
    payload = b"\x0a\x00" * (512 * 1024 - 1)
    with attacked(most_bytes=128 * MIB) as node:
        for _ in range(times):
            with RawClient(node.port) as client:
                subscription = client.get()
                assert client.push(subscription, payload).error_code == 0
