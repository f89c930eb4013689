"""`fleet show`: rows of a table, read by delta-rs in this process, without Spark."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from rich.console import Console

from fleetgauge.fleet.arrow import Rows, pa
from fleetgauge.fleet.fleet import Chosen, Fleet, time_of
from fleetgauge.fleet.report.cells import json_text
from fleetgauge.fleet.report.output import ArrowRows, print_table, take_first
from fleetgauge.fleet.report.tables import Key, TableForm, Text, number_text, time_text
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables import catalog
from fleetgauge.terminal.answer import Answer, Output

_HIDDEN: Final = frozenset(
    {
        "payload",
        "attributes",
        "resource",
        "distribution",
        "meaning",
        "covered",
        "app_id",
        "last_push_id",
        "sender_seen_at",
        "sender_push_id",
        "series",
    }
)
"""Columns that a terminal shows only if chosen; files and streams have them."""

_LEAST: Final = (
    "date", "window_s", "unit", "dialect", "group_member_id", "client_software_version", "client_software_name",
    "gap", "covers_gap", "unknown", "principal", "cluster_id",
)  # fmt: skip
"""Columns that a narrow terminal leaves out first, followed by others from the right, except the first `_KEPT`."""

_LEAST_OF_WINDOWS: Final = ("metric", "coordinator", "bootstrap", "pushes", "client_instance_id")
"""In tables by window the next ones: without them figures fit beside the client id."""

_EMPTY: Final[Mapping[str, str]] = {
    "rejects": "every push could be read",
    "verdicts": "nothing is wrong, or nothing was judged yet: fleet verdicts shows which",
    "traffic": "only fleetgauge gateway writes it",
    **dict.fromkeys(("group_offsets", "group_trends"), "no exporter samples the offsets of groups"),
}
"""Reasons why a whole table may have no rows."""

_KEPT: Final = 3
_UNKNOWN: Final = "unknown"
"""Column with the names of measures that the library of a row's client never sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRequest:
    """Selection and output of rows.

    Attributes:
        table: its name.
        tables: root of the tables: a directory, or a URI of an object store.
        selection: of rows; times are those of receipt, of the window's beginning, when a client was last seen,
            or when a verdict opened.
        group_id: only of this consumer group.
        to: where rows are written, and as what.
        conf: settings of Spark, of which those of s3a count.
    """

    table: str
    tables: str
    selection: Selection
    group_id: str | None
    to: Output
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.to.check()


def show(request: ShowRequest) -> Answer:
    """The rows, the latest first for people.

    Raises:
        FleetError: there is no such table, it has no column that was asked about, or it cannot be read.
    """
    chosen = Fleet(request.tables, request.conf).chosen(request.table, request.selection, request.group_id)
    schema = chosen.table.schema
    form = text_form(chosen.table, request.to.columns)

    def text(console: Console) -> None:
        needed = {*form.columns, *(key.column for key in form.order), _UNKNOWN}
        read = pa.schema([each for each in schema if each.name in needed])
        latest = chosen.latest(request.to.limit).batches(read.names)
        first, _ = take_first(Rows(schema=read, batches=latest), form, request.to.limit)
        total = chosen.count()
        if total:
            print_table(console, first, total, form=form)
        else:
            sys.stderr.write(f"{request.table}: no rows{_reason(chosen)}\n")

    return Answer(text=text, rows=ArrowRows(Rows(schema=schema, batches=chosen.batches())))


def _reason(chosen: Chosen) -> str:
    """Reason why no row is chosen, if it is known."""
    rows = replace(chosen, where=None).count()
    if rows:
        return f" of this selection; without it the table has {rows:,}"
    return f": {_EMPTY[chosen.table.name]}" if chosen.table.name in _EMPTY else ""


def text_form(table: catalog.Table, wanted: str | None = None) -> TableForm:
    """Every column that fits a terminal, or those that are wanted, as text; the latest first.

    Raises:
        OutputError: a wanted column is none.
    """
    shown = [each for each in table.schema if each.name not in _HIDDEN]
    time = time_of(table)
    order = [] if time is None else [Key(time, descending=True)]
    order += [Key(each.name) for each in shown if each.type in (pa.string(), pa.int32())]
    names = [each.name for each in shown]
    by_window = _LEAST_OF_WINDOWS if "window_start" in names else ()
    less = [name for name in (*_LEAST, *by_window) if name in names]
    least = (*less, *reversed([name for name in names if name not in less][_KEPT:]))
    columns = {each.name: _sent(each.name, each.type) for each in (shown if wanted is None else table.schema)}
    return TableForm(columns=columns, order=tuple(order), least=least).only(wanted)


def _sent(name: str, kind: Any) -> Text:
    """A value as text; `not sent` for a measure in the row's `unknown`, which its library never sends."""
    text = _text(name, kind)
    return lambda row: "not sent" if name in (row.get(_UNKNOWN) or ()) else text(row)


def _text(name: str, kind: Any) -> Text:
    if pa.types.is_timestamp(kind):
        return lambda row: time_text(row[name])
    if pa.types.is_floating(kind):
        return lambda row: number_text(row[name], 3)
    if kind == pa.int64():
        return lambda row: number_text(row[name])
    if pa.types.is_nested(kind):
        return lambda row: json_text(row[name], kind)
    if pa.types.is_boolean(kind):
        return lambda row: None if row[name] is None else str(row[name]).lower()
    return lambda row: None if row[name] is None else str(row[name])
