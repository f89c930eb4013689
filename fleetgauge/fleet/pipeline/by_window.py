"""Rows for the judge, one window at a time, so that memory grows only with the clients of one window.

Files of one run have a window or two, and are read window by window. Compaction makes files of a day that are sorted by
clients: to read one window of such a file is to read all of it. Those are read once for many hours, some clients after
others, and put on disk by their windows.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import Table, conformed, pa, pc
from fleetgauge.fleet.measures.catalogue import LAG_RECORDS
from fleetgauge.fleet.measures.merge import are_merged, merge
from fleetgauge.fleet.measures.rows import IDENTITY, KEY, LAG_COLUMNS, ROWS, one
from fleetgauge.fleet.measures.values import Wide
from fleetgauge.fleet.pipeline.spans import Span, rows_within, within
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.verdicts.window import COLUMNS, MEASURES

Files: TypeAlias = list[dict[str, Any]]

ROWS_IN_MEMORY: Final = 200_000
"""Rows of `windows` that are read at once without a temporary file; about 1 kB each."""


def _sources(columns: Collection[str]) -> tuple[str, ...]:
    """Columns of ROWS that some of the judge's columns are computed from."""
    names = {"date", *KEY, *columns}
    if not names.isdisjoint(IDENTITY):
        names.add("seen_push_id")
    if LAG_RECORDS in columns:
        names |= set(LAG_COLUMNS)
    for name in columns:
        names |= {f"{name}_sum", f"{name}_count", f"{name}_at"}
    return tuple(name for name in ROWS.names if name in names)


SOURCES: Final = _sources(COLUMNS)
"""The columns of ROWS that `judged_of` reads."""
_SOURCES: Final = pa.schema([ROWS.field(name) for name in SOURCES])
_NUMBER: Final = pa.float64()


def judged_rows(rows: Snapshot, where: Any, columns: Collection[str] = COLUMNS) -> Table:
    """`verdicts.window.COLUMNS` of the rows of WINDOWS that meet a `pyarrow.compute.Expression`.

    Args:
        rows: the table.
        where: the condition.
        columns: those that are read beside KEY; the others are null.
    """
    return judged_of(rows.table(_sources(columns), where), columns)


def judged_of(partials: Table, columns: Collection[str] = COLUMNS) -> Table:
    """Partial ROWS -> `verdicts.window.COLUMNS`; missing columns count as null, as do measures that are not named."""
    column_of = {name: one(partials[name]) for name in partials.schema.names}
    is_merged = are_merged(column_of)  # as mostly: then the columns that are not read need not be made
    rows = conformed(_SOURCES if is_merged else ROWS, column_of, partials.num_rows)
    given = Wide(rows if is_merged else merge([rows]))
    judged: dict[str, Any] = {name: given.rows[name] for name in COLUMNS if name not in MEASURES}
    judged |= {name: given.value(name) if name in columns else pa.nulls(len(given), _NUMBER) for name in MEASURES}
    return pa.table(judged)


@contextmanager
def by_window(
    rows: Snapshot, files: Files, span: Span, window_s: int, where: Any, *, most_times: int = 3, row_group: int = 16_000
) -> Iterator[Iterator[Table]]:
    """Rows of `judged_rows` in order of time: tables of whole windows; one window per table where rows are many.

    Args:
        rows: of WINDOWS.
        files: its files, as `Store.files` has them.
        span: where the windows begin.
        window_s: their length [s]; others are left out.
        where: condition for the rows, a `pyarrow.compute.Expression`.
        most_times: files are read window by window up to so many times in all, before their rows are put on disk.
        row_group: rows of a row group, about: of a narrower range of clients a file's rows are read in vain.

    Raises:
        OSError: the temporary directory cannot be written.
    """
    window = timedelta(seconds=window_s)
    files = [file for file in files if file["min.window_start"] is not None and _meets(span, file)]
    count = rows_within(files, [span], window_s)
    if count <= ROWS_IN_MEMORY:
        yield iter([judged_rows(rows, _where(span, window_s) & where)])
        return
    spans = [(at, min(at + window, span[1])) for at in _starts(span, window)]
    read_once = sum(file["num_records"] for file in files)
    if sum(file["num_records"] for each in spans for file in files if _meets(each, file)) <= most_times * read_once:
        yield (
            _one_window(rows, _where(each, window_s) & where, rows_within(files, [each], window_s)) for each in spans
        )
        return
    with TemporaryDirectory(prefix="fleetgauge-judge-") as directory:
        for part in shards.parts(min(-(-count // shards.ROWS_AT_ONCE), read_once // (len(files) * row_group))):
            _append(judged_rows(rows, _where(span, window_s) & where & shards.within(part)), Path(directory))
        yield (_read(path) for path in sorted(Path(directory).iterdir()))


def _starts(span: Span, window: timedelta) -> list[datetime]:
    return [span[0] + number * window for number in range(-((span[0] - span[1]) // window))]


def _meets(span: Span, file: dict[str, Any]) -> bool:
    return bool(file["min.window_start"] < span[1] and file["max.window_start"] >= span[0])


def _where(span: Span, window_s: int) -> Any:
    return within([span], "window_start") & (pc.field("window_s") == window_s) & pc.field("topic").is_null()


def _one_window(rows: Snapshot, where: Any, count: int) -> Table:
    parts = shards.parts(-(-count // ROWS_IN_MEMORY))
    return pa.concat_tables([judged_rows(rows, where & shards.within(part)) for part in parts])


_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def _append(rows: Table, directory: Path) -> None:
    """Appends rows to the files of their windows, as one Arrow stream each time: there may be too many windows to keep
    open.
    """
    rows = rows.sort_by("window_start").combine_chunks()
    runs = pc.run_end_encode(rows["window_start"].combine_chunks())
    begin = 0
    for start, end in zip(runs.values.cast(pa.int64()).to_pylist(), runs.run_ends.to_pylist(), strict=True):
        with (
            (directory / f"{start:020d}").open("ab") as sink,
            pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as to,
        ):
            to.write_table(rows.slice(begin, end - begin))
        begin = end


def _read(path: Path) -> Table:
    tables = []
    with pa.OSFile(str(path), "rb") as source:
        while source.tell() < source.size():
            with pa.ipc.open_stream(source) as stream:
                tables.append(stream.read_all())
    path.unlink()
    return pa.concat_tables(tables)
