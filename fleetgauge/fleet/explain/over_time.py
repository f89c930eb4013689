"""The figures of a subject by window, beside those of its peers, from the wide rows of a few client instances.

As in `explain.links`, instances whose ids follow one another are read with few row groups.
"""

from bisect import bisect
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np

from fleetgauge.fleet.arrow import Array, Table, pa, pc, to_list
from fleetgauge.fleet.explain.links import MOST_INSTANCES, LookedAt
from fleetgauge.fleet.explain.subjects import Subject
from fleetgauge.fleet.measures.rows import Numbers, filled, one
from fleetgauge.fleet.pipeline.by_window import judged_rows
from fleetgauge.fleet.pipeline.spans import micros_of
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.store import Store
from fleetgauge.verdicts.window import COLUMNS, MEASURES, medians

_LEAST_PEERS: Final = 8
_MOST_WINDOWS: Final = 300
_LARGE: Final = 50_000
"""Rows per window above which a fleet counts as large: some 7,000 instances."""
_MOST_ROWS: Final = 6_000_000
_FEW: Final = 3
_FEW_WINDOWS: Final = 12
_TIME: Final = catalog.WINDOWS.schema.field("window_start").type
_LATENCY: Final = "request_latency_avg_ms"
_LONGEST: Final = {
    _LATENCY: ("longest request", "request_latency_max_ms"),
    "commit_latency_avg_ms": ("longest commit", "commit_latency_max_ms"),
}
"""Name and column that stand for an average of franz-go, which is a share of the time: see `verdicts.window.Links`."""
_PUSHES: Final = "pushes"
_OF_LINKS: Final = frozenset(("window_s", _LATENCY, _LONGEST[_LATENCY][1]))
"""Columns that the figures of a node or path are of, beside the keys of rows."""


class _Figure(NamedTuple):
    """A column that is shown; `is_rate` means growth within a window, shown as a rate."""

    name: str
    column: str
    unit: str
    is_rate: bool = False


_FIGURES: Final = (
    _Figure("throttled, produce", "produce_throttle_avg_ms", "ms"),
    _Figure("throttled, fetch", "fetch_throttle_avg_ms", "ms"),
    _Figure("commit latency", "commit_latency_avg_ms", "ms"),
    _Figure("fetch latency", "fetch_latency_avg_ms", "ms"),
    _Figure("idle in poll()", "poll_idle_ratio_avg", "ratio"),
    _Figure("longest poll gap", "time_between_poll_max_ms", "ms"),
    _Figure("lag", "lag_records", "records"),
    _Figure("records consumed", "records_consumed", "per s", is_rate=True),
    _Figure("fetches", "fetch_rate_per_s", "per s"),
    _Figure("bytes a fetch", "fetch_size_avg_bytes", "B"),
    _Figure("assigned partitions", "assigned_partitions", "partitions"),
    _Figure("rebalances", "rebalances", "times"),
    _Figure("records sent", "records_sent", "per s", is_rate=True),
    _Figure("records failed", "record_errors", "records"),
    _Figure("retried records", "record_retries", "records"),
    _Figure("time in the queue", "record_queue_time_avg_ms", "ms"),
    _Figure("waiting for buffer", "buffer_wait_ratio_avg", "ratio"),
    _Figure("requests", "request_rate_per_s", "per s"),
    _Figure("bytes sent", "bytes_sent_per_s", "B per s"),
    _Figure("records per request", "records_per_request_avg", "records"),
    _Figure("compressed to", "compression_rate_avg", "ratio"),
    _Figure("connections opened", "connections_created", "times"),
    _Figure("clock behind", "clock_skew_max_ms", "ms"),
    _Figure("pushes", _PUSHES, "times"),
)
"""Figures besides the latency of requests, which is per link."""

