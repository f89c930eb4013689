"""A proxy before a server that resets connections in mid-call."""

import contextlib
import socket
import socketserver
import struct
import threading
from typing import Self


class ResettingProxy:
    """Passes everything on; a connection is reset once its client has sent so many bytes, and that so many times.

    Args:
        upstream_port: the server's.
        after_bytes: how much of a client's words passes before the reset [B].
        times: how many connections are reset; those after them live.

    Attributes:
        resets: how many were.
    """

    def __init__(self, upstream_port: int, *, after_bytes: int, times: int) -> None:
        self.upstream_port = upstream_port
        self.after_bytes = after_bytes
        self.resets = 0
        self._left = threading.Semaphore(times)
        self._server = _Server(self)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def may_reset(self) -> bool:
        """True as often as connections are to be reset; counts."""
        may = self._left.acquire(blocking=False)
        self.resets += may
        return may


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, proxy: ResettingProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Connection)


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        proxy = self.server.proxy
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", proxy.upstream_port)) as upstream:
            threading.Thread(target=_pass_on, args=(upstream, self.request), daemon=True).start()
            passed = 0
            while data := self.request.recv(16_384):
                passed += len(data)
                if passed > proxy.after_bytes and proxy.may_reset():
                    # No lingering: what is closed so is reset, on both sides and whatever was sent before.
                    for side in (self.request, upstream):
                        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.request.close()
                    return
                upstream.sendall(data)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(16_384):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
