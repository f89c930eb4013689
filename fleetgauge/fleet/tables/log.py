"""A Delta table's log by delta-rs, in this process: its content, and small commits.

Such a commit takes hundredths of a second. Where rows are many, tasks write files of them (`parquet_files`), and a
commit here makes these part of the table.
"""

import json
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from deltalake import CommitProperties, DeltaTable, Field, Schema, write_deltalake
from deltalake import Transaction as AppTransaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs
from pyarrow.dataset import FileSystemDataset, ParquetReadOptions, get_partition_keys

from fleetgauge.fleet.arrow import RecordBatch, Table, pa, pc, pq, to_list
from fleetgauge.fleet.arrow import Schema as ArrowSchema
from fleetgauge.fleet.errors import TableError, UnreadableTableError, first_line
from fleetgauge.fleet.tables.paths import local_path, plain_path
from fleetgauge.fleet.tables.written_file import DATE, WrittenFile

_CLUSTER: Final = "cluster_id"
_COMMENT: Final = "comment"
"""Key of the comment in a column's metadata, which Spark shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """Identifies one write permanently: the `version`-th batch of an application. Delta keeps the last version of every
    application in the table.

    Attributes:
        app_id: application that the batches belong to.
        version: number of the batch.
    """

    app_id: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layout and metadata of a new table.

    Attributes:
        partition_by: columns.
        properties: of the table.
        description: what a row is.
        comments: what columns mean, and their units.
    """

    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    comments: Mapping[str, str] = field(default_factory=dict)


