"""`fleet show`: rows of a standing table, for whoever has no Spark code at hand."""

from dataclasses import dataclass
from typing import Final, TextIO

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.errors import FleetError
from fleet.report.form import Format, check_columns
from fleet.report.output import print_table, take_first, write_path, write_stream
from fleet.report.tables import TableForm
from fleet.selection import Selection
from fleet.tables import catalog, delta
from fleet.tables.paths import qualified
from fleet.tables.store import Store

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
        "series_key",
        "connections",
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
        tables: root of the tables.
        selection: of rows; times are those of receipt, of the window's beginning, when a client was last seen,
            or when an alert opened.
        group_id: only of this consumer group.
        form: what rows are written as.
        output: directory to write to; None is stdout.
        limit: rows of a table of text.
        columns: of a table of text, as `--columns` names them; None is those that fit.
    """

    table: str
    tables: str
    selection: Selection
    group_id: str | None
    form: Format
    output: str | None
    limit: int
    columns: str | None = None

    def __post_init__(self) -> None:
        if self.table not in catalog.SHOWN:
            raise FleetError(f"there is no table {self.table}: tables are {', '.join(catalog.SHOWN)}")
        if self.form is Format.PARQUET and self.output is None:
            raise FleetError("Parquet needs a directory to be written to: add --output PATH")
        if self.form is Format.TABLE and self.output is not None:
            raise FleetError("a table goes to the terminal: with --output add --format json, csv or parquet")
        check_columns(self.form, self.columns)


def show(spark: SparkSession, request: ShowRequest, out: TextIO) -> None:
    """Writes the rows.

    Raises:
        FleetError: there is no such table, or it has no column that was asked about.
    """
    delta.check_session(spark)
    table = catalog.SHOWN[request.table]
    rows = Store(spark, qualified(request.tables)).read(table)
    frame = select(table, rows, request.selection, request.group_id)
    if request.output is not None:
        write_path(frame, request.form, request.output)
    elif request.form is Format.TABLE:
        form = text_form(frame, request.columns)
        first, total = take_first(frame, form, request.limit)
        print_table(out, first, form, total)
    else:
        write_stream(frame, request.form, out)


def select(table: catalog.Table, frame: DataFrame, selection: Selection, group_id: str | None = None) -> DataFrame:
    """The rows that are asked for; files of other days are not read, and of other clients few.

    Raises:
        FleetError: the table has no such column.
    """
    time = next((name for name in _TIMES if name in frame.columns), None)
    for bound, compare in ((selection.since, "__ge__"), (selection.until, "__lt__")):
        if bound is None:
            continue
        column = _asked(table, frame, time, "times")
        frame = frame.where(getattr(column, compare)(F.lit(bound)))
        if table.dated:
            day = F.lit(bound.date())
            frame = frame.where(F.col(catalog.DATE) >= day if bound is selection.since else F.col(catalog.DATE) <= day)
    wanted = {
        "client_id": list(selection.client_ids),
        "client_instance_id": list(selection.instance_ids),
        "group_id": [] if group_id is None else [group_id],
    }
    for name, values in wanted.items():
        if values:
            frame = frame.where(_asked(table, frame, name, name).isin(values))
    return frame


def _asked(table: catalog.Table, frame: DataFrame, name: str | None, what: str) -> Column:
    if name is None or name not in frame.columns:
        raise FleetError(f"the table {table.name} has no {what} to select by")
    return F.col(name)


def text_form(frame: DataFrame, wanted: str | None = None) -> TableForm:
    """Every column that fits a terminal, or those that are wanted, as text, the latest rows first.

    Raises:
        OutputError: a wanted column is none.
    """
    shown = [field for field in frame.schema.fields if field.name not in _HIDDEN]
    times = [F.desc_nulls_last(name) for name in _TIMES if name in frame.columns][:1]
    rest = [F.asc(field.name) for field in shown if isinstance(field.dataType, T.StringType | T.IntegerType)]
    names = [field.name for field in shown]
    less = [name for name in _LEAST if name in names]
    least = (*less, *reversed([name for name in names if name not in less][_KEPT:]))
    columns = {field.name: _text(field) for field in (shown if wanted is None else frame.schema.fields)}
    return TableForm(columns=columns, order=(*times, *rest), least=least).only(wanted)


def _text(field: T.StructField) -> Column:
    column = F.col(field.name)
    match field.dataType:
        case T.TimestampType():
            return F.date_format(column, "yyyy-MM-dd HH:mm:ss")
        case T.DoubleType():
            return F.format_number(column, 3)
        case T.LongType():
            return F.format_number(column, 0)
        case T.ArrayType() | T.MapType() | T.StructType():
            return F.to_json(column)
    return column.cast("string")
