"""One HTTP connection: uvicorn's protocol over h11, with a bound for all that a peer can make us keep or wait for.

uvicorn bounds the incomplete head of a request and the time between two requests. Added here: deadlines for a request's
head and body, for a response and for each piece of it that the peer has to read; a connection that waits for its peer
can be ended for another one; a response reaches a peer that goes on sending, or has ended its own side.
"""

import asyncio
import logging
import math
import select
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.base.network import network_of, unmapped
from fleetgauge.http.access import Access, Denial
from fleetgauge.http.errors import error
from fleetgauge.http.loopback import is_loopback, names_this_machine

log = get_logger(__name__)

_READ_BYTES: Final = 16 << 10
_WRITE_BYTES: Final = 64 << 10
_LINGER_BYTES: Final = 1 << 20
_RESET: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which closing discards bytes that the peer has not read or acknowledged."""
_ALWAYS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'"),
)
_CLOSE: Final = {"Connection": "close"}
USER: Final = "fleetgauge.user"
"""In a request's scope: its `User`; missing on an open path without a login."""
ACCESS: Final = "fleetgauge.access"
"""In a request's scope: the `Access` that decided about it."""
_SILENT: Final = logging.Logger("uvicorn", logging.CRITICAL + 1)
"""Peers can make uvicorn log as often as they like; what is ours to know is logged by `HttpServer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The bounds.

    Attributes:
        max_connections: open at once; a further one takes the place of another one, or is refused; see
            `Connections.make_room`.
        max_request_bytes: of a request's line and headers [B].
        max_body_bytes: of a request's body [B], where there may be one.
        body_prefix: beginning of the paths whose requests may have a body; None if none may.
        open_paths: paths that need no login.
        max_answers: made at once; further requests wait for their turn.
        request_within_s: how long a peer may take for its request [s].
        idle_s: how long a connection waits for its next request [s].
        answer_within_s: how long the making of a response may take [s].
        read_within_s: how long a peer may take to read a piece of a response [s].
        send_within_s: how long a peer may take to read a whole response, unless it is a stream of events [s].
        linger_s: how long a peer may go on sending what is not read any more, after its last response [s].
        stalled_after_s: how long a peer that does not read keeps its place when another one needs it [s].
    """

    max_connections: int = 64
    max_request_bytes: int = 16 << 10
    max_body_bytes: int = 64 << 10
    body_prefix: str | None = None
    open_paths: frozenset[str] = frozenset()
    max_answers: int = 8
    request_within_s: float = 5.0
    idle_s: float = 30.0
    answer_within_s: float = 60.0
    read_within_s: float = 20.0
    send_within_s: float = 120.0
    linger_s: float = 1.0
    stalled_after_s: float = 1.0


