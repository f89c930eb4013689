"""Tables for people: every cell is safe to print, and columns are left out where the terminal is too narrow."""

import re
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final, TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fleetgauge.terminal.text import printable

_UNBOUNDED: Final = 1_000_000
"""Width where there is no terminal: a program or a file reads each row as one whole line [characters]."""

_BETWEEN: Final = 3
"""Between two columns of a table [characters]."""

Row = Mapping[str, str | None]
"""Text by heading; None is shown as `-`."""


class SafeTable(Table):
    """A table whose cells are text that anyone may have chosen: printed as it is, without markup or commands."""

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        """Adds a row; text is made printable."""
        super().add_row(*(Text(printable(cell)) if isinstance(cell, str) else cell for cell in cells), **options)


def list_table() -> SafeTable:
    """A table without columns yet, as lists are printed."""
    return SafeTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")


def facts(title: str | None = None) -> SafeTable:
    """An empty table of names and values."""
    table = SafeTable(title=title, title_justify="left", show_header=False, box=None, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


class UnknownColumnError(ValueError):
    """`--columns` names a column that the table does not have; the text lists those that it has."""


def wide_console(file: TextIO | None = None, *, width: int | None = None) -> Console:
    """A console that folds nothing unless it is a terminal; `width` [characters] stands for that of a terminal."""
    console = Console(file=file, highlight=False, markup=False, width=width)
    if width is None and not console.file.isatty():  # whatever COLUMNS and FORCE_COLOR say of a pipe
        console.width = _UNBOUNDED
    return console


def column_name(heading: str) -> str:
    """A heading as `--columns` has it.

    >>> column_name("client instance id"), column_name("first seen (UTC)")
    ('client_instance_id', 'first_seen_utc')
    """
    return re.sub(r"[^a-z0-9]+", "_", heading.lower()).strip("_")


def chosen_columns(headings: Iterable[str], wanted: str) -> tuple[str, ...]:
    """The headings that `--columns` names, in its order.

    >>> chosen_columns(["client id", "state", "pushes"], "pushes,client_id")
    ('pushes', 'client id')

    Raises:
        UnknownColumnError: one of them is none.
    """
    known = {column_name(heading): heading for heading in headings}
    names = [column_name(name) for name in wanted.split(",")]
    for name, given in zip(names, wanted.split(","), strict=True):
        if name not in known:
            raise UnknownColumnError(f"--columns: there is no column {given.strip()!r}; there are {','.join(known)}")
    return tuple(known[name] for name in dict.fromkeys(names))


def print_rows(
    console: Console,
    headings: Sequence[str],
    rows: Sequence[Row],
    *,
    right: Container[str] = (),
    least: Iterable[str] = (),
) -> None:
    """Prints rows as a table that is as wide as the console at most.

    Where it is too narrow the columns in `least` are left out, the first of them first, and a line says so. Where it is
    too narrow even for the others, every row is a block of all its columns. Without rows stderr has a line instead.

    Args:
        console: where to.
        headings: the columns; rows may have more.
        rows: what to print.
        right: columns of numbers.
        least: columns that may be left out. Empty where somebody chose the columns.
    """
    if not rows:
        sys.stderr.write("no rows\n")
        return
    shown = _fitting(console.width, headings, rows, least)
    if not shown:
        _print_blocks(console, headings, rows)
        return
    table = list_table()
    for name in shown:
        table.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*(_text(row[name]) for name in shown))
    console.print(table)
    hidden = [column_name(name) for name in headings if name not in shown]
    if hidden:
        console.print(
            f"{len(hidden)} of {len(headings)} columns do not fit: {', '.join(hidden)}. Choose with "
            f"--columns {','.join(column_name(name) for name in shown[:2])},..., or see all with --format json"
        )


def _fitting(width: int, headings: Sequence[str], rows: Sequence[Row], least: Iterable[str]) -> Sequence[str]:
    """The columns that fit together; none where even the most important do not."""
    widths = {
        name: max([cell_len(name), *(cell_len(printable(_text(row[name]))) for row in rows)]) for name in headings
    }
    for name in (None, *least):
        if name is not None:
            widths.pop(name, None)
        if sum(widths.values()) + _BETWEEN * (len(widths) - 1) <= width:
            return list(widths)
    return []


def _print_blocks(console: Console, headings: Sequence[str], rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows):
        block = facts()
        for name in headings:
            block.add_row(name, _text(row[name]))
        if number:
            console.print()
        console.print(block)


def _text(value: str | None) -> str:
    return "-" if value is None else value
