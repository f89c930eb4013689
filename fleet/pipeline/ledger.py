"""What the gold tables reckon with, and what they do not yet: the tables `batches` and `runs` read together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql import functions as F  # noqa: N812

from fleet.local_rows import local_rows
from fleet.pipeline.spans import Span, from_micros, whole
from fleet.tables import catalog
from fleet.tables.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What was written to the silver tables and is not in the gold ones.

    Attributes:
        spans: by the day that its pushes were received on, when.
        points: that these pushes have, as far as the batches say.
        covered: the last batch of each checkpoint once these are computed.
        read_up_to: when the latest push of all was received; never after `now` of `pending`.
    """

    spans: Mapping[date, Span]
    points: int
    covered: dict[str, int]
    read_up_to: datetime


def pending(store: Store, *, window_s: int, now: datetime, everything: bool = False) -> Pending:
    """What waits to be computed.

    Args:
        store: the tables.
        window_s: length of the windows to come [s]; days that have others are computed as a whole.
        now: what no push can have been received after, whatever it says.
        everything: have all days computed anew.
    """
    last = store.rows(catalog.RUNS).agg(
        F.unix_micros(F.max("read_up_to")).alias("read_up_to_us"),
        F.max_by("covered", "finished_at").alias("covered"),
        F.max_by("window_s", "finished_at").alias("window_s"),
    )
    before = last.collect()[0]
    covered = dict(before.covered or {})
    spans: dict[date, Span] = {}
    points = 0
    for batch in _waiting(store, covered):
        covered[batch.app_id] = max(batch.batch_id, covered.get(batch.app_id, -1))
        points += batch.points or 0
        _widen(spans, batch)
    read_up_to = max([from_micros(before.read_up_to_us or 0), *(end for _, end in spans.values())])
    if everything:
        pushes = store.rows(catalog.PUSHES)
        spans = {row.date: whole(row.date) for row in pushes.select("date").distinct().collect()}
        points = pushes.agg(F.sum("points")).collect()[0][0] or 0
    elif before.window_s != window_s:
        spans = {day: whole(day) for day in spans}
    return Pending(spans=dict(sorted(spans.items())), points=points, covered=covered, read_up_to=min(read_up_to, now))


def _waiting(store: Store, covered: Mapping[str, int]) -> Iterable[Row]:
    """The rows of `batches` that no run has come to its end with; times as microseconds."""
    done = F.lit(False)
    for app_id, number in covered.items():
        done |= (F.col("app_id") == app_id) & (F.col("batch_id") <= number)
    ends = F.transform("spans", lambda span: F.array(F.unix_micros(span["first"]), F.unix_micros(span["last"])))
    return (
        store.rows(catalog.BATCHES)
        .where(~done)
        .select("app_id", "batch_id", "points", "dates", ends.alias("ends"))
        .collect()
    )


def _widen(spans: dict[date, Span], batch: Row) -> None:
    """With the days of a batch; one of an earlier release does not say more than the days."""
    for number, day in enumerate(batch.dates):
        first, last = map(from_micros, batch.ends[number]) if batch.ends else whole(day)
        known = spans.get(day, (first, last))
        spans[day] = (min(first, known[0]), max(last, known[1]))


def close(store: Store, row: dict[str, Any]) -> None:
    """Notes that a run came to its end: a row of `runs`."""
    store.append(catalog.RUNS, local_rows(store.spark, [row], catalog.RUNS_SCHEMA))
