"""Measures and verdicts of a fleet. Without the libraries of `fleet`, only identities and states are available."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from fleetgauge.base.clock import Time
from fleetgauge.console.state import measures
from fleetgauge.console.state.clients import Clients, Entry, Instance, InstanceKey, Known, application_of
from fleetgauge.console.state.judged import clients_in_tables, live_verdicts, verdicts_in_tables
from fleetgauge.console.state.kept_memory import KeptMemory
from fleetgauge.console.state.live import LiveMeasures, clients_table, put_into
from fleetgauge.console.state.query import worst
from fleetgauge.console.state.rings import MINUTES, Numbers, Rings
from fleetgauge.console.state.verdict_rows import Row, Verdicts
from fleetgauge.console.state.windows import WINDOW_US
from fleetgauge.telemetry.instances.client_state import ClientState
from fleetgauge.verdicts.errors import RulesError
from fleetgauge.verdicts.rules import default_rules, load_rules
from fleetgauge.verdicts.witnesses.waits import LEAST_CLIENTS

_GRACE_US: Final = 5_000_000
"""Time after the end of a minute during which pushes of other logs may still arrive [us]."""
_TABLES_EVERY_MS: Final = 30_000
_LEAST_PEERS: Final = 8
_MOST_SAMPLED: Final = 1_000
"""If there are more clients, every n-th is taken: a median, mean or quantile would not improve."""
_DEPARTED: Final = frozenset({ClientState.VANISHED.value, ClientState.ENDED.value})

Lock = Any


class Analysis:
    """Rings of measures and the judge. `live.put` and `step` are called by one thread, the rest under the fleet's lock.

    Args:
        clients_max: most clients.
        cores: CPU for payloads, in cores.
        tables: root of tables whose verdicts are shown; None for live verdicts.
        rules: rule file; None for the defaults.
        kept: file for the live judge's memory; None saves nothing.
        time: the clocks.
    """

    def __init__(
        self, clients_max: int, cores: float, tables: str | None, rules: Path | None, kept: Path | None, time: Time
    ) -> None:
        self._time = time
        self._tables = tables
        self._notices: dict[str, str] = {}
        self._rules = default_rules()
        if tables is None:
            try:
                self._rules = load_rules(rules)
            except RulesError as error:
                self._notices["rules"] = f"Live verdicts use the default rules: {error}."
        self._kept = KeptMemory(None if tables else kept, self._rules, time)
        self.live = LiveMeasures(None if tables else self._rules, clients_max, cores, self._kept.load())
        self.rings = Rings(measures.COLUMNS)
        self.verdicts = Verdicts(source="tables" if tables else "live")
        if self.live.memory.judged_to_us:
            self.verdicts = live_verdicts(self.live.memory, self._rules, lambda _: None)
        self._tables_due_ms = 0
        self._numbers = 0
        self._free: list[int] = []

    @property
    def notices(self) -> list[str]:
        """Notices for the reader of the page, a sentence each."""
        notices = list(self._notices.values())
        if self.live.budget.share < 1:
            notices.append(
                f"Payloads of {self.live.budget.share:.0%} of the clients are decoded: for all of them the CPU limit "
                "does not suffice (console.decode.cores)."
            )
        if self.live.restarts:
            notices.append(
                "Live verdicts were reset: there were more client instances than the console remembers "
                "(console.clients.max)."
            )
        if self.live.malformed:
            notices.append(f"{self.live.malformed:,} payloads could not be read.")
        return notices

    def known_clients(self) -> dict[InstanceKey, Known]:
        """Clients in the tables; empty without tables, or while they cannot be read."""
        try:
            return {} if self._tables is None else clients_in_tables(self._tables)
        except Exception as error:  # noqa: BLE001  as in `_from_tables`
            self._notices["clients"] = (
                f"Counts start from zero: the clients in {self._tables} could not be read: {error}."
            )
            return {}

    # --- by the fleet's thread

    def step(self, clients: Clients, lock: Lock, read_up_to_us: int) -> bool:
        """Decodes waiting pushes and judges completed minutes; True if anything changed.

        Args:
            clients: senders of the pushes.
            lock: taken while the state changes.
            read_up_to_us: receive time up to which all was read [us].
        """
        now_us = self._time.microseconds()
        if self.rings.newest > now_us // WINDOW_US + 2:  # the clock was set back
            with lock:
                self.rings.clear()
            self.live.restart()
        parts = [] if (measured := self.live.take(now_us)) is None else [measured]
        closed = self.live.close(read_up_to_us - _GRACE_US, lambda: clients_table(clients, self._rules))
        verdicts = None
        if closed and self._tables is None:
            self._kept.save_if_due(self.live.memory)
            verdicts = live_verdicts(self.live.memory, self._rules, clients.first_push_us)
        elif self._tables is not None:
            verdicts = self._from_tables(clients)
        for each in (*parts, *closed):
            with lock:
                put_into(self.rings, clients, each, self._next_number)
        with lock:
            self.rings.advance(now_us // WINDOW_US)
            self.verdicts = verdicts or self.verdicts
        return bool(parts or closed or verdicts)

    def _next_number(self) -> int:
        if self._free:
            return self._free.pop()
        self._numbers += 1
        return self._numbers - 1

    def _from_tables(self, clients: Clients) -> Verdicts | None:
        """Verdicts from the tables, if it is time to read them."""
        now_ms = self._time.hi_res_clock_ms()
        if now_ms < self._tables_due_ms or self._tables is None:
            return None
        try:
            verdicts = verdicts_in_tables(self._tables, clients.first_push_us)
            self._notices.pop("tables", None)
        except Exception as error:  # noqa: BLE001  of files, Parquet, a store in a cloud: the page says it, and goes on
            self._notices["tables"] = f"The verdicts in {self._tables} cannot be read now: {error}."
            verdicts = None
        took_ms = self._time.hi_res_clock_ms() - now_ms
        self._tables_due_ms = now_ms + max(_TABLES_EVERY_MS, 50 * took_ms)
        return verdicts

    def close(self) -> None:
        """Saves the judge's memory."""
        self._kept.save(self.live.memory)

    def drop(self, instances: Iterable[Instance]) -> None:
        """Removes clients."""
        numbers = [each.number for each in instances if each.number >= 0]
        self.rings.drop(numbers)
        self._free += numbers

    # --- what the fleet answers

    def nodes_of(self, entry: Entry) -> Collection[int]:
        """The nodes to which a client has links."""
        return () if entry.instance is None else self.rings.nodes_of(entry.instance.number)

    def latest(self, entries: Sequence[Entry], column: str) -> list[float | None]:
        """For each client, the latest value of a measure in the hour."""
        return _plain(self._latest(entries, column))

    def _latest(self, entries: Sequence[Entry], column: str) -> Numbers:
        numbers = np.array([-1 if each.instance is None else each.instance.number for each in entries], np.int64)
        values = np.full(len(numbers), np.nan, np.float32)
        known = np.flatnonzero(numbers >= 0)
        values[known] = self.rings.latest(column, numbers[known])
        return values

    def medians(self, entries: Sequence[Entry]) -> dict[str, float | None]:
        """Median of each measure's latest values, over some clients."""
        entries = _sample(entries)
        return {column: _median(self._latest(entries, column)) for column in measures.COLUMNS}

    def series(self, entry: Entry, entries: Iterable[Entry]) -> list[dict[str, Any]]:
        """An hour of each measure of a client, beside the median of its peers.

        Args:
            entry: the client.
            entries: all clients.
        """
        if entry.instance is None or entry.instance.number < 0:
            return []
        peers = _numbers(_peers(entry, entries))
        series = []
        for measure in measures.SHOWN:
            own = self.rings.row(measure.column, entry.instance.number)
            if own is not None:
                series.append(self._series(measure, own, self.rings.rows(measure.column, peers), None))
        latency = measures.SHOWN[0]
        for node in sorted(self.nodes_of(entry)):
            own = self.rings.link_row(entry.instance.number, node)
            if own is not None:
                others = self.rings.link_rows((peer, node) for peer in peers.tolist())
                series.append(self._series(latency, own, others, node))
        return series

    def _series(self, measure: measures.ShownMeasure, own: Numbers, peers: Numbers, node: int | None) -> dict[str, Any]:
        medians: list[float | None] = [None] * MINUTES
        if len(peers) >= _LEAST_PEERS:
            for at, values in enumerate(peers.T):
                values = values[~np.isnan(values)]
                medians[at] = float(np.median(values)) if len(values) >= _LEAST_PEERS else None
        return {
            "measure": measure.column,
            "label": measure.label if node is None else f"{measure.label}, node {node}",
            "unit": measure.unit,
            "times": self._times(),
            "values": _plain(own),
            "peers": medians,
            "node_id": node,
        }

    def _times(self) -> list[int]:
        return [minute * WINDOW_US for minute in self.rings.minutes().tolist()]

    def groups(self, entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
        """Consumer groups of these clients; members that departed count only in `states`."""
        by_group: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            if entry.instance is not None and entry.instance.group_id:
                by_group.setdefault((entry.cluster_id, entry.instance.group_id), []).append(entry)
        for (cluster, group), members in by_group.items():
            yield self._group(cluster, group, members)

    def _group(self, cluster: str, group: str, entries: list[Entry]) -> dict[str, Any]:
        members = [entry for entry in entries if entry.state not in _DEPARTED]
        states: dict[str, int] = {}
        for entry in entries:
            states[entry.state] = states.get(entry.state, 0) + 1
        rebalances = self.rings.rows(measures.REBALANCES, _numbers(entries))
        rows = self.verdicts.about("group", cluster, group)
        return {
            "group_id": group,
            "cluster_id": cluster,
            "members": len(members),
            "states": states,
            "lag_records": _sum(self._latest(members, measures.LAG)),
            # Each member counts a rebalance of its group: the most of any is how many there were.
            "rebalances": float(np.nansum(rebalances, axis=1).max()) if len(rebalances) else None,
            "poll_idle_ratio": _median(self._latest(members, measures.POLL_IDLE)),
            **_verdicts_of(rows),
        }

    def brokers(self, entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
        """Nodes that clients have links to, by cluster."""
        by_number = {entry.instance.number: entry for entry in entries if entry.instance is not None}
        for node, numbers in self.rings.links_by_node().items():
            by_cluster: dict[str, list[Entry]] = {}
            for number in numbers:
                if number in by_number:
                    by_cluster.setdefault(by_number[number].cluster_id, []).append(by_number[number])
            for cluster, of_node in by_cluster.items():
                yield self._broker(cluster, node, of_node)

    def _broker(self, cluster: str, node: int, entries: list[Entry]) -> dict[str, Any]:
        entries = [entry for entry in entries if entry.state not in _DEPARTED] or entries
        links = self._broker_times(node, [each for each in entries if _role(each) != "consumer"])
        if np.count_nonzero(~np.isnan(links).all(axis=1)) < LEAST_CLIENTS:  # as `verdicts.families.latency`
            links = self._broker_times(node, entries)
        by_minute = [values[~np.isnan(values)] for values in links.T] if len(links) else []
        last = _last_of_rows(links)
        return {
            "node_id": node,
            "cluster_id": cluster,
            "clients": len(entries),
            "request_latency_avg_ms": float(last.mean()) if len(last) else None,
            "p95_ms": float(np.quantile(last, 0.95)) if len(last) else None,
            "produce_throttled_clients": _positive(self._latest(entries, measures.PRODUCE_THROTTLE)),
            "fetch_throttled_clients": _positive(self._latest(entries, measures.FETCH_THROTTLE)),
            "history": {
                "times": self._times(),
                "values": [float(values.mean()) if len(values) else None for values in by_minute] or [None] * MINUTES,
            },
            **_verdicts_of(self.verdicts.about("node", cluster, str(node))),
        }

    def _broker_times(self, node: int, entries: Sequence[Entry]) -> Numbers:
        return self.rings.broker_times((number, node) for number in _numbers(_sample(entries)).tolist())

    def node_verdicts(self, entry: Entry) -> list[Row]:
        """Open verdicts about the nodes that a client has links to."""
        return [
            row
            for node in sorted(self.nodes_of(entry))
            for row in self.verdicts.about("node", entry.cluster_id, str(node))
        ]


def _role(entry: Entry) -> str | None:
    return None if entry.instance is None else entry.instance.role


def _verdicts_of(rows: Sequence[Row]) -> dict[str, Any]:
    verdicts = list(dict.fromkeys(row["verdict"] for row in rows))
    severity = {row["verdict"]: row["severity"] for row in reversed(rows)}
    return {"verdicts": verdicts, "severity": worst(verdicts, severity)}


def _peers(entry: Entry, entries: Iterable[Entry]) -> Sequence[Entry]:
    """Clients of the same role and library, and of the same application or principal."""
    assert entry.instance is not None
    role, software, principal = entry.instance.role, entry.of.client_software_name, entry.of.principal
    application = application_of(entry.of.client_id)
    alike = [
        each
        for each in entries
        if each is not entry
        and each.instance is not None
        and each.instance.number >= 0
        and each.instance.role == role
        and each.of.client_software_name == software
    ]
    for fits in _FITS:
        peers = [each for each in alike if fits(each, application, principal)]
        if len(peers) >= _LEAST_PEERS:
            return _sample(peers)
    return ()


_FITS: Final[tuple[Callable[[Entry, str, str], bool], ...]] = (
    lambda entry, application, _: application_of(entry.of.client_id) == application,
    lambda entry, _, principal: entry.of.principal == principal,
)


def _sample(entries: Sequence[Entry]) -> Sequence[Entry]:
    return entries[:: -(-len(entries) // _MOST_SAMPLED)] if len(entries) > _MOST_SAMPLED else entries


def _numbers(entries: Iterable[Entry]) -> Numbers:
    numbers = [each.instance.number for each in entries if each.instance is not None and each.instance.number >= 0]
    return np.array(numbers, np.int64)


def _last_of_rows(rows: Numbers) -> Numbers:
    """Last value of each row that has any."""
    if not len(rows):
        return np.zeros(0)
    at = MINUTES - 1 - np.argmax(~np.isnan(rows[:, ::-1]), axis=1)
    last: Numbers = rows[np.arange(len(rows)), at]
    return last[~np.isnan(last)]


def _plain(values: Numbers) -> list[float | None]:
    return [None if value != value else float(f"{value:.6g}") for value in values.tolist()]


def _median(values: Numbers) -> float | None:
    values = values[~np.isnan(values)]
    return float(f"{np.median(values):.6g}") if len(values) else None


def _sum(values: Numbers) -> float | None:
    values = values[~np.isnan(values)]
    return float(values.sum(dtype=np.float64)) if len(values) else None


def _positive(values: Numbers) -> int:
    return int(np.count_nonzero(values > 0))
