"""The tables under one root; each is created by its first rows."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from datetime import date
from typing import Any

from fleetgauge.fleet.arrow import Table as ArrowTable
from fleetgauge.fleet.arrow import pa
from fleetgauge.fleet.tables.catalog import Table
from fleetgauge.fleet.tables.log import Snapshot, TableLog, Transaction
from fleetgauge.fleet.tables.parquet_files import WriteFiles
from fleetgauge.fleet.tables.written_file import DATE, WrittenFile


class Store:
    """Reads and writes tables; a table of an earlier release gets missing columns when it is first used.

    Args:
        root: a whole URI.
        options: for object stores; see `fleet.tables.paths.storage_options`.

    Attributes:
        rows_written: by the name of the table, since this was made.
    """

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.rows_written: Counter[str] = Counter()
        self._options = dict(options or {})
        self._known: set[str] = set()
        self._logs: dict[str, TableLog] = {}

    def log(self, table: Table) -> TableLog:
        """Log of a table."""
        return self._logs.setdefault(table.name, TableLog(table.path(self.root), self._options))

    def has(self, table: Table) -> bool:
        """True if the table exists.

        Raises:
            TableError: at its path is another table, or one of another release.
        """
        log = self.log(table)
        if table.name not in self._known and log.exists():
            log.check_columns(table.schema, table.retired)
            log.set_properties(table.properties)
            self._known.add(table.name)
        return table.name in self._known

    def make(self, table: Table) -> TableLog:
        """Creates a table without rows, if it does not exist."""
        log = self.log(table)
        if not self.has(table):
            log.create(table.schema, table.layout)
        return log

    def snapshot(self, table: Table) -> Snapshot:
        """The table as of now, for tasks; created if missing."""
        return self.make(table).snapshot(table.schema)

    def files(self, table: Table, days: Container[date] | None = None) -> list[dict[str, Any]]:
        """Files of a table, as in `TableLog.files`; only those of some days, if it is partitioned by days."""
        files: list[dict[str, Any]] = self.make(table).files().to_pylist()
        return files if days is None else [file for file in files if file[f"partition.{DATE}"] in days]

    def rows(self, table: Table, filters: Any = None) -> list[dict[str, Any]]:
        """All rows of a table, which must be few; none if it does not exist."""
        return self.log(table).rows(filters=filters).to_pylist() if self.has(table) else []

    def last_version(self, table: Table, app_id: str) -> int:
        """Last transaction of an application in the table; -1 if it never wrote."""
        return self.log(table).last_version(app_id) if self.has(table) else -1

    def files_of(self, table: Table) -> WriteFiles:
        """Settings with which tasks write a table's files; `change` adds the files to the table, and creates it if
        missing.
        """
        self.make(table)
        return WriteFiles(
            table=table.name,
            path=table.path(self.root),
            schema=table.schema,
            statistics_of=table.indexed,
            options=self._options,
            limits=table.limits,
        )

    def change(
        self,
        table: Table,
        add: Iterable[WrittenFile] = (),
        remove: Iterable[str] = (),
        transaction: Transaction | None = None,
    ) -> None:
        """Adds files to a table and removes others from it, in one commit; see `TableLog.change`."""
        own = [file for file in add if file.table == table.name]
        self.rows_written[table.name] += self.make(table).change(own, remove, transaction)

    def append_rows(
        self, table: Table, rows: Iterable[Mapping[str, Any]], transaction: Transaction | None = None
    ) -> bool:
        """Appends a few rows; False if the transaction was committed before. Columns that a row lacks are null."""
        table_rows = pa.Table.from_pylist(list(rows), schema=table.schema)
        appended = self.make(table).append(table_rows, transaction)
        self.rows_written[table.name] += table_rows.num_rows if appended else 0
        return appended

    def replace(self, table: Table, rows: ArrowTable) -> None:
        """Replaces all rows."""
        self.rows_written[table.name] += self.make(table).replace(rows)
