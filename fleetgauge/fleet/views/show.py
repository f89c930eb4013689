"""`fleet show`: rows of a table, read by delta-rs in this process, without Spark."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TextIO

from fleetgauge.fleet.arrow import Rows, pa
from fleetgauge.fleet.fleet import Fleet, time_of
from fleetgauge.fleet.report.cells import json_text
from fleetgauge.fleet.report.form import Format, Output
from fleetgauge.fleet.report.output import print_table, take_first, write_rows
from fleetgauge.fleet.report.tables import Key, TableForm, Text, number_text, time_text
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables import catalog

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


def show(request: ShowRequest, out: TextIO) -> None:
    """Writes the rows.

    Raises:
        FleetError: there is no such table, it has no column that was asked about, or it cannot be read.
    """
    chosen = Fleet(request.tables, request.conf).chosen(request.table, request.selection, request.group_id)
    schema = chosen.table.schema
    if request.to.form is Format.TABLE:
        form = text_form(chosen.table, request.to.columns)
        needed = {*form.columns, *(key.column for key in form.order), _UNKNOWN}
        read = pa.schema([each for each in schema if each.name in needed])
        latest = chosen.latest(request.to.limit).batches(read.names)
        first, _ = take_first(Rows(schema=read, batches=latest), form, request.to.limit)
        print_table(out, first, chosen.count(), form=form)
    else:
        write_rows(Rows(schema=schema, batches=chosen.batches()), request.to, out)


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
    less = [name for name in _LEAST if name in names]
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
