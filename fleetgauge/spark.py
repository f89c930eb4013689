"""The fleet as DataFrames of PySpark, in a session of one's own: a notebook, a job, a shell.

`source` is a landing zone (a path or URI) or a topic (`kafka://host:port/topic`, or a `TopicSource` with settings of
Kafka's client); `tables` is the root of the tables that `fleetgauge fleet run` makes. Both give the same columns, and
repeated pushes once; pushes that cannot be read are left out. The executors need Fleetgauge with its extra `spark`.

Everything is read when an action of Spark asks for it, but for a look at a source when the frame is made: whether it is
there, and which push ids are in it twice.
"""

from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fleet import jobs
from fleet.bronze import select_pushes
from fleet.errors import FleetError, TableError
from fleet.schemas import conform
from fleet.selection import Selection
from fleet.spark_errors import what_failed
from fleet.tables import catalog
from fleet.tables.delta import DELTA, delta_options
from fleet.topic.connector import CONNECTOR
from fleet.topic.source import Source, TopicSource

__all__ = ["SESSION_OPTIONS", "Selection", "TopicSource", "read_points", "read_pushes", "read_windows"]

SESSION_OPTIONS: Final = {
    "spark.jars.packages": f"{DELTA.coordinates},{CONNECTOR.coordinates}",
    **delta_options(snapshot_partitions=8),
}
"""What a session needs for topics and tables, for `SparkSession.builder.config(map=...)`; a landing zone needs none."""

WINDOWED: Final = {
    name: table
    for name, table in catalog.TABLES.items()
    if table.layer == "gold" and "window_start" in table.schema.names
}


def read_pushes(
    spark: SparkSession, source: Source | None = None, selection: Selection | None = None, *, tables: str | None = None
) -> DataFrame:
    """One row per push, heartbeats too (`fleet.schemas.PUSHES`).

    Args:
        spark: the session.
        source: a landing zone or topic; or else
        tables: the root of standing tables.
        selection: which pushes; all by default.

    Raises:
        FleetError: it cannot be read; the text says why.
        ValueError: neither a source nor tables are given, or both.
    """
    if tables is not None:
        return _standing(spark, source, selection, tables, catalog.PUSHES)
    return jobs.pushes(spark, _given(source), selection or Selection())


def read_points(
    spark: SparkSession, source: Source | None = None, selection: Selection | None = None, *, tables: str | None = None
) -> DataFrame:
    """One row per data point, with what sums grew by (`fleet.schemas.POINTS`).

    Points of a source are compared with those before them in the selection alone: the first of each series has none.
    Arguments and errors are those of `read_pushes`.
    """
    if tables is not None:
        return _standing(spark, source, selection, tables, catalog.POINTS)
    return jobs.points(spark, _given(source), selection or Selection())


def read_windows(spark: SparkSession, name: str, selection: Selection | None = None, *, tables: str) -> DataFrame:
    """One row per client instance, what is measured, and window, of a standing table by window.

    Args:
        spark: the session.
        name: of the table, as `consumers` or `latency`.
        selection: which rows, by the beginning of their window; all by default.
        tables: the root of standing tables.

    Raises:
        FleetError: there is no such table, or it cannot be read.
    """
    if name not in WINDOWED:
        raise TableError(f"there is no table {name} by window: give one of {', '.join(WINDOWED)}")
    return _standing(spark, None, selection, tables, WINDOWED[name])


def _given(source: Source | None) -> Source:
    if source is None:
        raise ValueError("give a source, or tables=")
    return source


def _standing(
    spark: SparkSession, source: Source | None, selection: Selection | None, root: str, table: catalog.Table
) -> DataFrame:
    if source is not None:
        raise ValueError("give a source or tables=, not both")
    try:
        rows = conform(spark.read.format("delta").load(table.path(root)), table.schema)
    except PySparkException as error:
        raise FleetError(f"cannot read the table {table.name} in {root}: {what_failed(error)}") from error
    time = next(name for name in ("received_at", "window_start") if name in rows.columns)
    return select_pushes(rows, selection or Selection(), time)
