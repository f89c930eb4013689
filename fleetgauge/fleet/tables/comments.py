"""Comments of tables and columns: meaning and unit; those of measures come from the catalogue of metrics."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from fleetgauge.fleet.measures.catalogue import BY_COLUMN
from fleetgauge.telemetry.catalogue.standard_metrics import metrics_by_name

_OVER: Final = {
    "avg": "mean of reported averages",
    "growth": "growth in the window",
    "max": "largest",
    "min": "least",
    "last": "latest",
    "samples": "pushes that report it",
    "positive": "pushes that report it above 0",
}
_UNITS: Final = {"ms": "ms", "bytes": "B", "s": "1/s", "hour": "1/h", "ago": "s", "ratio": "0 to 1"}
"""Units by the last word of a column's name, without `avg` and `max`."""


def comment_of(table: str, column: str) -> str:
    """The comment of a column.

    >>> comment_of("producers", "record_queue_time_max_ms")
    'time that a batch waits in the buffer before it is sent: largest [ms]'
    >>> comment_of("latency", "latency_max_ms")
    'largest maximum that the client reported [ms]'

    Raises:
        KeyError: there is none.
    """
    text = words().get(table, {}).get(column) or words()["columns"].get(column)
    return text if text is not None else _of_measure(column)


def description_of(table: str) -> str:
    """Description of a table's rows.

    Raises:
        KeyError: there is none.
    """
    return words()["tables"][table]


@cache
def words() -> Mapping[str, Mapping[str, str]]:
    """Content of `comments.toml`: `tables`, `columns`, and columns of tables with their own texts."""
    return tomllib.loads(Path(__file__).with_name("comments.toml").read_text(encoding="utf-8"))


def _of_measure(column: str) -> str:
    """Comment of a measure, or of a part of one in partial wide rows."""
    if column in BY_COLUMN:
        measure = BY_COLUMN[column]
        quantity = metrics_by_name()[measure.names[0]].quantity
        last = next(word for word in reversed(column.split("_")) if word not in ("avg", "max", "total"))
        unit = f" [{_UNITS[last]}]" if last in _UNITS else ""
        return f"{quantity}: {_OVER[measure.over]}{unit}"
    name, _, part = column.rpartition("_")
    if part == "pushes":
        return f"pushes with any of the metrics of {name}"
    if part == "points":
        return f"points of sums with a mark: {name}"
    return {
        "sum": f"{name} in whole units, added up: averages in millionths, growth in thousandths",
        "count": f"values in {name}_sum",
        "at": f"receipt of the latest {name} (UTC)",
    }[part]
