"""`fleet show`: rows of a standing table, read by delta-rs in this process, without Spark."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TextIO

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from fleetgauge.fleet.arrow import RecordBatch, Rows, Schema, pa
from fleetgauge.fleet.errors import FleetError, TableError
from fleetgauge.fleet.report.cells import json_text
from fleetgauge.fleet.report.form import Format, Output
from fleetgauge.fleet.report.output import print_table, write_rows
from fleetgauge.fleet.report.tables import TableForm, Text, number_text, time_text
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import TableLog
from fleetgauge.fleet.tables.paths import storage_options

_TIMES: Final = ("received_at", "window_start", "last_seen", "finished_at", "opened_at")
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
"""Columns that a terminal does not show unless they are chosen; files and streams have them."""

_LEAST: Final = (
    "date", "window_s", "unit", "dialect", "group_member_id", "client_software_version", "client_software_name",
    "gap", "covers_gap", "unknown", "principal", "cluster_id",
)  # fmt: skip
"""Columns that a narrow terminal leaves out first; then come others, from the right, but for the first `_KEPT`."""

_KEPT: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowRequest:
    """Which rows, and as what.

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
        if self.table not in catalog.TABLES:
            raise FleetError(f"there is no table {self.table}: tables are {', '.join(catalog.TABLES)}")
        self.to.check()


def show(request: ShowRequest, out: TextIO) -> None:
    """Writes the rows.

    Raises:
        FleetError: there is no such table, it has no column that was asked about, or it cannot be read.
    """
    table = catalog.TABLES[request.table]
    try:
        found = _Found(open_table(table, request.tables, storage_options(request.conf)))
        where = conditions(table, found.schema, request.selection, request.group_id)
        if request.to.form is Format.TABLE:
            form, order = text_form(found.schema, request.to.columns)
            latest = [*where, *found.latest(where, request.to.limit)]
            print_table(out, found.first(latest, order, request.to.limit), found.count(where), form=form)
        else:
            write_rows(Rows(schema=found.schema, batches=found.batches(found.query("*", where))), request.to, out)
    except (DeltaError, pa.ArrowException) as error:
        raise TableError(f"cannot read the table {table.name} in {request.tables}: {error}") from error


def open_table(table: catalog.Table, root: str, options: Mapping[str, str] | None = None) -> DeltaTable:
    """The table under `root`; `options` as for `fleet.tables.log.TableLog`.

    Raises:
        TableError: it is not there, or of an earlier release.
    """
    log = TableLog(table.path(root), options or {})
    if not log.exists():
        raise TableError(f"there is no table {table.name} in {root}: {table.made_by}")
    log.check_cluster(table.schema)
    return log.open()


class _Found:
    """A table that is there, and SQL of it."""

    def __init__(self, table: DeltaTable) -> None:
        self._engine = QueryBuilder().register("found", table)
        self._days = sorted(filter(None, (each.get(catalog.DATE) for each in table.partitions())))
        self.schema: Schema = pa.schema(table.schema().to_arrow())

    def query(self, what: str, where: Sequence[str], rest: str = "") -> str:
        """The statement; `where` is of `conditions`."""
        chosen = f"WHERE {' AND '.join(where)}" if where else ""
        return f"SELECT {what} FROM found {chosen} {rest}"  # noqa: S608  # names of columns, literals of `_literal`

    def batches(self, query: str, schema: Schema | None = None) -> Iterator[RecordBatch]:
        """The rows, in the types of the table's own schema."""
        schema = self.schema if schema is None else schema
        for batch in self._engine.execute(query):
            yield pa.record_batch(batch).cast(schema)

    def latest(self, where: Sequence[str], limit: int) -> list[str]:
        """A condition that the `limit` latest rows meet and few others, found in the column of times alone.

        That of all columns is read where it holds. The latest day is looked at first.
        """
        time = _time(self.schema)
        if time is None:
            return []
        order = f'ORDER BY "{time}" DESC NULLS LAST LIMIT {limit}'
        for within in [[f"{catalog.DATE} >= DATE '{day}'"] for day in self._days[-1:]] + [[]]:
            query = self.query(f'"{time}"', [*where, *within], order)
            times = [row for batch in self.batches(query, pa.schema([self.schema.field(time)])) for row in batch[time]]
            if len(times) == limit and times[-1].is_valid:
                return [f"{time} >= {_literal(times[-1].as_py())}", *within]
        return []

    def count(self, where: Sequence[str]) -> int:
        """How many rows meet it."""
        (batch,) = self.batches(self.query("count(*) AS rows", where), pa.schema([("rows", pa.int64())]))
        return int(batch.column("rows")[0].as_py())

    def first(self, where: Sequence[str], order: str, limit: int) -> list[dict[str, Any]]:
        """The first rows in that order."""
        found = self.batches(self.query("*", where, f"{order} LIMIT {limit}"))
        rows: list[dict[str, Any]] = pa.Table.from_batches(found, schema=self.schema).to_pylist()
        return rows


def conditions(table: catalog.Table, schema: Schema, selection: Selection, group_id: str | None = None) -> list[str]:
    """SQL of the rows that are asked for; files of other days are not read, and of other clients few.

    Raises:
        FleetError: the table has no such column.
    """
    found = []
    time = _time(schema)
    for bound, compare in ((selection.since, ">="), (selection.until, "<")):
        if bound is not None:
            found.append(f"{_asked(table, schema, time, 'times')} {compare} {_literal(bound)}")
            if table.dated:
                found.append(f"{catalog.DATE} {compare[0]}= DATE '{bound.date()}'")
    of_group = {} if group_id is None else {"group_id": [group_id]}
    for name, values in {**selection.ids, **of_group}.items():
        found.append(f"{_asked(table, schema, name, name)} IN ({', '.join(map(_literal, values))})")
    return found


def _time(schema: Schema) -> str | None:
    return next((name for name in _TIMES if name in schema.names), None)


def _literal(value: str | datetime) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value:%Y-%m-%dT%H:%M:%S.%f}Z'"
    return "'" + value.replace("'", "''") + "'"


def _asked(table: catalog.Table, schema: Schema, name: str | None, what: str) -> str:
    if name is None or name not in schema.names:
        raise FleetError(f"the table {table.name} has no {what} to select by")
    return name


def text_form(schema: Schema, wanted: str | None = None) -> tuple[TableForm, str]:
    """Every column that fits a terminal, or those that are wanted, as text; and SQL of the order, the latest first.

    Raises:
        OutputError: a wanted column is none.
    """
    shown = [each for each in schema if each.name not in _HIDDEN]
    time = _time(schema)
    times = [] if time is None else [f'"{time}" DESC NULLS LAST']
    rest = [f'"{each.name}" ASC NULLS FIRST' for each in shown if each.type in (pa.string(), pa.int32())]
    names = [each.name for each in shown]
    less = [name for name in _LEAST if name in names]
    least = (*less, *reversed([name for name in names if name not in less][_KEPT:]))
    columns = {each.name: _sent(each.name, each.type) for each in (shown if wanted is None else schema)}
    form = TableForm(columns=columns, least=least).only(wanted)
    return form, f"ORDER BY {', '.join((*times, *rest))}"


def _sent(name: str, kind: Any) -> Text:
    """A value as text; `not sent` for what the row's `unknown` names, which its library never sends."""
    text = _text(name, kind)
    return lambda row: "not sent" if name in (row.get("unknown") or ()) else text(row)


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
