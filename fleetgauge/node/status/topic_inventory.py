"""The client instances that `fleetgauge export` knows from the topic, and the thread of the exporter process that lists
them to the parent process.
"""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.presence import IntervalOf
from fleetgauge.node.status.node_socket import Candidates, NodeSocket, Part
from fleetgauge.push_log.kafka_topic.seen_clients import SeenClients
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.instances.inventory import ClientFilter

log = structlog.get_logger(__name__)

_COUNT_EVERY_MS: Final = 2_000
_COUNT_SHARE: Final = 50
"""Counting all clients takes at most 1/50 of the time."""


class TopicInventory:
    """The `Inventory` of an exporter process that reads a topic.

    Args:
        topic: its name.
        seen: the clients of its records.
        partitions: the partitions that this process reads now.
        time: the clocks.
    """

    def __init__(self, topic: str, seen: SeenClients, partitions: Callable[[], list[int]], time: Time) -> None:
        self._topic = topic
        self._seen = seen
        self._partitions = partitions
        self._time = time
        self._states: dict[ClientState, int] = {}
        self._count_due_ms = 0

    def coverage(self) -> dict[str, Any] | None:
        """See `Inventory.coverage`: the topic, the partitions of this process, and up to when all were read
        [us since the epoch; None before that is known].
        """
        partitions, read_up_to = self._partitions(), self._seen.read_up_to()
        known = [read_up_to[each] for each in partitions if each in read_up_to]
        is_known = bool(known) and len(known) == len(partitions)
        return {"topic": self._topic, "partitions": partitions, "read_up_to": min(known) if is_known else None}

    def allow_intervals(self, interval_ms: IntervalOf, *, anew: bool) -> None:
        """See `SeenClients.allow_intervals`."""
        self._seen.allow_intervals(interval_ms, anew=anew)

    def rows(self, wanted: ClientFilter, part: Part) -> Candidates:
        """See `Inventory.rows`."""
        number, parts = part
        read_up_to = self._seen.read_up_to()
        for client in self._seen.snapshot():
            row = client.row(read_up_to.get(client.partition, 0))
            is_wanted = wanted.fits(client) and (not wanted.states or row.state in wanted.states)
            yield row if is_wanted and (parts == 1 or client.instance_id.int % parts == number) else None

    def own_metrics(self, part: Part) -> Candidates:
        """See `Inventory.own_metrics`: no instance of a topic has any."""
        return iter(())

    def keep(self) -> None:
        """Drops clients of partitions that another process reads, and those that departed long ago; once a second."""
        self._seen.keep(self._partitions())
        started_ms = self._time.hi_res_clock_ms()
        if started_ms >= self._count_due_ms:
            self._states = dict(self._seen.tidy())
            took_ms = self._time.hi_res_clock_ms() - started_ms
            self._count_due_ms = started_ms + max(_COUNT_EVERY_MS, _COUNT_SHARE * took_ms)

    def counters(self) -> dict[str, int]:
        """Clients by state, as of the last count; for the status."""
        departed = {name: self._states.get(state, 0) for name, state in _DEPARTED.items()}
        known = sum(self._states.values()) - sum(departed.values())
        return {"instances": known, **departed, "instances_evicted": self._seen.evicted}


_DEPARTED: Final = {"instances_vanished": ClientState.VANISHED, "instances_ended": ClientState.ENDED}


def list_clients(path: Path, inventory: TopicInventory, time: Time) -> None:
    """Serves the inventory on the control socket at `path`, in a daemon thread, until the process ends."""
    threading.Thread(target=_serve, args=(path, inventory, time), name="clients", daemon=True).start()


def _serve(path: Path, inventory: TopicInventory, time: Time) -> None:
    async def serve() -> None:
        await NodeSocket(path, inventory.counters, inventory, time).start()
        await asyncio.Event().wait()

    try:
        asyncio.run(serve())
    except OSError as error:
        log.error("clients.not_listed", path=str(path), error=str(error))
