"""A fleet of the console whose pushes a test gives, on a clock of the test's own."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final
from zlib import crc32

from support.programs.push_log import push_record

from fleetgauge.base.clock import MockTime
from fleetgauge.console.state.fleet import Fleet, FleetSettings
from fleetgauge.console.state.query import ClientQuery
from fleetgauge.console.state.source import Polled, StoredPush
from fleetgauge.telemetry.push_record import PushIds, PushRecord, format_instance_id

WALL_MS: Final = 1_750_000_020_000
"""The beginning of a minute."""

_IDS = PushIds(writer=1)


def instance_id(number: int) -> str:
    """An instance id of a test."""
    return format_instance_id(uuid.UUID(int=number + 1, version=4))


class GivenPushes:
    """A `Source` of the pushes that a test gives; what waits is read at once, in pieces.

    Attributes:
        reads: False while nothing can be read.
    """

    def __init__(self, time: MockTime) -> None:
        self._time = time
        self._waiting: list[StoredPush] = []
        self._offset = 0
        self.is_topic = True
        self.notices: list[str] = []
        self.skipped = 0
        self.reads = True

    def give(self, records: Iterable[PushRecord], log: int = 0) -> None:
        """Has pushes be read."""
        for record in records:
            self._offset += 1
            self._waiting.append(StoredPush(log, self._offset, record, None, len(record.metrics)))

    def poll(self, max_pushes: int) -> Polled:
        if not self.reads:
            return Polled(partitions=[0])
        found, self._waiting = self._waiting[:max_pushes], self._waiting[max_pushes:]
        at_end = {0: self._time.microseconds()} if not self._waiting else {}
        return Polled(pushes=found, at_end=at_end, partitions=[0])

    @property
    def is_read(self) -> bool:
        return not self._waiting

    def close(self) -> None:
        pass


class FleetOfTest:
    """A fleet that is stepped by hand."""

    def __init__(self, time: MockTime | None = None, **settings: Any) -> None:
        self.time = time or MockTime(wall_ms=WALL_MS)
        self.source = GivenPushes(self.time)
        self.in_force: dict[str, dict[str, str]] | None = None
        self.fleet = Fleet(self.source, FleetSettings(**settings), in_force=lambda: self.in_force, time=self.time)

    def push(
        self, client: str, metrics: bytes = b"", *, number: int | None = None, ago_s: float = 0, **fields: Any
    ) -> PushRecord:
        """A push of a client that is received now, or was some time ago."""
        at_us = self.time.microseconds() - round(ago_s * 1e6)
        record = push_record(0, metrics)._replace(
            push_id=_IDS.next_id(at_us),
            received_at=at_us,
            client_id=client,
            client_instance_id=instance_id(crc32(client.encode()) if number is None else number),
            **fields,
        )
        self.source.give([record])
        return record

    def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        """Lets the fleet work for some time of its clock."""
        left = seconds
        while left > 0 or not self.source.is_read:
            self.fleet.step()
            self.time.sleep(min(step_s, max(left, 0.001)) * 1_000)
            left -= step_s
        self.fleet.step()

    def states(self) -> dict[str, str]:
        """State by client id."""
        return {row["client_id"]: row["state"] for row in self.rows()}

    def rows(self, **query: Any) -> Sequence[dict[str, Any]]:
        """Rows of clients."""
        found: Sequence[dict[str, Any]] = self.fleet.clients(ClientQuery(**query))["clients"]
        return found

    def names(self, **query: Any) -> list[str]:
        """Client ids of the rows."""
        return [row["client_id"] for row in self.rows(**query)]
