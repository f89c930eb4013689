"""Output forms of answers and summaries. Separate from `output`, so that help does not load PySpark."""

import enum
from dataclasses import dataclass

from fleetgauge.fleet.errors import FleetError


class Format(enum.StrEnum):
    """Values of `--format` for rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class SummaryFormat(enum.StrEnum):
    """Values of `--format` for a command's result: lines for people, or JSON."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Destination and form of rows.

    Attributes:
        form: what rows are written as.
        output: directory to write to; None is stdout.
        limit: rows of a table of text.
        columns: of a table of text, as `--columns` names them; None is those that fit.
    """

    form: Format = Format.TABLE
    output: str | None = None
    limit: int = 50
    columns: str | None = None

    def check(self) -> None:
        """Raises FleetError for a combination of form and destination that is not possible."""
        if self.form is Format.PARQUET and self.output is None:
            raise FleetError("Parquet is written to a directory: add --output PATH")
        if self.form is Format.TABLE and self.output is not None:
            raise FleetError("--format table is for the terminal: with --output, use --format json, csv or parquet")
        if self.columns is not None and self.form is not Format.TABLE:
            raise FleetError("--columns is for --format table: JSON, CSV and Parquet have every column")