class Connections:
    """All connections of a server, and what they share.

    Args:
        app: makes the responses.
        settings: the bounds.
        access: who may use it.
    """

    def __init__(self, app: ASGIApp, settings: HttpSettings, access: Access) -> None:
        self.settings = settings
        self.access = access
        self.state = ServerState()
        self.answering = asyncio.Semaphore(settings.max_answers)
        self.config = Config(
            cast(Any, app),
            http=Connection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=settings.max_request_bytes - 1,  # of a head that has not ended
            timeout_keep_alive=math.ceil(settings.idle_s),
        )
        self.config.load()
        self._limiter = LogLimiter()

    def __iter__(self) -> Iterator["Connection"]:
        return iter([each for each in self.state.connections if isinstance(each, Connection)])

    def make_room(self, address: str) -> bool:
        """True if there is room for one more connection, from this address; made by closing another one.

        First the one that waits for its peer for longest: without a request, with one whose sender is not known, or
        with an answer that is not read. Those that wait for less than `stalled_after_s` are spared until they are half
        of all, so that a peer that has just connected can send its request. Until then one with a request under way
        is closed, of the network with the most connections, or of the newcomer's own: see `Connection.precedence`. A
        network that holds more never takes a place of one that holds less.
        """
        if len(self.state.connections) < self.settings.max_connections:
            return True
        chosen = self._to_close(network_of(address))
        if chosen is None:
            return False
        chosen.give_way()
        return True

    def _to_close(self, newcomer: str) -> "Connection | None":
        """The connection that gives way to one of the network `newcomer`; None if none has to."""
        held = Counter(each.network for each in self)
        own = held[newcomer]
        waiting = [each for each in self if held[each.network] >= own and each.may_give_way()]
        stalled = [each for each in waiting if each.stalled_s() >= self.settings.stalled_after_s]
        if stalled:
            return max(stalled, key=Connection.stalled_s)
        resting_first = max(waiting, key=lambda each: (each.rests, each.stalled_s()), default=None)
        if 2 * len(waiting) >= self.settings.max_connections:
            return resting_first
        most, count = held.most_common(1)[0]
        network = most if count > own + 1 else newcomer
        answered = (each for each in self if each.network == network and not each.is_idle)
        return min(answered, key=Connection.precedence, default=resting_first)

    def occurrences(self, kind: str) -> int:
        """Number of faults of this kind that a line of the log stands for now; 0 for no line."""
        return self._limiter.admit(kind, round(asyncio.get_running_loop().time() * 1e3))


