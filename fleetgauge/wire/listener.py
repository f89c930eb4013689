"""A listener: accept loop, sweep for idle connections, shutdown. See `wire.channels.tcp_channel` for connections.

The accept loop takes one connection at a time, since connection quotas apply between the accept and the first byte: a
connection that must wait keeps later ones in the backlog, as in Kafka's acceptor (KIP-402, KIP-612).
"""

import asyncio
import errno
import functools
import heapq
import itertools
import socket
from contextlib import suppress
from typing import Any, Final

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.network import unmapped
from fleetgauge.wire.admission import Admission
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.channels.secure_channel import make_channel
from fleetgauge.wire.close_reason import CloseReason
from fleetgauge.wire.context.accepted import Accepted, MakeChannel
from fleetgauge.wire.context.channel import Channel, RequestHandler
from fleetgauge.wire.context.connection_limits import NO_LIMITS, ConnectionLimits, Place, Refusal
from fleetgauge.wire.context.handshakes import Handshakes
from fleetgauge.wire.context.listener_context import ListenerContext
from fleetgauge.wire.context.listener_counters import AuthenticationCounters, ListenerCounters
from fleetgauge.wire.context.listener_security import ListenerSecurity
from fleetgauge.wire.context.listener_settings import ListenerSettings
from fleetgauge.wire.context.request_buffers import RequestBuffers
from fleetgauge.wire.context.secure_context import SecureContext
from fleetgauge.wire.context.unread_responses import UnreadResponses
from fleetgauge.wire.shared_port import cannot_bind

__all__ = ("Channel", "Listener", "ListenerSettings", "RequestHandler")

log = get_logger(__name__)

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PEER_ERRORS: Final = frozenset(
    {errno.ECONNABORTED, errno.EPROTO, errno.ECONNRESET, errno.ETIMEDOUT}
    | {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOPROTOOPT, errno.EOPNOTSUPP}
)
"""Errors of a connection that ended before `accept` (see accept(2)); the next one is accepted at once."""
_MIN_SWEEP_MS: Final = 10
_MAX_SWEEP_MS: Final = 5_000