_OF_GROUPS: Final = (
    ("group lag", "lag_records", "records"),
    ("committed", "committed_per_s", "per s"),
    ("written", "written_per_s", "per s"),
)
"""Columns of GROUP_TRENDS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One figure over time.

    Attributes:
        name: for people.
        metric: column of the wide rows.
        unit: of the values.
        values: of the median instance or link in each window; None where nothing is known.
        peer_values: the same of the peers.
        now: of the last three windows that have one (median).
        before: of the windows before the verdict (median).
        peers: of the peers, in the windows that `now` is of (median).
    """

    name: str
    metric: str
    unit: str
    values: list[float | None]
    peer_values: list[float | None]
    now: float | None
    before: float | None
    peers: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """Figures of a subject over time.

    Attributes:
        windows: their beginnings; of many, an even selection.
        window_s: their length [s].
        of: description of the subject.
        sampled: number of its instances that were read.
        peers_are: description of the peers.
        series: those that are known.
        sent: `<library> <column>` for each column that its instances sent; none of a node or path, whose latencies
            alone are read.
        trend: of its group in the last window, by samples of its offsets; None without these.
    """

    windows: list[datetime]
    window_s: int
    of: str
    sampled: int
    peers_are: str
    series: list[Series]
    sent: list[str]
    trend: str | None


class Asked(NamedTuple):
    """A subject whose figures are asked for.

    Attributes:
        subject: see `subjects.find`.
        begin: of the windows.
        since: when the verdict opened that `before` is before; None for a subject without one.
        end: the windows begin before it; None is no end.
    """

    subject: Subject
    begin: datetime
    since: datetime | None = None
    end: datetime | None = None


def over_time(
    store: Store,
    asked: Sequence[Asked],
    most: int = MOST_INSTANCES,
    of_large: Collection[str] | None = None,
    windows: Snapshot | None = None,
) -> list[OverTime]:
    """The figures of several subjects, from one reading of the wide rows.

    Args:
        store: the tables.
        asked: one at least.
        most: instances whose rows are read, of each and of its peers.
        of_large: the only metrics that are read of a large fleet; None reads all.
        windows: WINDOWS of the store if they are open already.
    """
    starts, rows_a_window = _starts(store)
    is_large = of_large is not None and rows_a_window > _LARGE
    most = _FEW if is_large else most
    most_windows = (
        int(min(max(_MOST_ROWS / max(rows_a_window, 1), _FEW_WINDOWS), _MOST_WINDOWS)) if is_large else _MOST_WINDOWS
    )
    first = min(each.begin for each in asked)
    clients = store.snapshot(catalog.CLIENTS).table(
        ("cluster_id", "principal", "client_instance_id", "dialect", "role"), pc.field("last_seen") >= first
    )
    samples = [_Sample.of(each.subject, clients, most) for each in asked]
    chosen = [_chosen(starts, each, most_windows) for each in asked]
    ids = pa.array(sorted({name for sample in samples for name in (*sample.own, *sample.peers)}), pa.string())
    where = (pc.field("window_start") >= first) & pc.field("client_instance_id").isin(ids)
    where &= pc.field("cluster_id").isin(sorted({each.subject.cluster_id for each in asked}))
    where &= pc.field("topic").is_null()
    if any(each.end is not None for each in asked) or len(starts) > most_windows:
        where &= pc.field("window_start").isin(_times(np.unique(np.concatenate(chosen))))
    columns = frozenset(COLUMNS)
    if all(each.subject.node_id is not None for each in asked):
        columns = _OF_LINKS
    elif is_large and of_large is not None:
        wanted = {*of_large, _LATENCY}
        wanted |= {longest for name, (_, longest) in _LONGEST.items() if name in wanted}
        columns -= frozenset(MEASURES) - wanted
    rows = judged_rows(windows or store.snapshot(catalog.WINDOWS), where, columns).combine_chunks()
    of_franz_go = one(clients.filter(pc.equal(clients["dialect"], "franz-go").fill_null(False))["client_instance_id"])
    return [
        _figures(each, sample, times, rows, _trends(store, each, times), of_franz_go)
        for each, sample, times in zip(asked, samples, map(_times, chosen), strict=True)
    ]


def _starts(store: Store) -> tuple[Numbers, float]:
    """Beginnings of the windows between the first and the last one [us since the epoch], and the rows of each."""
    files = [file for file in store.files(catalog.WINDOWS) if file["num_records"]]
    if not files:
        return np.zeros(0, np.int64), 0.0
    first, last = (of(file[f"{name}.window_start"] for file in files) for of, name in ((min, "min"), (max, "max")))
    step_us = min(file["min.window_s"] for file in files) * 1_000_000
    starts = np.arange(micros_of(last), micros_of(first) - 1, -step_us)[::-1]
    return starts, sum(file["num_records"] for file in files) / len(starts)


