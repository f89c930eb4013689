"""Live measures and verdicts from payloads of pushes. Needs the extra `tables`, as all of `fleet` does."""

import time as _time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import numpy as np
import structlog

from fleetgauge.console.state.clients import Clients, InstanceKey
from fleetgauge.console.state.measures import AVERAGES, LATENCY, POLL_IDLE
from fleetgauge.console.state.measures import COLUMNS as SHOWN
from fleetgauge.console.state.rings import Numbers, Rings
from fleetgauge.console.state.source import StoredPush
from fleetgauge.console.state.windows import WINDOW_S, WINDOW_US, OpenWindows, by_window_start
from fleetgauge.fleet.arrow import RecordBatch, Table, pa, pc, to_list
from fleetgauge.fleet.measures.catalogue import BY_COLUMN, LAG, LAG_OF_CLIENT, LAG_RECORDS
from fleetgauge.fleet.measures.rows import filled
from fleetgauge.fleet.measures.values import Wide
from fleetgauge.fleet.schemas import INSTANCE, POINTS, TIME
from fleetgauge.fleet.silver.live import LivePushes
from fleetgauge.push_log.payload import PayloadDecoder
from fleetgauge.telemetry.catalogue.dialects import library_of
from fleetgauge.telemetry.catalogue.standard_metrics import ROLE_PREFIXES, telemetry_name
from fleetgauge.telemetry.push_record import PushRecord
from fleetgauge.verdicts.arrow import as_numpy
from fleetgauge.verdicts.judge import judge
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.notes import EXPECTED_INTERVAL, client_columns
from fleetgauge.verdicts.rules import Rules
from fleetgauge.verdicts.window import DIALECTS, JAVA, MEASURES
from fleetgauge.verdicts.witnesses.points import COLUMNS as POINT_COLUMNS
from fleetgauge.verdicts.witnesses.waits import POLL_MEASURES, broker_time_ms, time_in_poll, waits_for_poll

log = structlog.get_logger(__name__)

_CHUNK_PUSHES: Final = 1_000
_CHUNK_BYTES: Final = 4 << 20
"""Payload bytes that are decoded at once [B]: some 100 ms."""
_CREDIT_S: Final = 30.0
"""CPU time that may be used at once after a quiet time [s]: enough to read back an hour of some hundred clients."""
_LEAST_SHARE: Final = 1 / 64
_MOST_REMEMBERED: Final = 2
"""Most instances in the judge's memory, per client that is kept: it forgets only by time, while new ids keep coming."""
_FAR_US: Final = 60_000_000
"""Pushes of a broker whose clock is ahead by more than this get no measures [us]."""
_TOPIC_GROUPS: Final = ("producer-topic-metrics",)
_CONSUMERS: Final = ("consumer", "share-consumer")


def metric_names() -> frozenset[str]:
    """Telemetry names of the metrics that are shown or judged; points by topic are neither."""
    wanted = [BY_COLUMN[column] for column in {*SHOWN, *MEASURES} if column != LAG_RECORDS]
    names = {telemetry_name(*each) for measure in wanted for each in measure.metrics if each[0] not in _TOPIC_GROUPS}
    return frozenset(names | {LAG, LAG_OF_CLIENT})