class Listener:
    """One listener of a node.

    Args:
        name: the listener's name, as in `listeners`.
        host: the address to bind; empty for every address of the machine, IPv6 too.
        port: the port to bind; 0 for any free one.
        handler: answers the requests.
        settings: bounds of the listener.
        time: a monotonic clock, such as `base.clock.Time`.
        api_table: the served APIs.
        security: TLS, SASL and PROXY header; plaintext by default.
        reuse_port: other processes of this node listen on the same port (`SO_REUSEPORT`); see `wire.shared_port`.
        limits: connection limits; none by default.
        requests, unread: bounds on buffered bytes, which several listeners may share; by default this listener's own,
            with the bounds of `settings`.
        new_channel: makes the protocol of each connection; by default one that `handler` answers.

    Attributes:
        port: the bound port, after `start`.
    """

    def __init__(
        self,
        *,
        name: str,
        host: str,
        port: int,
        handler: RequestHandler,
        settings: ListenerSettings,
        time: Time,
        api_table: ApiTable | None = None,
        security: ListenerSecurity | None = None,
        reuse_port: bool = False,
        limits: ConnectionLimits = NO_LIMITS,
        requests: RequestBuffers | None = None,
        unread: UnreadResponses | None = None,
        new_channel: MakeChannel = make_channel,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._reuse_port = reuse_port
        self._settings = settings
        self._time = time
        self._limits = limits
        self._new_channel = new_channel
        self._counters = ListenerCounters()
        self._handshakes = Handshakes(
            max_unfinished=settings.max_unfinished_handshakes, timeout_ms=settings.handshake_timeout_ms
        )
        self._shared = SecureContext(security or ListenerSecurity(), self._handshakes, AuthenticationCounters())
        self._new_context = functools.partial(
            ListenerContext,
            listener_name=name,
            handler=handler,
            api_table=api_table or ApiTable(),
            settings=settings,
            time=time,
            counters=self._counters,
            limits=limits,
            requests=requests,
            unread=unread,
        )
        self._indexes = itertools.count()
        self._context: ListenerContext | None = None
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._adopting: set[asyncio.Task[None]] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    @property
    def security(self) -> ListenerSecurity:
        """The current security settings. A new value applies to later connections and re-authentications; open sessions
        end if their user was removed, or its credential for the mechanism has changed.
        """
        return self._shared.security

    @security.setter
    def security(self, security: ListenerSecurity) -> None:
        self._shared.security = security
        open_channels = list(self._context.channels) if self._context is not None else []
        ended = sum(each.revoke(security) for each in open_channels)
        if ended:
            log.info("wire.sessions_revoked", listener=self.name, sessions=ended)

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._context.channels) if self._context is not None else 0

    def counters(self) -> dict[str, Any]:
        """The counters since the start as plain values; see `ListenerCounters`."""
        context = self._context
        return {
            "listener": self.name,
            "security_protocol": self.security.protocol.value,
            "open": self.connection_count,
            "certificate_expires_at": self.security.certificate_expires_at,
            "unfinished_handshakes": len(self._handshakes),
            "unfinished_request_bytes": 0 if context is None else context.requests.held_by(self.name),
            "unread_response_bytes": 0 if context is None else context.unread.by_listener.get(self.name, 0),
            **self._counters.snapshot(),
            **self._shared.counters.snapshot(),
        }

    async def start(self) -> None:
        """Binds the address and starts to accept connections.

        Raises:
            InvalidConfigError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        self._context = self._new_context(loop=loop)
        self._socket = await self._bind(loop)
        self.port = self._socket.getsockname()[1]
        self._accepting = loop.create_task(self._accept_loop(loop, self._socket, self._context))
        self._sweep_later(loop)

    async def stop(self, deadline_ms: int) -> None:
        """Stops accepting, waits until the requests in flight are answered, and closes all connections.

        Args:
            deadline_ms: time limit [ms]; connections that remain are aborted.
        """
        await self._stop_accepting()
        if self._context is None:
            return
        for channel in list(self._context.channels):
            channel.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._context.all_closed.wait(), deadline_ms / 1000)
        for channel in list(self._context.channels):
            channel.abort(CloseReason.LISTENER_STOPPED)
        await self._context.all_closed.wait()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._shared.checks.close()

    def close_idle(self, now_ms: int) -> None:
        """Closes idle connections (`connections_max_idle_ms`) as of `now_ms` (monotonic), handshakes and requests that
        take too long, and connections with too many unread responses.

        The listener calls it periodically.
        """
        if self._context is None:
            return
        self._handshakes.expire(now_ms)
        for channel in list(self._context.channels):
            channel.expire(now_ms)
        self._context.requests.expire(now_ms)
        self._context.unread.review()
        for reason, count in self._context.limiter.overdue(now_ms):
            log.warning(
                "wire.repeated", message="cases that were not logged", reason=reason, listener=self.name, cases=count
            )

    def forget_usual_pushes(self) -> None:
        """Makes the next push of every instance pass `RequestHandler.handle`, which decides again whether it is
        allowed.
        """
        for channel in self._context.channels if self._context is not None else ():
            channel.push_templates = ()

    def close_excess(self, excess: int) -> None:
        """Closes the least recently used connections, so that `excess` connections are closed or closing."""
        if self._context is None:
            return
        ending = [channel for channel in self._context.channels if channel.is_ending]
        staying = (channel for channel in self._context.channels if not channel.is_ending)
        for channel in heapq.nsmallest(excess - len(ending), staying, key=lambda channel: channel.last_active_ms):
            channel.drain(CloseReason.EXCESS_CONNECTION)

    async def _bind(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        try:
            listening = await self._bound_socket(loop)
        except (OSError, OverflowError) as error:
            raise cannot_bind(self.name, self.host, self.port, error) from error
        listening.setblocking(False)
        return listening

    async def _bound_socket(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        backlog = self._settings.socket_listen_backlog_size
        if not self.host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", self.port),
                family=socket.AF_INET6,
                backlog=backlog,
                reuse_port=self._reuse_port,
                dualstack_ipv6=True,
            )
        host = self.host or None
        addresses = await loop.getaddrinfo(host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = addresses[0]
        return socket.create_server(address[:2], family=family, backlog=backlog, reuse_port=self._reuse_port)

    async def _accept_loop(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket, context: ListenerContext
    ) -> None:
        while not self._is_stopping:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno not in _PEER_ERRORS:
                    await self._pause_after(error, context)
                continue
            if accepted.fileno() >= self._settings.max_client_descriptors:
                accepted.close()
                self._counters.accepted += 1
                self._counters.closed[CloseReason.DESCRIPTORS_EXHAUSTED] += 1
                await self._pause_after(
                    OSError(errno.EMFILE, "the remaining file descriptors are reserved for the node"), context
                )
                continue
            security, peer = self.security, _endpoint(address)
            place = await self._take_place(context, accepted, peer, security)
            if isinstance(place, Refusal):
                continue
            task = loop.create_task(self._adopt(context, accepted, peer, security, place))
            self._adopting.add(task)
            task.add_done_callback(self._adopting.discard)
            if not security.has_handshake:
                # A stop must not interrupt a connection between its socket and its channel.
                await asyncio.shield(task)

    async def _pause_after(self, error: OSError, context: ListenerContext) -> None:
        """Waits for free descriptors; new connections stay in the backlog meanwhile."""
        self._counters.accept_errors += 1
        context.held.close_all()
        hint = {"message": "raise the limit of open files (ulimit -n)"} if error.errno in _EXHAUSTED else {}
        context.report(
            "wire.accept_failed",
            "accept_error",
            level="error",
            counted="cases",
            **hint,
            error=str(error),
            open_connections=len(context.channels),
        )
        await asyncio.sleep(self._settings.accept_error_pause_ms / 1000)

    async def _take_place(
        self, context: ListenerContext, accepted: socket.socket, peer: tuple[str, int], security: ListenerSecurity
    ) -> Place | Refusal:
        """Waits for a place in the limits; a refused connection is closed and counted here."""
        host = None if security.proxy is not None else peer[0]
        waits: list[str] = []
        try:
            place = await self._limits.take(self.name, host, lambda detail: self._count_wait(context, detail, waits))
        except BaseException:
            accepted.close()
            raise
        if isinstance(place, Refusal):
            self._counters.accepted += 1
            self._counters.closed[place.reason] += 1
            client = f"{peer[0]}:{peer[1]}"
            context.report(
                "wire.connection_refused", place.reason, reason=place.reason, detail=place.detail, client=client
            )
            context.held.close_after(accepted, place.hold_ms)
        return place

    def _count_wait(self, context: ListenerContext, detail: str, waits: list[str]) -> None:
        """Counts and logs a connection that waits; it is counted once, even if it waits for several limits."""
        if not waits:
            self._counters.accept_waits += 1
        waits.append(detail)
        context.report("wire.accept_delayed", "accept_wait", detail=detail)

    async def _adopt(
        self,
        context: ListenerContext,
        accepted: socket.socket,
        peer: tuple[str, int],
        security: ListenerSecurity,
        place: Place,
    ) -> None:
        """Creates the connection's channel, which takes over the place; without a channel, the place is given back."""
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection = Accepted(
                context=context,
                shared=self._shared,
                security=security,
                local=_endpoint(accepted.getsockname()),
                client=peer,
                index=next(self._indexes),
                place=place,
            )
            if security.has_handshake:
                self._counters.accepted += 1
                await Admission(connection=connection, socket=accepted, make_channel=self._new_channel).run()
                return
            channel = self._new_channel(connection)
            await context.loop.connect_accepted_socket(lambda: channel, accepted)
        except OSError:
            accepted.close()  # the peer has closed already
            context.limits.give_back(place)
            return
        except BaseException:
            context.limits.give_back(place)
            raise
        self._counters.accepted += 1

    async def _stop_accepting(self) -> None:
        if self._accepting is not None and self._socket is not None:
            # `sock_accept` loses a connection if it is cancelled after the accept: so it accepts no more, and returns.
            self._is_stopping = True
            asyncio.get_running_loop().remove_reader(self._socket)
            await asyncio.sleep(0)
            self._accepting.cancel()
            with suppress(asyncio.CancelledError):
                await self._accepting
        self._handshakes.end_all(CloseReason.LISTENER_STOPPED)
        if self._adopting:
            await asyncio.wait(self._adopting)
        if self._context is not None:
            self._context.held.close_all()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _sweep_later(self, loop: asyncio.AbstractEventLoop) -> None:
        settings = self._settings
        shortest_ms = min(
            settings.connections_max_idle_ms, settings.handshake_timeout_ms, settings.request_receive_timeout_ms
        )
        period_ms = min(_MAX_SWEEP_MS, max(_MIN_SWEEP_MS, shortest_ms // 10))
        self._sweep_timer = loop.call_later(period_ms / 1000, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self.close_idle(self._time.hi_res_clock_ms())
        self._sweep_later(loop)


def _endpoint(address: tuple[Any, ...]) -> tuple[str, int]:
    """Host and port; see `unmapped`."""
    host, port = address[:2]
    return unmapped(host), port
