"""The client instances whose pushes this process reads from the topic: the inventory of the broker-plugin form.

Fed with the records that the exporters read anyway, of which it keeps no payload. It holds the clients of the
partitions that are assigned to this process and no others: a client's pushes are all in one partition. Those of a
partition that was taken away are kept for some minutes, unlisted, and are there again when it comes back: so a broker
outage does not cost the clients that had vanished, and no client is listed by two processes.
"""

import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Iterable
from typing import Final, NamedTuple

from base.clock import SystemTime, Time
from telemetry.instances.client_state import ENDED_SHOWN_MS, VANISHED_SHOWN_MS, ClientState, judged
from telemetry.instances.inventory import ClientRow, key_among, sender_key
from telemetry.push_record import PushRecord, parse_instance_id
from wire.software import UNKNOWN_SOFTWARE

_DEFAULT_INTERVAL_MS: Final = 300_000
"""Kafka's default push interval, assumed for a client whose records do not tell it until its second push [ms]."""

Placed = tuple[int, int, PushRecord]
"""A record with its partition and offset."""

KEPT_UNASSIGNED_MS: Final = 15 * 60_000
"""How long the clients of a partition are kept after it was taken away [ms]."""

_CLOCK_SLACK_US: Final = 5_000_000
"""How far a broker's clock may be ahead of ours before its times no longer tell how far a partition was read [us]."""


class SeenClient:
    """One client instance, as of its latest push. Times are wall times of the brokers [us since the epoch].

    Attributes:
        latest: its latest push, without the metrics.
        partition, offset: of that push.
        pushes: pushes that this process has read.
        push_bytes: their payloads as received [B]; None where the topic's writer did not know them.
        gap_ms: time between its latest two pushes [ms]; stands in for an interval that the records do not tell.
        unassigned_ms: for how long since its latest push another process may have read its partition [ms].
        key: under which the register has it.
    """

    __slots__ = (
        "_instance_id", "gap_ms", "key", "latest", "offset", "partition", "push_bytes", "pushes", "unassigned_ms",
    )  # fmt: skip

    def __init__(self, partition: int, offset: int, record: PushRecord, key: Hashable = None) -> None:
        self.key = key
        self._instance_id: uuid.UUID | None = None
        self.latest = _without_metrics(record)
        self.partition = partition
        self.offset = offset
        self.pushes = 1
        self.push_bytes = record.payload_bytes
        self.gap_ms = 0
        self.unassigned_ms = 0

    def take(self, partition: int, offset: int, record: PushRecord) -> None:
        """Notes a later push."""
        if record.push_interval_ms is None and not record.terminating:
            self.gap_ms = max(0, record.received_at - self.latest.received_at) // 1_000
        self.latest = _named(_without_metrics(record), self.latest)
        self.unassigned_ms = 0
        self.partition = partition
        self.offset = offset
        self.pushes += 1
        if self.push_bytes is not None:
            self.push_bytes = None if record.payload_bytes is None else self.push_bytes + record.payload_bytes

    def state(self, read_up_to: int) -> ClientState:
        """The state, given that the partition was read up to this time [us since the epoch]."""
        latest = self.latest
        return judged(
            ended=latest.terminating,
            silence_ms=(read_up_to - latest.received_at) / 1_000 - self.unassigned_ms,
            push_interval_ms=latest.push_interval_ms or self.gap_ms or _DEFAULT_INTERVAL_MS,
        )

    # What `telemetry.instances.inventory.Listed` asks for.

    @property
    def instance_id(self) -> uuid.UUID:
        """The KIP-714 id, made when it is first asked for."""
        if self._instance_id is None:
            self._instance_id = parse_instance_id(self.latest.client_instance_id)
        return self._instance_id

    @property
    def client_id(self) -> str:
        """As in its latest push."""
        return self.latest.client_id

    @property
    def client_software_name(self) -> str:
        """As in its latest push."""
        return self.latest.client_software_name

    @property
    def client_software_version(self) -> str:
        """As in its latest push."""
        return self.latest.client_software_version

    @property
    def principal_text(self) -> str:
        """As in its latest push."""
        return self.latest.principal

    def row(self, read_up_to: int) -> ClientRow:
        """The row of the inventory; see `state`."""
        latest = self.latest
        return ClientRow(
            client_instance_id=latest.client_instance_id,
            client_id=latest.client_id,
            client_software_name=latest.client_software_name,
            client_software_version=latest.client_software_version,
            principal=latest.principal,
            client_source_address=latest.client_source_address,
            client_source_port=latest.client_source_port,
            listener=latest.listener,
            connections=None,
            state=self.state(read_up_to).value,
            subscriptions=None,
            metrics=None,
            push_interval_ms=latest.push_interval_ms,
            subscription_id=latest.subscription_id,
            pushes=self.pushes,
            push_bytes=self.push_bytes,
            last_push_at=latest.received_at,
            last_seen_at=latest.received_at,
            refused=None,
            last_error=None,
            last_error_reason=None,
            last_error_at=None,
            broker=latest.receiver_node_id,
            partition=self.partition,
        )


class _Unassigned(NamedTuple):
    """Since when a partition is not assigned here [ms, monotonic], and up to when it was read then [us]."""

    since_ms: int
    read_up_to: int