class Budget:
    """Limit on the CPU time for payloads, and the share of clients whose payloads are read if it does not suffice for
    all.

    Args:
        cores: CPU time per time, 0.5 for half a core.
        cpu_ns: CPU time of the thread [ns].
        now_ns: monotonic time [ns].

    Attributes:
        share: of the clients, those whose payloads are read; 1 for all.
    """

    def __init__(
        self,
        cores: float,
        cpu_ns: Callable[[], int] = _time.thread_time_ns,
        now_ns: Callable[[], int] = _time.monotonic_ns,
    ) -> None:
        self._cores = cores
        self._cpu_ns, self._now_ns = cpu_ns, now_ns
        self._credit_s = _CREDIT_S
        self._earned_ns = now_ns()
        self._began_ns = 0
        self.share = 1.0

    def begin(self) -> None:
        """Starts measuring the CPU time of payloads."""
        now = self._now_ns()
        self._credit_s = min(_CREDIT_S, self._credit_s + self._cores * (now - self._earned_ns) / 1e9)
        self._earned_ns = now
        if self._credit_s <= 0:
            self.share = max(_LEAST_SHARE, self.share / 2)
            self._credit_s = self._cores  # a second's, and then the share is halved again
        elif self._credit_s > _CREDIT_S / 2:
            self.share = min(1.0, self.share * 2)
        self._began_ns = self._cpu_ns()

    def end(self) -> None:
        """Charges the CPU time of the chunk to the budget."""
        self._credit_s -= (self._cpu_ns() - self._began_ns) / 1e9

    def takes(self, instance_id: str) -> bool:
        """True for a client whose payloads are read: the same clients while the share is the same."""
        return self.share >= 1.0 or crc32(instance_id.encode()) < self.share * 2**32


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of a chunk of pushes, to be put into the state together.

    Attributes:
        senders: role and group of instances, as far as known.
        values: for each minute [us] its instances, and by measure their values.
        links: for each minute those of links.
    """

    senders: list[tuple[InstanceKey, str | None, str | None]]
    values: list[tuple[int, list[InstanceKey], dict[str, Numbers]]]
    links: list["MeasuredLinks"]


@dataclass(frozen=True, slots=True)
class MeasuredLinks:
    """Latencies of links in a minute.

    Attributes:
        start: of the minute [us].
        keys, nodes: instance and node of each link.
        latency: as the client measures it [ms].
        broker_time: the broker's part of the latency [ms]; see `verdicts.witnesses.waits`.
    """

    start: int
    keys: list[InstanceKey]
    nodes: list[int]
    latency: Numbers
    broker_time: Numbers


class LiveMeasures:
    """Decodes pushes into minutes of measures, and judges completed minutes. For one thread.

    Args:
        rules: of the verdicts; None where verdicts come from elsewhere.
        clients_max: most instances whose totals are remembered.
        cores: see `Budget`.
        memory: what the judge remembers of before.

    Attributes:
        memory: the judge's.
        skipped: payloads that were not read for want of CPU.
        malformed: payloads that cannot be read.
        restarts: how often the judge began again, since it remembered too many instances.
        budget: of CPU.
    """

    def __init__(self, rules: Rules | None, clients_max: int, cores: float, memory: Memory | None = None) -> None:
        self.rules = rules
        self.memory = memory or Memory()
        self.skipped = 0
        self.malformed = 0
        self.restarts = 0
        self.budget = Budget(cores)
        self._most_remembered = _MOST_REMEMBERED * clients_max
        own = rules.metric_names if rules is not None else frozenset[str]()
        self._pushes = LivePushes(WINDOW_S, metric_names() | own, clients_max, own)
        self._payloads = PayloadDecoder()
        self._windows = OpenWindows()
        self._points: list[Table] = []
        self._waiting: list[StoredPush] = []
        self._waiting_bytes = 0

    def put(self, pushes: Sequence[StoredPush]) -> None:
        """Queues pushes for `take`."""
        for push in pushes:
            if not push.size_bytes:
                continue
            if self.budget.takes(push.record.client_instance_id):
                self._waiting.append(push)
                self._waiting_bytes += push.size_bytes
            else:
                self.skipped += 1

    @property
    def is_full(self) -> bool:
        """True if enough pushes are queued for a chunk."""
        return len(self._waiting) >= _CHUNK_PUSHES or self._waiting_bytes >= _CHUNK_BYTES

    def take(self, now_us: int) -> Measured | None:
        """Decodes a chunk of queued pushes; None if the queue is empty."""
        chunk = self._next_chunk()
        if not chunk:
            return None
        self.budget.begin()
        try:
            return self._decode([push for push in chunk if push.record.received_at <= now_us + _FAR_US])
        except Exception:  # what a decoder makes of hostile bytes must not end the console
            log.exception("console.payloads_failed", payloads=len(chunk))
            self.malformed += len(chunk)
            return None
        finally:
            self.budget.end()

    def _next_chunk(self) -> list[StoredPush]:
        size = count = 0
        for push in self._waiting:
            if count and (size + push.size_bytes > _CHUNK_BYTES or count >= _CHUNK_PUSHES):
                break
            count += 1
            size += push.size_bytes
        chunk, self._waiting = self._waiting[:count], self._waiting[count:]
        self._waiting_bytes -= size
        return chunk

    def _decode(self, chunk: Sequence[StoredPush]) -> Measured | None:
        records = [record for push in chunk if (record := self._plain(push)) is not None]
        if not records:
            return None
        taken = self._pushes.take(records)
        self.malformed += taken.rejects
        self._windows.add(taken.rows)
        if taken.points.num_rows:
            self._points.append(taken.points.select(POINT_COLUMNS))
        return Measured(_senders(taken.pushes), *_values(taken.rows))

    def _plain(self, push: StoredPush) -> PushRecord | None:
        try:
            metrics = self._payloads.plain(push.record.metrics, push.encoding, push.size_bytes)
        except Exception:  # noqa: BLE001  whatever a codec raises for bytes that it does not take
            self.malformed += 1
            return None
        return push.record._replace(metrics=metrics)

    def close(self, read_up_to_us: int, clients: Callable[[], Table]) -> list[Measured]:
        """Judges the minutes that were read to their end; returns their complete measures.

        Args:
            read_up_to_us: receive time up to which all was read [us].
            clients: makes the table for `judge`.
        """
        minutes = []
        for start, rows in self._windows.close(read_up_to_us):
            self.budget.begin()
            try:
                minutes.append(Measured([], *_judged_values(start, rows)))
                if self.rules is not None and start + WINDOW_US > self.memory.judged_to_us:
                    self._judge(start, rows, clients(), self.rules)
            finally:
                self.budget.end()
        return minutes

    def _judge(self, start: int, rows: Table, clients: Table, rules: Rules) -> None:
        if len(self.memory.registry.instances) > self._most_remembered:
            self.memory = Memory()
            self.restarts += 1
        judge(rows, clients, self.memory, rules, self._own_points(start))

    def _own_points(self, start: int) -> Table | None:
        """Points that user-defined rules read, of this window and earlier ones; None without such rules."""
        if self.rules is None or not self.rules.own:
            return None
        points = pa.concat_tables([POINTS.empty_table().select(POINT_COLUMNS), *self._points])
        is_due = pc.less(points["received_at"].cast(pa.int64()), start + WINDOW_US)
        self._points = [points.filter(pc.invert(is_due))]
        return points.filter(is_due)

    def restart(self) -> None:
        """Clears the minutes and the judge's memory, after the clock was set back."""
        self._windows.clear()
        self._points.clear()
        self.memory = Memory()


