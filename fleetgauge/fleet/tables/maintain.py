"""Compaction and retention, which keep the tables fast and bounded."""

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fleetgauge.fleet.arrow import Table, pa, pc
from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.store import Store

SMALL_FILE_BYTES: Final = 64 * 1024 * 1024
"""A day (or a table without days) with two files below this size is rewritten."""

_MAX_PARTS: Final = 500
"""Most files open at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """Result for one table: files before and after, deleted rows, and size in bytes."""

    files_before: int
    files: int
    size_bytes: int
    deleted: int


def maintain(
    store: Store,
    *,
    keep_from: datetime | None,
    vacuum_after_hours: int,
    stage: Callable[[str], None],
    keep_files_of: Collection[catalog.Table] = (),
) -> dict[str, Upkeep]:
    """Deletes old rows, compacts small files, and removes files that are no longer needed.

    Tables of an earlier release get their descriptions and comments.

    Args:
        store: the tables.
        keep_from: rows of earlier days, and clients last seen before that day, go; None keeps every row.
        vacuum_after_hours: age of files that were replaced, from which on they go [h].
        stage: called with the current step.
        keep_files_of: tables whose replaced files are not removed, however old.

    Raises:
        CommitFailedError: another writer changed the same files meanwhile.
    """
    return {
        table.name: _maintain(store, table, keep_from, None if table in keep_files_of else vacuum_after_hours, stage)
        for table in catalog.TABLES.values()
        if store.has(table)
    }


def _maintain(
    store: Store,
    table: catalog.Table,
    keep_from: datetime | None,
    vacuum_after_hours: int | None,
    stage: Callable[[str], None],
) -> Upkeep:
    log = store.log(table)
    before = log.size()
    log.describe(table.layout)
    stage(f"{table.name}: retention")
    if keep_from is not None:
        _delete_old(store, table, keep_from)
    deleted = before.rows - log.size().rows
    stage(f"{table.name}: compaction")
    if table is not catalog.SERIES:  # a run writes the file of each shard of clients anew as a whole
        for day in [day for day, files in log.small_files(SMALL_FILE_BYTES).items() if files > 1]:
            _compact(store, table, day)
    if vacuum_after_hours is not None:
        stage(f"{table.name}: vacuum")
        log.vacuum(vacuum_after_hours)
    after = log.size()
    return Upkeep(files_before=before.files, files=after.files, size_bytes=after.size_bytes, deleted=deleted)


def _delete_old(store: Store, table: catalog.Table, keep_from: datetime) -> None:
    log = store.log(table)
    if table.dated:
        log.delete(f"{catalog.DATE} < DATE '{keep_from:%Y-%m-%d}'")
    elif table.seen_at is not None:
        midnight = keep_from.replace(hour=0, minute=0, second=0, microsecond=0)
        least = f"min.{table.seen_at}"
        old = [file["path"] for file in log.files().to_pylist() if (file.get(least) or midnight) < midnight]
        seen = pc.field(table.seen_at)
        rows = log.snapshot()
        with store.files_of(table).open() as writer:
            for path in old:
                for batch in rows.scan(table.schema.names, seen.is_null() | (seen >= midnight), [path]):
                    writer.write(batch.cast(table.schema))
                writer.finish()  # a file stays one of its clients alone
            log.change(writer.take_finished(), old)


def _compact(store: Store, table: catalog.Table, day: date | None) -> None:
    """Rewrites the rows of a day (or of a table without days), with those of one client together.

    Of `windows`, to which each batch adds rows of the windows that it meets, these become one.

    What delta-rs has for it is not used: its Z-order takes 6.5 GB of memory for files of 1 GB, and fails where it is
    given too little; its compaction writes texts as Arrow's views, which filters of pyarrow's readers do not know.
    """
    log = store.log(table)
    files = log.files().to_pylist()
    old = [file for file in files if not table.dated or file[f"partition.{catalog.DATE}"] == day]
    paths = [file["path"] for file in old]
    read = 0
    target = store.files_of(table)
    with TemporaryDirectory(prefix="fleetgauge-") as scratch, target.open() as writer:
        for part in _parts(log.snapshot(), table, paths, Path(scratch), target.limits.part_bytes):
            read += part.num_rows
            writer.write_table(_in_order(store, table, part).combine_chunks())
        if read != sum(file["num_records"] for file in old):
            raise TableError(f"the table {table.name} in {store.root} has other rows than its log counts")
        log.change(writer.take_all(), paths, is_new=table is catalog.WINDOWS)


def _in_order(store: Store, table: catalog.Table, part: Table) -> Table:
    if not table.clustered_by:
        return part
    if table is catalog.WINDOWS:
        part = merge([part])
    elif table is catalog.LEDGER:
        part = _needed(store, part)
    return part.take(pc.sort_indices(part, sort_keys=[(name, "ascending", "at_start") for name in table.indexed]))


def _needed(store: Store, ledger: Table) -> Table:
    """The last row of each file or partition, which covers the earlier ones; none for days that the latest listing of
    the landing zone no longer has.
    """
    by, others = ["source", "app_id", "path"], ["batch_id", "begin", "end"]
    rows = ledger.sort_by([(name, "ascending") for name in (*by, "batch_id", "end")]).group_by(by, use_threads=False)
    last_rows = rows.aggregate([(name, "last") for name in others]).rename_columns([*by, *others])
    first_days: dict[str, str] = {}
    for row in store.rows(catalog.FOLDERS):
        day = row["folder"].partition("/")[0]
        if day.startswith(f"{catalog.DATE}="):
            first_days[row["source"]] = min(day, first_days.get(row["source"], day))
    for source, day in first_days.items():
        path = pc.field("path")
        is_gone = (pc.field("source") == source) & (path >= f"{catalog.DATE}=") & (path < day)
        last_rows = last_rows.filter(~is_gone)
    return last_rows.select(ledger.column_names)


def _parts(rows: Snapshot, table: catalog.Table, paths: list[str], scratch: Path, part_bytes: int) -> Iterator[Table]:
    """Rows of files, divided by clients in order: one part is in memory at a time, and each file is read once.

    The ledger, of which one source may have nearly all rows, is divided by folders of the landing zone.
    """
    batches = (batch.cast(table.schema) for batch in rows.scan(table.schema.names, paths=paths))
    if not table.clustered_by:
        yield from (pa.Table.from_batches([batch]) for batch in batches)
        return
    key = "path" if table is catalog.LEDGER else table.clustered_by[0]
    bounds = _bounds(rows, key, paths, part_bytes)
    with ExitStack() as opened:
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        parts = [
            opened.enter_context(pa.ipc.new_file(str(scratch / f"{part}"), table.schema, options=options))
            for part in range(len(bounds) + 1)
        ]
        for batch in batches:
            values = pc.dictionary_encode(batch.column(key), null_encoding="encode")
            part_of = [0 if value is None else bisect(bounds, value) for value in values.dictionary.to_pylist()]
            of_row = pa.array(part_of, pa.int32()).take(values.indices)
            for part in sorted(set(part_of)):
                parts[part].write_batch(batch.filter(pc.equal(of_row, part)))
    for part in range(len(bounds) + 1):
        yield pa.ipc.open_file(str(scratch / f"{part}")).read_all()
        (scratch / f"{part}").unlink()


def _bounds(rows: Snapshot, key: str, paths: list[str], part_bytes: int) -> list[str]:
    """Values of the column at which parts of about `part_bytes` begin, except the first."""
    counts: Counter[str] = Counter()
    for batch in rows.scan([key], paths=paths):
        values = batch.column(key).drop_null()
        if key == "path":  # a folder sorts before its files
            values = pc.replace_substring_regex(values, "/[^/]*$", "")
        for counted in pc.value_counts(values).to_pylist():
            counts[counted["values"]] += counted["counts"]
    at_once = max(part_bytes // _row_bytes(rows, paths), counts.total() // _MAX_PARTS)
    bounds, waiting = [], 0
    for value in sorted(counts):
        if waiting and waiting + counts[value] > at_once:
            bounds.append(value)
            waiting = 0
        waiting += counts[value]
    return bounds


def _row_bytes(rows: Snapshot, paths: list[str]) -> int:
    """Average size of a row in Arrow's memory, measured on the first rows."""
    first = next((batch for batch in rows.scan(paths=paths) if batch.num_rows), None)
    return 1 if first is None else max(1, first.nbytes // first.num_rows)
