"""Serving an ASGI application on sockets that are already bound, by uvicorn's protocol (`exporters.http.connection`).

uvicorn's own `Server` is not used: it wakes up ten times a second, and handles signals that are not ours to handle.
"""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Final

import structlog
from starlette.types import ASGIApp

from exporters.http.connection import Connection, Connections, HttpSettings

log = structlog.get_logger(__name__)

_STOP_STEP_S: Final = 0.02


class HttpServer:
    """Answers requests on bound sockets. Its loop is its own: what the loop reports goes to the log, limited.

    Args:
        sockets: bound, and not necessarily listening yet.
        app: makes the responses.
        settings: the bounds.
    """

    def __init__(self, sockets: Sequence[socket.socket], app: ASGIApp, settings: HttpSettings) -> None:
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        self._connections = Connections(app, settings)

    async def start(self) -> None:
        """Accepts connections from now on."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._on_loop_error)
        for each in self._sockets:
            self._servers.append(await loop.create_server(lambda: Connection(self._connections), sock=each))

    async def stop(self, within_s: float) -> None:
        """Accepts no more, ends idle connections, and waits up to `within_s` [s] for responses under way."""
        for server in self._servers:
            server.close()
        for each in self._connections:
            if each.is_idle or each.is_stream:
                each.abort()
            else:
                each.shutdown()
        loop = asyncio.get_running_loop()
        end_s = loop.time() + within_s
        state = self._connections.state
        while state.connections and loop.time() < end_s:
            await asyncio.sleep(_STOP_STEP_S)
        for each in self._connections:
            each.abort()
        if state.tasks:
            await asyncio.wait(state.tasks)

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio reports of itself, such as an accept without a free descriptor, which it tries again."""
        error = context.get("exception")
        if count := self._connections.occurrences(context["message"]):
            problem = f"{context['message']}: {error}" if error else context["message"]
            log.warning("the HTTP server has a problem", problem=problem, occurrences=count)