class Size(NamedTuple):
    """Size of a table now."""

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
        self._table: DeltaTable | None = None

    def exists(self) -> bool:
        """True if the table exists."""
        return DeltaTable.is_deltatable(self._path, self._options)

    def open(self) -> DeltaTable:
        """The table as it is now.

        Raises:
            TableError: it is not there, or cannot be read.
        """
        with _read_of(self._path):
            if self._table is None:
                self._table = DeltaTable(self._path, storage_options=self._options)
            else:
                self._table.update_incremental()  # a fifth of the time
        return self._table

    def create(self, schema: ArrowSchema, layout: Layout) -> None:
        """Creates the table without rows, if it does not exist."""
        DeltaTable.create(
            self._path,
            Schema([_commented(each, layout.comments) for each in Schema.from_arrow(schema).fields]),
            mode="ignore",
            description=layout.description,
            partition_by=list(layout.partition_by),
            configuration=dict(layout.properties),
            storage_options=self._options,
        )

    def check_columns(self, schema: ArrowSchema, retired: Collection[str] = ()) -> None:
        """Adds the columns that a table of an earlier release lacks, unless rows are identified by one of them; retired
        columns are allowed.

        Raises:
            TableError: its columns are not these, or its rows do not say their cluster.
        """
        table = self.open()
        ours = Schema.from_arrow(schema).fields
        types = {field.name: field.type for field in table.schema().fields if field.name not in retired}
        wanted = {field.name: field.type for field in ours}
        self.check_cluster(schema)
        if unknown := [name for name in types if name not in wanted]:
            raise TableError(
                f"the table at {self._path} has columns that this release does not know ({', '.join(unknown)}): "
                "another release wrote it, or it is not a Fleetgauge table; use other --tables to read everything again"
            )
        if wrong := [f"{name} as {_type_name(types[name])}" for name in types if types[name] != wanted[name]]:
            raise TableError(f"the table at {self._path} is not a Fleetgauge table: it has {', '.join(wrong)}")
        if missing := [field for field in ours if field.name not in types]:
            table.alter.add_columns(missing)

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Gives a table of an earlier release the properties that it lacks."""
        table = self.open()
        if missing := dict(properties.items() - table.metadata().configuration.items()):
            table.alter.set_table_properties(missing)

    def describe(self, layout: Layout) -> None:
        """Adds the description and comments that a table of an earlier release lacks; one commit each."""
        table = self.open()
        if layout.description is not None and table.metadata().description != layout.description:
            table.alter.set_table_description(layout.description)
        for column in table.schema().fields:
            comment = layout.comments.get(column.name)
            if comment is not None and column.metadata.get(_COMMENT) != comment:
                table.alter.set_column_metadata(column.name, {_COMMENT: comment})

    def check_cluster(self, schema: ArrowSchema) -> None:
        """Raises TableError if the table's rows lack their cluster and `schema` has it."""
        columns = {field.name for field in self.open().schema().fields}
        if _CLUSTER in schema.names and _CLUSTER not in columns and columns & set(schema.names):
            raise TableError(
                f"the table at {self._path} was written by an earlier release, whose rows have no cluster id: "
                "remove the directory given with --tables and run fleet run again, which reads everything again from "
                "--source"
            )

    def last_version(self, app_id: str) -> int:
        """Last version of an application in the table; -1 if it never wrote."""
        return _last_version(self.open(), app_id)

    def table_id(self) -> str:
        """Id that differs from tables earlier or later at the same path."""
        return str(self.open().metadata().id)

    def version(self) -> int:
        """Number of its last commit; -1 if the table does not exist."""
        return self.open().version() if self.exists() else -1

    def size(self) -> Size:
        """Size by the log."""
        files = self._files("size_bytes", "num_records")
        return Size(len(files), *(sum(file[name] or 0 for file in files) for name in ("size_bytes", "num_records")))

    def small_files(self, below_bytes: int) -> Counter[Any]:
        """Number of files below a size for each `date`; under None for a table without partitions."""
        files = self._files("size_bytes", "partition")
        return Counter((file.get("partition") or {}).get(DATE) for file in files if file["size_bytes"] < below_bytes)

    def days(self) -> set[Any]:
        """Days with rows in a table partitioned by `date`."""
        return {file["partition"][DATE] for file in self._files("partition")}

    def _files(self, *columns: str) -> list[dict[str, Any]]:
        return _columns(self.open(), *columns).to_pylist() or []

    def rows(self, columns: list[str] | None = None, filters: Any = None) -> Table:
        """All rows, which must be few."""
        where = None if filters is None else pq.filters_to_expression(filters)
        rows = self.snapshot()
        return pa.Table.from_batches(rows.scan(columns, where), schema=rows.schema(columns))

    def append(self, rows: Table, transaction: Transaction | None) -> bool:
        """Appends rows to an existing table; False if the transaction or a later one was committed before.

        Raises:
            CommitFailedError: another writer committed the same application meanwhile.
        """
        table = self.open()
        if _is_done(table, transaction):
            return False
        write_deltalake(table, rows, mode="append", commit_properties=_properties(transaction))
        return True

    def change(
        self,
        add: Iterable[WrittenFile] = (),
        remove: Iterable[str] = (),
        transaction: Transaction | None = None,
        *,
        is_new: bool = True,
    ) -> int:
        """Adds files in the table's directory to the table and removes others from it, in one commit.

        Args:
            add: files that were written.
            remove: paths of files, as `files` names them.
            transaction: of the batch; nothing changes if it or a later one is in the table.
            is_new: False if the files have the rows of the removed ones, so that readers of new rows skip them.

        Returns:
            The rows that were added.

        Raises:
            CommitFailedError: another writer committed the same application meanwhile, or removed or compacted some
                of the files; nothing is changed.
        """
        table = self.open()
        if _is_done(table, transaction):
            return 0
        added, removed = list(add), list(remove)
        if removed and (gone := set(removed).difference(_columns(table, "path")["path"].to_pylist())):
            raise CommitFailedError(f"{len(gone)} of the files to be removed are no longer part of the table")
        now_ms = time.time_ns() // 1_000_000
        partition_by = table.metadata().partition_columns
        actions: list[AddAction | RemoveAction] = [_add_action(file, bool(partition_by), is_new) for file in added]
        actions += [RemoveAction(path=path, data_change=is_new, deletion_timestamp=now_ms) for path in removed]
        if actions or transaction:
            table.create_write_transaction(
                actions,
                mode="append",
                schema=table.schema(),
                partition_by=partition_by,
                commit_properties=_properties(transaction, alone=bool(removed)),
            )
        return sum(file.rows for file in added)

    def replace(self, rows: Any) -> int:
        """Replaces all rows by those of a `pyarrow.Table` or `RecordBatchReader`; returns their number."""
        write_deltalake(self.open(), rows, mode="overwrite")
        return self.size().rows

    def snapshot(self, schema: ArrowSchema | None = None) -> "Snapshot":
        """The table as of now, for tasks; see `Snapshot`."""
        return Snapshot(self._path, self._options, self.open().version(), schema)

    def snapshot_before(self, transaction: Transaction, schema: ArrowSchema) -> "Snapshot":
        """The table before a transaction, which may not have been committed yet."""
        version = self.open().version()
        while version and _is_done(self._at(version), transaction):
            version -= 1
        return Snapshot(self._path, self._options, version, schema)

    def _at(self, version: int) -> DeltaTable:
        with _read_of(self._path):
            return DeltaTable(self._path, version=version, storage_options=self._options)

    def files(self) -> Table:
        """One row per file: its `path`, and the bounds of columns as `min.NAME` and `max.NAME`."""
        return pa.table(self.open().get_add_actions(flatten=True))

    def paths(self) -> list[str]:
        """Paths of its files, as `change` takes them."""
        return to_list(self.files()["path"])

    def delete(self, where: str) -> None:
        """Deletes the rows that meet a condition (SQL); whole days without reading them."""
        self.open().delete(where)

    def vacuum(self, keep_hours: int) -> None:
        """Deletes files from the directory that are not part of the table and have not been for so long [h]."""
        self.open().vacuum(keep_hours, dry_run=False, enforce_retention_duration=False, full=True)


