"""Wide rows as the verdicts read them: numbers by column, and which client, group, node and instance each row is of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from verdicts.arrow import Array, Numbers, Table, pa, pc

if TYPE_CHECKING:
    from verdicts.points import Points

DIALECTS: Final = ("java", "librdkafka", "franz-go")
JAVA, LIBRDKAFKA, FRANZ_GO = range(3)
ROLES: Final = ("producer", "consumer")
PRODUCER, CONSUMER = range(2)

PATHS: Final = 2**20
"""The number of a path is that of its client times this, and that of its node."""

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
    "rebalance_latency_total_ms", "clock_skew_min_ms", "clock_skew_max_ms",
)  # fmt: skip
COLUMNS: Final = (*_KEYS, *MEASURES)
"""The columns that the judge reads: one merged wide row per (instance, window) and per (instance, role, node, window).
Averages and growth are in their unit; null where nothing is known."""


class Names:
    """Numbers for texts that last over windows."""

    def __init__(self, texts: Sequence[str] = ()) -> None:
        self._codes = {text: code for code, text in enumerate(texts)}
        self._parts = [text.split(_SEPARATOR) for text in texts]

    def codes(self, *columns: Array) -> Numbers:
        """For each row the number of its texts; null is ''."""
        encoded = [column.fill_null("").dictionary_encode() for column in columns]
        number = np.zeros(len(encoded[0]), np.int64)
        for column in encoded:
            number = number * max(len(column.dictionary), 1) + column.indices.to_numpy(zero_copy_only=False)
        _, first, place = np.unique(number, return_index=True, return_inverse=True)
        texts = zip(*(column.take(pa.array(first)).to_pylist() for column in encoded), strict=True)
        found: Numbers = np.array([self._code(parts) for parts in texts], np.int64)[place]
        return found

    def _code(self, parts: Sequence[str]) -> int:
        text = _SEPARATOR.join(parts)
        if (code := self._codes.get(text)) is None:
            code = self._codes[text] = len(self._codes)
            self._parts.append(text.split(_SEPARATOR))
        return code

    def __len__(self) -> int:
        return len(self._parts)

    def parts(self, code: int) -> list[str]:
        """The texts of a number."""
        return self._parts[code]

    def texts(self) -> list[str]:
        """All texts in the order of their numbers; `Names(texts)` has the same."""
        return list(self._codes)


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
    """Some rows: numbers by column."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._numbers: dict[str, Numbers] = {}

    def __len__(self) -> int:
        count: int = self._table.num_rows
        return count

    def column(self, name: str) -> Array:
        """A column in one piece."""
        column = self._table[name]
        if not isinstance(column, pa.ChunkedArray):
            return column
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    def number(self, name: str) -> Numbers:
        """Numbers; NaN for null and for what is not finite, or below 0 where that means nothing."""
        if name not in self._numbers:
            found = self.column(name).cast(pa.float64()).fill_null(float("nan")).to_numpy(zero_copy_only=False).copy()
            found[~np.isfinite(found)] = np.nan
            if not name.startswith("clock_skew"):
                found[found < 0] = np.nan
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
        distinct, place = np.unique(codes, return_inverse=True)
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


def medians(groups: Numbers, values: Numbers, count: int, *, low: bool = False) -> Numbers:
    """The median of the values of each group, NaN where there is none; groups below 0 and NaN do not count.

    Of an even number it is the mean of the two in the middle; with `low` the lower one.
    """
    has = (groups >= 0) & ~np.isnan(values)
    groups, values = groups[has], values[has]
    order = np.lexsort((values, groups))
    ordered = values[order]
    sizes = np.bincount(groups, minlength=count)
    begins = np.cumsum(sizes) - sizes
    found = np.full(count, np.nan)
    some = sizes > 0
    first, last = begins[some] + (sizes[some] - 1) // 2, begins[some] + (sizes[some] - int(low)) // 2
    found[some] = (ordered[first] + ordered[last]) / 2
    return found


@dataclass(frozen=True, slots=True)
class Links:
    """The links of the clients of a window to brokers, without those of coordinators and bootstrap servers."""

    row: Numbers
    node: Numbers
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
    """

    points: "Points | None" = None

    def __init__(self, table: Table, registry: Registry) -> None:
        is_client = pc.and_(pc.is_null(table["role"]), pc.is_null(table["topic"]))
        self.rows = Rows(table.filter(is_client).combine_chunks())
        self._links = Rows(table.filter(pc.is_valid(table["role"])).combine_chunks())
        self._registry = registry
        self.shared: dict[str, Any] = {}
        self.length_s = int(table["window_s"][0].as_py())
        self.begin_us = int(table["window_start"].cast(pa.int64())[0].as_py())
        self.end_us = self.begin_us + self.length_s * 1_000_000
        rows, cluster = self.rows, self.rows.column("cluster_id")
        self.client = registry.clients.codes(cluster, rows.column("client_id"))
        self.instance = registry.instances.codes(cluster, rows.column("principal"), rows.column("client_instance_id"))
        in_group = pc.fill_null(pc.not_equal(rows.column("group_id"), ""), False).to_numpy(zero_copy_only=False)
        group = registry.groups.codes(cluster, rows.column("group_id")) if len(rows) else np.zeros(0, np.int64)
        self.group = np.where(in_group, group, -1)
        software = (rows.column("client_software_name"), rows.column("client_software_version"))
        self.version = registry.versions.codes(cluster, *software)
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
    def clients(self) -> Subjects:
        """Client ids of clusters."""
        return Subjects.by("client", self.client)

    @cached_property
    def groups(self) -> Subjects:
        """Consumer groups."""
        return Subjects.by("group", self.group)

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
            return Links(empty, empty, empty, np.zeros(0))
        cluster = links.column("cluster_id")
        instance = self._registry.instances.codes(
            cluster, links.column("principal"), links.column("client_instance_id")
        )
        order = np.argsort(self.instance, kind="stable")
        place = np.minimum(np.searchsorted(self.instance[order], instance), len(order) - 1)
        row = order[place]
        role, latency = place_in(links.column("role"), ROLES), links.number("request_latency_avg_ms")
        coordinator = links.column("coordinator").fill_null(False).to_numpy(zero_copy_only=False)
        kept = (self.instance[row] == instance) & (role >= 0) & ~coordinator & ~np.isnan(latency)
        kept &= links.number("node_id") >= 0  # NaN, as below 0 is, for bootstrap servers
        at = np.flatnonzero(kept)
        node = (
            self._registry.nodes.codes(
                cluster.take(pa.array(at)), links.column("node_id").cast(pa.string()).take(pa.array(at))
            )
            if len(at)
            else np.zeros(0, np.int64)
        )
        return Links(row[at], node, role[at], latency[at])


def place_in(column: Array, known: Sequence[str]) -> Numbers:
    """For each text its place among those known; -1 for another."""
    found: Numbers = (
        pc.index_in(column, value_set=pa.array(known, pa.string())).fill_null(-1).to_numpy(zero_copy_only=False)
    )
    return found.astype(np.int64)


def windows(table: Table, registry: Registry) -> Iterator[Window]:
    """The windows of some rows in the order of their times."""
    if not table.num_rows:
        return
    table = table.combine_chunks()
    starts = table["window_start"].cast(pa.int64()).to_numpy()
    order = np.argsort(starts, kind="stable")
    cuts = np.flatnonzero(np.diff(starts[order])) + 1
    for rows in np.split(order, cuts):
        yield Window(table.take(pa.array(rows)), registry)
