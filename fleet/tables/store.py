"""The standing tables under one root, made by their first rows."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

from fleet.decode.arrow import Schema
from fleet.errors import TableError
from fleet.local_rows import local_rows
from fleet.schemas import conform
from fleet.tables import delta
from fleet.tables.catalog import Table
from fleet.tables.delta import Layout, Transaction
from fleet.tables.lock import local_path
from fleet.tables.parquet_files import WriteFiles
from fleet.tables.written_file import WrittenFile


class Store:
    """Reads and writes them; a table of an earlier release gets the columns that it lacks when it is first used.

    Args:
        spark: the session.
        root: a whole URI.

    Attributes:
        rows_written: by the name of the table, since this was made.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root
        self.rows_written: Counter[str] = Counter()
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
        """Its rows as they are when the frame is computed.

        Raises:
            TableError: it is not there.
        """
        if not self.has(table):
            raise TableError(f"there is no table {table.name} in {self.root}: {table.made_by}")
        return delta.read(self.spark, table.path(self.root))

    def rows(self, table: Table) -> DataFrame:
        """Its rows as they are when the frame is computed; none where it is not there."""
        return self.read(table) if self.has(table) else local_rows(self.spark, [], table.schema)

    def last_version(self, table: Table, app_id: str) -> int | None:
        """The last transaction of an application that is in the table; None when it never wrote."""
        return delta.last_version(self.spark, table.path(self.root), app_id) if self.has(table) else None

    def append(self, table: Table, frame: DataFrame, transaction: Transaction | None = None) -> None:
        """Appends rows, unless the transaction has."""
        rows, path, layout = conform(frame, table.schema), table.path(self.root), self._layout(table)
        with self._counted(table):
            delta.append(rows, path, transaction=transaction, layout=layout)

    def make(self, table: Table) -> None:
        """Makes it, with no rows, where it is not there."""
        if not self.has(table):
            empty = local_rows(self.spark, [], table.schema)
            delta.append(empty, table.path(self.root), transaction=None, layout=table.layout)

    def files_of(self, table: Table, rows: Schema) -> WriteFiles | None:
        """What executors write its rows with, Spark's own writer aside; None where they cannot reach it as a path.

        Args:
            table: one that is `dated`.
            rows: its schema in Arrow.
        """
        directory = local_path(table.path(self.root))
        if directory is None:
            return None
        return WriteFiles(directory=str(directory), schema=rows, statistics_of=table.indexed)

    def add_files(self, table: Table, files: Iterable[WrittenFile], transaction: Transaction) -> None:
        """Makes files that lie under the path of a `dated` table part of it, unless the transaction has."""
        self.make(table)
        with self._counted(table):
            delta.add_files(self.spark, table.path(self.root), files, transaction=transaction)

    def merge(self, table: Table, frame: DataFrame, transaction: Transaction) -> None:
        """Adds rows of new keys and replaces older ones of known keys, unless the transaction has."""
        if not self.has(table):
            self.append(table, frame, transaction)
            return
        rows = conform(frame, table.schema)
        path = table.path(self.root)
        with self._counted(table):
            delta.merge(rows, path, key=table.key, newer_by=table.newer_by, transaction=transaction)

    def update(
        self, table: Table, frame: DataFrame, columns: Iterable[str], where: str, transaction: Transaction
    ) -> None:
        """Sets columns of the rows that have the keys of a frame's, unless the transaction has.

        Args:
            table: one that has a `key`, and is there.
            frame: rows with the key and the columns.
            columns: their names.
            where: a condition (SQL) that all of them meet, by which files are passed over.
            transaction: of the batch.
        """
        path = table.path(self.root)
        with self._counted(table):
            delta.update(frame, path, key=table.key, columns=columns, where=where, transaction=transaction)

    def replace(self, table: Table, frame: DataFrame, where: str | None = None) -> None:
        """Replaces the rows that meet `where`, or all."""
        rows, path, layout = conform(frame, table.schema), table.path(self.root), self._layout(table)
        with self._counted(table):
            delta.replace(rows, path, where=where, layout=layout)

    @contextmanager
    def _counted(self, table: Table) -> Iterator[None]:
        path = table.path(self.root)
        before = delta.version(self.spark, path)
        yield
        self.rows_written[table.name] += delta.rows_written(self.spark, path, before)

    def _layout(self, table: Table) -> Layout | None:
        return None if self.has(table) else table.layout
