"""A proxy before a server that resets connections in mid-call."""

import contextlib
import socket
import struct
import threading

from support.proxies.proxy import Proxy


class ResettingProxy(Proxy):
    """Passes everything on; a connection is reset once its client has sent so many bytes, and that so many times.

    Args:
        upstream_port: the server's.
        after_bytes: how much of a client's words passes before the reset [B].
        times: how many connections are reset; those after them live.

    Attributes:
        resets: how many were.
    """

    def __init__(self, upstream_port: int, *, after_bytes: int, times: int) -> None:
        super().__init__(upstream_port)
        self.after_bytes = after_bytes
        self.resets = 0
        self._left = threading.Semaphore(times)

    def serve(self, client: socket.socket, upstream: socket.socket) -> None:
        """See `Proxy.serve`."""
        threading.Thread(target=_pass_on, args=(upstream, client), daemon=True).start()
        passed = 0
        while data := client.recv(16_384):
            passed += len(data)
            if passed > self.after_bytes and self._may_reset():
                # No lingering: what is closed so is reset, on both sides and whatever was sent before.
                for side in (client, upstream):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                client.close()
                return
            upstream.sendall(data)

    def _may_reset(self) -> bool:
        """True as often as connections are to be reset; counts."""
        may = self._left.acquire(blocking=False)
        self.resets += may
        return may


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(16_384):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
