"""Byte rates of groups that share a limit, by broker, from the wide rows of their clients.

A client's bytes between two pushes are spread evenly over that time, and added up on a grid of windows. What a client
sends of each of its links is known by broker; of one that sends totals alone it is divided.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import Table, conformed, pa, pc
from fleetgauge.fleet.measures.rows import (
    GROWTH_UNITS,
    NOTHING,
    Numbers,
    codes,
    equals,
    filled,
    is_valid,
    numbered,
    one,
    times,
)
from fleetgauge.fleet.schemas import INSTANCE, schema_of
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.whatif.quotas import FETCH, PRODUCE, REPLAYED

RATES: Final = schema_of(
    ("sharers", pa.int32()),
    ("node_id", pa.int32()),
    ("cell", pa.int64()),
    ("bytes", pa.float64()),
    ("requests", pa.float64()),
    ("instances", pa.float64()),
    ("by", pa.int8()),
)
"""Bytes that a group sent to a broker, or fetched from it, in a cell: number of the group, broker (`NO_NODE` if only
the sum is known), number of the cell since the epoch, bytes, requests (NaN if unknown), average number of instances,
and how the broker is known (index in `BY`). Rows of a cell are added up.
"""

NO_NODE: Final = -1
BY: Final = ("sent", "even", "one")
"""Ways in which the broker of bytes is known: `sent` by the clients; spread evenly (`even`) over the brokers that they
have links to; all assigned to `one` broker.
"""

_US: Final = 1_000_000
_LATE: Final = 1.75
"""Push intervals after which a push counts as missing, as in `fleet.silver.deltas`."""
_ROLES: Final = {PRODUCE: "producer", FETCH: "consumer"}
_SUMS: Final = ("bytes_sent", "bytes_received", "bytes_consumed", "requests")
COLUMNS: Final = (
    *INSTANCE,
    *("window_start", "window_s", "role", "node_id", "coordinator", "topic", "seen_at", "push_interval_ms"),
    *(f"{name}_{part}" for name in _SUMS for part in ("sum", "count")),
)


class Client(NamedTuple):
    """A client instance with a limit: number of its group, and the limit's key."""

    sharers: int
    key: str


