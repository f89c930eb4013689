"""Wide rows as the verdicts read them: numbers by column, and which client, group, node and instance each row is of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from verdicts.arrow import Array, Numbers, Table, pa, pc

if TYPE_CHECKING:
    from verdicts.offsets import Groups, Samples
    from verdicts.points import Points

DIALECTS: Final = ("java", "librdkafka", "franz-go")
JAVA, LIBRDKAFKA = range(2)
ROLES: Final = ("producer", "consumer")
PRODUCER, CONSUMER = range(2)

PATHS: Final = 2**20
"""The number of a path is that of its client times this, and that of its node."""
KINDS: Final = 8
"""Roles and libraries: the history of a latency is of (client * KINDS + kind) * PATHS + node."""

_SEPARATOR: Final = "\x1f"
_KEYS: Final = (
    "window_start", "window_s", "cluster_id", "principal", "client_instance_id", "role", "node_id", "coordinator",
    "topic", "seen_at", "client_id", "client_software_name", "client_software_version", "dialect", "push_interval_ms",
    "group_id", "pushes",
)  # fmt: skip
MEASURES: Final = (
    "connections_created", "request_rate_per_s", "request_size_avg_bytes", "bytes_sent_per_s", "request_latency_avg_ms",
    "records_per_request_avg", "compression_rate_avg", "record_queue_time_avg_ms", "buffer_wait_ratio_avg",
    "buffer_exhausted_records", "records_sent", "record_errors", "record_retries", "produce_throttle_avg_ms",
    "produce_throttle_samples", "produce_throttled", "fetch_throttle_avg_ms", "fetch_throttle_samples",
    "fetch_throttled", "lag_records", "records_consumed", "fetch_rate_per_s", "fetch_size_avg_bytes",
    "fetch_latency_avg_ms", "poll_idle_ratio_avg", "last_poll_seconds_ago", "time_between_poll_avg_ms",
    "time_between_poll_max_ms", "network_thread_poll_avg_ms", "commits", "assigned_partitions", "rebalances",
    "rebalance_latency_total_ms", "rebalance_latency_avg_ms", "clock_skew_min_ms", "clock_skew_max_ms",
)  # fmt: skip
COLUMNS: Final = (*_KEYS, *MEASURES)
"""The columns that the judge reads: one merged wide row per (instance, window) and per (instance, role, node, window).
Averages and growth are in their unit; null where nothing is known."""


def _distinct(columns: Sequence[Array]) -> tuple[Array, Numbers]:
    """The distinct texts of columns side by side, in the order of their rows, and of each row its place among them.

    Only distinct ones are put together: a client has many rows.
    """
    number = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        number = number * max(len(column.dictionary), 1) + column.indices.to_numpy(zero_copy_only=False)
    encoded = pa.array(number).dictionary_encode()
    left = encoded.dictionary.to_numpy(zero_copy_only=False)
    texts: list[Array] = []
    for column in reversed(columns):
        left, index = np.divmod(left, max(len(column.dictionary), 1))
        texts.insert(0, column.dictionary.take(pa.array(index)))
    joined = pc.binary_join_element_wise(*texts, _SEPARATOR)
    return joined, encoded.indices.to_numpy(zero_copy_only=False)


def _encoded(column: Array) -> Array:
    """Dictionary-encoded; a client may call itself anything, and what separates texts here is no part of one."""
    encoded = column.dictionary_encode()
    if pc.any(pc.match_substring(encoded.dictionary, _SEPARATOR)).as_py():
        encoded = pc.replace_substring(column, _SEPARATOR, "\N{REPLACEMENT CHARACTER}").dictionary_encode()
    return encoded


class Names:
    """Numbers for texts that last over windows.

    Args:
        texts: of the numbers from 0 on.
        seen_us: when each was asked for last [us].
    """

    def __init__(self, texts: Array | None = None, seen_us: Numbers | None = None) -> None:
        self._texts = pa.array([], pa.string()) if texts is None else texts
        self.seen_us: Numbers = np.zeros(len(self._texts), np.int64) if seen_us is None else seen_us

    def codes(self, *columns: Array, at_us: int = 0) -> Numbers:
        """For each row the number of its texts, which are seen at this time; null is ''."""
        distinct, place = _distinct([_encoded(column.fill_null("")) for column in columns])
        found = pc.index_in(distinct, value_set=self._texts)
        is_new = pc.is_null(found)
        new = distinct.filter(is_new)
        number = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        if len(new):
            number[is_new.to_numpy(zero_copy_only=False)] = len(self._texts) + np.arange(len(new))
            self._texts = pa.concat_arrays([self._texts, new])
            self.seen_us = np.append(self.seen_us, np.zeros(len(new), np.int64))
        self.seen_us[number] = np.maximum(self.seen_us[number], at_us)
        codes: Numbers = number[place]
        return codes

    def __len__(self) -> int:
        return len(self._texts)

    def parts(self, code: int) -> list[str]:
        """The texts of a number."""
        text: str = self._texts[code].as_py()
        return text.split(_SEPARATOR)

    def keep(self, stays: Numbers) -> Numbers:
        """Forgets the other texts; returns for each number the new one, or -1."""
        self._texts, self.seen_us = self._texts.filter(pa.array(stays)), self.seen_us[stays]
        found: Numbers = np.where(stays, np.cumsum(stays) - 1, -1)
        return found

    def table(self) -> Table:
        """To be kept."""
        return pa.table({"text": self._texts, "seen_us": self.seen_us})

    @classmethod
    def of(cls, table: Table) -> "Names":
        """As it was kept."""
        return cls(table["text"].combine_chunks(), table["seen_us"].to_numpy().copy())


@dataclass(slots=True)
class Registry:
    """The names that the judge knows; each with its cluster."""

    clients: Names = field(default_factory=Names)
    groups: Names = field(default_factory=Names)
    nodes: Names = field(default_factory=Names)
    instances: Names = field(default_factory=Names)
    versions: Names = field(default_factory=Names)

    def identity(self, kind: str, code: int) -> dict[str, Any]:
        """The cluster and the name of a subject, and which client, group or node it is."""
        if kind == "client":
            cluster, name = self.clients.parts(code)
            return {"cluster_id": cluster, "subject": name, "client_id": name}
        if kind == "group":
            cluster, name = self.groups.parts(code)
            return {"cluster_id": cluster, "subject": name, "group_id": name}
        if kind == "node":
            cluster, name = self.nodes.parts(code)
            return {"cluster_id": cluster, "subject": name, "node_id": int(name)}
        if kind == "path":
            (cluster, client), node = self.clients.parts(code // PATHS), self.nodes.parts(code % PATHS)[1]
            return {"cluster_id": cluster, "subject": f"{client}@{node}", "client_id": client, "node_id": int(node)}
        if kind == "version":
            cluster, name, version = self.versions.parts(code)
            return {"cluster_id": cluster, "subject": f"{name}/{version}"}
        cluster, principal, name = self.instances.parts(code)
        return {"cluster_id": cluster, "subject": name, "principal": principal}


class Rows:
    """Some rows of a table: numbers by column, taken out when they are asked for.

    Args:
        table: in one piece.
        at: which rows, in their order.
    """

    def __init__(self, table: Table, at: Numbers) -> None:
        self._table, self._at = table, at
        self._indices = pa.array(at)
        self._is_slice = len(at) > 0 and at[-1] - at[0] + 1 == len(at)
        self._numbers: dict[str, Numbers] = {}

    def __len__(self) -> int:
        return len(self._at)

    def column(self, name: str) -> Array:
        """A column in one piece."""
        column = self._table[name]
        whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if self._is_slice:
            return whole.slice(int(self._at[0]), len(self._at))
        return whole.take(self._indices)

    def number(self, name: str) -> Numbers:
        """Numbers; NaN for null and for what is not finite, or below 0 where that means nothing."""
        if name not in self._numbers:
            found = np.array(self.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False))
            is_wrong = np.isinf(found)
            if not name.startswith("clock_skew"):
                is_wrong |= found < 0
            found[is_wrong] = np.nan
            self._numbers[name] = found
        return self._numbers[name]

    def micros(self, name: str) -> Numbers:
        """Times [us since the epoch]; 0 for null."""
        found: Numbers = self.column(name).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return found


@dataclass(frozen=True, slots=True)
class Subjects:
    """Who is judged: their numbers in the registry, and for each row of clients the place of its subject, or -1."""

    kind: str
    codes: Numbers
    of_row: Numbers

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def by(cls, kind: str, codes: Numbers) -> "Subjects":
        """Of the code of each row; -1 is no subject."""
        distinct, place = numbered(codes)
        none = int(np.searchsorted(distinct, 0))
        return cls(kind, distinct[none:], place - none)

    def sum(self, values: Numbers) -> Numbers:
        """Of each subject; NaN where none of its rows has a value."""
        has = (self.of_row >= 0) & ~np.isnan(values)
        count = np.bincount(self.of_row[has], minlength=len(self))
        found: Numbers = np.bincount(self.of_row[has], values[has], minlength=len(self)).astype(np.float64)
        found[count == 0] = np.nan
        return found

    def max(self, values: Numbers) -> Numbers:
        """Of each subject; NaN where none of its rows has a value."""
        has = (self.of_row >= 0) & ~np.isnan(values)
        found = np.full(len(self), -np.inf)
        np.maximum.at(found, self.of_row[has], values[has])
        found[np.isinf(found)] = np.nan
        return found

    def count(self, mask: Numbers) -> Numbers:
        """Rows of each that are true."""
        found: Numbers = np.bincount(self.of_row[mask & (self.of_row >= 0)], minlength=len(self))
        return found

    def median(self, values: Numbers) -> Numbers:
        """Of each subject; NaN where none of its rows has a value."""
        return medians(self.of_row, values, len(self))


def numbered(keys: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct keys in their order, and of each key its place among them: `numpy.unique` without sorting them."""
    least = int(keys.min(initial=0))
    span = int(keys.max(initial=0)) - least + 1
    if span <= max(4 * len(keys), 0xFFFF):
        is_there = np.zeros(span, np.bool_)
        is_there[keys - least] = True
        return np.flatnonzero(is_there) + least, (np.cumsum(is_there) - 1)[keys - least]
    encoded = pa.array(keys).dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    order = np.argsort(distinct)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[encoded.indices.to_numpy(zero_copy_only=False)]


