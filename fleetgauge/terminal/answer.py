"""The answer of a command: one value, printed as text, JSON, CSV, Parquet or HTML.

Text and HTML are for people: the most important columns of a limited number of rows. JSON, CSV and Parquet have every
column of every row.
"""

import csv
import enum
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Protocol, TextIO

from fleetgauge.terminal.files import OutputError, new_file_in, write_file
from fleetgauge.terminal.text import csv_value, printable_json

if TYPE_CHECKING:
    from rich.console import Console  # only where text is printed: a node does without Rich


class Format(enum.StrEnum):
    """Values of `--format`."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    HTML = "html"


FOR_PEOPLE: Final = frozenset({Format.TEXT, Format.HTML})
"""Forms with chosen columns and a limited number of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where an answer is written, and in which form.

    Attributes:
        form: the form.
        output: directory that is made for JSON, CSV or Parquet, or file of HTML; None is stdout.
        limit: rows of text and HTML, at most.
        columns: of text and HTML, as `--columns` names them; None is those that fit.
    """

    form: Format = Format.TEXT
    output: str | None = None
    limit: int = 50
    columns: str | None = None

    @property
    def is_for_people(self) -> bool:
        """True for the forms with chosen columns and a limited number of rows."""
        return self.form in FOR_PEOPLE

    def check(self) -> None:
        """Checks that the options go together.

        Raises:
            OutputError: they do not.
        """
        if self.form is Format.PARQUET and self.output is None:
            raise OutputError("Parquet needs a directory to be written to: add --output PATH")
        if self.form is Format.TEXT and self.output is not None:
            raise OutputError(
                "--format text is for the terminal: with --output, use --format json, csv, parquet or html"
            )
        if self.columns is not None and not self.is_for_people:
            raise OutputError("--columns is for --format text and html: JSON, CSV and Parquet have every column")

    def below(self, name: str) -> "Output":
        """The same in a directory of this name, for one of several answers."""
        return self if self.output is None else replace(self, output=f"{self.output.rstrip('/')}/{name}")

    def headings(self, known: Iterable[str]) -> tuple[str, ...]:
        """The headings that `--columns` chooses among the known ones; none without that option.

        Raises:
            OutputError: there is no such column.
        """
        from fleetgauge.terminal.table import UnknownColumnError, chosen_columns

        try:
            return () if self.columns is None else chosen_columns(known, self.columns)
        except UnknownColumnError as error:
            raise OutputError(str(error)) from error


class Rows(Protocol):
    """The rows of an answer. They are read once, in one of these ways."""

    def json_lines(self) -> Iterable[str]:
        """Each row as a JSON object on one line."""

    def csv_rows(self) -> Iterable[Sequence[object]]:
        """The names of the columns, then the cells of each row."""

    def write_parquet(self, file: Any) -> None:
        """Writes the rows to an open binary file."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Rows of plain values. Lists and dicts are JSON text in CSV and Parquet.

    Attributes:
        rows: the rows; each may lack columns.
        names: the columns; by default those of the first row.
    """

    rows: Iterable[Mapping[str, Any]]
    names: Sequence[str] = ()

    def json_lines(self) -> Iterator[str]:
        """See `Rows`."""
        return map(json_line, self.rows)

    def csv_rows(self) -> Iterator[Sequence[object]]:
        """See `Rows`."""
        names, rows = self._named()
        yield names
        for row in rows:
            yield [csv_value(_cell(row.get(name))) for name in names]

    def write_parquet(self, file: Any) -> None:
        """See `Rows`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        names, rows = self._named()
        whole = [{name: _scalar(row.get(name)) for name in names} for row in rows]
        table = pa.Table.from_pylist(whole) if whole else pa.table({name: pa.nulls(0) for name in names})
        pq.write_table(table, file, compression="zstd")

    def _named(self) -> tuple[Sequence[str], Iterable[Mapping[str, Any]]]:
        """The names of the columns, and the rows."""
        if self.names:
            return self.names, self.rows
        rows = iter(self.rows)
        first = next(rows, None)
        return ((), ()) if first is None else (tuple(first), chain((first,), rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One value.

    Attributes:
        text: prints it for people.
        rows: its rows.
        value: the value as JSON has it, if that is more than the rows.
        is_array: JSON on stdout is one array of the rows; else, and in files, it is an object per line.
        is_live: rows come slowly, and each is printed at once.
    """

    text: "Callable[[Console], None]"
    rows: Rows
    value: object = None
    is_array: bool = False
    is_live: bool = False


def record_answer(record: Mapping[str, Any], text: "Callable[[Console], None]", rows: Rows | None = None) -> Answer:
    """An answer that is one record; its rows are the values by their names, unless others are given."""
    return Answer(text=text, rows=PlainRows(list(_flat(record))) if rows is None else rows, value=record)


def print_answer(answer: Answer, to: Output, out: TextIO) -> None:
    """Prints an answer to `out`, or writes it to `to.output`.

    Raises:
        OutputError: it cannot be written there.
    """
    to.check()
    if to.output is None:
        _write(answer, to.form, out)
    elif to.form is Format.HTML:
        write_file(to.output, _html(answer))
    else:
        with new_file_in(to.output, f"part-0.{to.form.value}") as file:
            if to.form is Format.PARQUET:
                answer.rows.write_parquet(file)
            else:
                with io.TextIOWrapper(io.BufferedWriter(file), encoding="utf-8", newline="") as text:
                    _write(replace(answer, is_array=False), to.form, text)


def _write(answer: Answer, form: Format, out: TextIO) -> None:
    if form is Format.TEXT:
        from fleetgauge.terminal.table import wide_console

        answer.text(wide_console(out))
    elif form is Format.HTML:
        out.write(_html(answer))
    elif form is Format.JSON:
        _write_json(answer, out)
    else:
        # Every cell is quoted: no character in it ends a cell, whatever a spreadsheet divides at.
        writer = csv.writer(out, quoting=csv.QUOTE_ALL)
        for row in answer.rows.csv_rows():
            writer.writerow(row)
            if answer.is_live:
                out.flush()
    out.flush()


def _write_json(answer: Answer, out: TextIO) -> None:
    if answer.value is not None:
        out.write(f"{json_line(answer.value)}\n")
    elif answer.is_array:
        out.write("[" + ",\n".join(answer.rows.json_lines()) + "]\n")
    else:
        for line in answer.rows.json_lines():
            out.write(f"{line}\n")
            if answer.is_live:
                out.flush()


def _html(answer: Answer) -> str:
    """A page that needs no network. Rich escapes what clients chose."""
    from fleetgauge.terminal.table import wide_console

    console = wide_console(io.StringIO())
    console.record = True
    answer.text(console)
    return console.export_html()


def json_line(value: object) -> str:
    """A value as JSON on one line, safe to print."""
    return printable_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _flat(value: object, name: str = "") -> Iterator[dict[str, object]]:
    """The values in a nested one by their paths.

    >>> [*_flat({"node": {"pid": 4, "listeners": ["a"]}})]
    [{'name': 'node.pid', 'value': '4'}, {'name': 'node.listeners.0', 'value': 'a'}]
    """
    if isinstance(value, Mapping):
        inner: Iterable[tuple[object, object]] = value.items()
    elif isinstance(value, list | tuple):
        inner = enumerate(value)
    else:
        yield {"name": name, "value": None if value is None else str(value)}
        return
    for key, each in inner:
        yield from _flat(each, f"{name}.{key}" if name else str(key))


def _scalar(value: object) -> object:
    return json_line(value) if isinstance(value, Mapping | list | tuple) else value


def _cell(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else _scalar(value)
