"""Serves the page of client series over HTTP, with gzip, from a thread of its own (`http.server`).

The page is rendered in pieces, in threads, and sent piece by piece: memory does not grow with the page or with a slow
client.
"""

import asyncio
import os
import socket
import threading
import time
import zlib
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from fleetgauge.base.errors import ConfigError, FleetgaugeError
from fleetgauge.exporters.prometheus.settings import Address
from fleetgauge.http.access import Access, AccessSettings
from fleetgauge.http.connection import HttpSettings
from fleetgauge.http.errors import refused
from fleetgauge.http.server import HttpServer

PATH: Final = "/metrics"
SETTINGS: Final = HttpSettings(max_connections=32)
_BACKLOG: Final = 64
_FINISH_S: Final = 1.0
_CHUNK_BYTES: Final = 64 << 10
_YIELD_S: Final = 0.0005
_GZIP_LEVEL: Final = 1
"""Labels repeat so much that a higher level gains little."""


class PageError(FleetgaugeError):
    """The page cannot be served; the text has the reason and the remedy."""


class Page(NamedTuple):
    """A page in pieces, and its content type. After an empty piece other threads may run: see `_chunks`."""

    content_type: str
    pieces: Iterator[str]


class PageServer:
    """Serves at an address until it is closed.

    Args:
        exporter: the name in `[exporters.<name>]`, for the error.
        address: the address to bind; port 0 is any free port.
        access: who may use the page.
        page: makes the page for an `Accept` header; called in a thread per request.
    """

    def __init__(self, exporter: str, address: Address, page: Callable[[str], Page], access: AccessSettings) -> None:
        """Binds the address, and begins to serve.

        Raises:
            PageError: the address cannot be bound, or a file of users or certificates cannot be used.
        """
        self._page = page
        self._secure = address.is_secure
        try:
            self.access = Access(access)
        except ConfigError as error:
            raise PageError(f"exporters.{exporter}.{error}") from error
        self._socket = _bound(exporter, address)
        self.address = Address(host=address.host, port=self._socket.getsockname()[1], is_secure=address.is_secure)
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="prometheus-page", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """URL of the page."""
        return f"{'https' if self._secure else 'http'}://{self.address}{PATH}"

    def close(self) -> None:
        """Frees the port; running scrapes have a second to end. Called once."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        app = Starlette(routes=[Route(PATH, self._answer)], exception_handlers={HTTPException: _refused})
        server = HttpServer([(self._socket, self._secure)], app, SETTINGS, self.access)
        await server.start()
        await self._closing.wait()
        await server.stop(_FINISH_S)

    async def _answer(self, request: Request) -> Response:
        page = await asyncio.to_thread(self._page, request.headers.get("accept", ""))
        zipped = _accepts_gzip(request.headers.get("accept-encoding", ""))
        headers = {"Vary": "Accept, Accept-Encoding", "Content-Type": page.content_type}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        if request.method == "HEAD":
            return Response(headers=headers)
        return StreamingResponse(_made_in_threads(_chunks(page.pieces, zipped=zipped)), headers=headers)


async def _refused(request: Request, exception: Exception) -> Response:
    if getattr(exception, "status_code", 0) == 404:
        exception = HTTPException(404, f"this path does not exist; client series are at {PATH}")
    return await refused(request, exception)


def _bound(exporter: str, address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        problem = f"exporters.{exporter}.listen: {address} cannot be bound: {os.strerror(error.errno or 0)}"
        raise PageError(f"{problem}; use another address, or stop the process that uses this one") from error


async def _made_in_threads(chunks: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Yields the chunks, each made in a thread: a large page must not block other connections."""
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk


def _accepts_gzip(header: str) -> bool:
    """True if an `Accept-Encoding` header names gzip and does not rule it out.

    >>> _accepts_gzip("gzip"), _accepts_gzip("br, gzip;q=0.5"), _accepts_gzip("gzip;q=0"), _accepts_gzip("")
    (True, True, False, False)
    """
    for part in header.lower().split(","):
        coding, _, weight = (each.strip() for each in part.partition(";"))
        if coding == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def _chunks(pieces: Iterator[str], *, zipped: bool) -> Iterator[bytes]:
    """Joins the pieces to chunks of bytes, optionally compressed; unencodable characters are replaced."""
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, zlib.MAX_WBITS | 16) if zipped else None
    waiting = bytearray()
    for piece in pieces:
        if not piece:
            # A lock that is released and taken again at once never becomes free for a waiting thread.
            time.sleep(_YIELD_S)
            continue
        data = piece.encode(errors="replace")
        waiting += packer.compress(data) if packer else data
        if len(waiting) >= _CHUNK_BYTES:
            yield bytes(waiting)
            waiting.clear()
    if packer:
        waiting += packer.flush()
    if waiting:
        yield bytes(waiting)