def _chosen(starts: Numbers, asked: Asked, most: int) -> Numbers:
    """The windows of a subject that are read: every second, fourth, ... window of many, counted from the latest of all.

    So what is read for one subject serves others whose windows are more or fewer.
    """
    is_asked = starts >= micros_of(asked.begin)
    if asked.end is not None:
        is_asked &= starts < micros_of(asked.end)
    step = 1
    while np.count_nonzero(is_asked) > most * step:
        step *= 2
    is_asked &= np.arange(len(starts))[::-1] % step == 0
    return starts[is_asked]


def _times(micros: Numbers) -> Any:
    return pa.array(micros).cast(_TIME)


class _Sample(NamedTuple):
    """Instances of a subject and of its peers whose rows are read."""

    own: list[str]
    total: int
    peers: list[str]
    peers_are: str
    looked_at: LookedAt | None = None

    @classmethod
    def of(cls, subject: Subject, clients: Table, most: int) -> "_Sample":
        """A sample: the subject's instances seen last, or of many live ones those whose ids come first; and the peers
        whose ids come next.
        """
        own = to_list(subject.clients.sort_by([("last_seen", "descending")])["client_instance_id"])
        live = to_list(subject.clients.filter(pc.equal(subject.clients["state"], "live"))["client_instance_id"])
        chosen = sorted(live)[:most] if len(live) > most else own[:most]
        if subject.node_id is not None:
            return cls(chosen, len(own), [], "the other nodes of its clients", subject.looked_at)
        if not chosen:
            return cls([], 0, [], "none of its clients sends telemetry")
        return cls(chosen, len(own), *_peers(clients, subject, chosen[0], most))

    def __str__(self) -> str:
        if not self.own:
            return "the group's offsets at the brokers"
        sampled = f"{len(self.own):,} of {self.total:,}" if self.total > len(self.own) else f"{self.total:,}"
        text = f"the median of its {sampled} instances" if self.total > 1 else "its one instance"
        return text if self.looked_at is None else f"{text}, {self.looked_at}"


def _peers(clients: Table, subject: Subject, own: str, most: int) -> tuple[list[str], str]:
    """Instances of the same role and library, and principal if enough have it, whose ids come next."""
    first = subject.clients.slice(0, 1).to_pylist()[0]
    of_subject = pc.is_in(clients["client_instance_id"], value_set=subject.clients["client_instance_id"])
    alike = pc.invert(of_subject)
    for name in ("cluster_id", "dialect", "role"):
        alike = pc.and_(alike, pc.equal(clients[name], first[name]).fill_null(False))
    for narrower in (pc.and_(alike, pc.equal(clients["principal"], first["principal"])), alike):
        ids = sorted(to_list(clients.filter(narrower)["client_instance_id"]))
        if len(ids) >= _LEAST_PEERS:
            at = min(bisect(ids, own), max(len(ids) - most, 0))
            chosen = ids[at : at + most]
            same = f" of {first['principal']}" if narrower is not alike else ""
            return chosen, f"{len(chosen)} other {first['dialect']} {first['role']}s{same}"
    return [], f"none (fewer than {_LEAST_PEERS} others have its role and library)"


def _trends(store: Store, asked: Asked, windows: Any) -> Table:
    """The rows of GROUP_TRENDS of a group; none of other subjects."""
    names = ("window_start", "window_s", "trend", *(column for _, column, _ in _OF_GROUPS))
    if asked.subject.kind != "group" or not store.has(catalog.GROUP_TRENDS):
        return catalog.GROUP_TRENDS.schema.empty_table().select(names)
    where = (pc.field("group_id") == asked.subject.name) & (pc.field("cluster_id") == asked.subject.cluster_id)
    where &= pc.field("window_start") >= asked.begin
    if len(windows):  # groups may be sampled for longer than anybody pushes
        where &= pc.field("window_start").isin(windows) | (pc.field("window_start") > pc.max(windows))
    if asked.end is not None:
        where &= pc.field("window_start") < asked.end
    return store.snapshot(catalog.GROUP_TRENDS).table(names, where).sort_by("window_start")


