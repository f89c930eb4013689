"""The questions behind `fleet inventory`, `latency`, `points` and `rejects`, as functions on Arrow that both engines
run.

Each is a step, which makes rows of a chunk of pushes, and, where rows of several chunks make one, what makes the answer
of them. `answer` runs it in this process; `fleet.engines.jobs` has Spark run the same functions.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, Rows, Schema, Table, pa, pc
from fleetgauge.fleet.decode.stage import CountPoints, DecodePoints, Tally
from fleetgauge.fleet.gold.inventory import inventory
from fleetgauge.fleet.gold.latency import METRIC_NAMES, overall
from fleetgauge.fleet.measures.aggregate import DAY_S, aggregate
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.measures.rows import ROWS, codes
from fleetgauge.fleet.schemas import INVENTORY, LATENCY_OVERALL, REJECTS, SENT_POINTS
from fleetgauge.fleet.silver.batch import reject_rows_of
from fleetgauge.fleet.silver.check import check
from fleetgauge.fleet.silver.clients import SEEN, merged, seen
from fleetgauge.fleet.silver.repeats import ORDER, repeated
from fleetgauge.fleet.silver.sent import dialects_of, point_rows
from fleetgauge.fleet.source import landing
from fleetgauge.fleet.source.selection import Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question.

    Attributes:
        schema: of the answer.
        partial: of the rows that the step makes.
        step: CHECKED batches into such rows, counting what is set aside.
        merge: such rows into fewer, and `finish` those of whole clients into the answer. None: the rows are it.
    """

    merged_at: ClassVar = 200_000
    """Rows held in memory before they are merged."""
    clients_at_once: ClassVar = 10_000
    """Clients passed to `merge` and `finish` at once."""

    schema: Schema
    partial: Schema
    step: Callable[[Tally, Iterable[RecordBatch]], Iterator[RecordBatch]]
    merge: Callable[[Table], Table] | None = None
    finish: Callable[[Table], Table] | None = None


def question(name: str, metric_prefix: str = "") -> Question:
    """The question of a command; for `points`, `metric_prefix` is the beginning of the metric names."""
    match name:
        case "inventory":
            return Question(schema=INVENTORY, partial=SEEN, step=_inventory, merge=merged, finish=inventory)
        case "latency":
            return Question(schema=LATENCY_OVERALL, partial=ROWS, step=_latency, merge=_merge_rows, finish=overall)
        case "points":
            step = partial(_points, metric_prefix=metric_prefix)
            return Question(schema=SENT_POINTS, partial=SENT_POINTS, step=step)
    return Question(schema=REJECTS, partial=REJECTS, step=_rejects)


def _merge_rows(rows: Table) -> Table:
    return merge([rows])


