"""Outgoing HTTP requests with one deadline for all of it, at which their connections end."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.request import BaseHandler, HTTPHandler, HTTPRedirectHandler, HTTPSHandler, Request, build_opener

from fleetgauge.base.deadline import within


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response, of success or failure."""

    status: int
    reason: str
    body: bytes


def client_context(ca_file: Path | None = None) -> ssl.SSLContext:
    """TLS context of an outgoing connection: trusts the authorities of the file, or the system's; the same in every
    Python.

    From 3.13 on, Python's own default refuses an authority whose certificate does not say what its key is for
    (RFC 5280), as openssl and keytool make them by default, and as Java and curl take them.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class NoRedirects(HTTPRedirectHandler):
    """A redirect is an answer. A POST that is led elsewhere would become a GET without its body."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> Request | None:
        """See `HTTPRedirectHandler`."""
        return None


def exchange(request: Request, *handlers: BaseHandler, within_s: float, most_bytes: int | None = None) -> Answer:
    """Sends a request, and reads its answer.

    Args:
        request: whose URL is http or https.
        handlers: beside urllib's own.
        within_s: from its begin to the last byte [s].
        most_bytes: of the answer's body; what comes after them is not read. None for all.

    Raises:
        OSError: there is no answer; TimeoutError where it is not whole by the deadline.
        http.client.HTTPException: it is malformed.
    """
    connections = _Connections()

    def work() -> Answer:
        response: Any
        try:
            response = build_opener(connections, *handlers).open(request, timeout=within_s)
        except HTTPError as error:  # has what a response has
            response = error
        with response:
            return Answer(status=response.status, reason=response.reason, body=response.read(most_bytes))

    try:
        return within(within_s, work)
    finally:
        connections.end()


class _Connections(HTTPHandler, HTTPSHandler):
    """The connections of one exchange, which end with it, also within a TLS handshake."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] | None = []  # None: ended

    def http_open(self, req: Request) -> Any:
        """See `HTTPHandler`."""
        return self.do_open(partial(self._made, HTTPConnection), req)

    def https_open(self, req: Request) -> Any:
        """See `HTTPSHandler`."""
        return self.do_open(partial(self._made, HTTPSConnection, context=client_context()), req)

    def end(self) -> None:
        """Ends those that were made, and those that are yet to be made."""
        with self._lock:
            sockets, self._sockets = self._sockets, None
        for each in sockets or ():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _made(self, make: Callable[..., Any], *args: Any, **settings: Any) -> Any:
        """A connection that is known from before its TLS handshake on; http.client has no public place there."""
        connection = make(*args, **settings)
        connect = connection._create_connection

        def connected(address: tuple[str, int], timeout: float, *source: Any) -> socket.socket:
            opened = connect(address, timeout / 2, *source)  # a dead address leaves the name's next one its turn
            opened.settimeout(timeout)
            return self._take(opened)

        connection._create_connection = connected
        return connection

    def _take(self, connected: socket.socket) -> socket.socket:
        with self._lock:
            if self._sockets is None:
                connected.close()
                raise TimeoutError("connected too late")
            # A duplicate: TLS takes the descriptor out of the socket that it is given.
            self._sockets.append(connected.dup())
        return connected
