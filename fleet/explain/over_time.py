"""The figures of a subject by window, beside those of its peers, from the wide rows of a few client instances.

The ids of instances are random and the rows lie in their order. So those that follow in that order are a fair sample,
and are read with few row groups.
"""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, Final, NamedTuple

from fleet.decode.arrow import Table, pa, pc
from fleet.explain.subjects import Subject
from fleet.pipeline.by_window import judged_rows
from fleet.tables import catalog
from fleet.tables.store import Store

MOST_INSTANCES: Final = 40
"""Whose rows are read, of a subject and of its peers."""

_LEAST_PEERS: Final = 8
_LATENCY: Final = "request_latency_avg_ms"


class _Figure(NamedTuple):
    """What is shown of a column; `is_rate` of growth within a window."""

    name: str
    column: str
    unit: str
    is_rate: bool = False


_FIGURES: Final = (
    _Figure("held back, produce", "produce_throttle_avg_ms", "ms"),
    _Figure("held back, fetch", "fetch_throttle_avg_ms", "ms"),
    _Figure("waits in poll()", "poll_idle_ratio_avg", "ratio"),
    _Figure("longest poll gap", "time_between_poll_max_ms", "ms"),
    _Figure("lag", "lag_records", "records"),
    _Figure("records consumed", "records_consumed", "per s", is_rate=True),
    _Figure("fetches", "fetch_rate_per_s", "per s"),
    _Figure("bytes a fetch", "fetch_size_avg_bytes", "B"),
    _Figure("assigned partitions", "assigned_partitions", "partitions"),
    _Figure("rebalances", "rebalances", "times"),
    _Figure("records sent", "records_sent", "per s", is_rate=True),
    _Figure("records failed", "record_errors", "records"),
    _Figure("records sent again", "record_retries", "records"),
    _Figure("wait in the queue", "record_queue_time_avg_ms", "ms"),
    _Figure("waits for buffer", "buffer_wait_ratio_avg", "ratio"),
    _Figure("requests", "request_rate_per_s", "per s"),
    _Figure("records a request", "records_per_request_avg", "records"),
    _Figure("compressed to", "compression_rate_avg", "ratio"),
    _Figure("connections opened", "connections_created", "times"),
)
"""Beside the latency of requests, which is of links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One figure over time.

    Attributes:
        name: for people.
        metric: column of the wide rows.
        unit: of the values.
        values: of the median instance or link in each window; None where nothing is known.
        now: of the last three windows that have one (median).
        before: of the windows before the verdict (median).
        peers: of the peers, in the windows that `now` is of (median).
    """

    name: str
    metric: str
    unit: str
    values: list[float | None]
    now: float | None
    before: float | None
    peers: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverTime:
    """What a subject did.

    Attributes:
        windows: their beginnings.
        window_s: their length [s].
        of: whose figures these are.
        peers_are: whom they stand beside.
        series: those that are known.
        sent: `<library> <column>` of what its instances sent.
        trend: of its group in the last window, by samples of its offsets; None without these.
    """

    windows: list[datetime]
    window_s: int
    of: str
    peers_are: str
    series: list[Series]
    sent: list[str]
    trend: str | None


def over_time(store: Store, subject: Subject, begin: datetime, since: datetime | None) -> OverTime:
    """The figures of a subject.

    Args:
        store: the tables.
        subject: see `subjects.find`.
        begin: of the windows.
        since: when the verdict opened that `before` is before; None for a subject without one.
    """
    own = subject.clients.sort_by([("last_seen", "descending")])["client_instance_id"].to_pylist()
    total = len(own)
    own = own[:MOST_INSTANCES]
    is_link = subject.node_id is not None
    peers, peers_are = ([], "its clients' other nodes") if is_link else _peers(store, subject, own, begin)
    trends = _trends(store, subject, begin)
    where = (pc.field("window_start") >= begin) & (pc.field("cluster_id") == subject.cluster_id)
    where &= pc.field("client_instance_id").isin(pa.array([*own, *peers], pa.string())) & pc.field("topic").is_null()
    rows = judged_rows(store.snapshot(catalog.WINDOWS), where)
    windows = sorted({*rows["window_start"].unique().to_pylist(), *trends["window_start"].to_pylist()})
    parts = _Parts(rows.to_pylist(), set(own), subject.node_id)
    found = [_series("request latency", _LATENCY, "ms", windows, since, parts.latencies())]
    if not is_link:
        found += [
            _series(figure.name, figure.column, figure.unit, windows, since, parts.values(figure))
            for figure in _FIGURES
        ]
    found += [_of_group(trends, *each, windows, since) for each in _OF_GROUPS]
    sampled = f"{len(own):,} of {total:,} instances" if total > len(own) else f"{total:,} instances"
    return OverTime(
        windows=windows,
        window_s=next((each["window_s"][0].as_py() for each in (rows, trends) if each.num_rows), 0),
        of="the group as brokers know it" if not total else f"the median of its {sampled}" if total > 1 else _ONE,
        peers_are=peers_are,
        series=[each for each in found if any(value is not None for value in each.values)],
        sent=parts.sent(),
        trend=trends.sort_by("window_start")["trend"][-1].as_py() if trends.num_rows else None,
    )