def _inventory(tally: Tally, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    for counted in CountPoints(tally)(batches):
        yield from seen(pa.Table.from_batches([_good(counted)])).to_batches()


def _latency(tally: Tally, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    for decoded in DecodePoints(METRIC_NAMES, tally)(batches):
        yield from aggregate(pa.Table.from_batches([sent_points(_good(decoded))]), DAY_S).to_batches()


def _points(tally: Tally, batches: Iterable[RecordBatch], *, metric_prefix: str) -> Iterator[RecordBatch]:
    for decoded in DecodePoints(None, tally)(batches):
        points = sent_points(_good(decoded))
        yield points.filter(pc.starts_with(points.column("metric_name"), metric_prefix))


def _rejects(tally: Tally, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    for counted in CountPoints(tally)(batches):
        yield reject_rows_of(counted.filter(pc.is_valid(counted.column("reason"))))


def _good(rows: RecordBatch) -> RecordBatch:
    return rows.filter(pc.is_null(rows.column("reason")))


def sent_points(decoded: RecordBatch) -> RecordBatch:
    """Good rows of DECODED -> SENT_POINTS, not yet compared with one another; `silver.deltas` does that."""
    dialects = dialects_of(decoded, np.arange(len(decoded)), decoded)
    return point_rows(decoded, {}, dialects).select(SENT_POINTS.names)


class RejectCount:
    """Counts rejected pushes; counts once, however often a question reads the same pushes."""

    def __init__(self) -> None:
        self.total = 0

    def add(self, rejects: int) -> None:
        """Adds the rejected pushes of one pass."""
        self.total = rejects


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows of an answer, with the counts of rejected pushes and of repeats, which count once."""

    rows: Rows
    rejects: RejectCount
    repeats: int


class Pushes:
    """The pushes of a zone, checked and without repeats.

    Args:
        zone: its files.
        selection: which pushes.
        seen: called with the rows of every file that was read to its end.

    Attributes:
        repeats: rows that are left out.
    """

    def __init__(self, zone: landing.Zone, selection: Selection, seen: Callable[[int], None] = lambda _: None) -> None:
        self._zone = zone
        self._selection = selection
        self._seen = seen
        self._left_out = _repeats(zone, selection)
        self.repeats = sum(map(len, self._left_out.values()))

    def checked(self) -> Iterator[RecordBatch]:
        """CHECKED, from the files anew each time."""
        for path in self._zone.files:
            rows = 0
            for bronze in landing.read(path, self._selection):
                rows += bronze.num_rows
                batch = check(bronze)
                if path in self._left_out:
                    left_out = pa.array(self._left_out[path], pa.int64())
                    batch = batch.filter(pc.invert(pc.is_in(batch.column("source_row"), value_set=left_out)))
                yield batch
            self._seen(rows)


def answer(asked: Question, pushes: Pushes) -> Answer:
    """Answers a question in this process."""
    rejects = RejectCount()
    rows = Rows(schema=asked.schema, batches=answer_rows(asked, pushes.checked(), rejects))
    return Answer(rows=rows, rejects=rejects, repeats=pushes.repeats)


def answer_rows(asked: Question, checked: Iterable[RecordBatch], rejects: Tally) -> Iterator[RecordBatch]:
    """CHECKED of whole clients, without repeats -> the answer; the rows that wait in memory are few."""
    batches = asked.step(rejects, checked)
    if asked.merge is None or asked.finish is None:
        return batches
    waiting: list[RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count > asked.merged_at:
            waiting, count = _of_clients(asked.merge, asked.clients_at_once, pa.Table.from_batches(waiting)), 0
    return iter(_of_clients(asked.finish, asked.clients_at_once, pa.Table.from_batches(waiting, schema=asked.partial)))


def _of_clients(function: Callable[[Table], Table], at_once: int, rows: Table) -> list[RecordBatch]:
    """Applies a function to whole clients, some at a time: it needs several times their memory."""
    part_of = codes(rows["client_instance_id"]) // at_once
    parts = range(part_of.max(initial=0) + 1)
    return [batch for part in parts for batch in function(rows.filter(pa.array(part_of == part))).to_batches()]


def _repeats(zone: landing.Zone, selection: Selection) -> dict[Any, list[int]]:
    """Rows of good pushes that repeat another row, by file, as `silver.repeats` chooses them."""
    several = _several(zone, selection)
    if not len(several):
        return {}
    repeats: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for path in zone.files:
        for bronze in landing.read(path, selection):
            wanted = bronze.filter(pc.is_in(bronze.column("push_id"), value_set=several))
            for row in _good(check(wanted)).to_pylist() if wanted.num_rows else ():
                repeats.setdefault(tuple(row[name] for name in ORDER), []).append(row | {"path": path})
    left_out: dict[Any, list[int]] = {}
    for rows in repeats.values():
        for again in repeated(rows):
            left_out.setdefault(rows[again]["path"], []).append(rows[again]["source_row"])
    return left_out


def _several(zone: landing.Zone, selection: Selection) -> Array:
    """Push ids that occur in several rows."""
    needed = ("push_id", "received_at", "client_id", "client_instance_id")
    batches = [bronze.select(["push_id"]) for path in zone.files for bronze in landing.read(path, selection, needed)]
    ids = pa.Table.from_batches(batches, schema=pa.schema([("push_id", pa.string())]))
    counted = ids.group_by("push_id").aggregate([([], "count_all")])
    return counted.filter(pc.greater(counted["count_all"], 1))["push_id"].drop_null().combine_chunks()
