"""Serving HTTP/1.1 on sockets that are already bound: h11 between asyncio's streams and one function that answers.

What a peer may cost is bounded here: how many there are, how large a request is, how long anything takes.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import h11
import structlog

from exporters.loopback import is_loopback, names_this_machine
from fleetgauge.http.messages import HttpError, HttpRequest, HttpResponse
from fleetgauge.node_socket import close_within

log = structlog.get_logger(__name__)

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]

_READ_BYTES: Final = 16 << 10
_WRITE_BYTES: Final = 64 << 10
_ALWAYS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The bounds.

    Attributes:
        max_connections: open at once; beyond, the one that is idle for longest goes, else the newcomer.
        max_request_bytes: of a request's line and headers [B]; a body is refused.
        request_within_s: how long a peer may take for its request [s].
        idle_s: how long a connection waits for its next request [s].
        answer_within_s: how long the making of a response may take [s].
        read_within_s: how long a peer may take to read a piece of a response [s].
    """

    max_connections: int = 64
    max_request_bytes: int = 16 << 10
    request_within_s: float = 5.0
    idle_s: float = 30.0
    answer_within_s: float = 60.0
    read_within_s: float = 20.0


class _Peer:
    """One connection."""

    __slots__ = ("connection", "is_idle", "is_local", "reader", "task", "writer")

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_request_bytes: int, *, is_local: bool
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.connection = h11.Connection(h11.SERVER, max_incomplete_event_size=max_request_bytes)
        self.is_idle = True
        self.is_local = is_local
        self.task = asyncio.current_task()


