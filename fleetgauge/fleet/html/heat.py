"""Latency by client and broker: the worst clients one by one, all others as aggregates."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import Table, conformed, pa, pc
from fleetgauge.fleet.gold.latency import overall
from fleetgauge.fleet.html import words
from fleetgauge.fleet.measures.rows import KEY, ROWS, Numbers, codes, filled, one
from fleetgauge.fleet.pipeline.spans import rows_within
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

MOST_CLUSTERS: Final = 6
MOST_CLIENTS: Final = 15
"""Most clients of a cluster and role that get a line each."""
MOST_NODES: Final = 20
MOST_FURTHER: Final = 60
"""Most further clusters, each of which is one line of a table."""

_ROWS: Final = 400_000
"""Wide rows read, about; a large fleet is read for fewer windows, or for a part of its clients."""
_SPAN: Final = timedelta(hours=1)
_STEPS_MS: Final = (2, 5, 10, 20, 50, 100, 200, 500)
"""Upper bounds of the shades [ms]."""
_ROLES: Final = ("producer", "consumer")


@dataclass(frozen=True, slots=True)
class Cell:
    """One client (or many) and one broker: latency as text, shade from 0 to 8, and whether a verdict is about it."""

    text: str
    shade: int | None
    is_marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A row of the map: a client, or an aggregate."""

    name: str
    is_aggregate: bool
    cells: list[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows of a role, and the number of clients that only the aggregates include."""

    role: str
    clients: int
    lines: list[Line]
    left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Map:
    """One cluster.

    Attributes:
        cluster_id: of it.
        nodes: its brokers, those that are shown.
        nodes_left_out: number of brokers not shown.
        marked: brokers that a verdict is about.
        blocks: by role.
    """

    cluster_id: str
    nodes: list[int]
    nodes_left_out: int
    marked: set[int]
    blocks: list[Block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """A cluster in one line: clients, brokers, the median and the worst mean latency of a client and broker."""

    cluster_id: str
    clients: int
    nodes: int
    median: str
    worst: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """The section of the report.

    Attributes:
        begin, end: of the windows that were read; None where there is none.
        one_in: one of this many client instances was read.
        maps: clusters with verdicts first, then the largest.
        further: the other clusters, and `left_out` of them.
        waiting: links of consumers that read responses late, since they rarely call `poll()`; left out.
    """

    begin: datetime | None = None
    end: datetime | None = None
    one_in: int = 1
    maps: list[Map] = field(default_factory=list)
    further: list[Further] = field(default_factory=list)
    left_out: int = 0
    waiting: int = 0


def shade(latency_ms: float) -> int:
    """Shade of a latency, from 0 to 8.

    >>> shade(1.5), shade(5), shade(700)
    (0, 2, 8)
    """
    return int(np.searchsorted(_STEPS_MS, latency_ms, side="right"))


def shade_labels() -> list[str]:
    """Labels of the legend."""
    bounds = [f"{step:,}" for step in _STEPS_MS]
    between = [f"{low} to {high}" for low, high in pairwise(bounds)]
    return [f"< {bounds[0]}", *between, f"≥ {bounds[-1]} ms"]


def heat_map(store: Store, end: datetime | None, open_rows: list[dict[str, Any]]) -> HeatMap:
    """Latency of the last hour of the tables; of a large fleet, of a shorter time."""
    files = [file for file in store.files(catalog.WINDOWS) if file["num_records"]]
    if end is None or not files:
        return HeatMap()
    begin, one_in = _read(files, end)
    where = (pc.field("window_start") >= begin) & pc.field("topic").is_null()
    where &= pc.field("role").is_null() | pc.field("role").isin(_ROLES)
    where &= shards.within(shards.parts(one_in)[0])
    rows = store.snapshot(catalog.WINDOWS).table(_READ, where)
    links = overall(conformed(ROWS, {name: one(rows[name]) for name in _READ}, rows.num_rows)).combine_chunks()
    return _mapped(links, begin, end, one_in, open_rows)


_MEASURED: Final = (
    "request_latency_", "poll_idle_ratio_avg", "time_between_poll_", "network_thread_poll_avg_ms", "client_id",
    "group_id", "client_software_",
)  # fmt: skip
_READ: Final = tuple(
    name
    for name in ROWS.names
    if name in ("date", "window_s", *KEY, "seen_at", "seen_push_id", "dialect") or name.startswith(_MEASURED)
)
"""The columns of ROWS that `fleet.gold.latency.overall` needs."""


def _read(files: list[dict[str, Any]], end: datetime) -> tuple[datetime, int]:
    """First time to read, and the fraction 1/n of instances, so that about `_ROWS` rows are read.

    Files tell how many rows they have, and of which time: rows of a file count as evenly spread.
    """
    window_s = max(file["max.window_s"] for file in files)
    window = timedelta(seconds=window_s)
    last = max(file["max.window_start"] for file in files) + window

    def rows_since(begin: datetime) -> int:
        return rows_within(files, [(begin, last)], window_s)

    span = _SPAN
    while span > window and rows_since(end - span) > _ROWS:
        span = max(span / 2, window)
    begin = end - max(window * int(span / window), window)
    # A file is passed over only as a whole: of a day's in one file all rows are looked at.
    looked_at = sum(file["num_records"] for file in files if file["max.window_start"] >= begin)
    return begin, max(round(rows_since(begin) / _ROWS), round(looked_at / (20 * _ROWS)), 1)


def _mapped(links: Table, begin: datetime, end: datetime, one_in: int, open_rows: list[dict[str, Any]]) -> HeatMap:
    waits = filled(links["waits_for_poll"].cast(pa.int8()), 0) > 0
    is_link = (filled(links["node_id"], -1) >= 0) & (filled(links["coordinator"].cast(pa.int8()), 0) == 0)
    is_link &= ~np.isnan(filled(links["latency_avg_ms"], np.nan))
    used = links.filter(pa.array(is_link & ~waits))
    marked: dict[str, int] = {}
    for row in open_rows:
        if row["node_id"] is not None or row["verdict"] in ("slow-client", "deploy-regression"):
            marked[row["cluster_id"]] = marked.get(row["cluster_id"], 0) + 1
    sizes = {each["values"]: each["counts"] for each in pc.value_counts(used["cluster_id"]).to_pylist()}
    order = sorted(sizes, key=lambda each: (-marked.get(each, 0), -sizes[each], each))
    rest = order[MOST_CLUSTERS:]
    return HeatMap(
        begin=begin,
        end=end,
        one_in=one_in,
        maps=[_of_cluster(each, _rows_of(used, each), open_rows) for each in order[:MOST_CLUSTERS]],
        further=[_further(each, _rows_of(used, each)) for each in rest[:MOST_FURTHER]],
        left_out=max(len(rest) - MOST_FURTHER, 0),
        waiting=int(np.count_nonzero(is_link & waits)),
    )


def _rows_of(links: Table, cluster_id: str) -> Table:
    return links.filter(pc.equal(links["cluster_id"], cluster_id)).combine_chunks()


def _further(cluster_id: str, links: Table) -> Further:
    values = filled(links["latency_avg_ms"], np.nan)
    return Further(
        cluster_id=cluster_id,
        clients=pc.count_distinct(links["client_id"]).as_py(),
        nodes=pc.count_distinct(links["node_id"]).as_py(),
        median=_ms(float(np.median(values))),
        worst=_ms(float(values.max())),
    )


def _of_cluster(cluster_id: str, links: Table, open_rows: list[dict[str, Any]]) -> Map:
    own = [row for row in open_rows if row["cluster_id"] == cluster_id]
    marked = {row["node_id"] for row in own if row["subject_kind"] == "node"}
    node = filled(links["node_id"], -1)
    every = np.unique(node)
    nodes = every
    if len(every) > MOST_NODES:  # those that a verdict is about, then those with the worst links
        values = filled(links["latency_avg_ms"], 0.0)
        worst = {int(each): float(values[node == each].max()) for each in every}
        nodes = np.sort(sorted(worst, key=lambda each: (each not in marked, -worst[each]))[:MOST_NODES])
    blocks = [_block(links.filter(pc.equal(links["role"], role)).combine_chunks(), role, nodes, own) for role in _ROLES]
    return Map(
        cluster_id=cluster_id,
        nodes=nodes.tolist(),
        nodes_left_out=len(every) - len(nodes),
        marked=marked,
        blocks=[each for each in blocks if each.clients],
    )


def _block(links: Table, role: str, nodes: Numbers, own: list[dict[str, Any]]) -> Block:
    """One row per client id: the mean over its instances; above them the median and the slowest 5 % of all."""
    client, names = codes(links["client_id"]), one(links["client_id"]).dictionary_encode().dictionary.to_pylist()
    count, width = len(names), len(nodes)
    place = np.searchsorted(nodes, filled(links["node_id"], -1))
    is_shown = (client >= 0) & (place < width)
    is_shown[is_shown] = nodes[place[is_shown]] == filled(links["node_id"], -1)[is_shown]
    key = client[is_shown] * width + place[is_shown]
    values = filled(links["latency_avg_ms"], np.nan)[is_shown]
    number = np.bincount(key, minlength=count * width)
    with np.errstate(invalid="ignore"):
        mean = (np.bincount(key, values, minlength=count * width) / number).reshape(count, width)
    if not count:
        return Block(role=role, clients=0, lines=[], left_out=0)
    concerned = {row["client_id"]: row for row in own if row["client_id"] is not None}
    paths = {(row["client_id"], row["node_id"]) for row in own if row["subject_kind"] == "path"}
    whole = {row["client_id"] for row in own if row["verdict"] in ("slow-client", "deploy-regression")}
    worst = np.nanmax(np.where(np.isnan(mean), -1.0, mean), axis=1)
    if role == "consumer":  # how long data is waited for differs: what counts is one broker beside the others
        worst = worst / np.maximum(np.nanmedian(np.where(np.isnan(mean), worst[:, None], mean), axis=1), 1.0)
    order = sorted(range(count), key=lambda at: (names[at] not in concerned, -worst[at], names[at]))
    lines = []
    if count > 1:
        with np.errstate(all="ignore"):
            columns = [mean[~np.isnan(mean[:, at]), at] for at in range(width)]
        for quantile, what in ((0.5, "median of"), (0.95, "slowest 5 % of"))[: 1 + (count > MOST_CLIENTS)]:
            cells = [_cell(float(np.quantile(each, quantile)) if len(each) else np.nan, False) for each in columns]
            lines.append(Line(name=f"{what} {words.count(count, role)}", is_aggregate=True, cells=cells))
    for at in order[:MOST_CLIENTS]:
        cells = [
            _cell(mean[at, column], (names[at], int(node)) in paths or names[at] in whole)
            for column, node in enumerate(nodes)
        ]
        lines.append(Line(name=words.name(names[at]), is_aggregate=False, cells=cells))
    return Block(role=role, clients=count, lines=lines, left_out=max(count - MOST_CLIENTS, 0))


def _cell(latency_ms: float, is_marked: bool) -> Cell:
    if np.isnan(latency_ms):
        return Cell("", None)
    return Cell(_digits(latency_ms), shade(latency_ms), is_marked)


def _digits(latency_ms: float) -> str:
    return f"{latency_ms:,.0f}" if latency_ms >= 9.5 else f"{latency_ms:.1f}"


def _ms(latency_ms: float) -> str:
    return f"{_digits(latency_ms)} ms"
