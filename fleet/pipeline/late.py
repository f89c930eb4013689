"""What stands in POINTS around late pushes: the neighbours that their points are compared with.

Of the instances that have late pushes alone, and no longer before and after them than points are compared.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.pipeline.spans import from_micros
from fleet.schemas import INSTANCE, POINTS, SERIES
from fleet.silver.deltas import HORIZON_US, LOOKED_AT, LastOfSeries
from fleet.tables.catalog import DATE

FEW: Final = 100_000
"""Rows of 100 B each at most that may well be broadcast."""

_FEW_INSTANCES: Final = 100  # whose ids a query names, so that files of others are passed over
_HORIZON: Final = timedelta(microseconds=HORIZON_US)


def standing(points: DataFrame, late: DataFrame) -> tuple[DataFrame, DataFrame]:
    """POINTS, CHECKED of late instances -> SERIES before an instance's first push, POINTS from then on.

    For `silver.batch.make_late`; `points` are those of a version, since the table is written meanwhile. Of the time
    before no more columns are read than are compared.
    """
    ends = F.min("received_at").alias("first"), F.max("received_at").alias("last")
    instances = late.groupBy(*INSTANCE).agg(*ends)
    bounds = F.unix_micros(F.min("first")).alias("first"), F.unix_micros(F.max("last")).alias("last")
    row = instances.agg(*bounds, F.count(F.lit(1)).alias("number")).collect()[0]
    first, last = from_micros(row["first"]), from_micros(row["last"])
    sums = points.where(F.col("metric_type") != "gauge")
    if row["number"] <= _FEW_INSTANCES:
        ids = [each[0] for each in instances.select("client_instance_id").collect()]
        sums = sums.where(F.col("client_instance_id").isin(ids))
    # An earlier try of the batch may have written points of its own.
    own = late.select("push_id")
    instances = small(instances, row["number"])

    def stand(since: datetime, until: datetime, condition: Column, columns: Sequence[str]) -> DataFrame:
        days = F.col(DATE).between(since.date(), until.date())
        in_time = sums.where(days & F.col("received_at").between(since, until)).join(instances, on=list(INSTANCE))
        return in_time.where(condition).join(own, on="push_id", how="left_anti").select(*columns)

    at, horizon = F.col("received_at"), F.lit(_HORIZON)
    is_before = (at < F.col("first")) & (at > F.col("first") - horizon)
    is_after = (at >= F.col("first")) & (at < F.col("last") + horizon)
    before = stand(first - _HORIZON, last, is_before, LOOKED_AT)
    after = stand(first, last + _HORIZON, is_after, POINTS.names)
    return before.mapInArrow(LastOfSeries(), SERIES), after


def small(frame: DataFrame, rows: int) -> DataFrame:
    """For joins: broadcast if it has few rows."""
    return F.broadcast(frame) if rows <= FEW else frame
