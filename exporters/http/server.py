"""Serving HTTP/1.1 on sockets that are already bound: h11 between asyncio's streams and one function that answers.

The node's HTTP port and the page of client series are both served here. The cost of a peer is bounded: number of
connections, size of a request, duration of every step. A connection that waits for its peer gives way to a new one.
"""

import asyncio
import math
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import h11
import structlog

from base.log_limiter import LogLimiter
from exporters.http.loopback import is_loopback, names_this_machine
from exporters.http.messages import HttpError, HttpRequest, HttpResponse

log = structlog.get_logger(__name__)

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]

_READ_BYTES: Final = 16 << 10
_WRITE_BYTES: Final = 64 << 10
_LINGER_READS: Final = 64
_RESET: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: closing frees what the peer has not read, and what it does not acknowledge."""
_ALWAYS: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The bounds.

    Attributes:
        max_connections: open at once; a further one takes the place of the connection that has waited for its peer for
            longest, and is refused where there is none.
        max_request_bytes: of a request's line and headers [B]; a body is refused.
        max_answers: made at once; further requests wait for their turn.
        request_within_s: how long a peer may take for its request [s].
        idle_s: how long a connection waits for its next request [s].
        answer_within_s: how long the making of a response may take [s].
        read_within_s: how long a peer may take to read a piece of a response [s].
        send_within_s: how long a peer may take to read a whole response [s].
        linger_s: how long a peer may go on sending what is not read any more, after its last response [s].
        stalled_after_s: how long a peer that does not read keeps its place when another one needs it [s].
    """

    max_connections: int = 64
    max_request_bytes: int = 16 << 10
    max_answers: int = 8
    request_within_s: float = 5.0
    idle_s: float = 30.0
    answer_within_s: float = 60.0
    read_within_s: float = 20.0
    send_within_s: float = 120.0
    linger_s: float = 1.0
    stalled_after_s: float = 1.0


class _Peer:
    """One connection.

    Attributes:
        is_idle: no whole request has come that is not answered.
        waits_since_s: when the wait for the peer began, to send or to read [s of the loop's clock]; None while there
            is none.
        gives_way: it is being closed, since another one needs its place.
    """

    __slots__ = ("connection", "gives_way", "is_idle", "is_local", "reader", "task", "waits_since_s", "writer")

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, max_request_bytes: int, now_s: float
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.connection = h11.Connection(h11.SERVER, max_incomplete_event_size=max_request_bytes)
        self.is_idle = True
        self.is_local = is_loopback(str((writer.get_extra_info("sockname") or ("",))[0]))
        self.waits_since_s: float | None = now_s
        self.gives_way = False
        self.task = asyncio.current_task()

    def stalled_s(self, now_s: float) -> float:
        """For how long the peer has been waited for [s]; below 0 if it is not, or gives way already.

        A peer that reset its connection while its request waits for an answer is not worth waiting for at all.
        """
        if self.gives_way:
            return -1.0
        if self.waits_since_s is None:
            return math.inf if self.writer.transport.is_closing() else -1.0
        return now_s - self.waits_since_s

    def begin(self) -> None:
        """A request is being served."""
        self.is_idle = False
        self.waits_since_s = None

    def give_way(self) -> None:
        """Ends the connection, and what is done for it."""
        self.gives_way = True
        self.abort()
        if self.task is not None:
            self.task.cancel()

    def abort(self) -> None:
        """Resets the connection, so that the system keeps nothing for a peer that does not read."""
        with suppress(OSError):  # it is closed
            self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.writer.transport.abort()


