"""A Delta table's log by delta-rs, in this process: what it says of the table, and small commits to it.

Such a commit takes hundredths of a second, and no JVM. What is large is written by Spark (`fleet.tables.delta`).
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake import Transaction as AppTransaction
from deltalake.transaction import AddAction
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.arrow import Table, pa
from fleet.errors import TableError
from fleet.tables.paths import plain_path
from fleet.tables.written_file import DATE, WrittenFile

_CLUSTER: Final = "cluster_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Names one write for good: the `version`-th batch of an application. Delta keeps the last version of every
    application in the table.

    Attributes:
        app_id: whose batches are counted.
        version: number of the batch.
    """

    app_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a table is laid out when it is made."""

    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


class Size(NamedTuple):
    """Of a table as it is now."""

    files: int
    size_bytes: int
    rows: int


class TableLog:
    """The log of the table at one path.

    Args:
        path: a path or URI.
        options: see `fleet.tables.paths.storage_options`.
    """

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        self._path = plain_path(path)
        self._options = dict(options)

    def exists(self) -> bool:
        """True if there is a table."""
        return DeltaTable.is_deltatable(self._path, self._options)

    def open(self) -> DeltaTable:
        """The table as it is now.

        Raises:
            TableNotFoundError: it is not there.
        """
        return DeltaTable(self._path, storage_options=self._options)

    def create(self, schema: T.StructType, layout: Layout) -> None:
        """Makes it, with no rows, where it is not there."""
        DeltaTable.create(
            self._path,
            Schema.from_json(schema.json()),
            mode="ignore",
            partition_by=list(layout.partition_by),
            configuration=dict(layout.properties),
            storage_options=self._options,
        )

    def check_columns(self, schema: T.StructType) -> None:
        """Adds the columns that a table of an earlier release lacks, unless its rows are found by one of them.

        Raises:
            TableError: its columns are not these, or its rows do not say their cluster.
        """
        table = self.open()
        fields = T.StructType.fromJson(json.loads(table.schema().to_json())).fields
        found = {field.name: field.dataType.simpleString() for field in fields}
        wanted = {field.name: field.dataType.simpleString() for field in schema.fields}
        if _CLUSTER in wanted and _CLUSTER not in found and found.keys() & wanted.keys():
            raise TableError(
                f"the table at {self._path} was written by an earlier release, whose rows do not say their cluster: "
                "remove the directory given with --tables and run fleet run again, which reads everything anew from "
                "--source"
            )
        if unknown := [name for name in found if name not in wanted]:
            raise TableError(
                f"the table at {self._path} has columns that this release does not know ({', '.join(unknown)}): "
                "another release wrote it, or it is another table; begin anew with other --tables, and everything is "
                "read again"
            )
        if wrong := [f"{name} as {found[name]}" for name in found if found[name] != wanted[name]]:
            raise TableError(f"the table at {self._path} is none of ours: it has {', '.join(wrong)}")
        if missing := [field for field in schema.fields if field.name not in found]:
            table.alter.add_columns([Field.from_json(field.json()) for field in missing])

    def last_version(self, app_id: str) -> int | None:
        """The last version of an application that is in the table; None when it never wrote."""
        return self.open().transaction_version(app_id)

    def version(self) -> int:
        """Number of its last commit; -1 where there is no table."""
        return self.open().version() if self.exists() else -1

    def rows_written(self, since: int) -> int:
        """Rows that Spark's commits after version `since` wrote, by their own account; -1 is before the first."""
        table = self.open()
        commits = table.history(table.version() - since) if table.version() > since else []
        return sum(int(commit.get("operationMetrics", {}).get("numOutputRows", 0)) for commit in commits)

    def size(self) -> Size:
        """As the log has it."""
        files = self._files("size_bytes", "num_records")
        return Size(len(files), *(sum(file[name] or 0 for file in files) for name in ("size_bytes", "num_records")))

    def small_files(self, below_bytes: int) -> Counter[Any]:
        """How many files smaller than that each `date` has; under None for a table that is not partitioned."""
        files = self._files("size_bytes", "partition")
        return Counter((file["partition"] or {}).get(DATE) for file in files if file["size_bytes"] < below_bytes)

    def days(self) -> set[Any]:
        """The days that a table partitioned by `date` has rows of."""
        return {file["partition"][DATE] for file in self._files("partition")}

    def _files(self, *columns: str) -> list[dict[str, Any]]:
        actions = pa.table(self.open().get_add_actions())
        return actions.select([name for name in columns if name in actions.column_names]).to_pylist() or []

    def rows(self, columns: list[str] | None = None, filters: Any = None) -> Table:
        """Its rows, which are few, as a `pyarrow.Table`."""
        return self.open().to_pyarrow_table(columns=columns, filters=filters)

    def append(self, rows: Table, transaction: Transaction | None) -> bool:
        """Appends rows to a table that is there; False if the transaction or a later one has.

        Raises:
            CommitFailedError: another writer committed the same application meanwhile.
        """
        table = self.open()
        if _is_done(table, transaction):
            return False
        write_deltalake(table, rows, mode="append", commit_properties=_properties(transaction))
        return True

    def add_files(self, files: Iterable[WrittenFile], transaction: Transaction) -> int:
        """Makes files that lie in the table's directory part of it, all in one commit; how many rows these are, which
        is none if the transaction or a later one has.

        Raises:
            CommitFailedError: another writer committed the same application meanwhile, and nothing is added.
        """
        table = self.open()
        if _is_done(table, transaction):
            return 0
        added = list(files)
        table.create_write_transaction(
            [_add_action(file) for file in added],
            mode="append",
            schema=table.schema(),
            partition_by=[DATE],
            commit_properties=_properties(transaction),
        )
        return sum(file.rows for file in added)

    def delete(self, where: str) -> int:
        """Deletes rows; how many."""
        return int(self.open().delete(where)["num_deleted_rows"] or 0)


def _is_done(table: DeltaTable, transaction: Transaction | None) -> bool:
    if transaction is None:
        return False
    last = table.transaction_version(transaction.app_id)
    return last is not None and last >= transaction.version


def _properties(transaction: Transaction | None) -> CommitProperties | None:
    if transaction is None:
        return None
    return CommitProperties(app_transactions=[AppTransaction(transaction.app_id, transaction.version)])


def _add_action(file: WrittenFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={DATE: file.date.isoformat() if file.date else None},
        modification_time=file.modified_at_ms,
        data_change=True,
        stats=file.statistics,
    )
