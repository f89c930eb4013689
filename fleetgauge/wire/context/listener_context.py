"""Shared state of a listener's connections: settings, counters, loop, and the set of open connections."""

import asyncio
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.base.library_log import get_logger
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.context.channel import RequestHandler
from fleetgauge.wire.context.connection_limits import NO_LIMITS, ConnectionLimits
from fleetgauge.wire.context.held_sockets import HeldSockets
from fleetgauge.wire.context.listener_counters import ListenerCounters
from fleetgauge.wire.context.listener_settings import ListenerSettings
from fleetgauge.wire.context.open_connection import OpenConnection
from fleetgauge.wire.context.request_buffers import RequestBuffers
from fleetgauge.wire.context.turns import Turns
from fleetgauge.wire.context.unread_responses import UnreadResponses

log = get_logger(__name__)

LOG_INTERVAL_MS: Final = 1_000
"""Minimum time between two log lines about the same error of peers [ms]."""


class ListenerContext:
    """Shared state of a listener's connections.

    Attributes:
        channels: the open connections.
        all_closed: set while `channels` is empty.
        limits: connection limits.
        held: refused connections that are closed after a delay.
        requests: bound on the size and receive time of unhandled requests; may be shared with other listeners of the
            process.
        turns: queue of connections that wait for their next turn.
        unread: bound on unread responses; may be shared as well.
    """

    def __init__(
        self,
        *,
        listener_name: str,
        handler: RequestHandler,
        api_table: ApiTable,
        settings: ListenerSettings,
        time: Time,
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
        self.turns = Turns(loop, time)
        self.requests = requests or RequestBuffers(
            settings.queued_max_request_bytes, settings.request_receive_timeout_ms
        )
        self.unread = unread or UnreadResponses(settings.queued_max_response_bytes)
        self.channels: dict[OpenConnection, None] = {}
        self.unread.watch(self.channels)
        self.all_closed = asyncio.Event()
        self.all_closed.set()

    def report(
        self, event: str, key: str, *, level: str = "warning", counted: str = "connections", **fields: object
    ) -> None:
        """Logs an event, at most one line per `LOG_INTERVAL_MS` and key.

        Args:
            event: the event's name.
            key: what counts as the same event.
            level: of the line.
            counted: the field with the number of events that the line stands for.
            fields: the other fields, in addition to the listener's name.
        """
        count = self.limiter.admit(key, self.time.hi_res_clock_ms())
        if count:
            getattr(log, level)(event, **fields, listener=self.listener_name, **{counted: count})
