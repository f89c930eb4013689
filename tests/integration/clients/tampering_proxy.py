"""A proxy before a node that spoils what passes: what a client does then is what its log has to show."""

import contextlib
import socket
import struct
import threading

from support.proxies.proxy import Proxy

PUSH_TELEMETRY = 72
_ERROR_AT = 13
"""Of a PushTelemetry response with its size: size 4, correlation id 4, tags 1, throttle time 4, then the error code."""


class TamperingProxy(Proxy):
    """Passes everything on, until it is told otherwise.

    Attributes:
        push_error: the code that every PushTelemetry is answered with in place of the node's; None is the node's.
        cuts_pushes: a connection that sends a PushTelemetry is closed instead of answered.
        tampered: how often either was done.
    """

    def __init__(self) -> None:
        super().__init__()
        self.push_error: int | None = None
        self.cuts_pushes = False
        self.tampered = 0

    def serve(self, client: socket.socket, upstream: socket.socket) -> None:
        """See `Proxy.serve`."""
        pushes: set[bytes] = set()
        back = threading.Thread(target=self._answers, args=(upstream, client, pushes), daemon=True)
        back.start()
        while (frame := _frame(client)) is not None:
            if frame[4:6] == struct.pack(">h", PUSH_TELEMETRY):
                if self.cuts_pushes:
                    self.tampered += 1
                    break
                pushes.add(frame[8:12])
            upstream.sendall(frame)
        for each in (upstream, client):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        back.join()

    def _answers(self, upstream: socket.socket, client: socket.socket, pushes: set[bytes]) -> None:
        with contextlib.suppress(OSError):
            while (frame := _frame(upstream)) is not None:
                if frame[4:8] in pushes and self.push_error is not None:
                    frame = frame[:_ERROR_AT] + struct.pack(">h", self.push_error) + frame[_ERROR_AT + 2 :]
                    self.tampered += 1
                client.sendall(frame)
            client.shutdown(socket.SHUT_RDWR)


def _frame(connection: socket.socket) -> bytes | None:
    """The next frame with its size; None at the end."""
    size = _exactly(connection, 4)
    body = _exactly(connection, struct.unpack(">i", size)[0]) if size else None
    return size + body if size and body else None


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            return None
        data += chunk
    return bytes(data)