def _figures(asked: Asked, sample: _Sample, windows: Any, rows: Table, trends: Table, of_franz_go: Array) -> OverTime:
    subject = asked.subject
    ids = pa.array([*sample.own, *sample.peers], pa.string())
    is_named = pc.and_(pc.equal(rows["cluster_id"], subject.cluster_id), pc.is_in(rows["client_instance_id"], ids))
    is_named = pc.and_(is_named, pc.is_in(rows["window_start"], windows))
    parts = _Parts(rows.filter(is_named), trends, sample.own, subject.node_id, of_franz_go)
    latency = parts.named("request latency", _LATENCY)
    series = [_series(latency, _LATENCY, "ms", asked.since, parts.windows, parts.latencies())]
    if subject.node_id is None:
        series += [
            _series(
                parts.named(each.name, each.column), each.column, each.unit, asked.since, parts.windows,
                parts.values(each),
            )
            for each in _FIGURES
        ]  # fmt: skip
        series += [
            _series(name, f"group_offsets.{column}", unit, asked.since, parts.windows, parts.of_group(column))
            for name, column, unit in _OF_GROUPS
        ]
        series.append(_started(subject.clients, asked.since, parts.windows))
    return OverTime(
        windows=parts.windows,
        window_s=next((each["window_s"][0].as_py() for each in (parts.rows, trends) if each.num_rows), 0),
        of=str(sample),
        sampled=len(sample.own),
        peers_are=sample.peers_are,
        series=[each for each in series if any(value is not None for value in each.values)],
        sent=parts.sent(),
        trend=trends["trend"][-1].as_py() if trends.num_rows else None,
    )


class _Values(NamedTuple):
    """Numbers of rows (NaN for none), a mask of the subject's own rows, and the indices of their windows."""

    numbers: Numbers
    is_own: Numbers
    place: Numbers


class _Parts:
    """Judged rows of a subject and its peers, and the trends of its group.

    Args:
        rows: `verdicts.window.COLUMNS`.
        trends: of GROUP_TRENDS.
        own: instances of the subject.
        node_id: of a node or path.
        of_franz_go: instances of franz-go.

    Attributes:
        rows: the same rows.
        windows: beginnings, in their order.
    """

    def __init__(
        self, rows: Table, trends: Table, own: Collection[str], node_id: int | None, of_franz_go: Array
    ) -> None:
        self.rows, self._trends, self._node_id = rows.combine_chunks(), trends, node_id
        of_both = [each["window_start"].cast(_TIME) for each in (rows, trends)]
        starts = pc.unique(pa.chunked_array([chunk for column in of_both for chunk in column.chunks], _TIME)).sort()
        self.windows: list[datetime] = starts.to_pylist()
        self._place, self._place_of_trend = (filled(pc.index_in(one(each), value_set=starts), 0) for each in of_both)
        is_own = pc.is_in(one(self.rows["client_instance_id"]), value_set=pa.array(own, pa.string()))
        self._is_own: Numbers = is_own.to_numpy(zero_copy_only=False)
        self._is_client: Numbers = one(self.rows["role"]).is_null().to_numpy(zero_copy_only=False)
        is_franz_go = pc.is_in(one(self.rows["client_instance_id"]), value_set=of_franz_go)
        self._is_franz_go: Numbers = is_franz_go.to_numpy(zero_copy_only=False)
        self._is_longest = bool(self._is_own.any() and self._is_franz_go[self._is_own].all())

    def named(self, name: str, column: str) -> str:
        """Name of a figure, which is another one if all instances of the subject are franz-go's."""
        return _LONGEST[column][0] if self._is_longest and column in _LONGEST else name

    def latencies(self) -> _Values:
        """Latency of links; for a node or a path, the peers are the links to other nodes."""
        node = filled(self.rows["node_id"], -1)
        is_link = ~self._is_client & (node >= 0) & (filled(self.rows["coordinator"].cast(pa.int8()), 0) == 0)
        latency = np.where(is_link, self._number(_LATENCY), np.nan)
        return _Values(latency, self._is_own if self._node_id is None else node == self._node_id, self._place)

    def values(self, figure: _Figure) -> _Values:
        """A figure per client."""
        values = np.where(self._is_client, self._number(figure.column), np.nan)
        numbers = values / filled(self.rows["window_s"], 1) if figure.is_rate else values
        return _Values(numbers, self._is_own, self._place)

    def of_group(self, column: str) -> _Values:
        """A column of the group's trends."""
        numbers = filled(one(self._trends[column]).cast(pa.float64()), np.nan)
        return _Values(numbers, np.ones(len(numbers), np.bool_), self._place_of_trend)

    def _number(self, column: str) -> Numbers:
        """A column; of averages that are shares of the time for franz-go, the longest if `named` says so, else NaN."""
        numbers = filled(one(self.rows[column]).cast(pa.float64()), np.nan)
        if column not in _LONGEST:
            return numbers
        other = filled(one(self.rows[_LONGEST[column][1]]).cast(pa.float64()), np.nan) if self._is_longest else np.nan
        return np.where(self._is_franz_go, other, numbers)

    def sent(self) -> list[str]:
        """Columns that the subject's instances sent, named as in `verdicts.memory.Memory.sent`."""
        clients = self.rows.filter(pa.array(self._is_client & self._is_own))
        columns: set[str] = set()
        for dialect in pc.unique(clients["dialect"]).to_pylist():
            ids = clients.filter(pc.equal(clients["dialect"], dialect))["client_instance_id"]
            rows = self.rows.filter(pc.is_in(self.rows["client_instance_id"], value_set=ids.combine_chunks()))
            columns |= {f"{dialect} {name}" for name in rows.column_names if rows[name].null_count < rows.num_rows}
        return sorted(columns)