class HttpServer:
    """Answers requests on bound sockets. Its loop is its own: what the loop reports goes to the log, limited.

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
        self._peers: set[_Peer] = set()
        self._answering = asyncio.Semaphore(settings.max_answers)
        self._calm = LogLimiter()

    async def start(self) -> None:
        """Accepts connections from now on."""
        asyncio.get_running_loop().set_exception_handler(self._on_loop_error)
        for each in self._sockets:
            self._servers.append(await asyncio.start_server(self._serve, sock=each, limit=_READ_BYTES))

    async def stop(self, within_s: float) -> None:
        """Accepts no more, ends idle connections, and waits up to `within_s` [s] for responses under way."""
        for server in self._servers:
            server.close()
        tasks = [peer.task for peer in self._peers if peer.task is not None]
        for peer in self._peers:
            if peer.is_idle:
                peer.abort()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=within_s)
            for task in left:
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _Peer(reader, writer, self._settings.max_request_bytes, self._now_s())
        if not self._make_room():
            peer.abort()
            return
        self._peers.add(peer)
        try:
            while await self._serve_request(peer):
                peer.connection.start_next_cycle()
            await self._close(peer)
        except (OSError, TimeoutError, asyncio.CancelledError, h11.ProtocolError):
            pass  # the peer reset the connection or takes too long; or the process stops
        except Exception:
            if count := self._occurrences("cut off"):
                log.exception("a response was cut off", occurrences=count)
        finally:
            self._peers.discard(peer)
            peer.abort()

    def _make_room(self) -> bool:
        """True if there is room for one more connection; made by closing the one that waits for its peer for longest.

        A connection without a request gives way at once, one whose peer is slow to read after `stalled_after_s`.
        """
        if len(self._peers) < self._settings.max_connections:
            return True
        now_s = self._now_s()
        longest = max(self._peers, key=lambda peer: peer.stalled_s(now_s))
        if longest.stalled_s(now_s) < (0.0 if longest.is_idle else self._settings.stalled_after_s):
            return False
        longest.give_way()
        return True

    async def _close(self, peer: _Peer) -> None:
        """Ends the connection when the peer has read what was written.

        What it sends meanwhile is read and dropped: unread, it would have the connection reset and the response lost.
        """
        peer.writer.write_eof()
        with self._waiting(peer):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.linger_s):
                    for _ in range(_LINGER_READS):
                        if not await peer.reader.read(_READ_BYTES):
                            break
            peer.writer.close()
            async with asyncio.timeout(self._settings.read_within_s):
                await peer.writer.wait_closed()

    async def _serve_request(self, peer: _Peer) -> bool:
        """Serves one request; True if another may follow on the connection.

        Raises:
            OSError: the peer reset the connection.
            TimeoutError: the peer takes too long.
        """
        is_head = is_readable = False
        try:
            event = await self._read_request(peer)
            if event is None:
                return False
            is_head = event.method == b"HEAD"
            request = _checked(event, is_local=peer.is_local)
            is_readable = True
            response = await self._response(peer, request)
        except h11.RemoteProtocolError as error:
            response = HttpError(error.error_status_hint, "this is not an HTTP request that can be served").response()
        except HttpError as error:
            response = error.response()
        if peer.connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return False
        peer.begin()
        async with asyncio.timeout(self._settings.send_within_s):
            await self._send(peer, response, is_head=is_head, close=not is_readable)
        peer.is_idle = True
        return bool(peer.connection.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE})

    async def _response(self, peer: _Peer, request: HttpRequest) -> HttpResponse:
        """The response to a request that can be served; what fails while it is made is answered and logged."""
        try:
            async with asyncio.timeout(self._settings.answer_within_s), self._answering:
                if peer.writer.transport.is_closing():  # reset while the request waited for its turn
                    return HttpError(503, "").response()
                return await self._answer(request)
        except HttpError as error:
            return error.response()
        except TimeoutError:
            return HttpError(503, "the answer took too long").response()
        except Exception:
            if count := self._occurrences("failed"):
                log.exception("a request could not be answered", occurrences=count)
            return HttpError(500, "this request failed; the log of Fleetgauge has the reason").response()

    async def _read_request(self, peer: _Peer) -> h11.Request | None:
        """The next request, whole; None at the end of the connection."""
        async with asyncio.timeout(self._settings.idle_s):
            event = await self._next_event(peer, first_only=True)
        if event is h11.NEED_DATA:
            async with asyncio.timeout(self._settings.request_within_s):
                event = await self._next_event(peer)
        if not isinstance(event, h11.Request):
            return None
        peer.begin()
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
            with self._waiting(peer):
                peer.connection.receive_data(await peer.reader.read(_READ_BYTES))
            received = True

    @contextmanager
    def _waiting(self, peer: _Peer) -> Iterator[None]:
        """Notes since when the peer is waited for; a request that comes in drops is one wait."""
        if peer.waits_since_s is None:
            peer.waits_since_s = self._now_s()
        yield
        if not peer.is_idle:
            peer.waits_since_s = None

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
        """A failure in between cuts the response off, so that no part of it is taken for the whole."""
        async with aclosing(body):
            if is_head:
                return
            async for piece in body:
                await self._write(peer, h11.Data(data=piece))

    async def _write(self, peer: _Peer, event: Any) -> None:
        data = peer.connection.send(event)
        if data:
            peer.writer.write(data)
            with self._waiting(peer):
                async with asyncio.timeout(self._settings.read_within_s):
                    await peer.writer.drain()

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What asyncio reports of itself, such as an accept without a free descriptor, which it tries again."""
        error = context.get("exception")
        if count := self._occurrences(context["message"]):
            problem = f"{context['message']}: {error}" if error else context["message"]
            log.warning("the HTTP server has a problem", problem=problem, occurrences=count)

    def _occurrences(self, kind: str) -> int:
        return self._calm.admit(kind, round(self._now_s() * 1e3))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


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
    return HttpRequest(
        path=path,
        query=query,
        accept=headers.get(b"accept", ""),
        accept_encoding=headers.get(b"accept-encoding", ""),
    )
