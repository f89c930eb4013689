"""What a Delta table's log says of one data file, so that a query may pass it over (Delta's protocol, Per-file
Statistics).

Bounds are wide where they cannot be exact: nothing of the file is below its least or above its greatest value. Without
a bound a file is always read.
"""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

from fleet.decode.arrow import Schema, Table, pa, pc

PREFIX_CHARACTERS: Final = 32
"""Of a text, what its bounds hold at most; as Delta's own writer has it."""

_Bound: TypeAlias = str | int | date

_LAST_CHARACTER: Final = "\U0010ffff"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class FileStatistics:
    """Gathered table by table, of columns of text, whole numbers, days, and times in microseconds (UTC).

    Args:
        schema: of the file.
        columns: whose bounds and nulls are told.

    Attributes:
        rows: so far.

    Raises:
        ValueError: a column is not in the schema, or of another type.
    """

    def __init__(self, schema: Schema, columns: Iterable[str]) -> None:
        self.rows = 0
        self._nulls = dict.fromkeys(columns, 0)
        self._least: dict[str, _Bound] = {}
        self._greatest: dict[str, _Bound] = {}
        self._times = {name for name in self._nulls if _is_time(schema, name)}

    def add(self, table: Table) -> None:
        """Counts the rows of a `pyarrow.Table`."""
        self.rows += table.num_rows
        for name in self._nulls:
            column = table.column(name)
            self._nulls[name] += column.null_count
            least, greatest = self._bounds(name, column)
            if least is not None:
                self._least[name] = min(self._least.get(name, least), least)
                self._greatest[name] = max(self._greatest.get(name, greatest), greatest)

    def _bounds(self, name: str, column: Any) -> tuple[Any, Any]:
        found = pc.min_max(column.cast(pa.int64()) if name in self._times else column).as_py()
        return found["min"], found["max"]

    def to_json(self) -> str:
        """As it stands in the log; a column of nulls alone has no bounds."""
        least = {name: self._written_least(name, value) for name, value in self._least.items()}
        greatest = {name: self._written_greatest(name, value) for name, value in self._greatest.items()}
        found = {
            "numRecords": self.rows,
            "minValues": {name: value for name, value in least.items() if value is not None},
            "maxValues": {name: value for name, value in greatest.items() if value is not None},
            "nullCount": self._nulls,
        }
        return json.dumps(found, separators=(",", ":"))

    def _written_least(self, name: str, value: Any) -> str | int | None:
        if name in self._times:
            return _time_text(value // 1000)
        return value[:PREFIX_CHARACTERS] if isinstance(value, str) else _plain(value)

    def _written_greatest(self, name: str, value: Any) -> str | int | None:
        if name in self._times:
            return _time_text(-(-value // 1000))
        return _cut_greatest(value) if isinstance(value, str) else _plain(value)


def _is_time(schema: Schema, name: str) -> bool:
    if name not in schema.names:
        raise ValueError(f"there is no column {name} to keep statistics of")
    kind = schema.field(name).type
    if not (kind in (pa.string(), pa.date32(), _TIMESTAMP) or pa.types.is_signed_integer(kind)):
        raise ValueError(f"statistics of the column {name} cannot be kept: it is {kind}")
    return bool(kind == _TIMESTAMP)


def _plain(value: int | date) -> str | int:
    return value.isoformat() if isinstance(value, date) else value


def _cut_greatest(value: str) -> str | None:
    """A text of few characters that is not less; None where there is none.

    >>> _cut_greatest("short"), _cut_greatest(40 * "a") == 32 * "a" + _LAST_CHARACTER
    ('short', True)
    """
    if len(value) <= PREFIX_CHARACTERS:
        return value
    cut = value[:PREFIX_CHARACTERS] + _LAST_CHARACTER
    return cut if cut >= value else None  # texts compare by code points, which is UTF-8's own order


def _time_text(time_ms: int) -> str | None:
    """ISO 8601 in UTC; None for a year that it has no four digits for.

    Readers take a time in the log for one that was cut to the millisecond, and add that on their side (Spark) or not.

    >>> _time_text(1_772_366_400_001)
    '2026-03-01T12:00:00.001Z'
    """
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03}Z" if moment.year >= 1000 else None