_NOW: Final = 3
"""Number of windows in `Series.now`."""


def _series(
    name: str, metric: str, unit: str, since: datetime | None, windows: Sequence[datetime], values: _Values
) -> Series:
    own, peers = (
        medians(np.where(which, values.place, -1), values.numbers, len(windows))
        for which in (values.is_own, ~values.is_own)
    )
    if metric == _PUSHES:  # none is 0 once it has begun
        begun = np.cumsum(~np.isnan(own)) > 0
        own[begun] = np.nan_to_num(own[begun])
    known = np.flatnonzero(~np.isnan(own))
    latest = known[-_NOW:]
    is_before = [since is not None and windows[at] < since for at in known.tolist()]
    return Series(
        name=name,
        metric=metric,
        unit=unit,
        values=_or_none(own),
        peer_values=_or_none(peers),
        now=_median(own[latest]),
        before=_median(own[known[is_before]]),
        peers=_median(values.numbers[~values.is_own & np.isin(values.place, latest)]),
    )


def _started(clients: Table, since: datetime | None, windows: list[datetime]) -> Series:
    """Number of the subject's instances that sent their first push in each window; all instances, not a sample."""
    seen = one(clients["first_seen"].cast(pa.int64())).to_numpy(zero_copy_only=False)
    starts = np.array([micros_of(window) for window in windows], np.int64)
    place = np.searchsorted(starts, seen, side="right") - 1
    counts = np.bincount(place[place >= 0], minlength=len(windows)).astype(np.float64)
    counts[:1] = np.nan  # what was there before has its first push in the first window
    before = counts[[since is not None and window < since for window in windows]]
    return Series(
        name="instances started",
        metric="instances",
        unit="times",
        values=_or_none(counts),
        peer_values=[None] * len(windows),
        now=_median(counts[-_NOW:]),
        before=_median(before),
        peers=None,
    )


def _median(numbers: Numbers) -> float | None:
    known = numbers[~np.isnan(numbers)]
    return float(np.median(known)) if len(known) else None


def _or_none(numbers: Numbers) -> list[float | None]:
    return [None if each != each else each for each in numbers.tolist()]


def amount(value: float | None, unit: str) -> str:
    """A value of a series as text.

    >>> amount(0.341, "ratio"), amount(12_345.0, "records"), amount(2.25, "per s"), amount(None, "ms")
    ('34 %', '12,345', '2.2 /s', '-')
    """
    if value is None:
        return "-"
    if unit == "ratio":
        return f"{value * 100:.0f} %"
    text = f"{value:,.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.1f}"
    return with_unit(text, unit)


def with_unit(text: str, unit: str) -> str:
    """A figure and its unit; of what is counted the figure alone."""
    return text if unit in ("times", "records", "partitions") else f"{text} {unit.replace('per s', '/s')}"
