"""Input that the gold tables include, and input that they do not: from the tables `batches` and `runs`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from fleetgauge.fleet.arrow import pa, pc
from fleetgauge.fleet.pipeline.source import source_name
from fleetgauge.fleet.pipeline.spans import EPOCH, Span, joined, of_windows, whole
from fleetgauge.fleet.pipeline.spans import days as days_of
from fleetgauge.fleet.schemas import TIME
from fleetgauge.fleet.source.selection import Days
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import DATE

_REDECODED: Final = "redecode-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Input in the silver tables that the gold tables do not include yet.

    Attributes:
        spans: of the windows that have something new; see `fleet.pipeline.spans`.
        remade: days whose wide rows are to be made again from points.
        points: that these pushes have, as far as the batches say.
        covered: the last batch of each source once these are computed.
        read_up_to: when the latest push of all was received; never after `now` of `pending`.
        sampled_up_to: about when a consumer group was sampled, or traffic counted, last, bounded in the same way; long
            ago where none was.
    """

    spans: list[Span]
    remade: frozenset[date]
    points: int
    covered: dict[str, int]
    read_up_to: datetime
    sampled_up_to: datetime


def window_of(store: Store) -> int | None:
    """Window length of the tables [s]; None before the first run."""
    window_s: int | None = _last(store.rows(catalog.RUNS)).get("window_s")
    return window_s


def _last(runs: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    return max(runs, key=lambda run: run["finished_at"], default={})


def pending(store: Store, *, window_s: int, now: datetime, days: Days | None = None) -> Pending:
    """Input that is still to be computed.

    Args:
        store: the tables.
        window_s: length of the windows to come [s]; days that have others are computed as a whole.
        now: what no push can have been received after, whatever it says.
        days: have these computed anew.
    """
    runs = store.rows(catalog.RUNS)
    before = _last(runs)
    done = dict(before.get("covered", ()))
    covered = dict(done)
    spans: list[Span] = []
    wholes: set[date] = set()
    remade: set[date] = set()
    points = 0
    is_new = pc.scalar(True)
    for app_id, last in done.items():
        is_new &= (pc.field("app_id") != app_id) | (pc.field("batch_id") > last)
    for batch in store.rows(catalog.BATCHES, is_new):
        covered[batch["app_id"]] = max(batch["batch_id"], covered.get(batch["app_id"], -1))
        points += batch["points"]
        if batch["window_s"] == before.get("window_s", window_s) == window_s:
            spans += of_windows(batch["windows"], window_s)
        else:
            wholes |= set(batch["dates"])
        if batch["app_id"].startswith(_REDECODED):
            remade |= {day + timedelta(days=late) for day in batch["dates"] for late in (0, 1)}
    if days is not None and store.has(catalog.PUSHES):
        chosen = {day for day in store.log(catalog.PUSHES).days() if day is not None and day in days}
        points = store.log(catalog.POINTS).size().rows
        wholes |= chosen
        remade |= {day for day in {*chosen, *days_of(spans), *wholes} if day in days}
    # What corrects windows of the day after one that is read again is said of points that do not stand any more.
    known = set(store.log(catalog.POINTS).days()) if remade and store.has(catalog.POINTS) else set()
    return Pending(
        spans=joined([*spans, *map(whole, wholes | (remade & known))]),
        remade=frozenset(remade),
        points=points,
        covered=covered,
        sampled_up_to=min(_latest_sample(store), now),
        read_up_to=min(max([_latest(store) or _latest_sample(store), *(run["read_up_to"] for run in runs)]), now),
    )


def _latest_sample(store: Store) -> datetime:
    """Approximate time of the latest sample of a group or row of traffic; a time long ago without any."""
    tables = ((catalog.GROUP_OFFSETS, "max.sampled_at"), (catalog.TRAFFIC, "max.window_start"))
    return max((file[at] for table, at in tables if store.has(table) for file in store.files(table)), default=EPOCH)


def _latest(store: Store) -> datetime | None:
    """Time of receipt of the latest push; None without pushes."""
    if not store.has(catalog.PUSHES):
        return None
    # Bounds of files are rounded up to the millisecond.
    bound = max((file["max.received_at"] for file in store.files(catalog.PUSHES)), default=EPOCH)
    where = pc.field("received_at") >= pa.scalar(bound - timedelta(milliseconds=1), TIME)
    pushes = store.snapshot(catalog.PUSHES).scan(["received_at"], where)
    return max((pc.max(batch.column("received_at")).as_py() for batch in pushes), default=None)


def clear_day(store: Store, source: str, day: date) -> None:
    """Marks a whole day for computation and deletes its silver rows, which are then read again; may be repeated.

    Args:
        store: the tables.
        source: where they are to be read from.
        day: of receipt (UTC).
    """
    row = {"app_id": f"{_REDECODED}{uuid4().hex}", "source": source, "dates": [day]}
    counts = dict.fromkeys(("batch_id", "files", "pushes", "points", "repeats"), 0)
    store.append_rows(catalog.BATCHES, [row | counts])
    for table in (catalog.POINTS, catalog.WINDOWS, catalog.REJECTS, catalog.PUSHES):
        if store.has(table):
            store.log(table).delete(f"{DATE} = '{day}'")


def other_sources(store: Store, name: str, day: date) -> set[str]:
    """Sources other than the named one that pushes of a day were read from."""
    batches = store.rows(catalog.BATCHES)
    return {row["source"] for row in batches if day in row["dates"] and source_name(row["source"]) != name}


def close(store: Store, row: dict[str, Any]) -> None:
    """Records the end of a run: a row of `runs`."""
    store.append_rows(catalog.RUNS, [row])
