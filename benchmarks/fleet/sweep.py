"""The largest lasting changes of what `fleet explain` plots that no verdict names: each is a question to the judge.

    .venv/bin/python benchmarks/fleet/sweep.py TABLES [TABLES ...] [--most 30]

A change is the ratio of the median of 20 minutes to that of the hour before, of any figure of a client, group, node or
path, if it is 1.5 or more and four times what the figure moves by from one window to the next. A verdict names it if it
concerns the subject or its instances, open, cleared or folded into another one, and was there at that time: from 20
minutes before its beginning until an hour after its end. Changes within 20 minutes of the same subject,
or of the same figure in the same direction, are one event, of which the largest is listed. No truth is read.
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetgauge.fleet.arrow import to_list
from fleetgauge.fleet.explain.over_time import Asked, OverTime, Series, amount, over_time
from fleetgauge.fleet.explain.subjects import CLIENT_COLUMNS, Subject
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

AFTER_S, BEFORE_S = 1_200, 3_600
LEAST, TIMES_NOISE = np.log(1.5), 4.0
BEFORE_A_ROW, AFTER_A_ROW = timedelta(seconds=AFTER_S), timedelta(seconds=BEFORE_S)
SMALL = {
    "longest poll gap": 1_000.0,
    "clock behind": 1_000.0,
    "ms": 2.0,
    "ratio": 0.02,
    "per s": 0.2,
    "records": 20.0,
    "B": 50.0,
    "B per s": 1_000.0,
}
"""By figure or unit, what is added to both sides of a ratio, so that twice next to nothing is little; else 1."""


class Change(NamedTuple):
    """A lasting change: `ratio` and `noise` as logarithms."""

    subject: Subject
    series: Series
    at: datetime
    before: float
    after: float
    ratio: float
    noise: float

    @property
    def size(self) -> float:
        """By how much it is larger than what the figure usually moves by."""
        return abs(self.ratio) - TIMES_NOISE * self.noise

    def is_of(self, other: "Change") -> bool:
        """True if both are of one event."""
        subject, also = self.subject, other.subject
        is_near = abs((self.at - other.at).total_seconds()) <= AFTER_S and subject.cluster_id == also.cluster_id
        is_same_figure = self.series.name == other.series.name and (self.ratio > 0) == (other.ratio > 0)
        return is_near and ((subject.kind, subject.name) == (also.kind, also.name) or is_same_figure)


def is_named(change: Change, rows: list[dict[str, Any]]) -> bool:
    """True if one of these rows of `fleet verdicts` concerns the subject of a change at its time."""
    subject = change.subject
    own = {name: {*to_list(subject.clients[name])} - {None} for name in ("client_instance_id", "client_id", "group_id")}
    is_node = subject.kind == "node"
    ids = set() if is_node else own["client_instance_id"]
    names = set() if is_node else {subject.name, *own["group_id"], *own["client_id"]}
    for row in rows:
        end = (row["cleared_at"] or row["last_seen_at"]) + AFTER_A_ROW
        if row["cluster_id"] == subject.cluster_id and row["opened_at"] - BEFORE_A_ROW <= change.at <= end:
            is_of_node = subject.node_id is not None and row["node_id"] == subject.node_id
            if is_of_node or not names.isdisjoint((row["subject"], row["client_id"], row["group_id"])):
                return True
            if not ids.isdisjoint(row["instances"] or ()):
                return True
    return False


def subjects(store: Store) -> Iterator[Subject]:
    """Clients, groups, nodes and paths of the tables."""
    clients = store.snapshot(catalog.CLIENTS).table(CLIENT_COLUMNS)
    for kind, column in (("client", "client_id"), ("group", "group_id")):
        for cluster_id, name in sorted({*_pairs(clients, "cluster_id", column)}):
            is_own = pc.and_(pc.equal(clients["cluster_id"], cluster_id), pc.equal(clients[column], name))
            yield Subject(kind=kind, name=name, cluster_id=cluster_id, clients=clients.filter(is_own))
    names = ("cluster_id", "node_id", "client_instance_id")
    is_link = (pc.field("node_id") >= 0) & ~pc.field("coordinator")
    links = store.snapshot(catalog.WINDOWS).table(names, is_link).group_by([*names]).aggregate([])
    for cluster_id, node_id in sorted({*_pairs(links, "cluster_id", "node_id")}):
        is_own = pc.and_(pc.equal(links["cluster_id"], cluster_id), pc.equal(links["node_id"], node_id))
        ids = links.filter(is_own)["client_instance_id"].combine_chunks()
        linked = clients.filter(pc.is_in(clients["client_instance_id"], value_set=ids))
        of = {"cluster_id": cluster_id, "node_id": node_id}
        yield Subject(kind="node", name=str(node_id), clients=linked, **of)
        for _, client_id in sorted({*_pairs(linked, "cluster_id", "client_id")}):
            own = linked.filter(pc.equal(linked["client_id"], client_id))
            yield Subject(kind="path", name=f"{client_id}@{node_id}", clients=own, **of)


def _pairs(rows: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return (each for each in zip(*(rows[name].to_pylist() for name in names), strict=True) if None not in each)


def changes(subject: Subject, figures: OverTime) -> Iterator[Change]:
    """The lasting changes of a subject's figures, at each window that is one; counts of starts are left out."""
    after, before = (round(each / max(figures.window_s, 1)) for each in (AFTER_S, BEFORE_S))
    for series in (each for each in figures.series if each.metric != "instances"):
        small = SMALL.get(series.name, SMALL.get(series.unit, 1.0))
        values = np.abs(np.array([np.nan if value is None else value for value in series.values])) + small
        steps = np.abs(np.diff(np.log(values[~np.isnan(values)])))
        noise = float(np.median(steps)) if len(steps) else 0.0
        for at in range(after, len(values) - after + 1):
            sides = values[max(0, at - before) : at], values[at : at + after]
            if min(np.count_nonzero(~np.isnan(side)) for side in sides) >= after / 2:
                first, then = (float(np.nanmedian(side)) for side in sides)
                ratio = float(np.log(then / first))
                if abs(ratio) > max(LEAST, TIMES_NOISE * noise):
                    yield Change(subject, series, figures.windows[at], first - small, then - small, ratio, noise)


