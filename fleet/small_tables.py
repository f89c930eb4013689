"""Tables of a few rows and columns, as the examples in docstrings have them: `table` makes one, `show` prints one.

What an example does not give is that of one ordinary client; what is left then is null.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.local_rows import local_rows

_DAY: Final = "2026-03-01"
_USUAL: Final[Mapping[str, Any]] = {
    "cluster_id": "main",
    "principal": "User:app",
    "client_instance_id": "one",
    "client_software_name": "apache-kafka-java",
    "point_index": 0,
    "push_interval_ms": 60_000,
    "attributes": {},
    "resource": {},
    "twin": False,
    "occurrence": 0,
    "dialect": "java",
    "heartbeat": False,
    "terminating": False,
}


def table(spark: SparkSession, schema: T.StructType, columns: str, *rows: tuple[Any, ...]) -> DataFrame:
    """A frame of `schema`.

    Args:
        spark: the session.
        schema: of `fleet.schemas`.
        columns: names of those that are given, separated by blanks.
        rows: their values; a time as `12:00:30` of one day (UTC).
    """
    names = columns.split()
    return local_rows(spark, [_filled(schema, dict(zip(names, row, strict=True))) for row in rows], schema)


def _filled(schema: T.StructType, given: Mapping[str, Any]) -> Mapping[str, Any]:
    values = {**_USUAL, **given}
    for field in schema.fields:
        if isinstance(field.dataType, T.TimestampType) and isinstance(values.get(field.name), str):
            values[field.name] = datetime.fromisoformat(f"{_DAY}T{values[field.name]}").replace(tzinfo=UTC)
    received_at = values.get("received_at")
    if received_at is not None:
        values.setdefault("push_id", f"{received_at.timestamp():032.0f}")
        values.setdefault("date", received_at.date())
    return values


def show(frame: DataFrame, columns: str) -> None:
    """Prints some columns of all rows, which are few, in the order of these columns; null as `-`, times by the hour.

    Args:
        frame: any.
        columns: names, separated by blanks.
    """
    names = columns.split()
    times = [name for name in names if isinstance(frame.schema[name].dataType, T.TimestampType)]
    texts = frame.select(*names).withColumns({name: F.date_format(name, "HH:mm:ss") for name in times})
    lines = [names, *sorted([_text(value) for value in row] for row in texts.collect())]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())  # noqa: T201


def _text(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case Row() | list():
            return ",".join(_text(each) for each in value) or "none"
    return str(value)
