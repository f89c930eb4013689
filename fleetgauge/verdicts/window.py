"""Windows of wide rows: numbers by column, and the client, group, node and instance of each row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, update_wrapper
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import numpy as np

from fleetgauge.verdicts.arrow import Array, Numbers, Table, as_numpy, is_valid, numbers_at, one, pa, pc, places_in
from fleetgauge.verdicts.errors import RowsError
from fleetgauge.verdicts.registry import PATHS, SEPARATOR, Registry
from fleetgauge.verdicts.witnesses.offsets import SampledGroups, Samples
from fleetgauge.verdicts.witnesses.points import Points
from fleetgauge.verdicts.witnesses.traffic import Traffic, TrafficRows

_T = TypeVar("_T")
_P = ParamSpec("_P")

DIALECTS: Final = ("java", "librdkafka", "franz-go")
JAVA, LIBRDKAFKA, FRANZ_GO = range(3)
ROLES: Final = ("producer", "consumer")
PRODUCER, CONSUMER = range(2)


_KEYS: Final = (
    "window_start", "window_s", "cluster_id", "principal", "client_instance_id", "role", "node_id", "coordinator",
    "topic", "seen_at", "client_id", "client_software_name", "client_software_version", "dialect", "push_interval_ms",
    "group_id", "pushes",
)  # fmt: skip
MEASURES: Final = (
    "connections_created", "request_rate_per_s", "request_size_avg_bytes", "bytes_sent_per_s",
    "request_latency_avg_ms", "request_latency_max_ms", "records_per_request_avg", "compression_rate_avg",
    "record_queue_time_avg_ms", "buffer_wait_ratio_avg", "buffer_exhausted_records", "records_sent", "record_errors",
    "record_retries", "record_error_pushes", "produce_throttle_avg_ms", "produce_throttle_max_ms",
    "produce_throttled", "fetch_throttle_avg_ms", "fetch_throttle_max_ms", "fetch_throttled", "lag_records",
    "records_consumed", "fetch_rate_per_s", "fetch_size_avg_bytes", "fetch_latency_avg_ms", "fetch_latency_max_ms",
    "poll_idle_ratio_avg", "last_poll_seconds_ago", "time_between_poll_avg_ms", "time_between_poll_max_ms",
    "network_thread_poll_avg_ms", "commits", "commit_latency_avg_ms", "commit_latency_max_ms", "assigned_partitions",
    "rebalances", "rebalance_latency_total_ms", "rebalance_latency_avg_ms", "clock_skew_min_ms", "clock_skew_max_ms",
)  # fmt: skip
_NUMBERS: Final = ("push_interval_ms", "pushes")
_READ_LATER: Final = ("client_id", "principal", "seen_at")
"""The columns of clients that verdicts read beside numbers."""
LONGEST_COVERED_S: Final = 300
"""Longest time that a push covers, however long ago the one before it was [s]: a window of five minutes."""
COLUMNS: Final = (*_KEYS, *MEASURES)
"""The columns that the judge reads: one merged wide row per (instance, window) and per (instance, role, node, window).
Averages and growth are in their unit; null where nothing is known."""


class Rows:
    """Some rows of a table: numbers by column, read at their first use.

    Args:
        table: in one piece.
        at: places of the rows in the table.
    """

    def __init__(self, table: Table, at: Numbers) -> None:
        self._table, self.at = table, at
        self._indices = pa.array(at)
        self._is_slice = len(at) > 0 and at[-1] - at[0] + 1 == len(at)
        self._numbers: dict[str, Numbers] = {}
        self._columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self.at)

    def whole(self, name: str) -> Array:
        """A column of all rows of the table, in one piece."""
        return one(self._table[name])

    def column(self, name: str) -> Array:
        """A column in one piece."""
        if name not in self._columns:
            whole = self.whole(name)
            is_slice = self._is_slice
            self._columns[name] = whole.slice(int(self.at[0]), len(self.at)) if is_slice else whole.take(self._indices)
        return self._columns[name]

    def number(self, name: str) -> Numbers:
        """Numbers; NaN for null, for infinity, and for values below 0, but for clock skews."""
        if name not in self._numbers:
            numbers = numbers_at(self.whole(name), self.at)
            is_wrong = np.isinf(numbers)
            if not name.startswith("clock_skew"):
                is_wrong |= numbers < 0
            numbers[is_wrong] = np.nan
            self._numbers[name] = numbers
        return self._numbers[name]

    def detach(self) -> None:
        """Reads the columns that verdicts use, and drops the table, which may have many other rows."""
        for name in (*_NUMBERS, *MEASURES):
            self.number(name)
        # A slice would keep the whole table.
        copied = {name: self.column(name) for name in _READ_LATER}
        if self._is_slice:
            copied = {name: column.take(pa.array(np.arange(len(column)))) for name, column in copied.items()}
        self._columns, self._table = copied, None

    def micros(self, name: str) -> Numbers:
        """Times [us since the epoch]; 0 for null."""
        return as_numpy(self.column(name).cast(pa.int64()), 0)


@dataclass(frozen=True)
class Subjects:
    """Subjects of a verdict: their numbers in the registry, and for each row of clients its subject's place, or -1."""

    kind: str
    codes: Numbers
    of_row: Numbers

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def by(cls, kind: str, codes: Numbers) -> "Subjects":
        """Subjects by the code of each row; -1 is no subject."""
        distinct, place = numbered(codes)
        none = int(np.searchsorted(distinct, 0))
        return cls(kind, distinct[none:], place - none)

    def sum(self, values: Numbers) -> Numbers:
        """Sum over each subject's rows; NaN where none has a value."""
        has = (self.of_row >= 0) & ~np.isnan(values)
        count = np.bincount(self.of_row[has], minlength=len(self))
        sums: Numbers = np.bincount(self.of_row[has], values[has], minlength=len(self)).astype(np.float64)
        sums[count == 0] = np.nan
        return sums

    def max(self, values: Numbers) -> Numbers:
        """Largest value of each subject's rows; NaN where none has a value."""
        has = (self.of_row >= 0) & ~np.isnan(values)
        largest = np.full(len(self), -np.inf)
        np.maximum.at(largest, self.of_row[has], values[has])
        largest[np.isinf(largest)] = np.nan
        return largest

    def count(self, mask: Numbers) -> Numbers:
        """Number of each subject's rows for which `mask` is True."""
        return np.bincount(self.of_row[mask & (self.of_row >= 0)], minlength=len(self))

    def median(self, values: Numbers) -> Numbers:
        """Median over each subject's rows; NaN where none has a value."""
        return self._rows.medians(values)

    def rows_of(self, place: int) -> Numbers:
        """The rows of a subject, in their order."""
        return self._rows.places(place)

    @cached_property
    def _rows(self) -> "Groups":
        return Groups(self.of_row, len(self))