_SMALL: Final = 32


def medians(groups: Numbers, values: Numbers, count: int, *, low: bool = False) -> Numbers:
    """The median of the values of each group, NaN where there is none; groups below 0 and NaN do not count.

    Of an even number it is the mean of the two in the middle; with `low` the lower one.
    """
    has = (groups >= 0) & ~np.isnan(values)
    if not has.all():
        groups, values = groups[has], values[has]
    values = values[order_of(groups, count)] if (groups[1:] < groups[:-1]).any() else values.copy()
    sizes = np.bincount(groups, minlength=count)
    begins = np.cumsum(sizes) - sizes
    found = np.full(count, np.nan)
    # Most groups are small: those of a size are sorted together, as the rows of a matrix.
    for size in np.unique(sizes[(sizes > 0) & (sizes <= _SMALL)]).tolist():
        at = np.flatnonzero(sizes == size)
        rows = np.sort(values[begins[at][:, None] + np.arange(size)], axis=1)
        found[at] = (rows[:, (size - 1) // 2] + rows[:, (size - int(low)) // 2]) / 2
    for group in np.flatnonzero(sizes > _SMALL).tolist():
        size = int(sizes[group])
        middle = (size - 1) // 2, (size - int(low)) // 2
        part = values[begins[group] : begins[group] + size]
        part.partition(middle)
        found[group] = (part[middle[0]] + part[middle[1]]) / 2
    return found


def order_of(groups: Numbers, count: int) -> Numbers:
    """Rows in the order of these numbers from 0 to `count`; sorts 16 bits at a time, which NumPy does by counting."""
    order: Numbers = np.argsort((groups & 0xFFFF).astype(np.uint16), kind="stable")
    if count > 0xFFFF:
        order = order[np.argsort((groups[order] >> 16).astype(np.uint16), kind="stable")]
    return order


@dataclass(frozen=True, slots=True)
class Links:
    """The links of the clients of a window to brokers, without those of coordinators and bootstrap servers.

    Attributes:
        row: of clients.
        node: in the registry.
        place: of the node among those of its cluster in this window.
        role: a place in ROLES.
    """

    row: Numbers
    node: Numbers
    place: Numbers
    role: Numbers
    latency_ms: Numbers


class Window:
    """The rows of one window.

    Attributes:
        begin_us: its beginning [us since the epoch].
        length_s: its length [s].
        rows: those of clients.
        client, group, instance, version: numbers in the registry of each of them; -1 for no group.
        dialect: of each a place in DIALECTS; -1 for another.
        shared: what several verdicts compute of it once, by name.
        points: what own rules read; None where there are none.
        offsets: what brokers know of groups; None where nothing was sampled.
    """

    points: "Points | None" = None
    offsets: "Groups | None" = None

    def __init__(self, table: Table, at: Numbers, registry: Registry, begin_us: int, length_s: int) -> None:
        role, topic = (_is_null(table[name])[at] for name in ("role", "topic"))
        is_client, is_link = role & topic, ~role
        self.rows, self._links = Rows(table, at[is_client]), Rows(table, at[is_link])
        ids = Rows(table, at).column("client_instance_id").dictionary_encode().indices.to_numpy(zero_copy_only=False)
        self._ids = ids[is_client], ids[is_link]
        self._registry = registry
        self.shared: dict[str, Any] = {}
        self.begin_us, self.length_s = begin_us, length_s
        self.end_us = at_us = self.begin_us + self.length_s * 1_000_000
        rows, cluster = self.rows, self.rows.column("cluster_id")
        self._cluster = cluster.fill_null("").dictionary_encode()
        self.client = registry.clients.codes(cluster, rows.column("client_id"), at_us=at_us)
        self.instance = registry.instances.codes(
            cluster, rows.column("principal"), rows.column("client_instance_id"), at_us=at_us
        )
        group_id = rows.column("group_id")
        in_group = pc.fill_null(pc.not_equal(group_id, ""), False).to_numpy(zero_copy_only=False)
        self.group = np.full(len(rows), -1)
        some = pa.array(np.flatnonzero(in_group))
        self.group[in_group] = registry.groups.codes(cluster.take(some), group_id.take(some), at_us=at_us)
        software = (rows.column("client_software_name"), rows.column("client_software_version"))
        self.version = registry.versions.codes(cluster, *software, at_us=at_us)
        self.dialect = place_in(rows.column("dialect"), DIALECTS)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def seconds(self) -> Numbers:
        """How long the pushes of each row cover [s]: intervals of 60 s with five pushes are 300 s."""
        interval_s = np.nan_to_num(self.rows.number("push_interval_ms") / 1000)
        covered = interval_s * np.nan_to_num(self.rows.number("pushes"))
        found: Numbers = np.where(covered > 0, covered, self.length_s)
        return found

    @cached_property
    def cluster(self) -> Numbers:
        """Of each row a small number of its cluster, in this window."""
        found: Numbers = self._cluster.indices.to_numpy(zero_copy_only=False)
        return found

    @cached_property
    def clients(self) -> Subjects:
        """Client ids of clusters."""
        return Subjects.by("client", self.client)

    @cached_property
    def groups(self) -> Subjects:
        """Consumer groups: of clients, and of samples."""
        own = Subjects.by("group", self.group)
        if self.offsets is None:
            return own
        codes = np.union1d(own.codes, self.offsets.codes)
        of_row = np.where(self.group >= 0, np.searchsorted(codes, self.group), -1)
        return Subjects("group", codes, of_row)

    @cached_property
    def versions(self) -> Subjects:
        """Versions of clients' software."""
        return Subjects.by("version", self.version)

    @cached_property
    def by_instance(self) -> Subjects:
        """Client instances."""
        return Subjects.by("instance", self.instance)

    @cached_property
    def links(self) -> Links:
        """Links of clients that have a row, with a latency."""
        links = self._links
        if not len(links) or not len(self.rows):
            empty = np.zeros(0, np.int64)
            return Links(empty, empty, empty, empty, np.zeros(0))
        row = self._rows_of_links()
        role, latency = place_in(links.column("role"), ROLES), links.number("request_latency_avg_ms")
        coordinator = links.column("coordinator").fill_null(False).to_numpy(zero_copy_only=False)
        kept = (row >= 0) & (role >= 0) & ~coordinator & ~np.isnan(latency)
        kept &= links.number("node_id") >= 0  # NaN, as below 0 is, for bootstrap servers
        at = np.flatnonzero(kept)
        # A node is one of its client's cluster; only distinct ones are looked up by their texts.
        node_id = links.number("node_id")
        distinct, which = numbered(self.cluster[row[at]].astype(np.int64) << 32 | node_id[at].astype(np.int64))
        clusters = self._cluster.dictionary.take(pa.array(distinct >> 32))
        ids = pa.array(distinct & 0xFFFFFFFF).cast(pa.string())
        node = self._registry.nodes.codes(clusters, ids, at_us=self.end_us)[which]
        first = np.searchsorted(distinct >> 32, distinct >> 32)
        place = (np.arange(len(distinct)) - first)[which]
        fits = node < PATHS  # a client may name any nodes, and so many that the numbers of paths would not do
        at = at[fits]
        return Links(row[at], node[fits], place[fits], role[at], latency[at])

    def _rows_of_links(self) -> Numbers:
        """Of each link the row of its instance, or -1: by the id alone, unless clients share one."""
        of_row, of_link = self._ids
        row = np.full(int(max(of_row.max(), of_link.max())) + 1, -1)
        row[of_row] = np.arange(len(of_row))
        found: Numbers = row[of_link]
        if np.array_equal(row[of_row], np.arange(len(of_row))):
            return found
        names = "cluster_id", "principal", "client_instance_id"
        of_link, of_row = (
            pc.binary_join_element_wise(*(rows.column(name).fill_null("") for name in names), _SEPARATOR)
            for rows in (self._links, self.rows)
        )
        found = pc.index_in(of_link, value_set=of_row).fill_null(-1).to_numpy(zero_copy_only=False)
        return found.astype(np.int64)

    @cached_property
    def link_count(self) -> Numbers:
        """Links of each row."""
        found: Numbers = np.bincount(self.links.row, minlength=len(self))
        return found


def _is_null(column: Array) -> Numbers:
    found: Numbers = column.is_null().to_numpy()
    return found


def place_in(column: Array, known: Sequence[str]) -> Numbers:
    """For each text its place among those known; -1 for another."""
    found: Numbers = (
        pc.index_in(column, value_set=pa.array(known, pa.string())).fill_null(-1).to_numpy(zero_copy_only=False)
    )
    return found.astype(np.int64)


def windows(table: Table, registry: Registry, samples: "Samples | None" = None) -> Iterator[Window]:
    """The windows of some rows, and of samples of groups, in the order of their times."""
    table = table.combine_chunks()
    starts = table["window_start"].cast(pa.int64()).to_numpy()
    at_once = len(starts) > 0 and (starts == starts[0]).all()
    order = np.arange(len(starts)) if at_once else np.argsort(starts, kind="stable")
    cuts = np.flatnonzero(np.diff(starts[order])) + 1
    rows_of = {int(starts[at[0]]): at for at in np.split(order, cuts) if len(at)}
    length_s = samples.window_s if samples is not None else int(table["window_s"][0].as_py()) if rows_of else 0
    for begin_us in sorted({*rows_of, *(() if samples is None else samples.starts())}):
        at = rows_of.get(begin_us, order[:0])
        window = Window(table, at, registry, begin_us, length_s)
        window.offsets = None if samples is None else samples.within(window, registry)
        if len(at) or window.offsets is not None:
            yield window
