"""A TCP proxy on loopback whose connections a subclass handles."""

import contextlib
import socket
import socketserver
import threading
from abc import ABC, abstractmethod
from typing import Self


class Proxy(ABC):
    """Listens from its construction on, and serves within `with`.

    Attributes:
        upstream_port: the server's, on loopback; may be set until the first client comes.
        port: where clients find the proxy.
    """

    def __init__(self, upstream_port: int = 0) -> None:
        self.upstream_port = upstream_port
        self._server = _Server(self)
        self.port = int(self._server.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @abstractmethod
    def serve(self, client: socket.socket, upstream: socket.socket) -> None:
        """Handles one connection until it ends, in a thread of its own; an `OSError` is such an end."""


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Connection)


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        proxy = self.server.proxy
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", proxy.upstream_port)) as upstream:
            proxy.serve(self.request, upstream)
