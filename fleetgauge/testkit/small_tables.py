"""Tables of a few rows and columns, as the examples in docstrings have them: `rows` makes one, `show` prints one.

What an example does not give is that of one ordinary client; what is left then is null.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fleetgauge.fleet.arrow import Schema, Table, pa
from fleetgauge.fleet.schemas import TIME

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


def rows(schema: Schema, columns: str, *values: tuple[Any, ...]) -> Table:
    """A table of `schema`.

    Args:
        schema: of `fleet.schemas`.
        columns: names of those that are given, separated by blanks.
        values: a row each; a time as `12:00:30` of one day (UTC).
    """
    return pa.Table.from_pylist(_given(schema, columns, values), schema=schema)


def _given(schema: Schema, columns: str, rows: Iterable[tuple[Any, ...]]) -> list[Mapping[str, Any]]:
    names = columns.split()
    return [_filled(schema, dict(zip(names, row, strict=True))) for row in rows]


def _filled(schema: Schema, given: Mapping[str, Any]) -> Mapping[str, Any]:
    values = {**_USUAL, **given}
    for field in schema:
        if field.type == TIME and isinstance(values.get(field.name), str):
            values[field.name] = datetime.fromisoformat(f"{_DAY}T{values[field.name]}").replace(tzinfo=UTC)
    received_at = values.get("received_at")
    if received_at is not None:
        values.setdefault("push_id", f"{received_at.timestamp():032.0f}")
        values.setdefault("date", received_at.date())
    return values


def show(given: Table, columns: str) -> None:
    """Prints some columns of all rows, which are few, in the order of these columns; null as `-`, times by the hour.

    Args:
        given: the rows.
        columns: names, separated by blanks.
    """
    names = columns.split()
    lines = [names, *sorted([_text(value) for value in row.values()] for row in given.select(names).to_pylist())]
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
        case datetime():
            return f"{value:%H:%M:%S}"
        case list():
            return ",".join(_text(each) for each in value) or "none"
    return str(value)
