"""The standing tables under one root, made by their first rows."""

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
    """Reads and writes them; a table of an earlier release gets the columns that it lacks when it is first used.

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
        """Its log."""
        return self._logs.setdefault(table.name, TableLog(table.path(self.root), self._options))

    def has(self, table: Table) -> bool:
        """True if it was made.

        Raises:
            TableError: at its path is another table, or one of another release.
        """
        log = self.log(table)
        if table.name not in self._known and log.exists():
            log.check_columns(table.schema, table.retired)
            log.set_properties(table.layout.properties)
            self._known.add(table.name)
        return table.name in self._known

    def make(self, table: Table) -> TableLog:
        """Makes it, with no rows, where it is not there."""
        log = self.log(table)
        if not self.has(table):
            log.create(table.schema, table.layout)
        return log

    def snapshot(self, table: Table) -> Snapshot:
        """It as it is now, for tasks; made where it is not there."""
        return self.make(table).snapshot(table.schema)

    def files(self, table: Table, days: Container[date] | None = None) -> list[dict[str, Any]]:
        """Its files, as `TableLog.files` has them; those of some days, if it is partitioned by days."""
        found: list[dict[str, Any]] = self.make(table).files().to_pylist()
        return found if days is None else [file for file in found if file[f"partition.{DATE}"] in days]

    def rows(self, table: Table, filters: Any = None) -> list[dict[str, Any]]:
        """Its rows, which are few; none where it is not there."""
        return self.log(table).rows(filters=filters).to_pylist() if self.has(table) else []

    def last_version(self, table: Table, app_id: str) -> int:
        """The last transaction of an application that is in the table; -1 when it never wrote."""
        return self.log(table).last_version(app_id) if self.has(table) else -1

    def files_of(self, table: Table) -> WriteFiles:
        """What tasks write its rows with; `change` makes the files part of the table, which it makes if need be."""
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
        """Makes files part of it, and others no part any more, in one commit; see `TableLog.change`."""
        own = [file for file in add if file.table == table.name]
        self.rows_written[table.name] += self.make(table).change(own, remove, transaction)

    def append_rows(
        self, table: Table, rows: Iterable[Mapping[str, Any]], transaction: Transaction | None = None
    ) -> bool:
        """Appends few rows; False if the transaction has. What a row does not give is null."""
        found = pa.Table.from_pylist(list(rows), schema=table.schema)
        appended = self.make(table).append(found, transaction)
        self.rows_written[table.name] += found.num_rows if appended else 0
        return appended

    def replace(self, table: Table, rows: ArrowTable) -> None:
        """Replaces all rows."""
        self.rows_written[table.name] += self.make(table).replace(rows)
