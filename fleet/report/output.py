"""How an answer leaves: a table in the terminal, or JSON lines, CSV or Parquet, to a path or (not Parquet) to stdout.

A table holds the first `limit` rows of all in their order; a stream goes through the driver row by row; a path is
written by Spark's workers. Nothing that grows with the fleet is kept in the driver.
"""

import csv
from collections.abc import Iterator
from typing import Final, TextIO

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, Row
from pyspark.sql import functions as F  # noqa: N812

from fleet.errors import OutputError
from fleet.report.cells import as_cells
from fleet.report.form import Format
from fleet.report.tables import TableForm
from terminal.table import print_rows, wide_console
from terminal.text import printable_json

_NUMBERS = frozenset(
    {"pushes", "points", "avg ms", "max ms", "samples", "value", "row or offset", "poll() every ms", "idle in poll()"}
)
_CSV: Final[dict[str, str | bool]] = {
    "header": True,
    # Every cell in quotes, and a quote within as two: no character ends a cell, whatever a spreadsheet divides at.
    "quoteAll": True,
    "escape": '"',
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
"""Spark's options for the form that `write_stream` writes."""


def take_first(frame: DataFrame, form: TableForm, limit: int) -> tuple[list[Row], int]:
    """The first `limit` rows as the table has them, and how many rows there are: one pass for both."""
    total = Observation()
    ordered = frame.observe(total, F.count(F.lit(1)).alias("rows")).orderBy(*form.order).limit(limit)
    rows = ordered.select(*(column.alias(name) for name, column in form.columns.items())).collect()
    # Spark may drop the count from the plan of an empty frame, and would then never give it.
    return rows, int(total.get["rows"]) if rows else 0


def print_table(out: TextIO, rows: list[Row], form: TableForm, total: int, *, width: int | None = None) -> None:
    """Rows of text as a table, as wide as the terminal at most; says how many more there are.

    Args:
        out: where it goes; what is no terminal is as wide as the table needs.
        rows: of text.
        form: the table that they are of.
        total: rows that there are altogether.
        width: of the terminal [characters]; by default as it says itself.
    """
    console = wide_console(out, width=width)
    headings = tuple(form.columns)
    texts = [dict(zip(headings, row, strict=True)) for row in rows]
    print_rows(console, headings, texts, right=_NUMBERS, least=form.least)
    if total > len(rows):
        console.print(f"{total - len(rows):,} more of {total:,} rows: raise --limit, or write all with --format")


def write_path(frame: DataFrame, form: Format, path: str) -> None:
    """Written by Spark's workers as a directory of files.

    Raises:
        OutputError: there is something at `path` already.
    """
    flat = as_cells(frame) if form is Format.CSV else frame
    writer = flat.write.options(**(_CSV if form is Format.CSV else {})).mode("error")
    try:
        getattr(writer, form.value)(path)
    except AnalysisException as error:
        if "ALREADY_EXISTS" in (error.getCondition() or ""):
            raise OutputError(f"{path} exists already: name another --output or remove it") from error
        raise


def write_stream(frame: DataFrame, form: Format, out: TextIO) -> None:
    """JSON lines or CSV, partition after partition; a terminal may show either."""
    if form is Format.JSON:
        for line in json_lines(frame):
            out.write(printable_json(line) + "\n")
        return
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(frame.columns)
    for row in as_cells(frame).toLocalIterator():
        writer.writerow(["" if value is None else value for value in row])


def json_lines(frame: DataFrame) -> Iterator[str]:
    """One JSON object a row; null stands for null, as in the files that `write_path` writes."""
    for row in frame.select(F.to_json(F.struct("*")).alias("line")).toLocalIterator():
        yield row["line"]