class Snapshot:
    """A table as of one commit; can be sent to Spark's executors.

    Args:
        path: a path or URI.
        options: see `fleet.tables.paths.storage_options`.
        version: of the commit.
        schema: that rows are given in, texts of points as dictionaries (`schemas.encoded`); None for the table's own.
    """

    def __init__(self, path: str, options: Mapping[str, str], version: int, schema: ArrowSchema | None = None) -> None:
        self._path = path
        self._options = dict(options)
        self._version = version
        self._schema = schema
        self._dataset: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Snapshot, (self._path, self._options, self._version, self._schema)

    def scan(
        self, columns: Iterable[str] | None = None, where: Any = None, paths: Collection[str] | None = None
    ) -> Iterator[RecordBatch]:
        """Rows, some at a time.

        Args:
            columns: their names; None for all.
            where: a `pyarrow.compute.Expression` that they meet, by which files and row groups are passed over.
            paths: of the files that are read; None for all.

        Raises:
            TableError: they cannot be read.
        """
        own, wanted = self._open().schema, self.schema(columns)
        schema = pa.schema([*own, *(field for field in wanted if field.name not in own.names)])
        with _read_of(self._path):
            for rows in self._scanned(schema, wanted.names, where, paths):
                if rows.num_rows:
                    yield rows.cast(wanted)

    def table(self, columns: Iterable[str] | None = None, where: Any = None) -> Table:
        """Rows, all in memory; see `scan`."""
        return pa.Table.from_batches(self.scan(columns, where), schema=self.schema(columns))

    def _scanned(
        self, schema: ArrowSchema, names: list[str], where: Any, paths: Collection[str] | None
    ) -> Iterator[RecordBatch]:
        for file in self._open().get_fragments(where):
            if paths is not None and file.path not in paths:
                continue
            if _HAS_VIEWS.isdisjoint(map(str, file.physical_schema.types)):
                # A scanner reads many batches ahead: of each row group, that is one.
                for group in file.split_by_row_group(where, schema):
                    yield from group.scanner(schema=schema, columns=names, filter=where, use_threads=False).to_batches()
            else:  # which a filter does not know; delta-rs compacts to such
                for rows in file.scanner(schema=schema, use_threads=False).to_batches():
                    table = pa.Table.from_batches([rows])
                    yield from (table if where is None else table.filter(where)).select(names).to_batches()

    def schema(self, columns: Iterable[str] | None = None) -> ArrowSchema:
        """Schema of the rows that `scan` yields."""
        schema = self._schema or self._open().schema
        return schema if columns is None else pa.schema([schema.field(name) for name in columns])

    def paths(self, where: Any = None) -> list[str]:
        """Paths of the files that may have rows that meet a `pyarrow.compute.Expression`."""
        return [file.path for file in self._open().get_fragments(where)]

    def _open(self) -> Any:
        if self._dataset is None:
            with _read_of(self._path):
                table = DeltaTable(self._path, version=self._version, storage_options=self._options)
            root = local_path(self._path)
            # By delta-rs, a thread of Arrow that reads a file calls Python, and one that does so as the process ends
            # aborts it (apache/arrow#34314). Files of this machine Arrow reads by itself.
            files = None if root is None else fs.SubTreeFileSystem(str(root), fs.LocalFileSystem())
            texts = [each.name for each in self._schema or () if pa.types.is_dictionary(each.type)]
            options = ParquetReadOptions(dictionary_columns=texts)
            dataset = table.to_pyarrow_dataset(filesystem=files, parquet_read_options=options)
            self._dataset = _rebounded(dataset, pa.table(table.get_add_actions(flatten=True)))
        return self._dataset


