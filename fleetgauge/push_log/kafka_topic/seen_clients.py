"""The client instances whose pushes this process reads from the topic: the inventory when the broker plugin is used.

It is filled from the records that the exporters read; of payloads it keeps only whether they are well-formed OTLP. It
lists the clients of the partitions that are assigned to this process: all pushes of a client are in one partition.
Clients of a revoked partition are kept for some minutes, unlisted, and are listed again if the partition is assigned
again: so a broker outage does not lose the vanished clients, and no client is listed by two processes.
"""

import threading
import uuid
from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Iterable
from typing import Final, NamedTuple

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.base.presence import IntervalOf, expected_interval_ms
from fleetgauge.telemetry.instances.client_state import ENDED_SHOWN_MS, VANISHED_SHOWN_MS, ClientState, judged
from fleetgauge.telemetry.instances.inventory import ClientRow, key_among, sender_key, with_faults, with_software_of
from fleetgauge.telemetry.instances.payload_faults import PayloadFaults
from fleetgauge.telemetry.malformed import MalformedPushes
from fleetgauge.telemetry.push_record import PushRecord, parse_instance_id
from fleetgauge.telemetry.validate import validate_metrics

Placed = tuple[int, int, PushRecord]
"""A record with its partition and offset."""

KEPT_UNASSIGNED_MS: Final = 15 * 60_000
"""Time that clients of a partition are kept after it was revoked [ms]."""

_CLOCK_SLACK_US: Final = 5_000_000
"""Largest lead of a broker's clock; later receive times are cut to this when reading progress is recorded [us]."""


