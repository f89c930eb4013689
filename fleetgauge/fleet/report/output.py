"""Rows of Arrow as an answer: a table of text, or every row as JSON, CSV or Parquet.

Rows come as batches, and none is kept but the first `limit` of a table. Rows that Spark has computed are written by
`fleet.report.spark_output`, with the same texts.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from fleetgauge.fleet.arrow import Rows, Table, pa, pc, pq
from fleetgauge.fleet.report.cells import csv_cells, json_lines
from fleetgauge.fleet.report.tables import Key, Row, TableForm
from fleetgauge.terminal.answer import Answer, Output
from fleetgauge.terminal.table import print_rows

_NUMBERS: Final = frozenset(
    {"pushes", "points", "avg ms", "max ms", "samples", "value", "row or offset", "poll() every ms", "idle in poll()"}
)


@dataclass(frozen=True, slots=True)
class ArrowRows:
    """Rows of an answer, as `terminal.answer` writes them."""

    rows: Rows

    def json_lines(self) -> Iterator[str]:
        """See `terminal.answer.Rows`."""
        for batch in self.rows.batches:
            yield from json_lines(batch)

    def csv_rows(self) -> Iterator[Sequence[object]]:
        """See `terminal.answer.Rows`."""
        yield self.rows.schema.names
        for batch in self.rows.batches:
            yield from csv_cells(batch)

    def write_parquet(self, file: Any) -> None:
        """See `terminal.answer.Rows`."""
        with pq.ParquetWriter(pa.PythonFile(file), self.rows.schema, compression="zstd") as writer:
            for batch in self.rows.batches:
                writer.write_batch(batch)


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


def print_table(console: Console, rows: Sequence[Row], total: int, *, form: TableForm) -> None:
    """Rows as a table, as wide as the console at most; says how many more there are.

    Args:
        console: where it is printed.
        rows: the first of them.
        total: rows that there are altogether.
        form: the table that they are of.
    """
    print_rows(console, tuple(form.columns), [form.texts(row) for row in rows], right=_NUMBERS, least=form.least)
    if total > len(rows):
        console.print(f"{total - len(rows):,} more of {total:,} rows: raise --limit, or write all with --format")


def table_answer(table: Table, form: TableForm, to: Output, *, text: Callable[[Console], None] | None = None) -> Answer:
    """The rows of a table in its own order; JSON is one array. `text` prints them where no columns are chosen.

    Raises:
        OutputError: a chosen column is none.
    """
    shown = form.only(to.columns)

    def print_shown(console: Console) -> None:
        print_table(console, table.slice(0, to.limit).to_pylist(), table.num_rows, form=shown)

    rows = ArrowRows(Rows(schema=table.schema, batches=table.to_batches()))
    return Answer(text=text if text is not None and to.columns is None else print_shown, rows=rows, is_array=True)


def rows_answer(rows: Rows, form: TableForm, to: Output) -> Answer:
    """Rows as they come. Those that people see are taken from them at once, the others when they are written.

    Raises:
        OutputError: a chosen column is none.
    """
    shown = form.only(to.columns)
    first, total = take_first(rows, shown, to.limit) if to.is_for_people else ([], 0)
    return Answer(text=lambda console: print_table(console, first, total, form=shown), rows=ArrowRows(rows))