def _keys(rows: Table | RecordBatch) -> list[InstanceKey]:
    return list(zip(*(rows.column(name).to_pylist() for name in INSTANCE), strict=True))


def _senders(pushes: RecordBatch) -> list[tuple[InstanceKey, str | None, str | None]]:
    texts = (pushes.column(name).to_pylist() for name in ("role", "group_id"))
    return list(zip(_keys(pushes), *texts, strict=True))


_OfClients = tuple[int, list[InstanceKey], dict[str, Numbers]]
_Values = tuple[list[_OfClients], list[MeasuredLinks]]


def _values(partials: Table) -> _Values:
    """Averages of partial rows; growth follows with the complete minute, since partial rows have only a part of it."""
    values, links = [], []
    for start, rows in by_window_start(partials):
        wide = Wide(rows)
        given = {column: wide.value(column) for column in {*AVERAGES, *POLL_MEASURES}}
        of_window = _shown(start, rows, given)
        values += of_window[0]
        links += of_window[1]
    return values, links


def _judged_values(start: int, rows: Table) -> _Values:
    """Measures of judged rows."""
    wanted = {*SHOWN, *POLL_MEASURES}.intersection(rows.schema.names)
    return _shown(start, rows, {column: rows[column] for column in wanted})


def _shown(start: int, rows: Table, given: dict[str, Any]) -> _Values:
    is_link = pc.is_valid(rows["role"]).to_numpy(zero_copy_only=False)
    clients, links = np.flatnonzero(~is_link), np.flatnonzero(is_link)
    numbers = {name: _numbers(column) for name, column in given.items()}
    keys = _keys(rows.select(INSTANCE).take(clients))
    of_clients = {name: column[clients] for name, column in numbers.items()}
    dialect = pc.index_in(rows["dialect"].take(clients), value_set=pa.array(DIALECTS)).fill_null(-1)
    dialects = dialect.to_numpy()
    values = {name: column for name, column in of_clients.items() if name in SHOWN}
    idle = values[POLL_IDLE]
    values[POLL_IDLE] = np.where(dialects == JAVA, time_in_poll(idle), idle)
    of_node = rows.select((*INSTANCE, "role", "node_id", "coordinator")).take(links)
    latency = numbers[LATENCY][links]
    is_broker = (filled(of_node["node_id"], -1) >= 0) & ~filled(of_node["coordinator"], False)
    kept = np.flatnonzero(is_broker & ~np.isnan(latency))
    of_node, latency = of_node.take(kept), latency[kept]
    link_keys, place_of = _keys(of_node), {key: place for place, key in enumerate(keys)}
    client_of = np.array([place_of.get(key, -1) for key in link_keys], np.int64)
    is_consumer = np.array([role in _CONSUMERS for role in of_node["role"].to_pylist()], np.bool_)
    # The last place is of links whose client has no row.
    given_of = {name: np.append(of_clients[name], np.nan) for name in POLL_MEASURES}
    is_waiting = waits_for_poll(given_of.__getitem__, np.append(dialects == JAVA, False), client_of, latency)[client_of]
    broker_time = broker_time_ms(latency, is_consumer, np.append(dialects, -1)[client_of], is_waiting)
    return [(start, keys, values)], [MeasuredLinks(start, link_keys, to_list(of_node["node_id"]), latency, broker_time)]


