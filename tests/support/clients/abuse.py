"""Connections of peers that mean no good: opened by the hundred, sending without reading."""

import selectors
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from support.clients.raw_client import framed, header, uvarint
from support.waiting import PATIENCE_S


@contextmanager
def connections(port: int, count: int, *, receive_buffer: int = 0) -> Iterator[list[socket.socket]]:
    """So many sockets, each from one of several loopback addresses; closed at the end."""
    with ExitStack() as stack:
        opened = []
        for number in range(count):
            connection = stack.enter_context(socket.socket())
            if receive_buffer:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            connection.bind((f"127.0.0.{2 + number % 200}", 0))
            connection.settimeout(PATIENCE_S)
            connection.connect(("127.0.0.1", port))
            opened.append(connection)
        yield opened


def metadata_request(correlation_id: int, topics: int, name: bytes = b"t") -> bytes:
    """Metadata v9 that asks for so many topics."""
    asked = uvarint(len(name) + 1) + name + b"\0"
    return framed(header(3, 9, correlation_id, "flood") + uvarint(topics + 1) + asked * topics + bytes(4))


def answer_of(connection: socket.socket) -> bytes:
    """The next response, without its size."""
    (size,) = struct.unpack(">i", exactly(connection, 4))
    return exactly(connection, size)


def exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes."""
    found = bytearray()
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise ConnectionError(f"closed after {len(found)} of {size} bytes")
        found += piece
    return bytes(found)


def is_closed(connection: socket.socket) -> bool:
    """True if the other end has closed the connection; what came before that is thrown away."""
    timeout = connection.gettimeout()
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    finally:
        connection.settimeout(timeout)
    return True


def send_until_nobody_takes_more(deaf: list[socket.socket], request: bytes) -> None:
    """Sends whole requests on every connection, reading nothing, until none has taken anything for three seconds.

    Where a socket takes a part of a request, the rest follows: the peers are slow readers, not malformed ones.
    """
    with selectors.DefaultSelector() as selector:
        for connection in deaf:
            connection.setblocking(False)
            selector.register(connection, selectors.EVENT_WRITE, memoryview(request))
        while ready := selector.select(timeout=3.0):
            for key, _ in ready:
                try:
                    sent = key.fileobj.send(key.data)  # type: ignore[union-attr]
                except ConnectionError:
                    selector.unregister(key.fileobj)
                else:
                    selector.modify(key.fileobj, key.events, key.data[sent:] or memoryview(request))
