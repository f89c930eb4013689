"""Clients of the fleet: instances known from their pushes, with the data that only a node has."""

import re
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from fleetgauge.base.clock import Time
from fleetgauge.base.presence import IntervalOf
from fleetgauge.console.state.source import Polled
from fleetgauge.push_log.kafka_topic.seen_clients import SeenClient, SeenClients
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.telemetry.instances.inventory import ClientRow, sender_key, with_software_of
from fleetgauge.telemetry.malformed import MalformedPushes

InstanceKey = tuple[str, str, str]
"""Cluster id, principal and instance id: the key of instances in tables and wide rows."""

_OF_LOG: Final = frozenset({ClientState.LIVE.value, ClientState.LATE.value, ClientState.NEW.value})
"""States in a node's listing that the log knows at least as well, since the log is read more often."""

_TIDY_EVERY_MS: Final = 60_000

_NUMBERED: Final = re.compile(
    r"(?:[-_.@:#]?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|[-_.@:#][0-9a-f]{8,}+|[-_.@:#]?[0-9]++)++$",
    re.IGNORECASE,
)
"""Numbers, hex and UUIDs at the end. The quantifiers are possessive: a hostile id must not have it backtrack."""


class Known(NamedTuple):
    """Data of a client instance in the tables.

    Attributes:
        first_us, last_us: receipt of its first and its latest push in the tables [us].
        pushes: between these.
    """

    first_us: int
    last_us: int
    pushes: int


_UNKNOWN: Final = Known(first_us=1 << 62, last_us=-1, pushes=0)


class Instance:
    """Data that the console keeps for a client instance besides its latest push.

    Attributes:
        key: of the instance.
        number: in the rings; -1 before its first measure.
        first_us: receipt of its first push that was read, or that the tables have [us].
        earlier: pushes that the tables alone have: not those that were read as well.
        role, group_id: as its payloads say; None before that is known.
    """

    __slots__ = ("_tables_to_us", "earlier", "first_us", "group_id", "key", "number", "role")

    def __init__(self, key: InstanceKey, known: Known) -> None:
        self.key = key
        self.number = -1
        self.first_us, self._tables_to_us, self.earlier = known
        self.role: str | None = None
        self.group_id: str | None = None

    def take(self, received_us: int) -> None:
        """Records a push that was read."""
        self.first_us = min(self.first_us, received_us)
        if received_us <= self._tables_to_us:
            self.earlier = max(0, self.earlier - 1)


