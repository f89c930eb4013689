"""Writes an answer: a table in the terminal, or JSON lines, CSV or Parquet, to a path or (not Parquet) to stdout.

Rows come as batches of Arrow, and none is kept but the first `limit` of a table. What Spark has computed leaves by
`fleet.report.spark_output`, with the same texts.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO

from fleetgauge.base.deadline import within
from fleetgauge.fleet.arrow import Rows, Table, pa, pc, pq
from fleetgauge.fleet.errors import OutputError
from fleetgauge.fleet.report.cells import csv_cells, json_lines
from fleetgauge.fleet.report.form import Format, Output
from fleetgauge.fleet.report.tables import Key, Row, TableForm
from fleetgauge.fleet.source.zone_files import S3_WITHIN_S
from fleetgauge.terminal.table import print_rows, wide_console

_NUMBERS: Final = frozenset(
    {"pushes", "points", "avg ms", "max ms", "samples", "value", "row or offset", "poll() every ms", "idle in poll()"}
)


def take_first(rows: Rows, form: TableForm, limit: int) -> tuple[list[Row], int]:
    """First `limit` rows in the table's order, and the number of all rows."""
    first, total = rows.schema.empty_table(), 0
    for batch in rows.batches:
        total += batch.num_rows
        first = _in_order(pa.concat_tables([first, pa.Table.from_batches([batch])]), form.order)[:limit]
    return [*first.to_pylist()], total


def _in_order(table: Table, order: Iterable[Key]) -> Table:
    """Sorted rows. Arrow puts the nulls of all keys at one end, so a separate key says whether there is a value."""
    columns: dict[str, Any] = {}
    keys = []
    for number, key in enumerate(order):
        values = table.column(key.column)
        if key.null_as is not None:
            values = pc.fill_null(values, key.null_as)
        direction = "descending" if key.descending else "ascending"
        columns |= {f"is_{number}": pc.is_valid(values), str(number): values}
        keys += [(f"is_{number}", direction), (str(number), direction)]
    return table.take(pc.sort_indices(pa.table(columns), sort_keys=keys)) if keys else table


def print_table(out: TextIO, rows: Sequence[Row], total: int, *, form: TableForm, width: int | None = None) -> None:
    """Prints rows as a table, at most as wide as the terminal, and the number of rows left out.

    Args:
        out: where it goes; what is no terminal is as wide as the table needs.
        rows: the first of them.
        total: rows that there are altogether.
        form: the table that they are of.
        width: of the terminal [characters]; by default as it says itself.
    """
    console = wide_console(out, width=width)
    print_rows(console, tuple(form.columns), [form.texts(row) for row in rows], right=_NUMBERS, least=form.least)
    if total > len(rows):
        console.print(f"{total - len(rows):,} more of {total:,} rows: raise --limit, or write all with --format")


def write_table(table: Table, to: Output, form: TableForm, out: TextIO) -> None:
    """Writes the rows of a table in their own order: JSON to `out` as one array."""
    if to.form is Format.TABLE:
        print_table(out, table.slice(0, to.limit).to_pylist(), table.num_rows, form=form.only(to.columns))
    elif to.form is Format.JSON and to.output is None:
        out.write("[" + ",\n".join(line for batch in table.to_batches() for line in json_lines(batch)) + "]\n")
    else:
        write_rows(Rows(schema=table.schema, batches=table.to_batches()), to, out)


def write_rows(rows: Rows, to: Output, out: TextIO) -> None:
    """Writes all rows, as JSON lines, CSV or Parquet.

    Raises:
        OutputError: see `write_path`.
    """
    if to.output is not None:
        write_path(rows, to.form, to.output)
    else:
        write_stream(rows, to.form, out)


def write_stream(rows: Rows, form: Format, out: TextIO) -> None:
    """JSON lines or CSV, safe for a terminal."""
    if form is Format.JSON:
        for batch in rows.batches:
            out.writelines(f"{line}\n" for line in json_lines(batch))
        return
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(rows.schema.names)
    for batch in rows.batches:
        writer.writerows(csv_cells(batch))


def write_path(rows: Rows, form: Format, path: str) -> None:
    """Writes one file in a new directory, which is removed if writing fails.

    Raises:
        OutputError: there is something at `path` already, or it cannot be written.
    """
    with _new_directory(path) as directory, _OutputFile(directory, f"part-0.{form.value}") as file:
        if form is Format.PARQUET:
            with pq.ParquetWriter(pa.PythonFile(file), rows.schema, compression="zstd") as writer:
                for batch in rows.batches:
                    writer.write_batch(batch)
        else:
            with io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", newline="") as text:
                write_stream(rows, form, text)


class _OutputFile(io.RawIOBase):
    """A new file whose calls each have a deadline: an object store may send a byte at a time forever."""

    def __init__(self, directory: Any, name: str) -> None:
        self._file = within(S3_WITHIN_S, lambda: directory.open_output_stream(name))

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        within(S3_WITHIN_S, lambda: self._file.write(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            super().close()  # once, whatever becomes of it
            within(S3_WITHIN_S, self._file.close)


@contextmanager
def _new_directory(path: str) -> Iterator[Any]:
    """A file system whose root is the directory: of this machine, or the object store of a URI."""
    from pyarrow import fs

    def made() -> tuple[Any, str]:
        is_uri = "://" in path
        opened = fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1)) if is_uri else (fs.LocalFileSystem(), path)
        system, directory = opened
        if system.get_file_info(directory).type != fs.FileType.NotFound:
            raise OutputError(f"{path} exists already: name another --output or remove it")
        system.create_dir(directory, recursive=True)
        return system, directory

    try:
        system, directory = within(S3_WITHIN_S, made)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write to {path}: {error}") from error
    try:
        yield fs.SubTreeFileSystem(directory, system)
    except BaseException:
        within(S3_WITHIN_S, lambda: system.delete_dir(directory))
        raise
