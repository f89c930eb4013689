"""What answers and summaries can be written as. Apart from `output`, since help must not load PySpark."""

import enum

from fleetgauge.fleet.errors import FleetError


class Format(enum.StrEnum):
    """Values of `--format` for rows."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"


class SummaryFormat(enum.StrEnum):
    """Values of `--format` for what a command did: lines for people, or JSON."""

    TABLE = "table"
    JSON = "json"


def check_columns(form: Format, columns: str | None) -> None:
    """Raises FleetError where columns are chosen of what is no table."""
    if columns is not None and form is not Format.TABLE:
        raise FleetError("--columns is for --format table: JSON, CSV and Parquet have every column")
