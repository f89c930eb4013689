"""What the gold tables reckon with, and what they do not yet: the tables `batches` and `runs` read together."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from pyspark.sql import functions as F  # noqa: N812

from fleet.tables import catalog
from fleet.tables.store import Store

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """What was written to the silver tables and is not in the gold ones.

    Attributes:
        dates: days that its pushes were received on.
        covered: the last batch of each checkpoint once these are computed.
        read_up_to: when the latest push of all was received; never after `now` of `pending`.
    """

    dates: tuple[date, ...]
    covered: dict[str, int]
    read_up_to: datetime


def pending(store: Store, *, now: datetime, everything: bool = False) -> Pending:
    """What waits to be computed.

    Args:
        store: the tables.
        now: what no push can have been received after, whatever it says.
        everything: have all days computed anew.
    """
    batches, runs, pushes = (store.rows(table) for table in (catalog.BATCHES, catalog.RUNS, catalog.PUSHES))
    latest = {
        row.app_id: row.latest for row in batches.groupBy("app_id").agg(F.max("batch_id").alias("latest")).collect()
    }
    if everything:
        dates = pushes.select("date").distinct()
    else:
        done = (
            runs.select(F.explode("covered").alias("app_id", "done")).groupBy("app_id").agg(F.max("done").alias("done"))
        )
        waiting = batches.join(done, on="app_id", how="left").where("batch_id > coalesce(done, -1)")
        dates = waiting.select(F.explode("dates").alias("date")).distinct()
    days = tuple(sorted(row.date for row in dates.collect()))
    before = runs.agg(F.unix_micros(F.max("read_up_to"))).collect()[0][0]
    newest = pushes.where(F.col("date").isin(list(days))).agg(F.unix_micros(F.max("received_at"))).collect()[0][0]
    read_up_to = _EPOCH + timedelta(microseconds=max(before or 0, newest or 0))
    return Pending(dates=days, covered=latest, read_up_to=min(read_up_to, now))


def close(store: Store, row: dict[str, Any]) -> None:
    """Notes that a run came to its end: a row of `runs`."""
    store.append(catalog.RUNS, store.spark.createDataFrame([row], catalog.RUNS_SCHEMA))
