"""What the connections of one listener share: its settings, its counters, its loop, and the list of themselves."""

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from base.log_limiter import LogLimiter
from wire.api_table import ApiTable
from wire.channel import RequestHandler
from wire.connection_limits import NO_LIMITS, ConnectionLimits
from wire.held_sockets import HeldSockets
from wire.listener_counters import ListenerCounters
from wire.listener_settings import ListenerSettings
from wire.request_buffers import RequestBuffers
from wire.unread_responses import UnreadResponses

if TYPE_CHECKING:
    from wire.tcp_channel import TcpChannel


LOG_INTERVAL_MS: Final = 1_000
"""Time between two log lines about the same fault of peers [ms]."""


class Clock(Protocol):
    """The monotonic half of `base.clock.Time`, which this room may not import."""

    def hi_res_clock_ms(self) -> int:
        """Monotonic time [ms]."""
        ...


class ListenerContext:
    """What the connections of one listener share.

    Attributes:
        channels: the open connections.
        all_closed: set while `channels` is empty.
        limits: who may connect.
        held: refused connections that are closed later.
        requests: the bound on requests that no handler has seen, and on the time that one may take to arrive. Other
            listeners of the process may share it.
        unread: the bound on responses that peers leave unread; shared likewise.
    """

    __slots__ = (
        "all_closed",
        "api_table",
        "channels",
        "counters",
        "handler",
        "held",
        "limiter",
        "limits",
        "listener_name",
        "loop",
        "requests",
        "settings",
        "time",
        "unread",
    )

    def __init__(
        self,
        *,
        listener_name: str,
        handler: RequestHandler,
        api_table: ApiTable,
        settings: ListenerSettings,
        time: Clock,
        loop: asyncio.AbstractEventLoop,
        counters: ListenerCounters,
        limits: ConnectionLimits = NO_LIMITS,
        requests: RequestBuffers | None = None,
        unread: UnreadResponses | None = None,
    ) -> None:
        self.listener_name = listener_name
        self.handler = handler
        self.api_table = api_table
        self.settings = settings
        self.time = time
        self.loop = loop
        self.counters = counters
        self.limits = limits
        self.held = HeldSockets(loop)
        self.limiter = LogLimiter(LOG_INTERVAL_MS)
        self.requests = requests or RequestBuffers(
            settings.queued_max_request_bytes, settings.request_receive_timeout_ms
        )
        self.unread = unread or UnreadResponses(settings.queued_max_response_bytes)
        self.unread.contexts.append(self)
        self.channels: dict[TcpChannel, None] = {}
        self.all_closed = asyncio.Event()
        self.all_closed.set()