def _numbers(column: Any) -> Numbers:
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return as_numpy(column.cast(pa.float64()), np.nan)


def put_into(rings: Rings, clients: Clients, measured: Measured, next_number: Callable[[], int]) -> None:
    """Puts measured values into the state.

    Args:
        rings: of measures.
        clients: get numbers, roles and groups.
        measured: values to put.
        next_number: gives a free number.
    """
    for key, role, group in measured.senders:
        instance = clients.instance(key)
        if instance is not None:
            instance.group_id = group or instance.group_id
            if role is not None and _rank(role) > _rank(instance.role):
                instance.role = role
    for start, keys, values in measured.values:
        minute = start // WINDOW_US
        numbers, rows = _placed(keys, clients, next_number)
        if len(rows) and rings.advance(minute):
            for column, of_rows in values.items():
                rings.put(column, numbers, of_rows[rows], minute)
    for links in measured.links:
        minute = links.start // WINDOW_US
        numbers, rows = _placed(links.keys, clients, next_number)
        if len(rows) and rings.advance(minute):
            nodes, latency = [links.nodes[row] for row in rows.tolist()], links.latency[rows]
            rings.put_links(numbers.tolist(), nodes, latency, links.broker_time[rows], minute)
            _put_means(rings, numbers, latency, minute)


def _put_means(rings: Rings, numbers: Numbers, latency: Numbers, minute: int) -> None:
    """Puts each client's mean latency over its links, which all libraries send."""
    clients, client_of = np.unique(numbers, return_inverse=True)
    rings.put(LATENCY, clients, np.bincount(client_of, latency) / np.bincount(client_of), minute)


_RANKS: Final = {role: rank for rank, role in enumerate(ROLE_PREFIXES)}


def _rank(role: str | None) -> int:
    """Rank of a role: the last one in the catalogue that any push shows counts, since franz-go leaves out points of
    0.
    """
    return _RANKS.get(role or "", -1)


def _placed(keys: list[InstanceKey], clients: Clients, next_number: Callable[[], int]) -> tuple[Numbers, Numbers]:
    """Numbers of the known instances, and their indices among the keys."""
    numbers, places = [], []
    for place, key in enumerate(keys):
        instance = clients.instance(key)
        if instance is not None:
            if instance.number < 0:
                instance.number = next_number()
            numbers.append(instance.number)
            places.append(place)
    return np.array(numbers, np.int64), np.array(places, np.int64)


def clients_table(clients: Clients, rules: Rules) -> Table:
    """`notes.client_columns` of all clients that have pushed."""
    entries = [entry for entry in clients.entries() if entry.seen is not None and entry.instance is not None]
    latest = [entry.seen.latest for entry in entries if entry.seen is not None]
    instances = [entry.instance for entry in entries if entry.instance is not None]
    columns: dict[str, Any] = {
        name: pa.array([getattr(each, name) for each in latest], pa.string())
        for name in (*INSTANCE, "client_id", "client_software_name", "client_software_version")
    }
    columns["dialect"] = pa.array(
        [library_of(each.client_software_name, each.client_software_version) for each in latest], pa.string()
    )
    columns["role"] = pa.array([each.role for each in instances], pa.string())
    columns["group_id"] = pa.array([each.group_id for each in instances], pa.string())
    columns["first_seen"] = pa.array([each.first_us for each in instances], pa.int64()).cast(TIME)
    columns["last_seen"] = pa.array([each.received_at for each in latest], pa.int64()).cast(TIME)
    columns["terminated"] = pa.array([each.terminating for each in latest], pa.bool_())
    expected = [entry.seen.expected_interval_ms(entry.answered_ms) for entry in entries if entry.seen is not None]
    columns[EXPECTED_INTERVAL] = pa.array(expected, pa.int64())
    rows = len(latest)
    wanted = (*client_columns(rules), EXPECTED_INTERVAL)
    return pa.table({name: columns.get(name, pa.nulls(rows, pa.string())) for name in wanted})
