"""What an answer can be written as. Apart from `output`, since help must not load PySpark."""

import enum


class Format(enum.StrEnum):
    """Values of `--format`."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
