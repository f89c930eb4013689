"""Detection of clients that request records: applications with the telemetry listener in `bootstrap.servers`.

They get no records here, and their own logs hardly show the reason (docs/operate/client-logs.md). So this node's log
and `fleetgauge status` list them.
"""

from collections import OrderedDict
from itertools import islice
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.log_limiter import LogLimiter
from fleetgauge.wire.listener import Channel

log = structlog.get_logger(__name__)

RECORD_APIS: Final = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    22: "InitProducerId",
    68: "ConsumerGroupHeartbeat",
    76: "ShareGroupHeartbeat",
    78: "ShareFetch",
    88: "StreamsGroupHeartbeat",
}
"""Requests of producers and consumers by api key, none of them served (Kafka protocol guide, "Api Keys").

Most clients do not send them to a node with an ApiVersions response that lacks them, but Metadata with topics instead.
"""

MAX_CLIENTS: Final = 1_024
"""Maximum number of clients in the register; beyond it the least recently active one is removed."""
LOG_AGAIN_MS: Final = 3_600_000
"""Minimum time between two log lines about the same client [ms]."""
MAX_LINES: Final = 60
"""Maximum number of log lines per `LOG_AGAIN_MS` for all clients, since one peer can send any number of client ids."""
MAX_CHARACTERS: Final = 256
"""Maximum length of a stored client id or topic."""
LATEST: Final = 10
"""Number of clients in the status."""

_REMEDY: Final = (
    "a client requests records from a telemetry listener: set the application's bootstrap.servers to your Kafka brokers"
)


class MisdirectedClients:
    """A bounded register of the clients that request records, and the log lines about them.

    Every call takes constant time. A client is identified by client id and address.

    Args:
        time: the clocks.

    Attributes:
        requests: number of requests for records since the start.
    """

    def __init__(self, time: Time) -> None:
        self._time = time
        self._clients: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()
        self._limiter = LogLimiter(LOG_AGAIN_MS, max_keys=MAX_CLIENTS, max_lines=MAX_LINES)
        self.requests = 0

    def note(self, channel: Channel, client_id: str | None, asked_for: str) -> None:
        """Records one request, and logs its client at most once per hour.

        Args:
            channel: connection of the request.
            client_id: as sent.
            asked_for: an API of `RECORD_APIS`, or the topic of a Metadata request.
        """
        self.requests += 1
        key = ((client_id or "")[:MAX_CHARACTERS], channel.client_address)
        before = self._clients.pop(key, None)
        client = self._clients[key] = {
            "client_id": key[0],
            "client_source_address": key[1],
            "client_software": f"{channel.client_software_name}/{channel.client_software_version}",
            "listener": channel.listener_name,
            "asked_for": asked_for[:MAX_CHARACTERS],
            "requests": 1 if before is None else before["requests"] + 1,
            "last_at": self._time.microseconds(),
        }
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        if self._limiter.admit(key, self._time.hi_res_clock_ms()):
            self._log(client)

    def has_asked(self, client_id: str, client_address: str) -> bool:
        """True if a client with this id and address is in the register."""
        return (client_id[:MAX_CHARACTERS], client_address) in self._clients

    def status(self) -> dict[str, Any]:
        """Returns plain values for `fleetgauge status`; the latest clients first, times [us since the epoch]."""
        latest = list(islice(reversed(self._clients.values()), LATEST))
        return {"requests": self.requests, "remembered_clients": len(self._clients), "latest_clients": latest}

    def _log(self, client: dict[str, Any]) -> None:
        left_out = self._limiter.take_left_out()
        unlogged = {"clients_not_logged": left_out} if left_out else {}
        shown = ("client_id", "client_software", "listener", "asked_for", "requests")
        log.warning(
            "listener.records_requested",
            message=_REMEDY,
            client_address=client["client_source_address"],
            **{name: client[name] for name in shown},
            **unlogged,
        )
