"""What answers and summaries can be written as. Apart from `output`, since help must not load PySpark."""

import enum


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
