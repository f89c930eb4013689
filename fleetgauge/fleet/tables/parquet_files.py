"""Writes rows to Parquet files of a Delta table, in any process.

A file that lies in a table's directory is no part of the table before a commit says so (`TableLog.change`); until then
it is what VACUUM removes. So a file has its name from the start, and whoever ends early, however hard, leaves nothing
that counts.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from fleetgauge.fleet.arrow import RecordBatch, Schema, Table, pa, pc, pq
from fleetgauge.fleet.schemas import encoded
from fleetgauge.fleet.tables.file_statistics import check_columns, statistics_json
from fleetgauge.fleet.tables.paths import local_path
from fleetgauge.fleet.tables.written_file import DATE, WrittenFile

_NO_DATE: Final = "__HIVE_DEFAULT_PARTITION__"
_ZSTD_LEVEL: Final = 3  # as Spark's own writer
_ROWS_ENCODED_AT_ONCE: Final = 65_536  # a twentieth of the time of Arrow's 1,024
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """Limits on the files, and on the memory of the process that writes them.

    Attributes:
        row_group_rows: rows that a row group begins to be written at.
        row_group_bytes: the same in Arrow's memory [B].
        waiting_bytes: of rows that wait in memory for their row group, over all files [B].
        file_bytes: size from which on a file is finished and the next one begun [B].
        part_bytes: of rows that `maintain` sorts together in memory; those of one client are, however many [B].
        open_files: files that are begun and not finished; the one that was longest without rows is finished first.
    """

    row_group_rows: int = 1_000_000
    row_group_bytes: int = 64 * _MIB
    waiting_bytes: int = 128 * _MIB
    file_bytes: int = 128 * _MIB
    part_bytes: int = 256 * _MIB
    open_files: int = 8


DEFAULT_LIMITS: Final = FileLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFiles:
    """Location and form of a table's new files; can be sent to Spark's executors.

    Attributes:
        table: its name.
        path: a path or URI that all of them have.
        schema: of the rows; those with `date` [date32] go to files of one day.
        statistics_of: the columns that queries choose files by.
        options: for object stores; see `fleet.tables.paths.storage_options`.
        limits: of files and memory.
    """

    table: str
    path: str
    schema: Schema
    statistics_of: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)
    limits: FileLimits = DEFAULT_LIMITS

    def open(self) -> "FileWriter":
        """A writer.

        Raises:
            ValueError: statistics cannot be kept of such columns.
        """
        return FileWriter(self)

    def remove(self, files: Iterable[WrittenFile]) -> None:
        """Deletes files of the table that no commit names."""
        directory = _directory(self.path, self.options)
        for file in files:
            if file.table == self.table:
                directory.remove(file.path)


class FileWriter:
    """Writes rows into one file per day at a time; leaving the context deletes every file that was not taken."""

    def __init__(self, to: WriteFiles) -> None:
        self._to = to
        self._is_dated = DATE in to.schema.names
        self._encoded = encoded(to.schema)
        in_file = to.schema.remove(to.schema.get_field_index(DATE)) if self._is_dated else to.schema
        check_columns(in_file, to.statistics_of)
        self._limits = to.limits
        self._directory = _directory(to.path, to.options)
        self._open: OrderedDict[date | None, _OpenFile] = OrderedDict()
        self._finished: list[WrittenFile] = []

    def __enter__(self) -> "FileWriter":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.discard()
        self._open.clear()
        for written in self.take_finished():
            self._directory.remove(written.path)

    def write(self, batch: RecordBatch) -> None:
        """Writes a batch, of the table's schema or all of it in the form of `schemas.encoded`.

        Raises:
            ValueError: it has other columns or types.
            OSError: a file cannot be written.
        """
        if not any(batch.schema.equals(schema) for schema in (self._to.schema, self._encoded)):
            raise ValueError(f"rows of another table: {batch.schema.to_string()}")
        for day, rows in _by_day(batch) if self._is_dated else [(None, batch.replace_schema_metadata(None))]:
            self._file_of(day, rows.schema).add(rows)
            self._write_groups(day)

    def write_table(self, rows: Table) -> None:
        """Writes the rows of a table; see `write`."""
        for batch in rows.to_batches():
            self.write(batch)

    def finish(self) -> None:
        """Writes what waits, and finishes every file.

        Raises:
            OSError: a file cannot be written.
        """
        for day in list(self._open):
            self._finish(day)

    def take_finished(self) -> list[WrittenFile]:
        """Files finished since the last call; the caller owns them now."""
        finished, self._finished = self._finished, []
        return finished

    def take_all(self) -> list[WrittenFile]:
        """Finishes every file and takes them; see `finish` and `take_finished`."""
        self.finish()
        return self.take_finished()

    def _file_of(self, day: date | None, schema: Schema) -> "_OpenFile":
        if day not in self._open:
            if len(self._open) >= self._limits.open_files:
                self._finish(next(iter(self._open)))
            place = f"{DATE}={day.isoformat() if day else _NO_DATE}/" if self._is_dated else ""
            path = f"{place}part-{uuid4()}.zstd.parquet"
            self._open[day] = _OpenFile(self._directory, path, schema, self._to.statistics_of)
        self._open.move_to_end(day)
        return self._open[day]

    def _write_groups(self, day: date | None) -> None:
        limits, file = self._limits, self._open[day]
        if file.waiting_rows >= limits.row_group_rows or file.waiting_bytes >= limits.row_group_bytes:
            self._write_group(day)
        while sum(each.waiting_bytes for each in self._open.values()) > limits.waiting_bytes:
            self._write_group(max(self._open, key=lambda each: self._open[each].waiting_bytes))

    def _write_group(self, day: date | None) -> None:
        self._open[day].write_waiting(self._limits)
        if self._open[day].size_bytes >= self._limits.file_bytes:
            self._finish(day)

    def _finish(self, day: date | None) -> None:
        file = self._open[day]
        footer, size_bytes = file.finish(self._limits)
        del self._open[day]
        self._finished.append(
            WrittenFile(
                table=self._to.table,
                path=file.path,
                size_bytes=size_bytes,
                modified_at_ms=time.time_ns() // 1_000_000,
                date=day,
                rows=footer.num_rows,
                statistics=statistics_json(footer, self._to.statistics_of),
            )
        )


class _OpenFile:
    """One file and its waiting rows; not on disk before its first row group."""

    def __init__(self, directory: "_Directory", path: str, schema: Schema, statistics_of: Sequence[str]) -> None:
        self._directory = directory
        self.path = path
        self._schema = schema
        self._statistics_of = list(statistics_of)
        self._waiting: list[RecordBatch] = []
        self._footers: list[Any] = []
        self._sink: Any = None
        self._writer: Any = None
        self.waiting_rows = 0
        self.waiting_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Size of the written row groups [B]."""
        return self._sink.tell() if self._sink else 0

    def add(self, rows: RecordBatch) -> None:
        self._waiting.append(rows)
        self.waiting_rows += rows.num_rows
        self.waiting_bytes += rows.nbytes

    def write_waiting(self, limits: FileLimits) -> None:
        """Writes waiting rows as one row group, or as several if they are many."""
        if not self.waiting_rows:
            return
        table = pa.Table.from_batches(self._waiting, schema=self._schema)
        groups = max(1, self.waiting_bytes // limits.row_group_bytes, self.waiting_rows // limits.row_group_rows)
        rows = -(-self.waiting_rows // groups)
        self._waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0
        # Of dictionaries that differ from batch to batch the writer would look up every text.
        self._begun().write_table(table.unify_dictionaries(), row_group_size=rows)

    def finish(self, limits: FileLimits) -> tuple[Any, int]:
        """Writes waiting rows and the end of the file, and syncs it to disk. Returns the footer and the size [B]."""
        self.write_waiting(limits)
        self._begun().close()
        size_bytes = self.size_bytes
        self._directory.close(self._sink, self.path)
        return self._footers[0], size_bytes

    def discard(self) -> None:
        if self._sink is None:
            return
        with suppress(Exception):  # a footer that cannot be written: the file goes in any case
            self._writer.close()
        with suppress(OSError):
            self._sink.close()
        self._directory.remove(self.path)

    def _begun(self) -> Any:
        if self._sink is None:
            self._sink = self._directory.create(self.path)
            self._writer = pq.ParquetWriter(
                self._sink,
                self._schema,
                compression="zstd",
                compression_level=_ZSTD_LEVEL,
                store_schema=False,  # the table's own is in its log
                write_statistics=self._statistics_of or False,  # a fifth of the time, of all columns
                write_batch_size=_ROWS_ENCODED_AT_ONCE,
                metadata_collector=self._footers,
            )
        return self._writer


class _Directory(Protocol):
    """Directory of a table's files, by their paths below it."""

    def create(self, path: str) -> Any:
        """Opens a new file for writing."""

    def close(self, sink: Any, path: str) -> None:
        """Closes a file; it is on disk permanently on return."""

    def remove(self, path: str) -> None:
        """Deletes a file, if it exists."""


class _LocalDirectory:
    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, path: str) -> Any:
        (self._root / path).parent.mkdir(parents=True, exist_ok=True)
        return (self._root / path).open("xb")

    def close(self, sink: Any, path: str) -> None:
        sink.flush()
        os.fsync(sink.fileno())
        sink.close()
        for directory in {(self._root / path).parent, self._root}:  # whose entries are the file and its day
            _sync_directory(directory)

    def remove(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)


class _ObjectStore:
    """An object store, reached with the same settings as by delta-rs."""

    def __init__(self, path: str, options: Mapping[str, str]) -> None:
        self._files = fs.PyFileSystem(DeltaStorageHandler(path, dict(options)))

    def create(self, path: str) -> Any:
        return self._files.open_output_stream(path)

    def close(self, sink: Any, path: str) -> None:
        sink.close()

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._files.delete_file(path)


def _directory(path: str, options: Mapping[str, str]) -> _Directory:
    root = local_path(path)
    return _ObjectStore(path, options) if root is None else _LocalDirectory(root)


def _by_day(batch: RecordBatch) -> Iterator[tuple[date | None, RecordBatch]]:
    """Rows of each day, in their order and without `date`."""
    days = batch.column(DATE)
    rows = batch.drop_columns([DATE]).replace_schema_metadata(None)
    distinct = pc.unique(days).to_pylist()
    for day in distinct:
        if len(distinct) == 1:
            yield day, rows
        else:
            own = pc.is_null(days) if day is None else pc.equal(days, pa.scalar(day, pa.date32()))
            yield day, rows.filter(own)  # a null is no match


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
