"""The fleet as DataFrames of PySpark, in a session of one's own: a notebook, a job, a shell.

`source` is a landing zone (a path or URI) or a topic (`kafka://host:port/topic`, or a `TopicSource` with settings of
Kafka's client); `tables` is the root of the tables that `fleetgauge fleet run` makes. Both give the same columns, and
repeated pushes once; pushes that cannot be read are left out. The executors need Fleetgauge with its extra `spark`.

Everything is read when an action of Spark asks for it, but for a look when the frame is made: whether a source is there
and which push ids are in it twice; which files a table has. A frame of a table stays that of this moment.
"""

from typing import Final

from pyspark.sql import DataFrame, SparkSession

from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.fleet import WINDOWED
from fleetgauge.fleet.frames import Frames
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.topic import connector
from fleetgauge.fleet.source.topic.source import Source, TopicSource
from fleetgauge.fleet.tables import catalog

__all__ = [
    "SESSION_OPTIONS",
    "Frames",
    "Selection",
    "TopicSource",
    "read_points",
    "read_pushes",
    "read_windows",
]

SESSION_OPTIONS: Final = {"spark.jars.packages": connector.CONNECTOR.coordinates}
"""Options that a session needs for topics, for `SparkSession.builder.config(map=...)`; landing zones and tables need
none.
"""


def read_pushes(
    spark: SparkSession, source: Source | None = None, selection: Selection | None = None, *, tables: str | None = None
) -> DataFrame:
    """One row per push, heartbeats too (`fleet.schemas.PUSHES`).

    Args:
        spark: the session.
        source: a landing zone or topic; or else
        tables: the root of fleet tables.
        selection: which pushes; all by default.

    Raises:
        FleetError: it cannot be read; the text says why.
        ValueError: neither a source nor tables are given, or both.
    """
    if tables is not None:
        return _in_tables(spark, source, selection, tables, catalog.PUSHES)
    return jobs.pushes(spark, _given(source), selection or Selection())


def read_points(
    spark: SparkSession, source: Source | None = None, selection: Selection | None = None, *, tables: str | None = None
) -> DataFrame:
    """One row per data point, with what sums grew by (`fleet.schemas.POINTS`).

    Points of a source are compared with those before them in the selection alone: the first of each series has none.
    Arguments and errors are those of `read_pushes`.
    """
    if tables is not None:
        return _in_tables(spark, source, selection, tables, catalog.POINTS)
    return jobs.points(spark, _given(source), selection or Selection())


def read_windows(spark: SparkSession, name: str, selection: Selection | None = None, *, tables: str) -> DataFrame:
    """One row per client instance, what is measured, and window, of a fleet table by window.

    Args:
        spark: the session.
        name: of the table, as `consumers` or `latency`.
        selection: which rows, by the beginning of their window; all by default.
        tables: the root of fleet tables.

    Raises:
        FleetError: there is no such table, or it cannot be read.
    """
    if name not in WINDOWED:
        raise TableError(f"there is no table {name} by window: give one of {', '.join(WINDOWED)}")
    return Frames(spark, tables).table(name, selection)


def _given(source: Source | None) -> Source:
    if source is None:
        raise ValueError("give a source, or tables=")
    return source


def _in_tables(
    spark: SparkSession, source: Source | None, selection: Selection | None, root: str, table: catalog.Table
) -> DataFrame:
    if source is not None:
        raise ValueError("give a source or tables=, not both")
    return Frames(spark, root).table(table.name, selection)