def numbered(keys: Numbers) -> tuple[Numbers, Numbers]:
    """The distinct keys in their order, and of each key its place among them: `numpy.unique` without sorting them."""
    least = int(keys.min(initial=0))
    span = int(keys.max(initial=0)) - least + 1
    if span <= max(4 * len(keys), 0xFFFF):
        is_there = np.zeros(span, np.bool_)
        is_there[keys - least] = True
        return np.flatnonzero(is_there) + least, (np.cumsum(is_there) - 1)[keys - least]
    encoded = pa.array(keys).dictionary_encode()
    distinct = as_numpy(encoded.dictionary)
    order = np.argsort(distinct)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return distinct[order], rank[as_numpy(encoded.indices)]


_SMALL: Final = 256
"""Most values of a group whose median is taken together with those of other groups of its size."""
_FEW: Final = 8
"""Most values of a group that are put in order without a sort."""
_BITS_AT_ONCE: Final = 16


class Groups:
    """The order of values by their groups: computed once, for the medians of several columns.

    Args:
        groups: of each value; those below 0 do not count.
        count: number of groups.

    Attributes:
        of: the group of each value, as given.
    """

    def __init__(self, groups: Numbers, count: int) -> None:
        self.of, self._count = groups, count
        self._order: Numbers | None = None
        if (groups[1:] < groups[:-1]).any() or (groups[:1] < 0).any():
            self._order = order_of(np.maximum(groups, -1) + 1)[np.count_nonzero(groups < 0) :]
            groups = groups[self._order]
        self._groups, self._sizes = groups, np.bincount(groups, minlength=count)
        self._begins = np.append(0, np.cumsum(self._sizes))

    def __len__(self) -> int:
        return self._count

    def places(self, group: int) -> Numbers:
        """The places of the values of a group, in their order."""
        begin, end = np.searchsorted(self._groups, (group, group + 1)).tolist()
        return np.arange(begin, end) if self._order is None else self._order[begin:end]

    def medians(self, values: Numbers, *, low: bool = False) -> Numbers:
        """The median of the values of each group, NaN where there is none; NaN does not count.

        For an even number of values it is the mean of the two in the middle; with `low` the lower one.
        """
        values, sizes = values.copy() if self._order is None else values[self._order], self._sizes
        has = ~np.isnan(values)
        if not has.all():
            before = np.append(0, np.cumsum(has))[self._begins]
            values, sizes = values[has], np.diff(before)
        begins = np.cumsum(sizes) - sizes
        middles = np.full(self._count, np.nan)
        # Most groups are small: those of a size are sorted together, as the rows of a matrix.
        is_there = np.bincount(np.minimum(sizes, _SMALL + 1), minlength=_SMALL + 2) > 0
        for size in (np.flatnonzero(is_there[1 : _SMALL + 1]) + 1).tolist():
            at = np.flatnonzero(sizes == size)
            if size <= _FEW:
                middles[at] = _middle_of_few([values[begins[at] + number] for number in range(size)], low)
                continue
            rows = np.sort(values[begins[at][:, None] + np.arange(size)], axis=1)
            middles[at] = (rows[:, (size - 1) // 2] + rows[:, (size - int(low)) // 2]) / 2
        for group in np.flatnonzero(sizes > _SMALL).tolist():
            size = int(sizes[group])
            middle = (size - 1) // 2, (size - int(low)) // 2
            part = values[begins[group] : begins[group] + size]
            part.partition(middle)
            middles[group] = (part[middle[0]] + part[middle[1]]) / 2
        return middles


def _middle_of_few(columns: list[Numbers], low: bool) -> Numbers:
    """The medians of some columns, row by row: without sorting each row."""
    lower, upper = (len(columns) - 1) // 2, (len(columns) - int(low)) // 2
    for last in range(len(columns) - 1, lower - 1, -1):  # the largest of those up to `last` moves there
        for at in range(last):
            pair = columns[at : at + 2]
            columns[at : at + 2] = np.minimum(*pair), np.maximum(*pair)
    return (columns[lower] + columns[upper]) / 2


def medians(groups: Numbers, values: Numbers, count: int, *, low: bool = False) -> Numbers:
    """Medians of one column: see `Groups.medians`."""
    return Groups(groups, count).medians(values, low=low)


def order_of(groups: Numbers) -> Numbers:
    """Rows in the order of these numbers, from 0 on; those with equal numbers keep their order.

    Sorts by 16 bits at a time, the lowest first: NumPy sorts numbers of 16 bits by counting, without comparisons.
    """
    order = np.argsort(groups.astype(np.uint16), kind="stable")  # the lowest bits
    rest = groups >> _BITS_AT_ONCE
    while rest.any():
        order = order[np.argsort(rest[order].astype(np.uint16), kind="stable")]
        rest = rest >> _BITS_AT_ONCE
    return order


@dataclass(frozen=True, slots=True)
class Links:
    """The links of the clients of a window to brokers, without those of coordinators and bootstrap servers.

    Attributes:
        row: of clients.
        node: in the registry.
        place: of the node among those of its cluster in this window.
        role: a place in ROLES.
        latency_ms: the mean; for franz-go's producers the longest.
        busy: for franz-go's producers, which send no mean, the sum of request times / push interval; else NaN.
        at: place among all rows of links.
    """

    row: Numbers
    node: Numbers
    place: Numbers
    role: Numbers
    latency_ms: Numbers
    busy: Numbers
    at: Numbers


class Window:
    """The rows of one window.

    Attributes:
        begin_us: its beginning [us since the epoch].
        length_s: its length [s].
        rows: those of clients.
        client, group, instance, version: numbers in the registry of each of them; -1 for no group.
        covered_s: time that the pushes of each row cover: since the last window with the instance, at least `length_s`
            and at most `LONGEST_COVERED_S` where that is longer [s].
        client_covered_s: the same since the last window with any instance of its client id [s].
        dialect: place of each in DIALECTS; -1 for another.
        points: points that own rules read; None if there are no own rules.
        offsets: samples of groups; None where nothing was sampled.
        traffic: traffic of gateways; None where they counted nothing.
        shared: values that are computed once: see `once`.
    """

    points: Points | None = None
    offsets: SampledGroups | None = None
    traffic: Traffic | None = None

    def __init__(self, table: Table, at: Numbers, registry: Registry, begin_us: int, length_s: int) -> None:
        has_role, has_topic = (is_valid(one(table[name]))[at] for name in ("role", "topic"))
        is_client, is_link = ~(has_role | has_topic), has_role
        self.rows, self._links = Rows(table, at[is_client]), Rows(table, at[is_link])
        self._registry = registry
        self.shared: dict[Callable[..., Any], Any] = {}
        self.begin_us, self.length_s = begin_us, length_s
        self.end_us = at_us = self.begin_us + self.length_s * 1_000_000
        rows, cluster = self.rows, self.rows.column("cluster_id")
        self._cluster = cluster.fill_null("").dictionary_encode()
        self.clusters = registry.clusters.codes(self._cluster.dictionary, at_us=at_us)
        self.client, client_seen_us = registry.clients.seen(cluster, rows.column("client_id"), at_us=at_us)
        self.instance, seen_us = registry.instances.seen(
            cluster, rows.column("principal"), rows.column("client_instance_id"), at_us=at_us
        )
        self.covered_s, self.client_covered_s = self._covered_s(seen_us), self._covered_s(client_seen_us)
        group_id = rows.column("group_id")
        in_group = as_numpy(pc.not_equal(group_id, ""), False)
        self.group = np.full(len(rows), -1)
        some = pa.array(np.flatnonzero(in_group))
        self.group[in_group] = registry.groups.codes(cluster.take(some), group_id.take(some), at_us=at_us)
        software = (rows.column("client_software_name"), rows.column("client_software_version"))
        self.version = registry.versions.codes(cluster, *software, at_us=at_us)
        self.dialect = place_in(rows.column("dialect"), DIALECTS)

    def __len__(self) -> int:
        return len(self.rows)

    def _covered_s(self, before_us: Numbers) -> Numbers:
        """Time since the ends of windows before; the length of this one where there is none."""
        since_s = np.where(before_us > 0, (self.end_us - before_us) / 1_000_000, self.length_s)
        return np.clip(since_s, self.length_s, max(self.length_s, LONGEST_COVERED_S))

    @cached_property
    def is_even(self) -> bool:
        """True if each client was in the window before this one, too, or is new: pushes cover a window's length."""
        return bool((self.covered_s == self.length_s).all())

    def seconds_of(self, client: Numbers) -> Numbers | int:
        """Time that the pushes of clients cover, by their numbers: see `client_covered_s` [s]."""
        if self.is_even:
            return self.length_s
        covered_s = np.empty(len(self.clients))
        covered_s[self.clients.of_row] = self.client_covered_s
        return covered_s[np.searchsorted(self.clients.codes, client)]

    @cached_property
    def seconds(self) -> Numbers:
        """Time of the pushes of each row by their interval [s]: five pushes at intervals of 60 s are 300 s."""
        interval_s = np.fmax(self.rows.number("push_interval_ms") / 1000, 0)
        covered = interval_s * np.fmax(self.rows.number("pushes"), 0)
        return np.where(covered > 0, covered, self.length_s)

    @cached_property
    def cluster(self) -> Numbers:
        """Number of the cluster of each row, which is small."""
        return self.clusters[as_numpy(self._cluster.indices)]

    @cached_property
    def clients(self) -> Subjects:
        """Client ids of clusters."""
        return Subjects.by("client", self.client)

    @cached_property
    def groups(self) -> Subjects:
        """Consumer groups: of clients, of samples, and of traffic."""
        own = Subjects.by("group", self.group)
        if self.offsets is None and self.traffic is None:
            return own
        codes = own.codes
        if self.offsets is not None:
            codes = np.union1d(codes, self.offsets.codes)
        if self.traffic is not None:
            codes = np.union1d(codes, self.traffic.group)
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
            return Links(empty, empty, empty, empty, np.zeros(0), np.zeros(0), empty)
        row = self._rows_of_links
        role = place_in(links.whole("role"), ROLES)[links.at]
        latency, busy = self._latencies(row, role)
        kept = (row >= 0) & (role >= 0) & ~self._is_coordinator & ~np.isnan(latency)
        kept &= links.number("node_id") >= 0  # NaN, as below 0 is, for bootstrap servers
        at = np.flatnonzero(kept)
        row, role, latency, busy = (each if kept.all() else each[kept] for each in (row, role, latency, busy))
        # A node is one of its client's cluster; only distinct ones are looked up by their texts.
        node_id = links.number("node_id")[kept].astype(np.int64)
        span = int(node_id.max(initial=0)) + 1
        of_rows = as_numpy(self._cluster.indices).astype(np.int64)
        distinct, which = numbered(of_rows[row] * span + node_id)
        cluster = distinct // span
        clusters, ids = self._cluster.dictionary.take(pa.array(cluster)), pa.array(distinct % span).cast(pa.string())
        node = self._registry.nodes.codes(clusters, ids, at_us=self.end_us)[which]
        first = np.searchsorted(cluster, cluster)
        place = (np.arange(len(distinct)) - first)[which]
        fits = node < PATHS  # a client may name any nodes, also too many for numbers of paths
        columns = row, node, place, role, latency, busy, at
        return Links(*columns) if fits.all() else Links(*(each[fits] for each in columns))

    def _latencies(self, row: Numbers, role: Numbers) -> tuple[Numbers, Numbers]:
        """`Links.latency_ms` and `Links.busy` of each link.

        franz-go divides the sum of its times by the push interval, not by the requests (`metricTime.rollNums` in
        `metrics_714.go`): 20 requests of 30 ms in 60 s have an average of 0.01, twice the load has twice as much.
        """
        links = self._links
        mean = links.number("request_latency_avg_ms")
        is_franz_go = (np.append(self.dialect, -1)[row] == FRANZ_GO) & (role == PRODUCER)
        if not is_franz_go.any():
            return mean, np.full(len(mean), np.nan)
        longest = links.number("request_latency_max_ms")
        has_both = is_franz_go & ~np.isnan(longest)
        return np.where(has_both, longest, mean), np.where(has_both & (mean > 0), mean, np.nan)

    @cached_property
    def coordinator(self) -> Numbers:
        """Node that coordinates the group of each row; -1 where it is not known."""
        nodes, links = np.full(len(self), -1), self._links
        if not len(links) or not len(self) or not self._is_coordinator.any():
            return nodes
        row, node_id = self._rows_of_links, links.number("node_id")
        kept = np.flatnonzero(self._is_coordinator & (row >= 0) & (node_id >= 0))
        clusters = self.rows.column("cluster_id").take(pa.array(row[kept]))
        ids = pa.array(node_id[kept].astype(np.int64)).cast(pa.string())
        nodes[row[kept]] = self._registry.nodes.codes(clusters, ids, at_us=self.end_us)
        return nodes

    @cached_property
    def link_longest_ms(self) -> Numbers:
        """Longest latency of each of `links` [ms]."""
        return self._links.number("request_latency_max_ms")[self.links.at] if len(self.links.at) else np.zeros(0)

    @cached_property
    def link_rates(self) -> Numbers:
        """Requests per second of each of `links`: of its client to all nodes, where they are not known by node."""
        if not len(self.links.at):
            return np.zeros(0)
        per_s = self._links.number("request_rate_per_s")[self.links.at]
        return np.where(np.isnan(per_s), self.rows.number("request_rate_per_s")[self.links.row], per_s)

    def detach(self) -> None:
        """Reads the columns that verdicts use, and drops the table."""
        self.links, self.link_rates, self.link_longest_ms, self.coordinator  # noqa: B018 - computed while its table is there
        self.rows.detach()
        del self._links

    @cached_property
    def _is_coordinator(self) -> Numbers:
        """True for each row of a link that is to the coordinator of a group."""
        return as_numpy(self._links.whole("coordinator"), False)[self._links.at]

    @cached_property
    def _rows_of_links(self) -> Numbers:
        """Row of each link's instance, or -1: by the id alone, unless clients share one."""
        own = self.rows.column("client_instance_id").fill_null("")
        if pc.all(pc.less(own.slice(0, len(own) - 1), own.slice(1)), min_count=0).as_py():
            # Tables are sorted by instances: a client's links follow its row, with no other id between them.
            ids = self.rows.whole("client_instance_id").fill_null("")
            is_other = as_numpy(pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)))
            run = np.append(0, np.cumsum(is_other))
            is_own = np.zeros(len(ids), np.int64)
            is_own[self.rows.at] = 1
            before = (np.cumsum(is_own) - 1)[self._links.at]
            if before.min() >= 0 and np.array_equal(run[self.rows.at][before], run[self._links.at]):
                return before
        runs = pc.run_end_encode(self._links.column("client_instance_id").fill_null(""))  # most follow others of theirs
        encoded = pa.chunked_array([own, runs.values]).dictionary_encode()
        of_row, of_run = (as_numpy(chunk.indices) for chunk in encoded.chunks)
        if np.array_equal(of_row, np.arange(len(of_row))):
            known = np.where(of_run < len(of_row), of_run, -1).astype(np.int64)
            return np.repeat(known, np.diff(runs.run_ends, prepend=0))
        names = "cluster_id", "principal", "client_instance_id"
        of_link, of_row = (
            pc.binary_join_element_wise(*(rows.column(name).fill_null("") for name in names), SEPARATOR)
            for rows in (self._links, self.rows)
        )
        return places_in(of_row, of_link)

    @cached_property
    def link_count(self) -> Numbers:
        """Links of each row."""
        return np.bincount(self.links.row, minlength=len(self))