@dataclass(slots=True, eq=False)
class Entry:
    """One row of the fleet: a client in the log, in a node's listing, or in both.

    Attributes:
        seen: as the log has it; None if it has not pushed in the time that was read.
        listed: as the node listed it last; None for none.
        listed_us: when that was [us].
        instance: measures' key; None if it has not pushed.
        state: as of the latest refresh.
        answered_ms: push interval that a node answered its latest Get with [ms]; None if its pushes are newer.
    """

    seen: SeenClient | None = None
    listed: ClientRow | None = None
    listed_us: int = 0
    instance: Instance | None = None
    state: str = ClientState.LIVE.value
    answered_ms: int | None = None

    @property
    def of(self) -> Any:
        """Source of the fields of its identity: a push record or a row of the listing."""
        if self.seen is not None:
            return self.seen.latest
        return self.listed

    @property
    def pushes(self) -> int:
        """Number of pushes in the log, plus those that only the tables have; otherwise the number that the node
        lists.
        """
        if self.seen is None:
            assert self.listed is not None
            return self.listed.pushes
        return self.seen.pushes + (0 if self.instance is None else self.instance.earlier)

    @property
    def push_bytes(self) -> int | None:
        """Size of all its pushes [B]; None if unknown: the tables have no sizes."""
        if self.seen is None:
            return None if self.listed is None else self.listed.push_bytes
        return None if self.instance is not None and self.instance.earlier else self.seen.push_bytes

    @property
    def first_push_at(self) -> int | None:
        """Receipt of the first known push [us]; None without any."""
        return None if self.instance is None else self.instance.first_us

    @property
    def cluster_id(self) -> str:
        """Cluster id in its latest push; '' if it has not pushed."""
        return self.seen.latest.cluster_id if self.seen is not None else ""

    @property
    def last_push_at(self) -> int | None:
        """Receipt of its latest push [us]; None without any."""
        if self.seen is not None:
            return self.seen.latest.received_at
        return None if self.listed is None else self.listed.last_push_at

    @property
    def last_seen_at(self) -> int:
        """Receipt of its latest push, or of its latest request listed by the node [us]."""
        listed = 0 if self.listed is None else self.listed.last_seen_at
        return max(listed, self.seen.latest.received_at if self.seen is not None else 0)

    def judge(self, read_up_to: Mapping[int, int]) -> None:
        """Updates the state."""
        listed = self.listed
        if self.seen is None:
            assert listed is not None
            self.state = listed.state
            return
        if listed is not None and listed.state not in _OF_LOG and self.listed_us >= self.seen.latest.received_at:
            self.state = listed.state
            return
        # The node has answered its Get with this interval, which its pushes show only once it has waited for as long.
        self.answered_ms = None
        if listed is not None and self.listed_us >= self.seen.latest.received_at:
            self.answered_ms = listed.push_interval_ms
        self.state = self.seen.state(read_up_to.get(self.seen.partition, 0), self.answered_ms).value

    def row(self, *, is_topic: bool) -> dict[str, Any]:
        """The fields of `/clients`."""
        if self.seen is None:
            assert self.listed is not None
            return self.listed._asdict() | {"state": self.state, "first_push_at": None}
        listed_row = self.seen.row(0)
        if not is_topic:
            listed_row = listed_row._replace(broker=None, partition=None)
        if self.listed is not None:
            listed_row = with_software_of(listed_row, self.listed)
        own = ("pushes", "push_bytes", "first_push_at", "state", "last_seen_at")
        row = listed_row._asdict() | {name: getattr(self, name) for name in own}
        if self.listed is not None:
            row |= {name: getattr(self.listed, name) for name in _OF_NODE}
        return row


_OF_NODE: Final = (
    "connections", "subscriptions", "metrics", "refused", "last_error", "last_error_reason", "last_error_at",
    "asked_for_records", "malformed", "malformed_reason", "malformed_detail", "malformed_at",
)  # fmt: skip
"""Fields that no log has."""


