"""What the gold tables reckon with, and what they do not yet: the tables `batches` and `runs` read together."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final
from uuid import uuid4

from fleet.pipeline.source import source_name
from fleet.pipeline.spans import Span, whole
from fleet.selection import Days
from fleet.tables import catalog
from fleet.tables.store import Store
from fleet.tables.written_file import DATE

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What was written to the silver tables and is not in the gold ones.

    Attributes:
        spans: by the day that its pushes were received on, when.
        points: that these pushes have, as far as the batches say.
        covered: the last batch of each source once these are computed.
        read_up_to: when the latest push of all was received; never after `now` of `pending`.
    """

    spans: Mapping[date, Span]
    points: int
    covered: dict[str, int]
    read_up_to: datetime


def pending(store: Store, *, window_s: int, now: datetime, days: Days | None = None) -> Pending:
    """What waits to be computed.

    Args:
        store: the tables.
        window_s: length of the windows to come [s]; days that have others are computed as a whole.
        now: what no push can have been received after, whatever it says.
        days: have these computed anew.
    """
    runs = store.rows(catalog.RUNS)
    before = max(runs, key=lambda run: run["finished_at"], default={})
    done = dict(before.get("covered", ()))
    covered = dict(done)
    spans: dict[date, Span] = {}
    points = 0
    seen: list[datetime] = []
    for batch in store.rows(catalog.BATCHES):
        if batch["batch_id"] <= done.get(batch["app_id"], -1):
            continue
        covered[batch["app_id"]] = max(batch["batch_id"], covered.get(batch["app_id"], -1))
        points += batch["points"]
        seen += [span["last"] for span in batch["spans"] or ()]
        _widen(spans, batch)
    read_up_to = max([_EPOCH, *seen, *(run["read_up_to"] for run in runs)])
    if before.get("window_s") != window_s:
        spans = {day: whole(day) for day in spans}
    if days is not None and store.has(catalog.PUSHES):
        spans |= {day: whole(day) for day in store.log(catalog.PUSHES).days() if day is not None and day in days}
        points = store.log(catalog.POINTS).size().rows
    return Pending(spans=dict(sorted(spans.items())), points=points, covered=covered, read_up_to=min(read_up_to, now))


def _widen(spans: dict[date, Span], batch: Mapping[str, Any]) -> None:
    """With the days of a batch; one without times has them as a whole."""
    found = [(span["first"], span["last"]) for span in batch["spans"] or ()] or map(whole, batch["dates"])
    for day, (first, last) in zip(batch["dates"], found, strict=True):
        known = spans.get(day, (first, last))
        spans[day] = (min(first, known[0]), max(last, known[1]))


def clear_day(store: Store, source: str, day: date) -> None:
    """Has a whole day computed anew, and removes its silver rows, which are to be read again; as often as it is called.

    Args:
        store: the tables.
        source: where they are to be read from.
        day: of receipt (UTC).
    """
    row = {"app_id": f"redecode-{uuid4().hex}", "source": source, "dates": [day]}
    counts = dict.fromkeys(("batch_id", "files", "pushes", "points", "repeats"), 0)
    store.append_rows(catalog.BATCHES, [row | counts])
    for table in (catalog.POINTS, catalog.REJECTS, catalog.PUSHES):
        if store.has(table):
            store.log(table).delete(f"{DATE} = '{day}'")


def other_sources(store: Store, name: str, day: date) -> set[str]:
    """Sources that pushes of a day were read from beside the one of that name."""
    batches = store.rows(catalog.BATCHES)
    return {row["source"] for row in batches if day in row["dates"] and source_name(row["source"]) != name}


def close(store: Store, row: dict[str, Any]) -> None:
    """Notes that a run came to its end: a row of `runs`."""
    store.append_rows(catalog.RUNS, [row])
