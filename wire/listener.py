"""Listening: the accept loop, the sweep for idle connections, and the orderly stop. What a connection does stands in
`wire.tcp_channel`.

The accept loop is our own, one connection at a time, since connection quotas stand between the accept and the first
byte: who has to wait keeps those behind it in the backlog (chapter 19, connection quotas inside the acceptor).
"""

import asyncio
import errno
import heapq
import itertools
import socket
from contextlib import suppress
from typing import Any, Final

import structlog

from base.clock import Time
from wire.admission import Admission
from wire.api_table import ApiTable
from wire.channel import Channel, RequestHandler
from wire.close_reason import CloseReason
from wire.connection_limits import NO_LIMITS, ConnectionLimits, Place, Refusal
from wire.handshakes import Handshakes
from wire.listener_context import ListenerContext
from wire.listener_counters import AuthenticationCounters, ListenerCounters
from wire.listener_security import ListenerSecurity
from wire.listener_settings import ListenerSettings
from wire.request_buffers import RequestBuffers
from wire.secure_channel import SecureChannel, SecureContext
from wire.shared_port import cannot_bind
from wire.tcp_channel import TcpChannel, as_protocol
from wire.unread_responses import UnreadResponses

__all__ = ("Channel", "Listener", "ListenerSettings", "RequestHandler")

log = structlog.get_logger(__name__)

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_OF_THE_PEER: Final = frozenset(
    {errno.ECONNABORTED, errno.EPROTO, errno.ECONNRESET, errno.ETIMEDOUT}
    | {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENOPROTOOPT, errno.EOPNOTSUPP}
)
"""What `accept` hands on of a connection that has ended already (accept(2)): the next one follows at once."""
_MIN_SWEEP_MS: Final = 10
_MAX_SWEEP_MS: Final = 5_000


