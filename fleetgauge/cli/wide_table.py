"""Tables of many columns: where the terminal is too narrow for one, there is a block for each row instead."""

import os
from collections.abc import Container, Sequence
from typing import Final

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fleetgauge.cli.text import printable

_WIDE: Final = 1_000


def wide_console() -> Console:
    """A console that folds nothing where it is no terminal: what is read there is a program, or a file."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDE
    return console


def print_rows(console: Console, rows: Sequence[dict[str, str]], right: Container[str] = ()) -> None:
    """Prints rows of the same columns, at least one; the columns in `right` are numbers."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*(Text(printable(text)) for text in row.values()))
    if Measurement.get(console, console.options.update(max_width=_WIDE), table).maximum <= console.width:
        console.print(table)
    else:
        _print_blocks(console, rows)


def _print_blocks(console: Console, rows: Sequence[dict[str, str]]) -> None:
    for number, row in enumerate(rows):
        block = Table(show_header=False, box=None, pad_edge=False)
        block.add_column(style="dim", no_wrap=True)
        block.add_column(overflow="fold")
        for name, text in row.items():
            block.add_row(name, Text(printable(text)))
        if number:
            console.print()
        console.print(block)