def once(
    find: Callable[Concatenate[Window, _P], _T],
) -> Callable[Concatenate[Window, _P], _T]:
    """Makes a function of a window return what it did first: several verdicts need that value, and the state before the
    window, which it updates, is the same for all of them.
    """

    def first(window: Window, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        if find not in window.shared:
            window.shared[find] = find(window, *args, **kwargs)
        value: _T = window.shared[find]
        return value

    update_wrapper(first, find)
    return first


def place_in(column: Array, known: Sequence[str]) -> Numbers:
    """Place of each text in `known`; -1 for others."""
    return places_in(pa.array(known, pa.string()), column)


def windows(
    tables: Iterable[Table],
    registry: Registry,
    samples: Samples | None = None,
    traffic: TrafficRows | None = None,
) -> Iterator[Window]:
    """The windows of rows, of samples of groups and of traffic, in the order of their times, which is the tables'.

    Raises:
        RowsError: the rows lack a column.
    """
    waiting = sorted({start for each in (samples, traffic) if each is not None for start in each.starts()})
    empty = None
    for given in tables:
        names = set(given.column_names)
        if missing := [name for name in COLUMNS if name not in names]:
            raise RowsError(f"there is nothing to judge by: the rows have no column {', '.join(missing)}")
        table = given.combine_chunks()
        rows_of, none = _by_start(table)
        last_us = max(rows_of, default=-1)
        due, waiting = [each for each in waiting if each <= last_us], [each for each in waiting if each > last_us]
        for begin_us in sorted({*rows_of, *due}):
            yield from _window(table, rows_of.get(begin_us, none), registry, begin_us, samples, traffic)
        empty = table.schema.empty_table()
        del given, table, rows_of  # before the next one is read
    for begin_us in waiting if empty is not None else ():
        yield from _window(empty, np.empty(0, np.int64), registry, begin_us, samples, traffic)


def _by_start(table: Table) -> tuple[dict[int, Numbers], Numbers]:
    """The rows of each window by its beginning [us]; and no rows."""
    starts = table["window_start"].cast(pa.int64()).to_numpy()
    is_one = len(starts) > 0 and (starts == starts[0]).all()
    order = np.arange(len(starts)) if is_one else np.argsort(starts, kind="stable")
    cuts = np.flatnonzero(np.diff(starts[order])) + 1
    return {int(starts[at[0]]): at for at in np.split(order, cuts) if len(at)}, order[:0]


def _window(
    table: Table,
    at: Numbers,
    registry: Registry,
    begin_us: int,
    samples: Samples | None,
    traffic: TrafficRows | None,
) -> Iterator[Window]:
    """The window of some rows, or of samples or traffic alone; none where there is nothing."""
    given = samples or traffic
    length_s = given.window_s if given is not None else int(table["window_s"][int(at[0])].as_py())
    window = Window(table, at, registry, begin_us, length_s)
    window.offsets = None if samples is None else samples.within(window, registry)
    window.traffic = None if traffic is None else traffic.within(window, registry)
    if len(at) or window.offsets is not None or window.traffic is not None:
        yield window