Clients = Mapping[tuple[str, str, str], Client]
"""Clients by the columns of INSTANCE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRates:
    """Reads the rates of some clients, by ranges of their ids; a task.

    Attributes:
        windows: the wide rows.
        where: of the time that is replayed.
        clients: those to include.
        cell_s: length of a cell [s].
        to_one: count bytes without a known broker at one broker; else spread them evenly.
    """

    windows: Snapshot
    where: Any
    clients: Clients
    cell_s: int
    to_one: bool

    def __call__(self, part: shards.Part) -> Table:
        """RATES, one row per group, broker and cell."""
        low, high = part
        ids = sorted({key[2] for key in self.clients if key[2] >= low and (high is None or key[2] < high)})
        if not ids:
            return RATES.empty_table()
        where = self.where & shards.within(part) & pc.field("client_instance_id").isin(pa.array(ids, pa.string()))
        return rates(self.windows.table(COLUMNS, where), self.clients, self.cell_s, to_one=self.to_one)


def rates(rows: Table, clients: Clients, cell_s: int, *, to_one: bool) -> Table:
    """WINDOWS -> RATES of some clients; needs all rows of each client.

    Args:
        rows: `COLUMNS` of partial wide rows, in any order.
        clients: those to include.
        cell_s: length of a cell [s].
        to_one: see `ReadRates`.
    """
    if not rows.num_rows:
        return RATES.empty_table()
    given = _Rows(rows.combine_chunks(), clients)
    return added(on_grid(Flows.all(given.flows(key, to_one=to_one) for key in REPLAYED), cell_s))


def added(rows: Table) -> Table:
    """RATES with the rows of a cell added: one row per group, broker and cell."""
    if not rows.num_rows:
        return rows
    keys = [filled(rows[name], 0) for name in ("sharers", "node_id", "cell")]
    group_of, first, count = numbered(keys)
    sums = {
        name: np.bincount(group_of, filled(rows[name], np.nan), count) for name in ("bytes", "requests", "instances")
    }
    by = np.zeros(count, np.int8)
    np.maximum.at(by, group_of, filled(rows["by"], 0))
    columns = [*(key[first] for key in keys), *sums.values(), by]
    return conformed(RATES, dict(zip(RATES.names, map(pa.array, columns), strict=True)), len(columns[0]))


@dataclass(slots=True)
class Flows:
    """Bytes between two times [us], one row per client, broker and time."""

    sharers: Numbers
    node: Numbers
    begin: Numbers
    end: Numbers
    bytes: Numbers
    requests: Numbers
    by: Numbers

    @classmethod
    def all(cls, parts: Iterable["Flows"]) -> "Flows":
        """Flows of all parts."""
        columns = zip(*([getattr(part, each.name) for each in fields(cls)] for part in parts), strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def only(self, rows: Numbers) -> "Flows":
        """The selected rows."""
        return Flows(*(getattr(self, each.name)[rows] for each in fields(self)))

    def repeated(self, times_each: Numbers) -> "Flows":
        """Rows repeated so many times each; amounts are divided among the repetitions."""
        flows = Flows(*(np.repeat(getattr(self, each.name), times_each) for each in fields(self)))
        share = np.repeat(times_each, times_each)
        flows.bytes, flows.requests = flows.bytes / share, flows.requests / share
        return flows


class _Rows:
    """Wide rows of clients with a limit, as numbers."""

    def __init__(self, rows: Table, clients: Clients) -> None:
        identity = [one(rows[name]) for name in INSTANCE]
        client, first, _ = numbered([codes(column) for column in identity])
        names = zip(*(column.take(pa.array(first)).to_pylist() for column in identity), strict=True)
        known = [clients.get(name) for name in names]
        self.client = client
        self.sharers = np.array([-1 if each is None else each.sharers for each in known])[client]
        self.key = np.array(["" if each is None else each.key for each in known])[client]
        self.rows = rows
        self.node = filled(rows["node_id"], NO_NODE)
        self.is_topic = is_valid(rows["topic"])
        self.is_total = ~is_valid(rows["role"]) & ~self.is_topic
        self._set_times()

    def _set_times(self) -> None:
        """Sets `end` (latest push of a client's window) and `before` (that of its previous window, or `NOTHING`)."""
        start = times(self.rows["window_start"])
        window_us = filled(self.rows["window_s"], 0).astype(np.int64) * _US
        pair, first, count = numbered([self.client, start // max(int(window_us.min()), 1)])
        end, interval_us = np.full(count, NOTHING), np.zeros(count, np.int64)
        np.maximum.at(end, pair, times(self.rows["seen_at"]))
        np.maximum.at(interval_us, pair, filled(self.rows["push_interval_ms"], 0).astype(np.int64) * 1_000)
        end = np.where(end == NOTHING, (start + window_us)[first], end)
        before = np.full(count, NOTHING)  # pairs are in the order of clients and times
        same = self.client[first][1:] == self.client[first][:-1]
        before[1:][same] = end[:-1][same]
        self.pair, self.end, self.before = pair, end[pair], before[pair]
        self.interval_us = np.where(interval_us > 0, interval_us, window_us[first])[pair]

    def flows(self, key: str, *, to_one: bool) -> Flows:
        """Bytes of the clients whose limit has this key, each from the most precise metric that it sends."""
        own = self.key == key
        is_link = (
            own & equals(self.rows["role"], _ROLES[key]) & (self.node >= 0) & ~filled(self.rows["coordinator"], False)
        )
        measure = "bytes_sent" if key == PRODUCE else "bytes_received"
        least = (self.is_topic, "bytes_sent") if key == PRODUCE else (self.is_total, "bytes_consumed")
        parts, taken = [], np.zeros(int(self.client.max()) + 1, np.bool_)
        for where, name in ((is_link, measure), (own & self.is_total, measure), (own & least[0], least[1])):
            rows, flows = self._of(np.flatnonzero(where & ~taken[self.client]), name)
            parts.append((rows, flows))
            taken[self.client[rows]] = True
        (_, sent), *others = parts
        divided = [flows if to_one else self._divided(rows, flows, is_link) for rows, flows in others]
        return Flows.all([sent, *divided])

    def _of(self, rows: Numbers, name: str) -> tuple[Numbers, Flows]:
        """One flow per client, window, broker and topic, with partial rows added, and a row of each."""
        node = np.where(self.is_total | self.is_topic, NO_NODE, self.node)[rows]
        keys = [self.pair[rows], node, codes(self.rows["topic"])[rows]]
        group_of, first, groups = numbered(keys) if len(rows) else (rows, rows, 0)
        sums = {
            column: np.bincount(group_of, filled(self.rows[column], 0)[rows], groups)
            for column in (f"{name}_count", f"{name}_sum", "requests_count", "requests_sum")
        }
        known = np.flatnonzero(sums[f"{name}_count"] > 0)
        rows, node = rows[first[known]], node[first[known]]
        sums = {column: values[known] for column, values in sums.items()}
        end, before = self.end[rows], self.before[rows]
        pushed_us = (sums[f"{name}_count"] * self.interval_us[rows]).astype(np.int64)
        begin = np.where(
            before == NOTHING, end - pushed_us, np.maximum(before, end - (_LATE * pushed_us).astype(np.int64))
        )
        return rows, Flows(
            sharers=self.sharers[rows],
            node=node,
            begin=np.minimum(begin, end - _US),
            end=end,
            bytes=np.maximum(sums[f"{name}_sum"] / GROWTH_UNITS, 0.0),
            requests=np.where(sums["requests_count"] > 0, sums["requests_sum"] / GROWTH_UNITS, np.nan),
            by=np.where(node == NO_NODE, BY.index("one"), BY.index("sent")).astype(np.int8),
        )

    def _divided(self, rows: Numbers, flows: Flows, is_link: Numbers) -> Flows:
        """Totals, spread evenly over the brokers that their clients have links to."""
        if not len(rows) or not is_link.any():
            return flows
        client, node = self.client[is_link], self.node[is_link]
        _, linked, _ = numbered([client, node])  # in the order of clients
        count = np.bincount(client[linked], minlength=int(self.client.max()) + 1)
        first = np.cumsum(count) - count
        brokers = count[self.client[rows]]
        copies = np.maximum(brokers, 1)
        divided = flows.repeated(copies)
        place = first[self.client[rows]].repeat(copies) + _within(copies)
        has_links = (brokers > 0).repeat(copies)
        divided.node[has_links] = node[linked[place[has_links]]]
        divided.by[has_links] = BY.index("even")
        return divided


def _within(counts: Numbers) -> Numbers:
    """Counters from 0 for each number: 2 and 3 give 0, 1, 0, 1, 2."""
    counters: Numbers = np.arange(counts.sum()) - (np.cumsum(counts) - counts).repeat(counts)
    return counters


def on_grid(flows: Flows, cell_s: int) -> Table:
    """Flows -> RATES: each flow divided among the cells [s] that it overlaps."""
    cell_us = cell_s * _US
    first, last = flows.begin // cell_us, (flows.end - 1) // cell_us
    count = last - first + 1
    each = np.repeat(np.arange(len(count)), count)
    cell = first[each] + _within(count)
    begin, end = np.maximum(flows.begin[each], cell * cell_us), np.minimum(flows.end[each], (cell + 1) * cell_us)
    share = (end - begin) / (flows.end - flows.begin)[each]
    columns = {
        "sharers": flows.sharers[each],
        "node_id": flows.node[each],
        "cell": cell,
        "bytes": flows.bytes[each] * share,
        "requests": flows.requests[each] * share,
        "instances": (end - begin) / cell_us,
        "by": flows.by[each],
    }
    return conformed(RATES, {name: pa.array(columns[name]) for name in RATES.names}, len(columns["cell"]))
