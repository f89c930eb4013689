"""Statistics of one data file in a Delta table's log, which let queries skip the file (Delta's protocol, Per-file
Statistics), taken from the file's footer.

Bounds are wide where they cannot be exact: nothing of the file is below its least or above its greatest value. Every
column that has values has some: delta-rs takes a column without bounds for one without values.
"""

import json
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any, Final

from fleetgauge.fleet.arrow import Schema, pa

PREFIX_CHARACTERS: Final = 32
"""Most characters of a text in bounds; the same as in Delta's own writer."""

_LAST_CHARACTER: Final = "\U0010ffff"
_GREATEST: Final = 32 * _LAST_CHARACTER
_MILLISECOND: Final = timedelta(milliseconds=1)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


def check_columns(schema: Schema, columns: Iterable[str]) -> None:
    """Raises ValueError if a column is missing from the schema, or is not text, a whole number, a day or a time
    (UTC).
    """
    for name in columns:
        if name not in schema.names:
            raise ValueError(f"there is no column {name} to keep statistics of")
        kind = schema.field(name).type
        if not (kind in (pa.string(), pa.date32(), _TIMESTAMP) or pa.types.is_signed_integer(kind)):
            raise ValueError(f"statistics of the column {name} cannot be kept: it is {kind}")


def statistics_json(footer: Any, columns: Iterable[str]) -> str:
    """Statistics as JSON for the log; a column with only nulls has no bounds.

    Args:
        footer: `pyarrow.parquet.FileMetaData` of the file.
        columns: with bounds and counts of nulls; see `check_columns`.
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    place_of = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    for name in columns:
        groups = [footer.row_group(group).column(place_of[name]).statistics for group in range(footer.num_row_groups)]
        nulls[name] = sum(group.null_count for group in groups)
        bounds = [(group.min, group.max) for group in groups if group.has_min_max]
        if len(bounds) < sum(group.num_values > 0 for group in groups):  # Parquet has none of very long texts
            bounds.append(("", _GREATEST))
        if bounds:
            least[name] = _bound(min(low for low, _ in bounds), up=False)
            greatest[name] = _bound(max(high for _, high in bounds), up=True)
    told = {
        "numRecords": footer.num_rows,
        "minValues": _known(least),
        "maxValues": _known(greatest),
        "nullCount": nulls,
    }
    return json.dumps(told, separators=(",", ":"))


def _known(bounds: dict[str, Any]) -> dict[str, Any]:
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _bound(value: Any, *, up: bool) -> str | int | None:
    """A bound in the log's form: no value is below it, or above it with `up`."""
    if isinstance(value, datetime):
        return _time_text(value, up=up)
    if isinstance(value, str):
        return _cut_greatest(value) if up else value[:PREFIX_CHARACTERS]
    return value.isoformat() if isinstance(value, date) else int(value)


def _cut_greatest(value: str) -> str:
    """A text that is not less, and short if there is one.

    >>> _cut_greatest("short"), _cut_greatest(40 * "a") == 32 * "a" + _LAST_CHARACTER
    ('short', True)
    """
    if len(value) <= PREFIX_CHARACTERS:
        return value
    cut = value[:PREFIX_CHARACTERS] + _LAST_CHARACTER
    return max(cut, value)  # texts compare by code points, which is UTF-8's own order


def _time_text(moment: datetime, *, up: bool = False) -> str | None:
    """ISO 8601 in UTC to the millisecond; None for a year without four digits.

    Readers take a time in the log for one that was cut to the millisecond, and add that on their side (Spark) or not.

    >>> _time_text(datetime.fromisoformat("2026-03-01T12:00:00.000001Z"), up=True)
    '2026-03-01T12:00:00.001Z'
    """
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    if up and whole != moment:
        whole += _MILLISECOND
    return whole.isoformat(timespec="milliseconds").replace("+00:00", "Z") if whole.year >= 1000 else None
