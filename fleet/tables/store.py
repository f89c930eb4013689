"""The standing tables under one root, made by their first rows."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fleet.decode.arrow import Schema, pa
from fleet.decode.rows import arrow_schema
from fleet.errors import TableError
from fleet.schemas import conform
from fleet.tables import delta
from fleet.tables.catalog import Table
from fleet.tables.log import Layout, TableLog, Transaction
from fleet.tables.parquet_files import WriteFiles
from fleet.tables.paths import local_path, storage_options
from fleet.tables.written_file import WrittenFile


class Store:
    """Reads and writes them; a table of an earlier release gets the columns that it lacks when it is first used.

    Args:
        spark: the session, or what starts it once it is needed: logs and small tables are read without.
        root: a whole URI.
        conf: settings of Spark, for object stores.

    Attributes:
        rows_written: by the name of the table, since this was made.
    """

    def __init__(
        self, spark: SparkSession | Callable[[], SparkSession], root: str, conf: Mapping[str, str] | None = None
    ) -> None:
        self.root = root
        self.rows_written: Counter[str] = Counter()
        self._spark = spark
        if conf is None and isinstance(spark, SparkSession):
            conf = dict(spark.sparkContext.getConf().getAll())
        self._options = storage_options(conf or {})
        self._known: set[str] = set()

    @cached_property
    def spark(self) -> SparkSession:
        """The session."""
        return self._spark if isinstance(self._spark, SparkSession) else self._spark()

    def log(self, table: Table) -> TableLog:
        """Its log."""
        return TableLog(table.path(self.root), self._options)

    def has(self, table: Table) -> bool:
        """True if it was made.

        Raises:
            TableError: at its path is another table, or one of another release.
        """
        log = self.log(table)
        if table.name not in self._known and log.exists():
            log.check_columns(table.schema)
            self._known.add(table.name)
        return table.name in self._known

    def read(self, table: Table, *, pinned: bool = False) -> DataFrame:
        """Its rows as they are when the frame is computed, or with `pinned` as they are now.

        Raises:
            TableError: it is not there.
        """
        if not self.has(table):
            raise TableError(f"there is no table {table.name} in {self.root}: {table.made_by}")
        version = self.log(table).version() if pinned else None
        return delta.read(self.spark, table.path(self.root), version)

    def rows(self, table: Table, filters: Any = None) -> list[dict[str, Any]]:
        """Its rows, which are few; none where it is not there."""
        return self.log(table).rows(filters=filters).to_pylist() if self.has(table) else []

    def last_version(self, table: Table, app_id: str) -> int | None:
        """The last transaction of an application that is in the table; None when it never wrote."""
        return self.log(table).last_version(app_id) if self.has(table) else None

    def make(self, table: Table) -> None:
        """Makes it, with no rows, where it is not there."""
        if not self.has(table):
            self.log(table).create(table.schema, table.layout)

    def append(self, table: Table, frame: DataFrame, transaction: Transaction | None = None) -> None:
        """Appends rows, unless the transaction has."""
        rows, path, layout = conform(frame, table.schema), table.path(self.root), self._layout(table)
        with self._counted(table):
            delta.append(rows, path, transaction=transaction, layout=layout)

    def append_rows(
        self, table: Table, rows: Iterable[Mapping[str, Any]], transaction: Transaction | None = None
    ) -> bool:
        """Appends few rows, without Spark; False if the transaction has. What a row does not give is null."""
        self.make(table)
        found = pa.Table.from_pylist(list(rows), schema=arrow_schema(table.schema))
        appended = self.log(table).append(found, transaction)
        self.rows_written[table.name] += found.num_rows if appended else 0
        return appended

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
        self.rows_written[table.name] += self.log(table).add_files(files, transaction)

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
        log = self.log(table)
        before = log.version()
        yield
        self.rows_written[table.name] += log.rows_written(before)

    def _layout(self, table: Table) -> Layout | None:
        return None if self.has(table) else table.layout