def sweep(tables: str) -> list[list[Change]]:
    """Events that no verdict names, each with its largest change first, the largest event first."""
    fleet = Fleet(tables)
    begin, rows = fleet.judged().begin or datetime.min.replace(tzinfo=UTC), fleet.verdicts().to_pylist()
    asked = [Asked(subject, begin) for subject in subjects(fleet.store)]
    shown = zip(asked, over_time(fleet.store, asked), strict=True)
    found = [
        change for each, figures in shown for change in changes(each.subject, figures) if not is_named(change, rows)
    ]
    events: list[list[Change]] = []
    for change in sorted(found, key=lambda each: -each.size):
        event = next((event for event in events if change.is_of(event[0])), None)
        if event is None:
            events.append([change])
        else:
            event.append(change)
    return events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", help="of `fleet run`")
    parser.add_argument("--most", type=int, default=30, help="events that are listed, of each")
    given = parser.parse_args()
    for tables in given.tables:
        events = sweep(tables)
        print(f"{tables}: {len(events)} events that no verdict names")
        for change, *others in events[: given.most]:
            series, subject = change.series, change.subject
            before, after = (amount(each, series.unit) for each in (change.before, change.after))
            also = sorted({f"{each.subject.kind} {each.subject.name}" for each in others})
            print(
                f"{np.exp(change.ratio):6.2f}  {change.at:%d %H:%M}  {subject.kind} {subject.name}: {series.name} "
                f"{before} -> {after}, moves by {np.expm1(change.noise):.0%}"
                f"{f'; also {len(also)}: ' if also else ''}{', '.join(also[:3])}"
            )


if __name__ == "__main__":
    main()
