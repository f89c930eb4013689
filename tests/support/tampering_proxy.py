"""A proxy before a node that spoils what passes: what a client does then is what its log has to show."""

import contextlib
import socket
import socketserver
import struct
import threading
from typing import Self

PUSH_TELEMETRY = 72
_ERROR_AT = 13
"""Of a PushTelemetry response with its size: size 4, correlation id 4, tags 1, throttle time 4, then the error code."""


class TamperingProxy:
    """Passes everything on, until it is told otherwise.

    Attributes:
        upstream_port: the node's port, to be set before the first client comes.
        push_error: the code that every PushTelemetry is answered with in place of the node's; None is the node's.
        cuts_pushes: a connection that sends a PushTelemetry is closed instead of answered.
        tampered: how often either was done.
    """

    def __init__(self) -> None:
        self.upstream_port = 0
        self.push_error: int | None = None
        self.cuts_pushes = False
        self.tampered = 0
        self._server = _Server(self)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, proxy: TamperingProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Connection)


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        proxy = self.server.proxy
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", proxy.upstream_port)) as upstream:
            pushes: set[bytes] = set()
            back = threading.Thread(target=self._answers, args=(upstream, pushes), daemon=True)
            back.start()
            while (frame := _frame(self.request)) is not None:
                if frame[4:6] == struct.pack(">h", PUSH_TELEMETRY):
                    if proxy.cuts_pushes:
                        proxy.tampered += 1
                        break
                    pushes.add(frame[8:12])
                upstream.sendall(frame)
            for each in (upstream, self.request):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answers(self, upstream: socket.socket, pushes: set[bytes]) -> None:
        proxy = self.server.proxy
        with contextlib.suppress(OSError):
            while (frame := _frame(upstream)) is not None:
                if frame[4:8] in pushes and proxy.push_error is not None:
                    frame = frame[:_ERROR_AT] + struct.pack(">h", proxy.push_error) + frame[_ERROR_AT + 2 :]
                    proxy.tampered += 1
                self.request.sendall(frame)
            self.request.shutdown(socket.SHUT_RDWR)


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