_ONE: Final = "its one instance"
_OF_GROUPS: Final = (
    ("lag of the group", "lag_records", "records"),
    ("committed", "committed_per_s", "per s"),
    ("written", "written_per_s", "per s"),
)
"""Columns of GROUP_TRENDS."""


def _trends(store: Store, subject: Subject, begin: datetime) -> Table:
    """The rows of GROUP_TRENDS of a group; none of other subjects."""
    names = ("window_start", "window_s", "trend", *(column for _, column, _ in _OF_GROUPS))
    if subject.kind != "group":
        return catalog.GROUP_TRENDS.schema.empty_table().select(names)
    where = (pc.field("window_start") >= begin) & (pc.field("cluster_id") == subject.cluster_id)
    return store.snapshot(catalog.GROUP_TRENDS).table(names, where & (pc.field("group_id") == subject.name))


def _of_group(
    trends: Table, name: str, column: str, unit: str, windows: list[datetime], since: datetime | None
) -> Series:
    values: _Values = {}
    for row in trends.to_pylist():
        if row[column] is not None:
            values[row["window_start"], True] = [row[column]]
    return _series(name, f"group_offsets.{column}", unit, windows, since, values)


def _peers(store: Store, subject: Subject, own: list[str], begin: datetime) -> tuple[list[str], str]:
    """Instances of the same role and library, and principal if enough have it, whose ids come next; seen since then."""
    clients = store.snapshot(catalog.CLIENTS).table(
        ("cluster_id", "principal", "client_instance_id", "dialect", "role"), pc.field("last_seen") >= begin
    )
    if not subject.clients.num_rows:
        return [], "no client of it sends telemetry"
    first = subject.clients.slice(0, 1).to_pylist()[0]
    of_subject = pc.is_in(clients["client_instance_id"], value_set=subject.clients["client_instance_id"])
    alike = pc.invert(of_subject)
    for name in ("cluster_id", "dialect", "role"):
        alike = pc.and_(alike, pc.equal(clients[name], first[name]).fill_null(False))
    for narrower in (pc.and_(alike, pc.equal(clients["principal"], first["principal"])), alike):
        ids = sorted(clients.filter(narrower)["client_instance_id"].to_pylist())
        if len(ids) >= _LEAST_PEERS:
            at = min(bisect(ids, own[0]), max(len(ids) - MOST_INSTANCES, 0))
            chosen = ids[at : at + MOST_INSTANCES]
            same = f" of {first['principal']}" if narrower is not alike else ""
            return chosen, f"{len(chosen)} other {first['dialect']} {first['role']}s{same}"
    return [], f"fewer than {_LEAST_PEERS} others have its role and library"


_Values = dict[tuple[datetime, bool], list[float]]
"""By window, and whether they are the subject's own."""


class _Parts:
    """Judged rows, by whose they are."""

    def __init__(self, rows: list[dict[str, Any]], own: set[str], node_id: int | None) -> None:
        self._rows, self._own, self._node_id = rows, own, node_id

    def latencies(self) -> _Values:
        """Of links; of a node or path those to others are its peers."""
        return self._grouped(
            lambda row: (
                None if row["role"] is None or (row["node_id"] or -1) < 0 or row["coordinator"] else row[_LATENCY]
            ),
            lambda row: row["node_id"] == self._node_id if self._node_id is not None else self._is_own(row),
        )

    def values(self, figure: _Figure) -> _Values:
        """Of clients."""

        def value(row: dict[str, Any]) -> float | None:
            found: float | None = row[figure.column] if row["role"] is None else None
            return found / row["window_s"] if figure.is_rate and found is not None else found

        return self._grouped(value, self._is_own)

    def sent(self) -> list[str]:
        """What the subject's instances sent, as `verdicts.memory.Memory.sent` names it."""
        own = [row for row in self._rows if self._is_own(row)]
        dialect_of = {row["client_instance_id"]: row["dialect"] for row in own if row["role"] is None}
        found = {
            f"{dialect_of.get(row['client_instance_id'])} {name}"
            for row in own
            for name, value in row.items()
            if value is not None
        }
        return sorted(found)

    def _is_own(self, row: dict[str, Any]) -> bool:
        return row["client_instance_id"] in self._own

    def _grouped(
        self, value: Callable[[dict[str, Any]], float | None], is_own: Callable[[dict[str, Any]], bool]
    ) -> _Values:
        found: _Values = {}
        for row in self._rows:
            if (number := value(row)) is not None:
                found.setdefault((row["window_start"], is_own(row)), []).append(number)
        return found


_NOW: Final = 3
"""Windows."""


def _series(
    name: str, metric: str, unit: str, windows: list[datetime], since: datetime | None, found: _Values
) -> Series:
    values = {window: median(found[window, True]) for window in windows if (window, True) in found}
    latest = list(values)[-_NOW:]
    peers = [each for window in latest for each in found.get((window, False), ())]
    before = [value for window, value in values.items() if since is not None and window < since]
    return Series(
        name=name,
        metric=metric,
        unit=unit,
        values=[values.get(window) for window in windows],
        now=_median([values[window] for window in latest]),
        before=_median(before),
        peers=_median(peers),
    )


def _median(values: list[float]) -> float | None:
    return median(values) if values else None
