"""The fleet's tables as DataFrames, in a session that needs no Delta Lake."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation abbreviates it

from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.fleet import Fleet, Tables, days_of, time_of
from fleetgauge.fleet.source.bronze import select_pushes
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.spark.errors import SPARK_ERRORS, what_failed
from fleetgauge.fleet.spark.local_rows import local_rows
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.paths import qualified


class Frames(Tables[DataFrame]):
    """The tables under one root, as DataFrames.

    A frame reads the files that the table's log names when the frame is made, and stays that of this moment. Files of
    other days, times and clients than those selected are no part of it.

    Args:
        spark: the session.
        tables: the root: a directory, or a URI of an object store.
        conf: settings of Spark for object stores; by default the session's own.
    """

    def __init__(self, spark: SparkSession, tables: str, conf: Mapping[str, str] | None = None) -> None:
        self._spark = spark
        self._fleet = Fleet(tables, spark.conf.getAll if conf is None else conf)

    def has(self, name: str) -> bool:
        """True if the table exists."""
        return self._fleet.has(name)

    def table(self, name: str, selection: Selection | None = None) -> DataFrame:
        """See `Tables.table`."""
        selection = selection or Selection()
        chosen = self._fleet.chosen(name, selection)
        table, path = chosen.table, chosen.table.path(qualified(self._fleet.root))
        if not (files := [f"{path}/{file}" for file in chosen.rows.paths(chosen.where)]):
            return local_rows(self._spark, [], table.schema)
        try:
            read = self._spark.read.schema(spark_schema(table.schema)).option("basePath", path)
            rows = read.parquet(*files).select(*table.schema.names)
        except SPARK_ERRORS as error:
            what = what_failed(error)
            raise FleetError(f"cannot read the table {name} in {self._fleet.root}: {what}") from error
        first, last = days_of(table, selection)
        if first is not None:
            rows = rows.where(F.col(catalog.DATE) >= F.lit(first))
        if last is not None:
            rows = rows.where(F.col(catalog.DATE) <= F.lit(last))
        return select_pushes(rows, selection, time_of(table) or "")


def make_views(spark: SparkSession, tables: str, prefix: str = "") -> list[str]:
    """Makes the tables under a root queryable by name, with comments: temporary views of this session.

    A view reads the files that the table's log names now: make them again to see later runs. `windows` is among them,
    so that the SQL of gold tables (`fleet.gold`) runs as it is.

    Args:
        spark: the session.
        tables: the root of the fleet tables.
        prefix: before the name of each, such as `fleet_`.

    Returns:
        The names of the views.

    Raises:
        FleetError: a table cannot be read.
    """
    frames = Frames(spark, tables)
    names = [name for name, table in catalog.TABLES.items() if table.is_public and frames.has(name)]
    for name in names:
        comments = catalog.TABLES[name].layout.comments
        rows = frames.table(name)
        commented = [F.col(each).alias(each, metadata={"comment": comments[each]}) for each in rows.columns]
        rows.select(*commented).createOrReplaceTempView(f"{prefix}{name}")
    return [f"{prefix}{name}" for name in names]
