"""The HTTP server with an application of a test, on a port of its own."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.waiting import PATIENCE_S

from fleetgauge.http.access import Access, AccessSettings
from fleetgauge.http.connection import HttpSettings
from fleetgauge.http.server import HttpServer

Address = tuple[str, int]


@contextmanager
def serving(app: Any, access: Access | None = None, **settings: Any) -> Iterator[Address]:
    """The application on a port of its own, in a thread."""
    bound = socket.create_server(("127.0.0.1", 0))
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        server = HttpServer([(bound, False)], app, HttpSettings(**settings), access or Access(AccessSettings()))
        await server.start()
        await ended.wait()
        await server.stop(0.5)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield bound.getsockname()
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(PATIENCE_S)
        bound.close()
        loop.close()
        assert not thread.is_alive()
