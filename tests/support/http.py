"""The HTTP port of a node as its users see it: over `http.client`, or over a bare socket."""

import json
import socket
import struct
from collections.abc import Callable
from http.client import HTTPConnection, HTTPMessage
from typing import Any
from urllib.parse import urlencode, urlsplit

from support.programs.node import Node
from support.waiting import PATIENCE_S, wait_for


class HttpAnswer:
    """A response, read whole."""

    def __init__(self, status: int, headers: HTTPMessage, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    def __repr__(self) -> str:
        return f"{self.status} {self.body[:1_000]!r}"

    def json(self) -> Any:
        return json.loads(self.body)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


def url_of(node: Node) -> str:
    """Where the node says that it serves HTTP."""
    return str(node.status()["http"]["listeners"][0])


def address_of(node: Node) -> tuple[str, int]:
    parts = urlsplit(url_of(node))
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def get(
    node: Node, path: str, *, method: str = "GET", headers: dict[str, str] | None = None, **query: str
) -> HttpAnswer:
    """One request on a connection of its own."""
    host, port = address_of(node)
    return get_at(host, port, path, method=method, headers=headers, **query)


def get_url(url: str, path: str, **query: str) -> HttpAnswer:
    """One request to whoever serves HTTP there."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return get_at(parts.hostname, parts.port, path, headers=None, **query)


def get_at(
    host: str, port: int, path: str, *, method: str = "GET", headers: dict[str, str] | None = None, **query: str
) -> HttpAnswer:
    connection = HTTPConnection(host, port, timeout=PATIENCE_S)
    try:
        connection.request(method, f"{path}?{urlencode(query)}" if query else path, headers=headers or {})
        response = connection.getresponse()
        return HttpAnswer(response.status, response.headers, response.read())
    finally:
        connection.close()


def wait_until(condition: Callable[[], Any], *, within_s: float = 120.0, what: str = "") -> Any:
    """`wait_for`, for those who do not call it themselves yet; `within_s` has no effect."""
    return wait_for(condition, what or repr(condition))


def raw(node: Node) -> socket.socket:
    """A bare connection to the HTTP port."""
    return socket.create_connection(address_of(node), timeout=PATIENCE_S)


def reset(address: tuple[str, int], request: bytes = b"") -> None:
    """Connects, sends so much, and resets the connection, as a TCP health check does."""
    connection = socket.create_connection(address, timeout=PATIENCE_S)
    connection.sendall(request)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def responses_of(received: bytes) -> list[tuple[int, bytes]]:
    """Status and body of each whole response, told apart by `Content-Length`; fails upon anything else.

    Shares no code with the server: an answer that is empty, cut short or followed by garbage is none.
    """
    found = []
    while received:
        head, end, rest = received.partition(b"\r\n\r\n")
        assert end, f"a response without an end of its head: {received[:200]!r}"
        status_line, *lines = head.split(b"\r\n")
        version, status, _ = status_line.split(b" ", 2)
        assert version == b"HTTP/1.1", received[:200]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        length = int(headers[b"content-length"])
        assert len(rest) >= length, f"a response that is cut short: {received[:200]!r}"
        found.append((int(status), rest[:length]))
        received = rest[length:]
    return found


def read_to_end(connection: socket.socket) -> bytes:
    """What comes until the other side ends the connection, in whatever way."""
    found = bytearray()
    try:
        while chunk := connection.recv(65_536):
            found += chunk
    except ConnectionError:
        pass
    return bytes(found)
