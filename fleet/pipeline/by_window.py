"""Judged rows, one window at a time.

The files of `windows` are sorted by clients, so that to read one window of a day's file is to read all of it. Hence
many hours are read at once, some clients after others, and put on disk by their windows: what is in memory grows with
the clients of one window, however long the span.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from fleet import shards
from fleet.decode.arrow import Table, pa, pc
from fleet.measures.merge import merge
from fleet.measures.rows import KEY, LAG_COLUMNS, ROWS, one
from fleet.measures.values import Wide, conformed
from fleet.tables.log import Snapshot
from verdicts.window import COLUMNS, MEASURES

ROWS_IN_MEMORY: Final = 200_000
"""Rows of `windows` that are read at once without being put on disk; about 1 kB each."""


def _sources() -> tuple[str, ...]:
    """The columns of ROWS that the judge's are made of."""
    names = {"date", *KEY, *LAG_COLUMNS, "seen_push_id", "group_id_at", *COLUMNS}
    for name in MEASURES:
        names |= {f"{name}_sum", f"{name}_count", f"{name}_at"}
    return tuple(name for name in ROWS.names if name in names)


_SOURCES: Final = _sources()


def judged_rows(rows: Snapshot, where: Any) -> Table:
    """`verdicts.window.COLUMNS` of the rows of WINDOWS that meet a `pyarrow.compute.Expression`."""
    found = rows.table(_SOURCES, where)
    merged = merge([conformed(ROWS, {name: one(found[name]) for name in _SOURCES}, found.num_rows)])
    given = Wide(merged)
    columns: dict[str, Any] = {name: given.rows[name] for name in COLUMNS if name not in MEASURES}
    columns |= {name: given.value(name) for name in MEASURES}
    return pa.table(columns)


@contextmanager
def by_window(rows: Snapshot, where: Any, count: int) -> Iterator[Iterator[Table]]:
    """`judged_rows` in the order of their times: tables of whole windows, of one each where rows are many.

    Args:
        rows: of WINDOWS.
        where: the condition that they meet.
        count: about how many these are.

    Raises:
        OSError: the temporary directory cannot be written.
    """
    if count <= ROWS_IN_MEMORY:
        yield iter([judged_rows(rows, where)])
        return
    with TemporaryDirectory(prefix="fleetgauge-judge-") as directory:
        for part in shards.parts(-(-count // shards.ROWS_AT_ONCE)):
            _append(judged_rows(rows, where & shards.within(part)), Path(directory))
        yield (_read(path) for path in sorted(Path(directory).iterdir()))


_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def _append(rows: Table, directory: Path) -> None:
    """Adds rows to the files of their windows, a stream of Arrow each time: there may be many windows to keep open."""
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
    with pa.OSFile(str(path)) as source:
        while source.tell() < source.size():
            with pa.ipc.open_stream(source) as stream:
                tables.append(stream.read_all())
    path.unlink()
    return pa.concat_tables(tables)