class SeenClient:
    """One client instance as of its latest push. Times are wall times of the brokers [us since the epoch].

    Attributes:
        latest: its latest push, without the metrics.
        partition, offset: of that push.
        pushes: number of its pushes that this process has read.
        push_bytes: their payload sizes as received [B]; None if the topic's writer did not record them.
        gap_ms: time between its latest two pushes [ms]; used if the records lack the push interval.
        before_ms: push interval of the push before the latest [ms].
        allowed_ms: push interval that the subscriptions in force give it [ms]; None if they are not known.
        unassigned_ms: time since its latest push in which its partition was not assigned to this process [ms].
        payload_faults: its payloads that are not well-formed; None if there are none, or if payloads are not examined.
        key: its key in `SeenClients`.
    """

    __slots__ = (
        "_instance_id", "allowed_ms", "before_ms", "gap_ms", "key", "latest", "offset", "partition", "payload_faults",
        "push_bytes", "pushes", "unassigned_ms",
    )  # fmt: skip

    def __init__(self, partition: int, offset: int, record: PushRecord, key: Hashable = None) -> None:
        self.key = key
        self._instance_id: uuid.UUID | None = None
        self.latest = _without_metrics(record)
        self.partition = partition
        self.offset = offset
        self.pushes = 1
        self.push_bytes = record.payload_bytes
        self.payload_faults: PayloadFaults | None = None
        self.gap_ms = 0
        self.before_ms: int | None = None
        self.allowed_ms: int | None = None
        self.unassigned_ms = 0

    def take(self, partition: int, offset: int, record: PushRecord) -> None:
        """Updates the client from a later push."""
        if record.push_interval_ms is None and not record.terminating:
            self.gap_ms = max(0, record.received_at - self.latest.received_at) // 1_000
        self.before_ms = self.latest.push_interval_ms
        self.latest = with_software_of(_without_metrics(record), self.latest)
        self.unassigned_ms = 0
        self.partition = partition
        self.offset = offset
        self.pushes += 1
        if self.push_bytes is not None:
            self.push_bytes = None if record.payload_bytes is None else self.push_bytes + record.payload_bytes

    def state(self, read_up_to: int, answered_ms: int | None = None) -> ClientState:
        """The state, if the partition was read up to this time [us since the epoch].

        Args:
            read_up_to: that time.
            answered_ms: the push interval that its latest Get was answered with, if known [ms].
        """
        latest = self.latest
        return judged(
            ended=latest.terminating,
            silence_ms=(read_up_to - latest.received_at) / 1_000 - self.unassigned_ms,
            push_interval_ms=self.expected_interval_ms(answered_ms),
        )

    def expected_interval_ms(self, answered_ms: int | None = None) -> int:
        """The push interval that it is judged by [ms]; see `state`."""
        pushed_ms = self.latest.push_interval_ms or self.gap_ms
        return expected_interval_ms(answered_ms, pushed_ms, self.before_ms, self.allowed_ms)

    # The properties of `telemetry.malformed.Pusher`.

    @property
    def instance_id(self) -> uuid.UUID:
        """The KIP-714 client instance id, parsed at the first use."""
        if self._instance_id is None:
            self._instance_id = parse_instance_id(self.latest.client_instance_id)
        return self._instance_id

    @property
    def instance_id_text(self) -> str:
        """Instance id in the form of a record."""
        return self.latest.client_instance_id

    @property
    def sender(self) -> Hashable:
        """Its principal, client id and source address."""
        return sender_key(self.latest)[1:]

    @property
    def client_id(self) -> str:
        """Client id in its latest push."""
        return self.latest.client_id

    @property
    def client_address(self) -> str:
        """Client address in its latest push."""
        return self.latest.client_source_address

    @property
    def client_software_name(self) -> str:
        """Client software name in its latest push."""
        return self.latest.client_software_name

    @property
    def client_software_version(self) -> str:
        """Client software version in its latest push."""
        return self.latest.client_software_version

    @property
    def principal_text(self) -> str:
        """Principal in its latest push."""
        return self.latest.principal

    def row(self, read_up_to: int) -> ClientRow:
        """The row of the inventory; see `state`."""
        latest = self.latest
        row = ClientRow(
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
            push_interval_ms=max(filter(None, (latest.push_interval_ms, self.allowed_ms)), default=None),
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
        return row if self.payload_faults is None else with_faults(row, self.payload_faults, 0)


class _Unassigned(NamedTuple):
    """When a partition was revoked [ms, monotonic], and up to which time it had been read [us]."""

    since_ms: int
    read_up_to: int


class SeenClients:
    """A bounded set of `SeenClient`s. Thread-safe.

    A client's silence is measured up to the time until which its partition was read, not up to now: while an exporter
    waits for its destination, or the brokers are unreachable, no client becomes late. Time in which its partition was
    not assigned to this process does not count either.

    Args:
        max_size: maximum number of clients; beyond it, the one whose latest push was read first is evicted.
        time: the clocks.
        malformed: counts and logs the payloads that are not well-formed; None where they are not examined. Those of the
            records are decompressed.

    Attributes:
        evicted: number of evicted clients.
    """

    def __init__(self, max_size: int, time: Time | None = None, *, malformed: MalformedPushes | None = None) -> None:
        self._malformed = malformed
        self._max_size = max_size
        self._time = time or SystemTime()
        self._lock = threading.Lock()
        self._clients: OrderedDict[Hashable, SeenClient] = OrderedDict()
        self._read_up_to: dict[int, int] = {}
        self._unassigned: dict[int, _Unassigned] = {}
        self.evicted = 0

    def take(self, records: Iterable[Placed]) -> None:
        """Adds records, in the order of each partition. A record that was added before is ignored: several exporters
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
            client = self._clients[key] = SeenClient(partition, offset, record, key)
            if len(self._clients) > self._max_size:
                self._clients.popitem(last=False)
                self.evicted += 1
        elif _is_later(client, partition, offset, record):
            client.take(partition, offset, record)
            self._clients.move_to_end(key)
        else:
            return
        if self._malformed is not None:
            self._examine(client, record, self._malformed)

    def _examine(self, client: SeenClient, record: PushRecord, malformed: MalformedPushes) -> None:
        try:
            validate_metrics(record.metrics)
        except (InvalidRecordError, TelemetryTooLargeError):
            now_ms = self._time.hi_res_clock_ms()
            malformed.note(client, record.metrics, at_ms=record.received_at // 1_000, now_ms=now_ms)

    def read_to_end(self, partitions: Iterable[int], at_us: int) -> None:
        """Notes that every record written to these partitions before `at_us` [us since the epoch] was added."""
        with self._lock:
            for partition in partitions:
                self._read_to(partition, at_us)

    def allow_intervals(self, interval_ms: IntervalOf, *, anew: bool) -> None:
        """Notes the interval that the subscriptions in force give each client [ms].

        Args:
            interval_ms: of a client.
            anew: the subscriptions have changed; otherwise only new clients are looked at.
        """
        for client in self.snapshot():
            if anew or client.allowed_ms is None:
                client.allowed_ms = interval_ms(client.latest._asdict())

    def keep(self, partitions: Collection[int]) -> None:
        """Lists the clients of these partitions from now on, and removes those of partitions that were revoked
        `KEPT_UNASSIGNED_MS` ago, which another process reads.
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
        """Partition -> time up to which its records were added [us since the epoch]."""
        with self._lock:
            return dict(self._read_up_to)

    def snapshot(self) -> list[SeenClient]:
        """The clients of the assigned partitions."""
        with self._lock:
            return [each for each in self._clients.values() if each.partition not in self._unassigned]

    def tidy(self) -> Counter[ClientState]:
        """Removes clients that ended or vanished long enough ago, and counts the others by state."""
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
    """True if the record is newer. After a topic got more partitions, or was created again, receive times decide."""
    if partition == client.partition and offset > client.offset:
        return True
    return record.received_at > client.latest.received_at


def _without_metrics(record: PushRecord) -> PushRecord:
    return PushRecord._make((*record[:-1], b""))  # five times as fast as `_replace`
