"""How an answer leaves: a table in the terminal, or JSON lines, CSV or Parquet, to a path or (not Parquet) to stdout.

A table holds the first `limit` rows of all in their order; a stream goes through the driver row by row; a path is
written by Spark's workers. Nothing that grows with the fleet is kept in the driver.
"""

import csv
from collections.abc import Iterable, Iterator
from typing import TextIO

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fleet.errors import OutputError
from fleet.report.form import Format
from fleet.report.tables import TableForm

_WIDTH_OF_A_FILE = 1000
_NUMBERS = frozenset({"pushes", "points", "avg ms", "max ms", "samples", "value", "row or offset"})


def take_first(frame: DataFrame, form: TableForm, limit: int) -> tuple[list[Row], int]:
    """The first `limit` rows as the table has them, and how many rows there are: one pass for both."""
    total = Observation()
    ordered = frame.observe(total, F.count(F.lit(1)).alias("rows")).orderBy(*form.order).limit(limit)
    rows = ordered.select(*(column.alias(name) for name, column in form.columns.items())).collect()
    # Spark may drop the count from the plan of an empty frame, and would then never give it.
    return rows, int(total.get["rows"]) if rows else 0


def print_table(out: TextIO, rows: list[Row], names: Iterable[str], total: int, *, width: int | None = None) -> None:
    """Rows of text as a table, or one block a row where the terminal is too narrow; says how many more there are.

    Args:
        out: where it goes; what is no terminal is as wide as the table needs.
        rows: of text.
        names: the columns' headings.
        total: rows that there are altogether.
        width: of the terminal [characters]; by default as it says itself.
    """
    console = Console(file=out, highlight=False, width=width)
    if width is None and not console.is_terminal:
        console.width = _WIDTH_OF_A_FILE
    headings = list(names)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in headings:
        table.add_column(name, overflow="fold", justify="right" if name in _NUMBERS else "left")
    for row in rows:
        table.add_row(*(_shown(value) for value in row))
    if Measurement.get(console, console.options.update(max_width=_WIDTH_OF_A_FILE), table).maximum <= console.width:
        console.print(table)
    else:
        _print_blocks(console, rows, headings)
    if total > len(rows):
        console.print(f"{total - len(rows):,} more of {total:,} rows: raise --limit, or write all with --format")


def _print_blocks(console: Console, rows: list[Row], names: list[str]) -> None:
    for number, row in enumerate(rows):
        block = Table(show_header=False, box=None, pad_edge=False)
        block.add_column(style="dim", no_wrap=True)
        block.add_column(overflow="fold")
        for name, value in zip(names, row, strict=True):
            block.add_row(name, _shown(value))
        if number:
            console.print()
        console.print(block)


def _shown(value: str | None) -> Text:
    """The value as the table has it; what does not print (a client may call itself anything) as its escape."""
    if value is None:
        return Text("-")
    return Text("".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in value))


def as_text(frame: DataFrame) -> DataFrame:
    """Every column as text: times in UTC, nested columns as JSON, bytes in base64."""
    return frame.select(*(_text(field).alias(field.name) for field in frame.schema.fields))


def _text(field: T.StructField) -> Column:
    column = F.col(field.name)
    match field.dataType:
        case T.TimestampType():
            return F.date_format(column, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")
        case T.MapType() | T.ArrayType() | T.StructType():
            return F.to_json(column)
        case T.BinaryType():
            return F.base64(column)
    return column.cast("string")


def write_path(frame: DataFrame, form: Format, path: str) -> None:
    """Written by Spark's workers as a directory of files.

    Raises:
        OutputError: there is something at `path` already.
    """
    flat = as_text(frame) if form is Format.CSV else frame
    writer = flat.write.option("header", True).mode("error")
    try:
        getattr(writer, form.value)(path)
    except AnalysisException as error:
        if "ALREADY_EXISTS" in (error.getCondition() or ""):
            raise OutputError(f"{path} exists already: name another --output or remove it") from error
        raise


def write_stream(frame: DataFrame, form: Format, out: TextIO) -> None:
    """JSON lines or CSV, partition after partition."""
    if form is Format.JSON:
        for line in json_lines(frame):
            out.write(line + "\n")
        return
    writer = csv.writer(out)
    writer.writerow(frame.columns)
    for row in as_text(frame).toLocalIterator():
        writer.writerow(["" if value is None else value for value in row])


def json_lines(frame: DataFrame) -> Iterator[str]:
    """One JSON object a row; null stands for null, as in the files that `write_path` writes."""
    for row in frame.select(F.to_json(F.struct("*")).alias("line")).toLocalIterator():
        yield row["line"]
