"""Columns and JSON that several commands print."""

import json
import sys
from collections.abc import Iterable

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.terminal.table import UnknownColumnError, chosen_columns


def selected(headings: Iterable[str], columns: str | None) -> tuple[str, ...]:
    """The headings that `--columns` selects; none without that option.

    Raises:
        FleetgaugeError: there is no such column.
    """
    try:
        return chosen_columns(headings, columns) if columns is not None else ()
    except UnknownColumnError as error:
        raise FleetgaugeError(str(error)) from error


def write_json(value: object) -> None:
    """Prints a value as JSON."""
    print(json.dumps(value, indent=2))  # noqa: T201


def write_json_lines(values: Iterable[object]) -> None:
    """Prints each value as JSON on one line, and flushes the last."""
    for value in values:
        sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()
