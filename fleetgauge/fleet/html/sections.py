"""The sections of the report that are tables: libraries, throttling, groups, coverage, changes. All are bounded."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet.arrow import SortKeys, Table, pa, pc, to_list
from fleetgauge.fleet.explain.changes import changes
from fleetgauge.fleet.explain.over_time import amount
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.html import words
from fleetgauge.fleet.html.chart import spark
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.views.coverage_list import cell, reasons
from fleetgauge.verdicts.coverage import NO_TELEMETRY

Row = dict[str, Any]
_Group = tuple[str, str]
"""Cluster and group."""

MOST_LINES: Final = 40
"""Most lines of each table."""
MOST_CHANGES: Final = 25
"""Most lines of each kind of change."""
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The fleet by library and version: lines, number of further lines, and live instances by library."""

    lines: list[Row]
    left_out: int
    libraries: list[tuple[str, int, int]]


def versions(store: Store, outdated: Iterable[str]) -> Versions:
    """VERSIONS of all clusters; `outdated` are subjects of open verdicts about versions."""
    old = set(outdated)
    by_version: dict[tuple[str, str], Row] = {}
    for row in store.rows(catalog.VERSIONS):
        name = f"{row['client_software_name'] or 'unknown'}/{row['client_software_version'] or 'unknown'}"
        line = by_version.setdefault(
            (row["dialect"] or "unknown", name),
            Counter() | {"library": row["dialect"] or "unknown", "name": name, "is_outdated": name in old},
        )
        for each in ("instances", "live", "silent", "gone", "ended"):
            line[each] = line.get(each, 0) + row[each]
    lines = sorted(by_version.values(), key=lambda line: (-line["live"], -line["instances"], line["name"]))
    libraries: Counter[str] = Counter()
    for line in lines:
        libraries[line["library"]] += line["live"]
    most = max(libraries.values(), default=0)
    return Versions(
        lines=lines[:MOST_LINES],
        left_out=max(len(lines) - MOST_LINES, 0),
        libraries=[(name, live, round(200 * live / most) if most else 0) for name, live in libraries.most_common()],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled:
    """Throttled clients: lines, and number of further ones."""

    lines: list[Row]
    left_out: int


def throttled(store: Store, begin: datetime) -> Throttled:
    """THROTTLING since a time, by client id and kind of request; most throttled windows first."""
    where = (pc.field("window_start") >= begin) & (pc.field("throttled") > 0)
    names = ("window_start", "cluster_id", "principal", "client_id", "client_instance_id", "request")
    rows = store.snapshot(catalog.THROTTLING).table((*names, "throttle_avg_ms", "throttle_max_ms"), where)
    figures: dict[str, tuple[str, Any]] = {
        "instances": ("client_instance_id", "count_distinct"),
        "windows": ("window_start", "count_distinct"),
        "mean_ms": ("throttle_avg_ms", "mean"),
        "max_ms": ("throttle_max_ms", "max"),
        "last": ("window_start", "max"),
    }
    grouped = rows.group_by(["cluster_id", "principal", "client_id", "request"]).aggregate(list(figures.values()))
    named = grouped.rename_columns({f"{column}_{rule}": name for name, (column, rule) in figures.items()})
    order: SortKeys = [
        ("windows", "descending"),
        ("mean_ms", "descending"),
        ("client_id", "ascending"),
        ("request", "ascending"),
    ]
    ordered = named.sort_by(order)
    return Throttled(lines=ordered.slice(0, MOST_LINES).to_pylist(), left_out=max(ordered.num_rows - MOST_LINES, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Consumer groups: lines, number of further ones, and number of groups whose lag no source gives."""

    lines: list[Row]
    left_out: int
    total: int
    without_lag: int


def groups(store: Store, begin: datetime, end: datetime, open_rows: Sequence[Row]) -> Groups:
    """Groups of the last hour: those with verdicts, then those with the largest lag, each with its lag over time."""
    verdicts: dict[tuple[str, str], list[str]] = {}
    for row in open_rows:
        if row["group_id"]:
            verdicts.setdefault((row["cluster_id"], row["group_id"]), []).append(row["verdict"])
    sampled = _sampled(store, begin)
    latest = _latest_groups(store, sampled, max(begin, end - _HOUR))
    order = sorted(
        latest.items(),
        key=lambda each: (
            each[0] not in verdicts,
            -(each[1]["lag_records"] or 0.0),
            -(each[1]["rebalances"] or 0.0),
            each[0],
        ),
    )
    chosen = dict(order[:MOST_LINES])
    lags = _lags(store, sampled, begin, chosen)
    lines = [
        {
            **row,
            "verdicts": ", ".join(sorted(set(verdicts.get(key, ())))),
            "path": spark([lag for _, lag in sorted(lags[key], key=lambda each: each[0])]),
        }
        for key, row in chosen.items()
    ]
    return Groups(
        lines=lines,
        left_out=len(order) - len(lines),
        total=len(order),
        without_lag=sum(row["lag_records"] is None for row in latest.values()),
    )


def _latest_groups(store: Store, sampled: Mapping[_Group, list[Row]], begin: datetime) -> dict[_Group, Row]:
    """The newest row since `begin` of each group; its rebalances per member are summed over the windows."""
    names = ("window_start", "cluster_id", "group_id", "members", "lag_records", "assigned_partitions", "rebalances")
    latest: dict[_Group, Row] = {}
    for row in store.snapshot(catalog.GROUPS).table(names, pc.field("window_start") >= begin).to_pylist():
        key = (row["cluster_id"], row["group_id"])
        known = latest.get(key)
        mean = None if row["rebalances"] is None else row["rebalances"] / max(row["members"], 1)
        before = None if known is None else known["rebalances"]
        if known is None or row["window_start"] >= known["window_start"]:
            latest[key] = known = row
        known["rebalances"] = before if mean is None else mean + (before or 0.0)
    for key, rows in sampled.items():  # what brokers say of members and lag counts, for every library
        if rows[-1]["window_start"] >= begin:
            latest[key] = {"assigned_partitions": None, "rebalances": None} | latest.get(key, {}) | rows[-1]
    return latest


def _lags(
    store: Store, sampled: Mapping[_Group, list[Row]], begin: datetime, groups: Iterable[_Group]
) -> dict[_Group, list[tuple[datetime, float | None]]]:
    """Lag over time of some groups: from samples, otherwise as reported by their clients."""
    lags: dict[_Group, list[tuple[datetime, float | None]]] = {key: [] for key in groups}
    ids = pa.array([group for _, group in lags], pa.string())
    where = (pc.field("window_start") >= begin) & pc.field("group_id").isin(ids)
    names = ("window_start", "cluster_id", "group_id", "lag_records")
    of_telemetry = store.snapshot(catalog.GROUPS).table(names, where).to_pylist()
    for row in (*of_telemetry, *(row for rows in sampled.values() for row in rows)):
        key = row["cluster_id"], row["group_id"]
        if key in lags and (key not in sampled or "members" in row):
            lags[key].append((row["window_start"], row["lag_records"]))
    return lags


def _sampled(store: Store, begin: datetime) -> dict[_Group, list[Row]]:
    """Members and lag of groups that were sampled since then, by cluster and group, in the order of the windows."""
    samples: dict[_Group, list[Row]] = {}
    if store.has(catalog.GROUP_TRENDS):
        names = ("window_start", "cluster_id", "group_id", "members", "lag_records")
        rows = store.snapshot(catalog.GROUP_TRENDS).table(names, pc.field("window_start") >= begin)
        for row in rows.sort_by("window_start").to_pylist():
            samples.setdefault((row["cluster_id"], row["group_id"]), []).append(row)
    return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Verdicts that cannot be judged, and for which clients.

    Attributes:
        libraries: with their instances.
        lines: a verdict, and per library `yes`, `no`, the roles that are judged, or None where it has no such client.
        reasons: why not, the verdicts, and how many instances that is of.
    """

    libraries: list[tuple[str, int]]
    lines: list[tuple[str, list[str | None]]]
    reasons: list[tuple[str, str, int]]


def instances_by_kind(rows: Iterable[Row]) -> dict[tuple[str, str], int]:
    """Number of instances that rows of coverage are about, by library and role.

    A verdict may have several rows of a kind, as where a part of its groups is sampled; groups without telemetry have
    no instances.
    """
    of_verdict: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        if row["library"] != NO_TELEMETRY:
            of_verdict[row["verdict"], row["library"], row["role"]] += row["instances"]
    most: dict[tuple[str, str], int] = {}
    for (_, *kind), instances in of_verdict.items():
        most[kind[0], kind[1]] = max(instances, most.get((kind[0], kind[1]), 0))
    return most


def coverage_of(rows: Sequence[Row]) -> Coverage:
    """Coverage from rows of `verdicts.coverage.SCHEMA`."""
    names = list(dict.fromkeys(row["library"] for row in rows))
    kinds = instances_by_kind(rows)
    verdicts = dict.fromkeys(row["verdict"] for row in rows)
    concerned: dict[str, list[Row]] = {}
    for row in rows:
        if not row["judged"]:
            concerned.setdefault(row["why_not"], []).append(row)
    return Coverage(
        libraries=[(name, sum(count for (library, _), count in kinds.items() if library == name)) for name in names],
        lines=[(verdict, [cell(rows, verdict, name) for name in names]) for verdict in verdicts],
        reasons=[
            (words.shown(why_not), ", ".join(concerned_verdicts), sum(instances_by_kind(concerned[why_not]).values()))
            for why_not, concerned_verdicts in reasons(rows).items()
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Changes: for each kind its lines and the number of further ones; `summary` is one sentence."""

    since: datetime
    kinds: list[tuple[str, list[Row], int]]
    summary: str
    begins_before: bool = False


_KINDS: Final = (
    ("Opened verdicts", "opened", None),
    ("Cleared verdicts", "cleared", None),
    ("New versions", "came", "version"),
    ("Versions no longer in use", "left", "version"),
    ("New clients", "came", "client"),
    ("Clients that left", "left", "client"),
)


def changed(fleet: Fleet, since: datetime, known_from: datetime | None) -> Changes:
    """The changes that `fleet changes` lists, by kind."""
    all_changes = changes(fleet, since)
    kinds, counts = [], []
    for heading, change, kind in _KINDS:
        is_kind = pc.equal(all_changes["change"], change)
        if kind is not None:
            is_kind = pc.and_(is_kind, pc.equal(all_changes["subject_kind"], kind))
        of_kind = all_changes.filter(is_kind)
        rows = [{**row, "severity": row["severity"] or ""} for row in of_kind.slice(0, MOST_CHANGES).to_pylist()]
        kinds.append((f"{heading}: {of_kind.num_rows:,}", rows, of_kind.num_rows - len(rows)))
        counts.append(of_kind.num_rows)
    opened, cleared, _, _, came, left = counts
    verdicts = f"{words.count(opened, 'verdict')} opened and {cleared:,} cleared"
    clients = f"{words.count(came, 'new client')}, {left:,} left"
    summary = (
        f"{verdicts if opened or cleared else 'No verdict opened or cleared'}; "
        f"{clients if came or left else 'no client came or left'}."
    )
    return Changes(since=since, kinds=kinds, summary=summary, begins_before=known_from is None or since <= known_from)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Size of the fleet."""

    instances: int = 0
    states: list[tuple[str, int]] = field(default_factory=list)
    clients: int = 0
    groups: int = 0
    clusters: list[str] = field(default_factory=list)

    @property
    def live(self) -> int:
        """Live instances."""
        return dict(self.states).get("live", 0)


def counts(clients: Table) -> Counts:
    """Sizes from CLIENTS."""
    states = {each["values"] or "unknown": each["counts"] for each in pc.value_counts(clients["state"]).to_pylist()}
    order = [name for name in ("live", "silent", "gone", "ended", "unknown") if name in states]
    return Counts(
        instances=clients.num_rows,
        states=[(name, states[name]) for name in order],
        clients=clients.group_by(["cluster_id", "client_id"]).aggregate([]).num_rows,
        groups=clients.filter(clients["group_id"].is_valid())
        .group_by(["cluster_id", "group_id"])
        .aggregate([])
        .num_rows,
        clusters=sorted(to_list(clients["cluster_id"].unique()), key=str),
    )


def records(value: float | None) -> str:
    """A number of records or similar; `not sent` if no client sends it."""
    return "not sent" if value is None else amount(value, "records")
