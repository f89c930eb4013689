"""The bound of a request's line and headers, however they arrive."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from integration.http.serving import Address, serving
from support.http import read_to_end, responses_of
from support.waiting import pause_async

pytestmark = pytest.mark.integration

BOUND = 16 << 10


async def _app(_scope: Any, _receive: Any, send: Any) -> None:
    await pause_async(0.2, "what is sent behind the request has come by then")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(name="address", scope="module")
def _address() -> Iterator[Address]:
    with serving(_app) as address:
        yield address


def head(size_bytes: int, how: str = "one header") -> bytes:
    """A request of exactly this size, the last of its connection."""
    start, end = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", b"\r\n"
    left = size_bytes - len(start) - len(end)
    if how == "blanks":
        return start + b"A:" + b" " * (left - 5) + b"b\r\n" + end
    if how == "target":
        return start.replace(b"/ ", b"/" + b"t" * left + b" ") + end
    if how == "many headers":
        line = b"A: " + b"b" * 95 + b"\r\n"
        many, rest = divmod(left - 10, len(line))
        return start + line * many + b"A: " + b"b" * (rest + 5) + b"\r\n" + end
    return start + b"A: " + b"b" * (left - 5) + b"\r\n" + end


def statuses(address: Address, sent: bytes, slice_bytes: int) -> list[int]:
    with socket.create_connection(address, timeout=60) as peer:
        try:
            for at in range(0, len(sent), slice_bytes):
                peer.sendall(sent[at : at + slice_bytes])
        except ConnectionError:
            pass  # refused before its end
        return [status for status, _ in responses_of(read_to_end(peer))]


@pytest.mark.parametrize("how", ["one header", "many headers", "target", "blanks"])
@pytest.mark.parametrize("slice_bytes", [1_000, 1 << 20])
def test_a_head_of_16_kib_is_served_and_a_longer_one_refused(address: Address, how: str, slice_bytes: int) -> None:
    assert len(head(BOUND, how)) == BOUND
    assert statuses(address, head(BOUND, how), slice_bytes) == [200]
    for longer in (BOUND + 1, BOUND + 2_000, 2 * BOUND - 1, 4 * BOUND):
        assert statuses(address, head(longer, how), slice_bytes) == [431]


@pytest.mark.parametrize("how", ["one header", "many headers", "target"])
def test_so_is_one_that_comes_behind_another_request(address: Address, how: str) -> None:
    first = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    assert statuses(address, first + head(BOUND, how), 1 << 20) == [200, 200]
    for longer in (BOUND + 1, 2 * BOUND - 1, 4 * BOUND):
        assert statuses(address, first + head(longer, how), 1 << 20) == [200, 431]