class Connection(H11Protocol):
    """One connection, among those of its server."""

    pause_s: float = 0.5
    """After such a pause between a response and the next request a peer is no longer one that sends without a pause."""

    def __init__(self, server: Connections) -> None:
        super().__init__(server.config, server.state, {})
        self.logger = _SILENT
        self.app = self._answer
        self._server = server
        self._settings = server.settings
        self._task: asyncio.Task[Any] | None = None
        self._since_s: float | None = None  # when the wait for the peer began; None while there is none
        self._deadline: asyncio.TimerHandle | None = None
        self._has_begun = False  # the peer has sent a part of its next request
        self._has_ended = False  # the peer has ended its side
        self._lingers = False
        self._dropped_bytes = 0
        self._is_known = False  # it is settled who sent the request, and whether it is answered
        self.network = ""  # of the peer's address
        self.is_stream = False  # its response is a stream of events, which has no end of its own
        self._reply: _Reply | None = None  # to the latest request
        self._has_no_user = False  # its request is answered without the login that others need
        self._busy_since_s = self.loop.time()  # when it began to send requests without a pause

    @property
    def is_idle(self) -> bool:
        """True while no whole request has come that is not answered."""
        return self._task is None and not self._is_answering()

    @property
    def rests(self) -> bool:
        """True while a peer that has had an answer has not sent another whole request."""
        return self.is_idle and self.cycle is not None

    def may_give_way(self) -> bool:
        """True if another connection may take its place."""
        is_waited_for = self.is_idle or not self._is_known
        return self.stalled_s() >= (0.0 if is_waited_for else self._settings.stalled_after_s)

    def stalled_s(self) -> float:
        """Time that the peer has been waited for [s]; below 0 if it is not.

        A peer that reset its connection while its request waits for an answer is not worth waiting for at all.
        """
        if self._since_s is not None:
            return self.loop.time() - self._since_s
        poll = select.poll()
        poll.register(self.transport.get_extra_info("socket"), 0)  # errors and resets are reported unasked
        return math.inf if poll.poll(0) else -1.0

    def precedence(self) -> tuple[bool, bool, bool, float]:
        """Order in which connections with a request under way give way to others, the first one first.

        The one that has sent requests for longest without a pause, so that a peer with a single request is answered
        among peers that send one after the other; requests without a login before those with one. Responses that are
        being made come later: if they gave way, a server with too many requests would complete none. Streams of events
        come last; the application bounds them.
        """
        is_made = self._reply is not None and self._reply.has_turn
        return self.is_stream, is_made, not self._has_no_user, self._busy_since_s

    def give_way(self) -> None:
        """Ends the connection for another one; what the system has of a whole response can still be read."""
        if (self.rests or self._lingers) and not self.transport.get_write_buffer_size():
            self.connections.discard(self)
            cast("_Lingering", self.transport).close_now()
        else:
            self.abort()

    def abort(self) -> None:
        """Resets the connection, so that the system keeps nothing for the peer, and ends its request."""
        self.connections.discard(self)
        with suppress(OSError):  # it is closed
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.transport.abort()
        self._end_request()

    # What asyncio calls.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a place, or that of the peer that has been waited for longest; refused if there is none."""
        self._address = unmapped(str((transport.get_extra_info("peername") or ("",))[0]))
        self.network = network_of(self._address)
        has_room = self._server.make_room(self._address)
        super().connection_made(cast("asyncio.Transport", _Lingering(transport, self)))
        self._tls = transport.get_extra_info("ssl_object")
        if self.client is not None:
            self.client = self._address, self.client[1]
        self._is_local = is_loopback(str((transport.get_extra_info("sockname") or ("",))[0]))
        if has_room:
            self._wait(self._settings.idle_s)
        else:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends what is done for the connection."""
        self._stop_waiting()
        super().connection_lost(exc)
        self._end_request()

    def data_received(self, data: bytes) -> None:
        """Takes some bytes; in slices that fill a head up to its bound, since h11 bounds only what is incomplete."""
        at = 0
        while at < len(data):
            if self._lingers:
                self._dropped_bytes += len(data) - at
                if self._dropped_bytes > _LINGER_BYTES:
                    self.close_now()
                return
            room = self._settings.max_request_bytes - len(self.conn.trailing_data[0])
            size = room if room > 0 else _READ_BYTES  # no room: requests wait for the response to an earlier one
            super().data_received(data[at : at + size])
            at += size
        if self._is_answering():
            self._has_begun = False
        elif not self._has_begun:
            self._has_begun = True
            self._wait(self._settings.request_within_s)

    def eof_received(self) -> bool:  # type: ignore[override]
        """The peer sends no more; what it has requested is answered first, unless that has no end."""
        self._has_ended = True
        if self._lingers:
            self.close_now()
        elif self.is_stream:
            self.abort()
        elif not self._is_answering() or self.cycle.more_body:
            self._end_of_input()
        return self._tls is None  # TLS closes both directions at once

    def pause_writing(self) -> None:
        """The peer has to read a piece."""
        super().pause_writing()
        self._wait(self._settings.read_within_s)

    def resume_writing(self) -> None:
        """The peer has read it."""
        super().resume_writing()
        if not self.is_idle:
            self._stop_waiting()

    # What uvicorn calls.

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP request."""
        self._end_request()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.abort()
            return
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        response = error(status, "this is not an HTTP request that can be served", _CLOSE)
        headers, reason = [*_ALWAYS, *response.raw_headers], HTTPStatus(status).phrase.encode()
        for event in (
            h11.Response(status_code=status, headers=headers, reason=reason),
            h11.Data(data=bytes(response.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        """Waits for the next request, which may have come already."""
        self._task = None
        if not self._lingers:
            self._wait(self._settings.idle_s)
        super().on_response_complete()
        if self._has_ended and not self._lingers and not self._is_answering():
            self._end_of_input()

    # The end of a connection.

    def linger(self, transport: asyncio.Transport) -> None:
        """Ends the connection when the peer has read what was written.

        What it sends meanwhile is read and dropped: unread, it would have the connection reset and the response lost.
        """
        if self._lingers or transport.is_closing():
            return
        self._lingers = True
        self._unset_keepalive_if_required()
        with suppress(OSError, RuntimeError):  # the peer has reset it, or it has TLS, which cannot end one direction
            transport.write_eof()
        if self._has_ended:
            self.close_now()
        else:
            transport.resume_reading()
            self._wait(self._settings.linger_s, self.close_now)

    def close_now(self) -> None:
        """Reads no more; the peer may still read what was written."""
        self._wait(self._settings.read_within_s)
        cast("_Lingering", self.transport).close_now()

    def _end_of_input(self) -> None:
        """Nothing comes behind what h11 has already."""
        if self.conn.trailing_data[0] or self._is_answering():  # a request of which a part is missing
            self.conn.receive_data(b"")
            self.handle_events()
        else:
            self.transport.close()

    def _end_request(self) -> None:
        """Cancels the work for the peer, which may send no more."""
        if self._is_answering():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        self._task = None

    # Waiting for the peer.

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, within_s: float, then: Any = None) -> None:
        """Waits for the peer from now on; aborts the connection, or calls `then`, at the end."""
        self._stop_waiting()
        self._since_s = self.loop.time()
        self._deadline = self.loop.call_later(within_s, then or self.abort)

    def _stop_waiting(self) -> None:
        self._since_s = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # One request; an ASGI application.

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.cycle.disconnected:  # it gave way, or was reset, before this began
            return
        reply = self._begin(send)
        try:
            denial = self._problem(scope) or await self._log_in(scope)
            self._is_known, self._has_no_user = True, USER not in scope
            self._stop_waiting()
            if denial is not None:
                await error(denial.status, denial.problem, {**denial.headers, **_CLOSE})(scope, receive, reply)
                return
            if _has_body(scope):
                receive = await self._with_body(receive)
            async with asyncio.timeout(self._settings.answer_within_s) as reply.limit:
                await reply.take_turn()
                await self.config.loaded_app(cast(Any, scope), cast(Any, receive), cast(Any, reply))
        except asyncio.CancelledError:
            self.abort()
        except ConnectionError:  # raised to cut a response off
            self.abort()
        except _TooLongError:
            await error(413, f"a request has at most {self._settings.max_body_bytes} bytes", _CLOSE)(
                scope, receive, reply
            )
        except TimeoutError:
            await self._fail(503, "the answer took too long", scope, receive, reply)
        except Exception:
            if count := self._server.occurrences("failed"):
                log.exception("a request could not be answered", occurrences=count)
            problem_500 = "this request failed; the log of Fleetgauge has the reason"
            await self._fail(500, problem_500, scope, receive, reply)
        finally:
            reply.end_turn()

    def _begin(self, send: Send) -> "_Reply":
        self._task = asyncio.current_task()
        self._is_known = self._has_no_user = False
        if self._since_s is None or self.loop.time() - self._since_s >= self.pause_s:
            self._busy_since_s = self.loop.time()
        self._wait(self._settings.answer_within_s)  # a flood of failing log-ins must not hold all places
        self._reply = _Reply(self, send, self._server.answering)
        return self._reply

    def _problem(self, scope: Scope) -> Denial | None:
        """Why a request is refused whatever it asks for and whoever sends it."""
        headers = dict(scope["headers"])
        if self._is_local and not names_this_machine(headers.get(b"host", b"").decode("latin-1")):
            problem = "on a loopback address only requests to localhost or to an IP address are served"
            return Denial(status=421, problem=problem)
        if _head_bytes(scope) > self._settings.max_request_bytes:  # it came whole, behind another request
            return Denial(status=431, problem=f"a request's head has at most {self._settings.max_request_bytes} bytes")
        if b"transfer-encoding" in headers and b"content-length" in headers:
            return Denial(status=400, problem="a request has one length, not two")  # RFC 9112, section 6.3: smuggled?
        if _has_body(scope) and not self._may_have_body(scope):
            return Denial(status=413, problem="requests have no body here")
        return None

    async def _log_in(self, scope: Scope) -> Denial | None:
        """Notes the request's user in `scope`; or returns why it is refused. On an open path it may have none."""
        headers = dict(scope["headers"])
        access = self._server.access
        user = await access.identify(
            headers.get(b"authorization", b"").decode("latin-1"),
            address=self._address,
            certificate=None if self._tls is None else self._tls.getpeercert(binary_form=True),
        )
        if isinstance(user, Denial):
            return None if scope["path"] in self._settings.open_paths else user
        scope[USER] = user
        scope[ACCESS] = access
        return None

    def _may_have_body(self, scope: Scope) -> bool:
        prefix = self._settings.body_prefix
        return prefix is not None and scope["path"].startswith(prefix) and scope["method"] not in ("GET", "HEAD")

    async def _with_body(self, receive: Receive) -> Receive:
        """`receive` with the whole body as its first message."""
        self._wait(self._settings.request_within_s)
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ConnectionResetError
            body += message["body"]
            more = message["more_body"]
            if len(body) > self._settings.max_body_bytes:
                raise _TooLongError
        self._stop_waiting()
        first: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def with_body() -> Message:
            return first.pop() if first else await receive()

        return with_body

    async def _fail(self, status: int, problem: str, scope: Scope, receive: Receive, reply: "_Reply") -> None:
        """Answers, or cuts off a response that has begun, so that no part of it is taken for the whole."""
        if reply.has_begun:
            if not reply.is_whole:
                self.abort()
            return
        reply.limit = None
        await error(status, problem)(scope, receive, reply)

    def begin_response(self, content_type: bytes) -> float | None:
        """When the response has to be read as a whole [s of the loop's clock]; None for a stream of events."""
        self.is_stream = content_type.startswith(b"text/event-stream")
        return None if self.is_stream else self.loop.time() + self._settings.send_within_s

    async def drain(self) -> None:
        """Returns when the peer has read most of what was written."""
        if self.flow.write_paused:
            await self.flow.drain()


class _TooLongError(Exception):
    """A body is longer than it may be."""


class _Reply:
    """The `send` of one request: long bodies in pieces, with the headers that every response has."""

    def __init__(self, connection: Connection, send: Send, answering: asyncio.Semaphore) -> None:
        self._connection = connection
        self._send = send
        self._answering = answering
        self.has_turn = False  # the response is being made
        self.limit: asyncio.Timeout | None = None
        self.has_begun = False
        self.is_whole = False

    async def take_turn(self) -> None:
        await self._answering.acquire()
        self.has_turn = True

    def end_turn(self) -> None:
        if self.has_turn:
            self.has_turn = False
            self._answering.release()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if len(body) > _WRITE_BYTES:
            for at in range(0, len(body), _WRITE_BYTES):
                await self._send(
                    {"type": "http.response.body", "body": body[at : at + _WRITE_BYTES], "more_body": True}
                )
            await self._connection.drain()
            body = b""
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        self.is_whole = not more

    async def _begin(self, message: Message) -> None:
        self.has_begun = True
        self.end_turn()
        headers = list(message["headers"])
        given = dict(headers)
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(self._connection.begin_response(given.get(b"content-type", b"")))
        headers += [each for each in _ALWAYS if each[0] not in given]
        await self._send({**message, "headers": headers})


class _Lingering:
    """A transport whose `close` leaves the peer time to read (`Connection.linger`)."""

    def __init__(self, transport: asyncio.Transport, connection: Connection) -> None:
        self._transport = transport
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        self._connection.linger(self._transport)

    def close_now(self) -> None:
        self._transport.close()

    def is_closing(self) -> bool:
        return self._connection._lingers or self._transport.is_closing()


def _head_bytes(scope: Scope) -> int:
    """Length of a request's line and headers, with one blank after each colon."""
    query = scope["query_string"]
    line = len(scope["method"]) + len(scope["raw_path"]) + len(query) + bool(query) + len("  HTTP/1.1\r\n")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"]) + len("\r\n")


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
