"""A server whose answers have no end: a byte now and then, which any timeout of a single read takes for life."""

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HEAD = b"HTTP/1.1 200 OK\r\nX-Trickles: "
BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
ERROR = b"HTTP/1.1 503 Busy\r\nContent-Length: 1000000\r\n\r\n"
TLS = b"\x16\x03\x03\x40\x00\x02\x00\xff\xfc"
"""Begins a ServerHello of 64 KiB."""
KAFKA = b"\0\x10\0\0"
"""Begins a response of 1 MiB."""
_EVERY_S = 0.05


class Trickling:
    """Answers every peer without end.

    Attributes:
        asked: how many peers have sent something.
        ended: how many of them have ended their connection.
    """

    def __init__(self, opening: bytes) -> None:
        self.asked = 0
        self.ended = 0
        self._opening = opening
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                peer, _ = self._server.accept()
                threading.Thread(target=self._answer, args=(peer,), daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _answer(self, peer: socket.socket) -> None:
        with peer, contextlib.suppress(OSError):
            if not peer.recv(65_536):
                return
            self.asked += 1
            peer.sendall(self._opening)
            while not (select.select([peer], [], [], _EVERY_S)[0] and not peer.recv(65_536)):
                peer.sendall(b"a")
        self.ended += 1


@contextmanager
def trickling(opening: bytes) -> Iterator[Trickling]:
    server = Trickling(opening)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
