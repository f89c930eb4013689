"""A landing zone read by pyarrow, in this process and in Spark's tasks: rows of files as BRONZE."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from pyarrow.fs import FileSystem

from fleetgauge.fleet.arrow import Array, RecordBatch, Schema, Table, pa, pc, pq
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.schemas import BRONZE, PUSH_RECORD
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.source.zone_files import LOCAL, has_pushes, is_of_days, list_here, opened, refuse_newer
from fleetgauge.fleet.tables.paths import local_path

RowsT = TypeVar("RowsT", RecordBatch, Table)

_ROWS_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Zone:
    """The files of a zone that a selection may have rows in.

    Attributes:
        source: its directory.
        files: paths, in their order.
        size_bytes: of these [B].
    """

    source: str
    files: Sequence[Path]
    size_bytes: int


def find_zone(source: str, selection: Selection) -> Zone:
    """Lists the files, without those of days outside the selection, and checks the columns of one.

    Raises:
        LandingError: the directory is missing, holds no Parquet file, or what it holds are no push records.
    """
    root = Path(source.removeprefix("file://"))
    names = [path for path in list_here(root, source) if has_pushes(path)]
    check_form(source, [root / name for name in names])
    chosen = [root / name for name in names if is_of_days(name, selection)]
    return Zone(source=source, files=chosen, size_bytes=sum(path.stat().st_size for path in chosen))


def check_form(
    source: str, files: Sequence[Path | str], system: FileSystem = LOCAL, content: bytes | None = None
) -> None:
    """Checks the columns of the first file, whose content may be given.

    Raises:
        LandingError: there is none, or what it holds are no push records.
    """
    if not files:
        raise LandingError(f"the landing zone at {source} has no pushes yet, or is another directory")
    with _readable(files[0], system, content) as file:
        schema = file.schema_arrow
        if fault := _fault_of(schema):
            if "schema_version" in schema.names and pa.types.is_integer(schema.field("schema_version").type):
                refuse_newer(source, pc.max(file.read(["schema_version"])[0]).as_py())
            raise LandingError(f"{source} holds no push records: its files have {fault}")


def _readable(path: Path | str, system: FileSystem, content: bytes | None) -> Any:
    """Opens a file; raises LandingError if it is damaged or missing, OSError if S3 does not answer."""
    try:
        file = opened(system, str(path)) if content is None else pa.BufferReader(content)
    except FileNotFoundError as error:
        raise _unreadable(path) from error
    try:
        return pq.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path) from error


def _unreadable(path: Path | str) -> LandingError:
    return LandingError(
        f"{path} cannot be read: remove it from the landing zone, or rename it so that its name begins with _"
    )


def _fault_of(schema: Schema) -> str | None:
    missing = [name for name in PUSH_RECORD.names if name not in schema.names]
    if missing:
        return f"no column {', '.join(missing)}"
    wrong = [field for field in PUSH_RECORD if not _reads_as(schema.field(field.name).type, field.type)]
    return ", ".join(f"{field.name} as {schema.field(field.name).type}" for field in wrong) or None


def _reads_as(kind: Any, wanted: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    is_narrower = wanted == pa.int32() and kind in (pa.int8(), pa.int16())
    is_time = pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted)
    return kind == wanted or is_narrower or is_time


def read(
    path: Path | str,
    selection: Selection,
    columns: Sequence[str] = tuple(PUSH_RECORD.names),
    system: FileSystem = LOCAL,
    content: bytes | None = None,
) -> Iterator[RecordBatch]:
    """Selected rows of a file as BRONZE, a thousand at a time; columns that are not named are null.

    Row groups outside the selected time are not read; nothing is, of the file system, where the content is given.

    Raises:
        LandingError: it cannot be read.
        OSError: S3 does not answer.
    """
    here = local_path(str(path))
    source_file = str(path) if here is None else f"file:{quote(str(here), safe=_UNQUOTED)}"
    with _readable(path, system, content) as file:
        present = [name for name in file.schema_arrow.names if name in columns]
        try:
            begin = 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if _may_have(file, group, selection):
                    at = begin
                    for batch in file.iter_batches(_ROWS_AT_ONCE, row_groups=[group], columns=present):
                        yield selected(_bronze(batch, source_file, at), selection)
                        at += batch.num_rows
                begin += rows
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path) from error


_UNQUOTED: Final = "/=:@!$&'()*+,;~"
"""Characters, besides letters and digits, that Hadoop does not quote in the URI of a file."""


def _may_have(file: Any, group: int, selection: Selection) -> bool:
    rows = file.metadata.row_group(group)
    columns = (rows.column(number) for number in range(rows.num_columns))  # of leaves, not of top-level fields
    statistics = next((column.statistics for column in columns if column.path_in_schema == "received_at"), None)
    if statistics is None or not statistics.has_min_max or getattr(statistics.max, "tzinfo", None) is None:
        return True
    is_late = selection.since is not None and statistics.max < selection.since
    is_early = selection.until is not None and statistics.min >= selection.until
    return not is_late and not is_early


def _bronze(batch: RecordBatch, source_file: str, begin: int) -> RecordBatch:
    rows = batch.num_rows
    own: dict[str, Array] = {
        "source_file": pa.repeat(source_file, rows),
        "source_row": pa.array(range(begin, begin + rows), pa.int64()),
    }
    columns: list[Array] = []
    for field in BRONZE:
        column = batch.column(field.name) if field.name in batch.schema.names else own.get(field.name)
        columns.append(pa.nulls(rows, field.type) if column is None else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=BRONZE)


def selected(rows: RowsT, selection: Selection, time: str = "received_at") -> RowsT:
    """Rows within the selection, by this column of times."""
    times = rows[time]
    conditions = []
    if selection.since is not None:
        conditions.append(pc.greater_equal(times, pa.scalar(selection.since, times.type)))
    if selection.until is not None:
        conditions.append(pc.less(times, pa.scalar(selection.until, times.type)))
    for name, values in selection.ids.items():
        conditions.append(pc.is_in(rows[name], value_set=pa.array(list(values), pa.string())))
    for condition in conditions[1:]:
        conditions[0] = pc.and_(conditions[0], condition)
    return rows.filter(conditions[0]) if conditions else rows