class HttpServer:
    """Answers requests on bound sockets.

    Args:
        sockets: bound, and not necessarily listening yet.
        answer: makes the response; may raise `HttpError`.
        settings: the bounds.
    """

    def __init__(self, sockets: Sequence[socket.socket], answer: Answer, settings: HttpSettings) -> None:
        self._sockets = sockets
        self._answer = answer
        self._settings = settings
        self._servers: list[asyncio.Server] = []
        self._peers: dict[_Peer, None] = {}

    async def start(self) -> None:
        """Accepts connections from now on."""
        for each in self._sockets:
            self._servers.append(await asyncio.start_server(self._serve, sock=each, limit=_READ_BYTES))

    async def stop(self, within_s: float) -> None:
        """Accepts no more, ends idle connections, and gives responses under way so long [s]."""
        for server in self._servers:
            server.close()
        tasks = [peer.task for peer in self._peers if peer.task is not None]
        for peer in list(self._peers):
            if peer.is_idle:
                peer.writer.transport.abort()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=within_s)
            for task in left:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        local = str(writer.get_extra_info("sockname")[0])
        peer = _Peer(reader, writer, self._settings.max_request_bytes, is_local=is_loopback(local))
        if not self._make_room():
            writer.transport.abort()
            return
        self._peers[peer] = None
        try:
            while await self._serve_request(peer):
                peer.connection.start_next_cycle()
            await close_within(writer, self._settings.read_within_s)
        except (OSError, TimeoutError, asyncio.CancelledError, h11.ProtocolError):
            pass  # a peer that is gone or takes too long; or the process stops
        except Exception:
            log.exception("a request to the HTTP port could not be served")
        finally:
            del self._peers[peer]
            writer.transport.abort()  # who does not read would keep what was written for it

    def _make_room(self) -> bool:
        """True if there is room for one more connection; the longest idle one goes for it."""
        if len(self._peers) < self._settings.max_connections:
            return True
        for peer in self._peers:
            if peer.is_idle and not peer.writer.transport.is_closing():
                peer.writer.transport.abort()
                return True
        return False

    async def _serve_request(self, peer: _Peer) -> bool:
        """Serves one request; True if another may follow on the connection."""
        request: HttpRequest | None = None
        is_head = False
        try:
            event = await self._read_request(peer)
            if event is None:
                return False
            is_head = event.method == b"HEAD"
            request = _checked(event, is_local=peer.is_local)
            async with asyncio.timeout(self._settings.answer_within_s):
                response = await self._answer(request)
        except h11.RemoteProtocolError as error:
            response = HttpError(error.error_status_hint, "this is not an HTTP request that can be served").response()
        except HttpError as error:
            response = error.response()
        except TimeoutError:
            if request is None:
                return False
            response = HttpError(503, "the answer took too long").response()
        except Exception:
            log.exception("a request to the HTTP port failed")
            response = HttpError(500, "this request failed; the node's log says why").response()
        if peer.connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return False
        await self._send(peer, response, is_head=is_head, close=request is None)
        # The next request counts as a new one, at the end of the line of those that are idle.
        self._peers.pop(peer)
        self._peers[peer] = None
        peer.is_idle = True
        return bool(peer.connection.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE})

    async def _read_request(self, peer: _Peer) -> h11.Request | None:
        """The next request, whole; None at the end of the connection."""
        async with asyncio.timeout(self._settings.idle_s):
            event = await self._next_event(peer, first_only=True)
        if event is h11.NEED_DATA:
            async with asyncio.timeout(self._settings.request_within_s):
                event = await self._next_event(peer)
        if not isinstance(event, h11.Request):
            return None
        peer.is_idle = False
        async with asyncio.timeout(self._settings.request_within_s):
            following = await self._next_event(peer)
        if not isinstance(following, h11.EndOfMessage):
            raise HttpError(413, "requests have no body here")
        return event

    async def _next_event(self, peer: _Peer, *, first_only: bool = False) -> Any:
        """The next event; with `first_only`, NEED_DATA once something came that is no whole request yet."""
        received = False
        while True:
            event = peer.connection.next_event()
            if event is not h11.NEED_DATA or (first_only and received):
                return event
            peer.connection.receive_data(await peer.reader.read(_READ_BYTES))
            received = True

    async def _send(self, peer: _Peer, response: HttpResponse, *, is_head: bool, close: bool) -> None:
        headers = [*_ALWAYS, ("Content-Type", response.content_type), *response.headers.items()]
        body = response.body
        if isinstance(body, bytes):
            headers.append(("Content-Length", str(len(body))))
        if close:
            headers.append(("Connection", "close"))
        reason = HTTPStatus(response.status).phrase.encode()
        await self._write(peer, h11.Response(status_code=response.status, headers=headers, reason=reason))
        if isinstance(body, bytes):
            pieces = (body[at : at + _WRITE_BYTES] for at in range(0, 0 if is_head else len(body), _WRITE_BYTES))
            for piece in pieces:
                await self._write(peer, h11.Data(data=piece))
        else:
            await self._send_pieces(peer, body, is_head=is_head)
        await self._write(peer, h11.EndOfMessage())

    async def _send_pieces(self, peer: _Peer, body: AsyncGenerator[bytes, None], *, is_head: bool) -> None:
        """What fails meanwhile cuts the response off, so that nobody takes a part of it for the whole."""
        async with aclosing(body):
            if is_head:
                return
            async for piece in body:
                await self._write(peer, h11.Data(data=piece))

    async def _write(self, peer: _Peer, event: Any) -> None:
        data = peer.connection.send(event)
        if data:
            peer.writer.write(data)
            async with asyncio.timeout(self._settings.read_within_s):
                await peer.writer.drain()


def _checked(event: h11.Request, *, is_local: bool) -> HttpRequest:
    """The request as a value.

    Raises:
        HttpError: it is of a kind that is not served.
    """
    if event.method not in (b"GET", b"HEAD"):
        raise HttpError(405, "only GET and HEAD are served here", {"Allow": "GET, HEAD"})
    headers = {name: value.decode("latin-1") for name, value in event.headers}
    if is_local and not names_this_machine(headers.get(b"host", "")):
        raise HttpError(421, "on a loopback address only requests to localhost or to an IP address are served")
    path, _, query = event.target.decode("latin-1").partition("?")
    return HttpRequest(path=path, query=query, accept=headers.get(b"accept", ""))
