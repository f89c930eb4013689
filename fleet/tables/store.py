"""The standing tables under one root, made by their first rows."""

from pyspark.sql import DataFrame, SparkSession

from fleet.errors import TableError
from fleet.schemas import conform
from fleet.tables import delta
from fleet.tables.catalog import Table
from fleet.tables.delta import Layout, Transaction


class Store:
    """Reads and writes them; a table of an earlier release gets the columns that it lacks when it is first used.

    Args:
        spark: the session.
        root: a whole URI.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root
        self._known: set[str] = set()

    def has(self, table: Table) -> bool:
        """True if it was made.

        Raises:
            TableError: at its path is another table, or one of a newer release.
        """
        path = table.path(self.root)
        if table.name not in self._known and delta.exists(self.spark, path):
            delta.check_columns(self.spark, path, table.schema)
            self._known.add(table.name)
        return table.name in self._known

    def read(self, table: Table) -> DataFrame:
        """Its rows as they are now.

        Raises:
            TableError: it is not there.
        """
        if not self.has(table):
            raise TableError(
                f"there is no table {table.name} in {self.root}: fleet run makes it, from --source into --tables"
            )
        return delta.read(self.spark, table.path(self.root))

    def rows(self, table: Table) -> DataFrame:
        """Its rows as they are now; none where it is not there."""
        return self.read(table) if self.has(table) else self.spark.createDataFrame([], table.schema)

    def last_version(self, table: Table, app_id: str) -> int | None:
        """The last transaction of an application that is in the table; None when it never wrote."""
        return delta.last_version(self.spark, table.path(self.root), app_id) if self.has(table) else None

    def append(self, table: Table, frame: DataFrame, transaction: Transaction | None = None) -> None:
        """Appends rows, unless the transaction has."""
        rows = conform(frame, table.schema)
        delta.append(rows, table.path(self.root), transaction=transaction, layout=self._layout(table))

    def merge(self, table: Table, frame: DataFrame, transaction: Transaction) -> None:
        """Adds rows of new keys and replaces older ones of known keys, unless the transaction has."""
        if not self.has(table):
            self.append(table, frame, transaction)
            return
        rows = conform(frame, table.schema)
        path = table.path(self.root)
        delta.merge(rows, path, key=table.key, newer_by=table.newer_by, transaction=transaction)

    def replace(self, table: Table, frame: DataFrame, where: str | None = None) -> None:
        """Replaces the rows that meet `where`, or all."""
        delta.replace(conform(frame, table.schema), table.path(self.root), where=where, layout=self._layout(table))

    def _layout(self, table: Table) -> Layout | None:
        return None if self.has(table) else table.layout