class SeenClients:
    """A bounded register of `SeenClient`s; from any thread.

    A client's silence is measured against the time up to which its partition was read, not against the clock: while an
    exporter waits for its destination, or the brokers are away, nothing is known, and no client is said to be late.
    Nor does the time count in which its partition was not assigned here.

    Args:
        max_size: clients that are kept; beyond, the one whose latest push was read first is dropped.
        time: the clocks.

    Attributes:
        evicted: clients that were dropped for want of room.
    """

    def __init__(self, max_size: int, time: Time | None = None) -> None:
        self._max_size = max_size
        self._time = time or SystemTime()
        self._lock = threading.Lock()
        self._clients: OrderedDict[Hashable, SeenClient] = OrderedDict()
        self._read_up_to: dict[int, int] = {}
        self._unassigned: dict[int, _Unassigned] = {}
        self.evicted = 0

    def take(self, records: Iterable[Placed]) -> None:
        """Notes records in the order of their partitions. One that was noted before changes nothing: several exporters
        read the same topic, and a batch may be read again.
        """
        latest_us = self._time.microseconds() + _CLOCK_SLACK_US
        with self._lock:
            for partition, offset, record in records:
                self._read_to(partition, min(record.received_at, latest_us))
                self._take(partition, offset, record)

    def _read_to(self, partition: int, at_us: int) -> None:
        if at_us > self._read_up_to.get(partition, 0):
            self._read_up_to[partition] = at_us

    def _take(self, partition: int, offset: int, record: PushRecord) -> None:
        key = key_among(sender_key(record), record, self._clients)
        client = self._clients.get(key)
        if client is None:
            self._clients[key] = SeenClient(partition, offset, record, key)
            if len(self._clients) > self._max_size:
                self._clients.popitem(last=False)
                self.evicted += 1
        elif _is_later(client, partition, offset, record):
            client.take(partition, offset, record)
            self._clients.move_to_end(key)

    def read_to_end(self, partitions: Iterable[int], at_us: int) -> None:
        """Notes that all records that were in these partitions at `at_us` [us since the epoch] were noted."""
        with self._lock:
            for partition in partitions:
                self._read_to(partition, at_us)

    def keep(self, partitions: Collection[int]) -> None:
        """Lists the clients of these partitions from now on, and drops those of partitions that were taken away
        `KEPT_UNASSIGNED_MS` ago: another process reads these.
        """
        now_ms = self._time.hi_res_clock_ms()
        with self._lock:
            if again := self._unassigned.keys() & set(partitions):
                self._assigned_again({each: self._unassigned.pop(each) for each in again}, now_ms)
            for each in self._read_up_to.keys() - set(partitions) - self._unassigned.keys():
                self._unassigned[each] = _Unassigned(now_ms, self._read_up_to[each])
            self._forget([each for each, at in self._unassigned.items() if now_ms - at.since_ms >= KEPT_UNASSIGNED_MS])

    def _assigned_again(self, partitions: dict[int, "_Unassigned"], now_ms: int) -> None:
        for client in self._clients.values():
            was = partitions.get(client.partition)
            if was is not None and client.latest.received_at <= was.read_up_to:
                client.unassigned_ms += now_ms - was.since_ms

    def _forget(self, partitions: list[int]) -> None:
        if not partitions:
            return
        for partition in partitions:
            del self._unassigned[partition], self._read_up_to[partition]
        for key in [key for key, client in self._clients.items() if client.partition in partitions]:
            del self._clients[key]

    def read_up_to(self) -> dict[int, int]:
        """Partition -> time up to which its records were noted [us since the epoch]."""
        with self._lock:
            return dict(self._read_up_to)

    def snapshot(self) -> list[SeenClient]:
        """The clients of the assigned partitions as of now."""
        with self._lock:
            return [each for each in self._clients.values() if each.partition not in self._unassigned]

    def tidy(self) -> Counter[ClientState]:
        """Drops those that ended or vanished long enough ago, and counts the others by state."""
        read_up_to = self.read_up_to()
        states: Counter[ClientState] = Counter()
        for client in self.snapshot():
            up_to = read_up_to.get(client.partition, 0)
            state = client.state(up_to)
            shown_ms = ENDED_SHOWN_MS if state is ClientState.ENDED else VANISHED_SHOWN_MS
            if up_to - client.latest.received_at < shown_ms * 1_000:
                states[state] += 1
            else:
                self._drop(client)
        return states

    def _drop(self, client: SeenClient) -> None:
        with self._lock:
            if self._clients.get(client.key) is client:
                del self._clients[client.key]


def _is_later(client: SeenClient, partition: int, offset: int, record: PushRecord) -> bool:
    """True unless the record was noted before. After a topic got more partitions, or was made anew, only times tell."""
    if partition == client.partition and offset > client.offset:
        return True
    return record.received_at > client.latest.received_at


def _without_metrics(record: PushRecord) -> PushRecord:
    return PushRecord._make((*record[:-1], b""))  # a fifth of the time that `_replace` takes


def _named(record: PushRecord, before: PushRecord) -> PushRecord:
    """The record; if its connection named no software, with that of the client's record before it."""
    if record.client_software_name != UNKNOWN_SOFTWARE:
        return record
    name, version = before.client_software_name, before.client_software_version
    return record._replace(client_software_name=name, client_software_version=version)