class Clients:
    """All clients that are known. Not thread-safe.

    Args:
        clients_max: most clients of the log, and most of a node's listing; beyond it the longest silent are dropped.
        time: the clocks.
        is_topic: the pushes are those of a topic, whose payloads no node has examined.
        known: instances in the tables at the start, before any push is read.
    """

    def __init__(
        self,
        clients_max: int,
        time: Time,
        *,
        is_topic: bool = False,
        known: Mapping[InstanceKey, Known] = MappingProxyType({}),
    ) -> None:
        self._known = known
        self._clients_max = clients_max
        self._time = time
        self._tidy_due_ms = 0
        self._seen = SeenClients(clients_max, time, malformed=MalformedPushes(is_logged=False) if is_topic else None)
        self._entries: dict[Hashable, Entry] = {}
        self._instances: dict[InstanceKey, Instance] = {}

    def take(self, polled: Polled) -> None:
        """Records the senders of pushes."""
        self._seen.take((push.log, push.offset, push.record) for push in polled.pushes)
        for log, at_us in polled.at_end.items():
            self._seen.read_to_end([log], at_us)
        for push in polled.pushes:
            record = push.record
            key = (record.cluster_id, record.principal, record.client_instance_id)
            instance = self._instances.get(key)
            if instance is None:
                instance = self._instances[key] = Instance(key, self._known.get(key, _UNKNOWN))
            instance.take(record.received_at)

    def instance(self, key: InstanceKey) -> Instance | None:
        """Data of an instance."""
        return self._instances.get(key)

    def first_push_us(self, key: InstanceKey) -> int | None:
        """Receipt of the first push of an instance that was read [us]; None if the instance is unknown."""
        instance = self._instances.get(key)
        return None if instance is None else instance.first_us

    def entries(self) -> Collection[Entry]:
        """Clients as of the latest refresh."""
        return self._entries.values()

    def read_up_to(self) -> dict[int, int]:
        """Time up to which each log or partition was read [us]."""
        return self._seen.read_up_to()

    @property
    def evicted(self) -> int:
        """Number of clients that exceeded `clients_max`."""
        return self._seen.evicted

    def list_of_node(self, rows: Iterable[ClientRow], at_us: int) -> None:
        """Takes over a node's complete listing, requested at this time [us]."""
        listed: dict[Hashable, ClientRow] = {}
        for row in rows:
            if len(listed) >= self._clients_max:
                break
            listed[sender_key(row)] = row
        for key, entry in list(self._entries.items()):
            client_row = listed.pop(key, None)
            if entry.seen is None and client_row is None:
                del self._entries[key]  # as it is, since a caller may be reading it
            else:
                entry.listed, entry.listed_us = client_row, at_us
        for key, row in listed.items():
            entry = self._entries[key] = Entry()
            entry.listed, entry.listed_us, entry.state = row, at_us, row.state

    def allow_intervals(self, interval_ms: IntervalOf, *, anew: bool) -> None:
        """See `SeenClients.allow_intervals`."""
        self._seen.allow_intervals(interval_ms, anew=anew)

    def judge(self) -> None:
        """Updates every client's state; changes nothing else."""
        read_up_to = self._seen.read_up_to()
        for entry in self._entries.values():
            entry.judge(read_up_to)

    def refresh(self) -> tuple[list[Entry], list[Instance]]:
        """Adds new clients, and removes those that departed long ago.

        Returns:
            The clients by client id, and the instances that none of them is of any more.
        """
        now_ms = self._time.hi_res_clock_ms()
        if now_ms >= self._tidy_due_ms:
            self._tidy_due_ms = now_ms + _TIDY_EVERY_MS
            self._seen.tidy()
        read_up_to = self._seen.read_up_to()
        present = self._seen.snapshot()
        for client in present:
            entry = self._entries.get(client.key)
            if entry is None:
                entry = self._entries[client.key] = Entry()
            if entry.seen is not client:
                latest = client.latest
                entry.seen = client
                entry.instance = self._instances.get((latest.cluster_id, latest.principal, latest.client_instance_id))
                entry.judge(read_up_to)
        if len(self._entries) > len(present):
            self._drop_all_but({client.key for client in present})
        by_name = sorted(self._entries.values(), key=lambda each: (each.of.client_id, each.of.client_instance_id))
        return by_name, self._unused()

    def _drop_all_but(self, keys: set[Hashable]) -> None:
        for key, entry in list(self._entries.items()):
            if key in keys:
                continue
            if entry.listed is None:
                del self._entries[key]
            else:
                entry.seen = entry.instance = None
                entry.state = entry.listed.state

    def _unused(self) -> list[Instance]:
        used = {id(entry.instance) for entry in self._entries.values()}
        if len(used) >= len(self._instances):
            return []
        unused = [each for each in self._instances.values() if id(each) not in used]
        for each in unused:
            del self._instances[each.key]
        return unused


_END: Final = 100


def application_of(client_id: str) -> str:
    """A client id without numbers and random parts at the end.

    >>> application_of("orders-12"), application_of("billing-consumer-3-1"), application_of("42"), application_of("a.b")
    ('orders', 'billing-consumer', '42', 'a.b')
    """
    end = client_id[-_END:]
    return client_id[: len(client_id) - len(end)] + _NUMBERED.sub("", end) or client_id