def _rebounded(dataset: Any, files: Table) -> Any:
    """The dataset, changed so that no file is skipped by bounds that it does not have.

    Where the log has bounds of a column for some files alone, as of one that a release adds, delta-rs takes it for one
    without values in the others (`column >= null`). These keep their day, and what their footers say of row groups.
    """
    unknown = pa.array([False] * files.num_rows, pa.bool_())
    for name in files.column_names:
        bound, _, column = name.partition(".")
        if bound in ("min", "max"):
            nulls = pc.fill_null(files[f"null_count.{column}"], -1)
            has_values = pc.fill_null(pc.not_equal(nulls, files["num_records"]), True)
            unknown = pc.or_(unknown, pc.and_(pc.is_null(files[name]), has_values))
    paths = set(to_list(files["path"].filter(unknown)))
    if not paths:
        return dataset
    fragments = [_of_day(each) if each.path in paths else each for each in dataset.get_fragments()]
    return FileSystemDataset(fragments, dataset.schema, dataset.format, dataset.filesystem)


def _of_day(file: Any) -> Any:
    """A file of a dataset, without bounds."""
    day = get_partition_keys(file.partition_expression).get(DATE)
    condition = pc.scalar(True) if day is None else pc.field(DATE) == day
    return file.format.make_fragment(file.path, file.filesystem, partition_expression=condition)


@contextmanager
def _read_of(path: str) -> Iterator[None]:
    """Raises UnreadableTableError for errors of delta-rs, Arrow or the file system about an unreadable table."""
    try:
        yield
    except MemoryError:
        raise
    except (DeltaError, pa.ArrowException, OSError) as error:
        reason = first_line(error).rstrip(".")
        raise UnreadableTableError(
            f"the table at {path} cannot be read: {reason}; if it is damaged, restore a backup, or run fleet run with "
            "an empty --tables directory"
        ) from error


_HAS_VIEWS: Final = frozenset(("string_view", "binary_view"))


def _commented(column: Field, comments: Mapping[str, str]) -> Field:
    comment = comments.get(column.name)
    metadata = {} if comment is None else {_COMMENT: comment}
    return Field(column.name, column.type, nullable=column.nullable, metadata=metadata)


def _columns(table: DeltaTable, *columns: str) -> Table:
    """Columns of the log for each file; a table without files or days lacks some."""
    actions = pa.table(table.get_add_actions())
    return actions.select([name for name in columns if name in actions.column_names])


def _last_version(table: DeltaTable, app_id: str) -> int:
    version = table.transaction_version(app_id)
    return -1 if version is None else version


def _is_done(table: DeltaTable, transaction: Transaction | None) -> bool:
    return transaction is not None and _last_version(table, transaction.app_id) >= transaction.version


def _properties(transaction: Transaction | None, *, alone: bool = False) -> CommitProperties:
    """Properties of a commit; `alone` makes it fail after any concurrent commit, since delta-rs's own check for
    conflicts misses compaction of the same file.
    """
    done = [AppTransaction(transaction.app_id, transaction.version)] if transaction else None
    return CommitProperties(app_transactions=done, max_commit_retries=0 if alone else None)


def _type_name(kind: Any) -> str:
    """Name of a type in Delta's schemas.

    >>> _type_name(Schema.from_arrow(pa.schema([("a", pa.int64())])).fields[0].type)
    'long'
    """
    named = json.loads(kind.to_json())
    return str(named if isinstance(named, str) else named["type"])


def _add_action(file: WrittenFile, is_partitioned: bool, is_new: bool) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size_bytes,
        partition_values={DATE: file.date.isoformat() if file.date else None} if is_partitioned else {},
        modification_time=file.modified_at_ms,
        data_change=is_new,
        stats=file.statistics,
    )
