"""A proxy before a server whose answers come late."""

import contextlib
import socket
import threading

from support.proxies.proxy import Proxy
from support.waiting import pause


class DelayingProxy(Proxy):
    """Passes everything on, what the server sends after a delay.

    Attributes:
        delay_s: of answers from now on, on open connections too [s].
    """

    def __init__(self, upstream_port: int) -> None:
        super().__init__(upstream_port)
        self.delay_s = 0.0

    def serve(self, client: socket.socket, upstream: socket.socket) -> None:
        """See `Proxy.serve`."""
        for each in (client, upstream):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=self._answers, args=(upstream, client), daemon=True)
        back.start()
        with contextlib.suppress(OSError):
            while data := client.recv(65_536):
                upstream.sendall(data)
        for each in (upstream, client):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        back.join()

    def _answers(self, upstream: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := upstream.recv(65_536):
                pause(self.delay_s, "the delay of the answer")
                client.sendall(data)
            client.shutdown(socket.SHUT_RDWR)
