"""The client instances of a listener process: those in its cache, and those that ended or vanished."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from fleetgauge.base.clock import Time
from fleetgauge.node.status.node_socket import Candidates, Part
from fleetgauge.telemetry.instances.instance import ClientInstance
from fleetgauge.telemetry.instances.inventory import ClientFilter, row_of
from fleetgauge.telemetry.instances.known import KnownInstances

_PLACES_AT_ONCE: Final = 8


class NodeInventory:
    """The `Inventory` of a node.

    Args:
        instances: those of the process.
        time: the clocks.
        asked_for_records: True for a client id and address that requested records from this node.
    """

    def __init__(self, instances: KnownInstances, time: Time, asked_for_records: Callable[[str, str], bool]) -> None:
        self._instances = instances
        self._time = time
        self._asked_for_records = asked_for_records

    def coverage(self) -> dict[str, Any] | None:
        """See `Inventory.coverage`: all clients of the node."""
        return None

    def rows(self, wanted: ClientFilter, part: Part) -> Candidates:
        """See `Inventory.rows`. An instance that departs or returns meanwhile is listed at most once."""
        departed = self._instances.departed.snapshot()
        yield from (self._row(each, wanted) for each in _of_part(self._remembered(), part))
        holds = self._instances.departed.holds
        yield from (self._row(each, wanted) if holds(each) else None for each in _of_part(departed, part))

    def own_metrics(self, part: Part) -> Candidates:
        """See `Inventory.own_metrics`."""
        for each in _of_part(self._remembered(), part):
            now_ms = self._time.hi_res_clock_ms()
            yield None if each.metrics is None else (each.instance_id_text, *each.metrics.values(now_ms))

    def _remembered(self) -> Iterator[ClientInstance]:
        register = self._instances.cache.register
        place = 0
        while place < len(register):
            for instance in register.between(place, place + _PLACES_AT_ONCE):
                if instance.place >= 0:  # else it was evicted since the last slice
                    yield instance
            place += _PLACES_AT_ONCE

    def _row(self, instance: ClientInstance, wanted: ClientFilter) -> tuple[Any, ...] | None:
        now_ms = self._time.hi_res_clock_ms()
        if not wanted.accepts(instance, now_ms):
            return None
        row = row_of(instance, now_ms=now_ms, now_us=self._time.microseconds())
        if self._asked_for_records(row.client_id, row.client_source_address):
            return row._replace(asked_for_records=True)
        return row


def _of_part(instances: "Iterator[ClientInstance] | list[ClientInstance]", part: Part) -> Iterator[ClientInstance]:
    number, parts = part
    if parts == 1:
        return iter(instances)
    return (each for each in instances if each.instance_id.int % parts == number)