class Listener:
    """One listener of a node.

    Args:
        name: the listener's name, as in `listeners`.
        host: the address to bind; empty for every address of the machine, IPv6 too.
        port: the port to bind; 0 for any free one.
        handler: answers the requests.
        settings: see there.
        time: a monotonic clock; `base.clock.Time` is one.
        api_table: what is served.
        security: what clients have to do before their first request; plaintext by default.
        reuse_port: other processes of this node listen on the same port (`SO_REUSEPORT`); see `wire.shared_port`.
        limits: how many may connect, and how fast; without limits by default.
        requests, unread: what all connections may hold; several listeners may share them. Its own by default, as large
            as `settings` say.

    Attributes:
        port: the port that was bound, after `start`.
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
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self._reuse_port = reuse_port
        self._handler = handler
        self._settings = settings
        self._time = time
        self._api_table = api_table or ApiTable()
        self._limits = limits
        self._requests = requests
        self._unread = unread
        self._counters = ListenerCounters()
        self._handshakes = Handshakes(
            max_unfinished=settings.max_unfinished_handshakes, timeout_ms=settings.handshake_timeout_ms
        )
        self._shared = SecureContext(security or ListenerSecurity(), self._handshakes, AuthenticationCounters())
        self._indexes = itertools.count()
        self._context: ListenerContext | None = None
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._adopting: set[asyncio.Task[None]] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    @property
    def security(self) -> ListenerSecurity:
        """May be exchanged while connections are open; it holds for those to come, and for sessions to be renewed. Open
        sessions end whose user was removed or has another credential for the mechanism.
        """
        return self._shared.security

    @security.setter
    def security(self, security: ListenerSecurity) -> None:
        self._shared.security = security
        open_channels = list(self._context.channels) if self._context is not None else []
        ended = sum(isinstance(each, SecureChannel) and each.revoke(security) for each in open_channels)
        if ended:
            log.info("ended sessions whose users were removed or changed", listener=self.name, sessions=ended)

    @property
    def connection_count(self) -> int:
        """Open connections."""
        return len(self._context.channels) if self._context is not None else 0

    def counters(self) -> dict[str, Any]:
        """What was counted since the start, in plain values; see `ListenerCounters`."""
        context = self._context
        return {
            "listener": self.name,
            "security_protocol": self.security.protocol.value,
            "open": self.connection_count,
            "unfinished_handshakes": len(self._handshakes),
            "unfinished_request_bytes": 0 if context is None else context.requests.held_by(self.name),
            "unread_response_bytes": 0 if context is None else context.unread.by_listener.get(self.name, 0),
            **self._counters.snapshot(),
            **self._shared.counters.snapshot(),
        }

    async def start(self) -> None:
        """Binds and accepts connections from now on.

        Raises:
            InvalidConfigError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        self._context = ListenerContext(
            listener_name=self.name,
            handler=self._handler,
            api_table=self._api_table,
            settings=self._settings,
            time=self._time,
            loop=loop,
            counters=self._counters,
            limits=self._limits,
            requests=self._requests,
            unread=self._unread,
        )
        self._socket = await self._bind(loop)
        self.port = self._socket.getsockname()[1]
        self._accepting = loop.create_task(self._accept_loop(loop, self._socket, self._context))
        self._sweep_later(loop)

    async def stop(self, deadline_ms: int) -> None:
        """Accepts no more, has the requests in flight answered, and closes every connection.

        Args:
            deadline_ms: how long that may take [ms]; what is left then is cut off.
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
        """Ends the connections on which nothing arrived for `connections_max_idle_ms`, as of `now_ms` (monotonic),
        the handshakes and requests that take too long, and those that leave too much unread.

        The listener calls it by itself.
        """
        if self._context is None:
            return
        self._handshakes.expire(now_ms)
        for channel in list(self._context.channels):
            channel.expire(now_ms)
        self._context.requests.expire(now_ms)
        self._context.unread.review()
        for reason, count in self._context.limiter.overdue(now_ms):
            log.warning("more of what was logged before", reason=reason, listener=self.name, cases=count)

    def close_excess(self, excess: int) -> None:
        """Ends the connections that were used longest ago, until so many are gone or about to go."""
        if self._context is None:
            return
        going = [channel for channel in self._context.channels if channel.is_ending]
        staying = (channel for channel in self._context.channels if not channel.is_ending)
        for channel in heapq.nsmallest(excess - len(going), staying, key=lambda channel: channel.last_active_ms):
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
        found = await loop.getaddrinfo(self.host or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = found[0]
        return socket.create_server(address[:2], family=family, backlog=backlog, reuse_port=self._reuse_port)

    async def _accept_loop(
        self, loop: asyncio.AbstractEventLoop, listening: socket.socket, context: ListenerContext
    ) -> None:
        while True:
            try:
                accepted, address = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno not in _OF_THE_PEER:
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
                # A stop must not cut a connection off between its socket and its channel.
                await asyncio.shield(task)

    async def _pause_after(self, error: OSError, context: ListenerContext) -> None:
        """Waits for descriptors to come free; the connections stay in the backlog meanwhile."""
        self._counters.accept_errors += 1
        context.held.close_all()
        count = context.limiter.admit("accept_error", self._time.hi_res_clock_ms())
        if count:
            hint = ": raise the limit of open files (ulimit -n)" if error.errno in _EXHAUSTED else ""
            log.error(
                f"cannot accept connections{hint}",
                listener=self.name,
                error=str(error),
                open_connections=len(context.channels),
                cases=count,
            )
        await asyncio.sleep(self._settings.accept_error_pause_ms / 1000)

    async def _take_place(
        self, context: ListenerContext, accepted: socket.socket, peer: tuple[str, int], security: ListenerSecurity
    ) -> Place | Refusal:
        """Waits until the limits have a place for the connection; one that they refuse is closed and counted here."""
        host = None if security.proxy is not None else peer[0]
        waits: list[str] = []
        try:
            place = await self._limits.take(self.name, host, lambda detail: self._tell_of_wait(context, detail, waits))
        except BaseException:
            accepted.close()
            raise
        if isinstance(place, Refusal):
            self._counters.accepted += 1
            self._counters.closed[place.reason] += 1
            count = context.limiter.admit(place.reason, self._time.hi_res_clock_ms())
            if count:
                log.warning(
                    "refused a connection",
                    reason=place.reason,
                    detail=place.detail,
                    listener=self.name,
                    client=f"{peer[0]}:{peer[1]}",
                    connections=count,
                )
            context.held.close_after(accepted, place.hold_ms)
        return place

    def _tell_of_wait(self, context: ListenerContext, detail: str, waits: list[str]) -> None:
        """Says that a connection waits; it is counted once, though it may wait for several things, one by one."""
        if not waits:
            self._counters.accept_waits += 1
        waits.append(detail)
        count = context.limiter.admit("accept_wait", self._time.hi_res_clock_ms())
        if count:
            log.warning("connections wait to be accepted", detail=detail, listener=self.name, connections=count)

    async def _adopt(
        self,
        context: ListenerContext,
        accepted: socket.socket,
        peer: tuple[str, int],
        security: ListenerSecurity,
        place: Place,
    ) -> None:
        """Gives the connection its channel, which from then on has the place; without one it is given back."""
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            local = _endpoint(accepted.getsockname())
            if security.has_handshake:
                self._counters.accepted += 1
                admission = Admission(
                    *(context, self._shared, security, accepted),
                    local=local,
                    peer=peer,
                    index=next(self._indexes),
                    place=place,
                )
                await admission.run()
                return
            channel = self._make_channel(context, local, peer, place)
            await context.loop.connect_accepted_socket(lambda: as_protocol(channel), accepted)
        except OSError:
            accepted.close()  # the peer is gone already
            context.limits.give_back(place)
            return
        except BaseException:
            context.limits.give_back(place)
            raise
        self._counters.accepted += 1

    def _make_channel(
        self, context: ListenerContext, local: tuple[str, int], peer: tuple[str, int], place: Place
    ) -> TcpChannel:
        (local_host, local_port), (host, port) = local, peer
        index = next(self._indexes)
        return TcpChannel(
            context,
            connection_id=f"{local_host}:{local_port}-{host}:{port}-{index}",
            client_address=host,
            client_port=port,
            place=place,
        )

    async def _stop_accepting(self) -> None:
        if self._accepting is not None:
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
    """Host and port; an IPv4 peer of a dual-stack socket in its own form, as Java shows it."""
    host, port = address[:2]
    return host.removeprefix("::ffff:") if "." in host else host, port
