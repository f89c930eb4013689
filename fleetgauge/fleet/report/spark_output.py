"""Output of answers computed by Spark: the forms of `fleet.report.output`, made on Spark's executors.

A stream goes through the driver row by row, a path is written by Spark's workers: nothing that grows with the fleet is
kept in the driver.
"""

import csv
from typing import Any, Final, TextIO

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812

from fleetgauge.fleet.errors import OutputError
from fleetgauge.fleet.report.cells import AsText
from fleetgauge.fleet.report.form import Format
from fleetgauge.fleet.report.tables import Row, TableForm

_CSV: Final[dict[str, str | bool]] = {
    "header": True,
    # Every cell in quotes, and a quote within as two: no character ends a cell, whatever a spreadsheet divides at.
    "quoteAll": True,
    "escape": '"',
    "ignoreLeadingWhiteSpace": False,
    "ignoreTrailingWhiteSpace": False,
}
"""Spark's options for the same form as `write_stream`."""


def take_first(frame: DataFrame, form: TableForm, limit: int) -> tuple[list[Row], int]:
    """The first `limit` rows in the table's order, and how many rows there are: one pass for both."""
    total = Observation()
    values = [key.column if key.null_as is None else F.coalesce(key.column, F.lit(key.null_as)) for key in form.order]
    keys = [F.desc(each) if key.descending else F.asc(each) for key, each in zip(form.order, values, strict=True)]
    ordered = frame.observe(total, F.count(F.lit(1)).alias("rows")).orderBy(*keys).limit(limit)
    rows: list[Any] = ordered.toArrow().to_pylist()
    # Spark may drop the count from the plan of an empty frame, and would then never give it.
    return rows, int(total.get["rows"]) if rows else 0


def write_path(frame: DataFrame, form: Format, path: str) -> None:
    """Spark's workers write a directory of files.

    Raises:
        OutputError: there is something at `path` already.
    """
    flat = _as_cells(frame) if form is Format.CSV else frame
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
        for row in frame.mapInArrow(AsText("json"), "line string").toLocalIterator():
            out.write(f"{row['line']}\n")
        return
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(frame.columns)
    writer.writerows(_as_cells(frame).toLocalIterator())


def _as_cells(frame: DataFrame) -> DataFrame:
    return frame.mapInArrow(AsText("csv"), ", ".join(f"`{name}` string" for name in frame.columns))
