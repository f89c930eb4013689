"""Serving an ASGI application on sockets that are already bound, by uvicorn's protocol (`http.connection`).

uvicorn's own `Server` is not used: it wakes up ten times a second, and handles signals that are not ours to handle.
Connections are accepted here, since the certificate of the next one may differ from that of the one before, and
unfinished TLS handshakes are bounded like connections: the oldest of the network with the most gives way.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp

from fleetgauge.base.library_log import get_logger
from fleetgauge.base.network import network_of, unmapped
from fleetgauge.http.access import Access
from fleetgauge.http.connection import Connection, Connections, HttpSettings

log = get_logger(__name__)

_STOP_STEP_S: Final = 0.02
_ACCEPT_PAUSE_S: Final = 1.0
_BACKLOG: Final = 4_096
_DEFER_S: Final = 1
"""A peer that sends its request as soon as it has connected is accepted together with it, however many others connect:
none of them can take its place in between. One that sends nothing is accepted after so long [s]."""


class HttpServer:
    """Answers requests on bound sockets. Its loop is its own: what the loop reports goes to the log, limited.

    Args:
        sockets: bound, and not necessarily listening yet; each with whether it has TLS.
        app: makes the responses.
        settings: the bounds.
        access: who may use it; with certificates where a socket has TLS.
    """

    def __init__(
        self, sockets: Sequence[tuple[socket.socket, bool]], app: ASGIApp, settings: HttpSettings, access: Access
    ) -> None:
        self._sockets = sockets
        self._access = access
        self._max_handshakes = settings.max_connections
        self._handshake_s = settings.request_within_s
        self._linger_s = settings.linger_s
        self._handshakes: dict[asyncio.Task[None], str] = {}  # with the peer's network, oldest first
        self._connections = Connections(app, settings, access)

    async def start(self) -> None:
        """Accepts connections from now on."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        for each, is_secure in self._sockets:
            _listen_deferring(each)
            each.setblocking(False)
            self._listen(each, is_secure=is_secure)

    async def stop(self, within_s: float) -> None:
        """Accepts no more, ends idle connections, and waits up to `within_s` [s] for responses under way."""
        loop = asyncio.get_running_loop()
        for each, _ in self._sockets:
            loop.remove_reader(each)
            each.close()
        handshakes = list(self._handshakes)
        for task in handshakes:
            task.cancel()
        await asyncio.gather(*handshakes, return_exceptions=True)
        for connection in self._connections:
            if connection.is_idle or connection.is_stream:
                connection.abort()
            else:
                connection.shutdown()
        end_s = loop.time() + within_s
        state = self._connections.state
        while state.connections and loop.time() < end_s:
            await asyncio.sleep(_STOP_STEP_S)
        for connection in self._connections:
            connection.abort()
        if state.tasks:
            await asyncio.wait(state.tasks)
        self._access.close()

    def _listen(self, listening: socket.socket, *, is_secure: bool) -> None:
        asyncio.get_running_loop().add_reader(listening, lambda: self._accept(listening, is_secure=is_secure))

    def _accept(self, listening: socket.socket, *, is_secure: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, (host, *_) = listening.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # no descriptor or no memory is free; the connection stays in the backlog
            self._warn("a connection could not be accepted", error)
            loop.remove_reader(listening)
            loop.call_later(_ACCEPT_PAUSE_S, self._listen_again, listening, is_secure)
            return
        accepted.setblocking(False)
        self._access.look()
        if len(self._handshakes) >= self._max_handshakes:
            [(fullest, _)] = Counter(self._handshakes.values()).most_common(1)
            oldest = next(task for task, network in self._handshakes.items() if network == fullest)
            del self._handshakes[oldest]
            oldest.cancel()
        task = loop.create_task(self._admit(accepted, is_secure=is_secure))
        self._handshakes[task] = network_of(unmapped(str(host)))
        task.add_done_callback(partial(self._admitted, accepted))

    def _listen_again(self, listening: socket.socket, is_secure: bool) -> None:
        if listening.fileno() >= 0:  # not stopped meanwhile
            self._listen(listening, is_secure=is_secure)

    async def _admit(self, accepted: socket.socket, *, is_secure: bool) -> None:
        """Makes a connection of a socket, after the TLS handshake if it has one."""
        tls = self._access.tls if is_secure else None
        limits = {"ssl_handshake_timeout": self._handshake_s, "ssl_shutdown_timeout": self._linger_s} if tls else {}
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: Connection(self._connections), accepted, ssl=tls, **limits
        )

    def _admitted(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():
            accepted.close()
        elif (error := task.exception()) is not None:
            accepted.close()
            if not isinstance(error, OSError):  # such as a reset, every ssl.SSLError, and a handshake's timeout
                self._warn("a connection could not be set up", error)

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Logs errors that asyncio reports."""
        self._warn(context["message"], context.get("exception"))

    def _warn(self, message: str, error: BaseException | None) -> None:
        if count := self._connections.occurrences(message):
            problem = f"{message}: {error}" if error else message
            log.warning("the HTTP server has a problem", problem=problem, occurrences=count)


def _listen_deferring(bound: socket.socket) -> None:
    if hasattr(socket, "TCP_DEFER_ACCEPT"):  # Linux
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _DEFER_S)
    bound.listen(_BACKLOG)
