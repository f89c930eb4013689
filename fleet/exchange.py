"""Outgoing requests with one deadline for all of it: a library's own timeout starts anew with every byte.

The work is done by a thread of its own, which is left alone at the deadline: neither a name service nor a library that
waits can hold up the caller.
"""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.request import BaseHandler, HTTPHandler, HTTPSHandler, Request, build_opener

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was answered, success or not."""

    status: int
    reason: str
    body: bytes


def in_thread(work: Callable[[], _Result]) -> "Future[_Result]":
    """Does the work in a thread that a process which ends does not wait for."""
    done: Future[_Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised where the result is wanted
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Returns the result of the work.

    Raises:
        TimeoutError: it is not done within `seconds` [s].
    """
    done = in_thread(work)
    try:
        return done.result(seconds)
    except TimeoutError:
        if done.done():
            raise  # its own
        raise TimeoutError(f"no whole answer within {seconds:g} s") from None


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
        return self.do_open(partial(self._made, HTTPSConnection), req)

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
        connection._create_connection = lambda *to, **how: self._take(connect(*to, **how))
        return connection

    def _take(self, connected: socket.socket) -> socket.socket:
        with self._lock:
            if self._sockets is None:
                connected.close()
                raise TimeoutError("connected too late")
            # A duplicate: TLS takes the descriptor out of the socket that it is given.
            self._sockets.append(connected.dup())
        return connected
