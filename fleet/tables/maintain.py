"""Compaction and retention: what keeps standing tables quick and bounded."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

from fleet.decode.arrow import pa, pc
from fleet.errors import TableError
from fleet.measures.merge import merge
from fleet.tables import catalog
from fleet.tables.log import Snapshot
from fleet.tables.store import Store

SMALL_FILE_BYTES: Final = 64 * 1024 * 1024
"""A day (or a table without days) with two files smaller than this is written anew."""

VACUUM_AFTER_HOURS: Final = 7 * 24
"""How long files that were replaced stay [h]: for readers that began before, and for time travel (Delta's default)."""

_SORTED_BYTES: Final = 256 * 1024 * 1024
"""Rows that are sorted together in memory, in Arrow's [B]; those of one client are, however many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """What was done to one table: files before and after, rows that were too old, and bytes that it has by now."""

    files_before: int
    files: int
    size_bytes: int
    deleted: int


def maintain(
    store: Store, *, keep_from: datetime | None, vacuum_after_hours: int, stage: Callable[[str], None]
) -> dict[str, Upkeep]:
    """Deletes what is too old, compacts what lies in small files, and removes files that nothing needs any more.

    Args:
        store: the tables.
        keep_from: rows of earlier days, and clients last seen before that day, go; None keeps every row.
        vacuum_after_hours: age of files that were replaced, from which on they go [h].
        stage: told what is being done.

    Raises:
        CommitFailedError: another writer changed the same files meanwhile.
    """
    return {
        table.name: _maintain(store, table, keep_from, vacuum_after_hours, stage)
        for table in catalog.TABLES.values()
        if store.has(table)
    }


def _maintain(
    store: Store,
    table: catalog.Table,
    keep_from: datetime | None,
    vacuum_after_hours: int,
    stage: Callable[[str], None],
) -> Upkeep:
    log = store.log(table)
    before = log.size()
    stage(f"{table.name}: retention")
    if (too_old := _too_old(table, keep_from)) is not None:
        log.delete(too_old)
    deleted = before.rows - log.size().rows
    stage(f"{table.name}: compaction")
    small = log.small_files(SMALL_FILE_BYTES) if table is not catalog.SERIES else {}  # which a run writes by shards
    scattered = [day for day, files in small.items() if files > 1]
    if scattered and not table.clustered_by:
        log.compact(SMALL_FILE_BYTES)
    elif table.clustered_by:
        for day in scattered:
            _write_sorted(store, table, day)
    stage(f"{table.name}: vacuum")
    log.vacuum(vacuum_after_hours)
    after = log.size()
    return Upkeep(files_before=before.files, files=after.files, size_bytes=after.size_bytes, deleted=deleted)


def _too_old(table: catalog.Table, keep_from: datetime | None) -> str | None:
    """SQL of the rows; None where none is."""
    if keep_from is None:
        return None
    if table.dated:
        return f"{catalog.DATE} < DATE '{keep_from:%Y-%m-%d}'"
    return table.seen_at and f"{table.seen_at} < '{keep_from:%Y-%m-%d}T00:00:00Z'"


def _write_sorted(store: Store, table: catalog.Table, day: date | None) -> None:
    """Writes the rows of a day (or of a table without days) anew, those of one client together.

    Of `windows`, to which each batch adds rows of the windows that it meets, these become one.

    delta-rs has Z-order for it, which holds all rows of the day in memory at once: 6.5 GB for files of 1 GB.
    """
    log = store.log(table)
    files = log.files().to_pylist()
    old = [file for file in files if not table.dated or file[f"partition.{catalog.DATE}"] == day]
    rows, of_day = log.snapshot(), _of_day(table, day)
    order = [(column, "ascending", "at_start") for column in table.indexed]
    read = 0
    with store.files_of(table).open() as writer:
        for part in _parts(rows, table.clustered_by[0], of_day):
            found = pa.Table.from_batches(rows.scan(table.schema.names, of_day & part), schema=table.schema)
            read += found.num_rows
            if table is catalog.WINDOWS:
                found = merge([found])
            for batch in found.take(pc.sort_indices(found, sort_keys=order)).combine_chunks().to_batches():
                writer.write(batch)
        writer.finish()
        if read != sum(file["num_records"] for file in old):
            raise TableError(f"the table {table.name} in {store.root} has other rows than its log counts")
        paths = [file["path"] for file in old]
        log.change(writer.take_finished(), paths, is_new=table is catalog.WINDOWS)


def _of_day(table: catalog.Table, day: date | None) -> Any:
    if not table.dated:
        return pc.scalar(True)
    return pc.field(catalog.DATE).is_null() if day is None else pc.field(catalog.DATE) == pa.scalar(day)


def _parts(rows: Snapshot, key: str, of_day: Any) -> Iterator[Any]:
    """Conditions that divide the rows by the values of a column, in their order; nulls are with the first."""
    counts: Counter[str] = Counter()
    for batch in rows.scan([key], of_day):
        for found in pc.value_counts(batch.column(key).drop_null()).to_pylist():
            counts[found["values"]] += found["counts"]
    at_once = _SORTED_BYTES // _row_bytes(rows, of_day)
    column, low, waiting = pc.field(key), pc.scalar(True), 0
    above = column.is_null()
    for value in sorted(counts):
        if waiting and waiting + counts[value] > at_once:
            yield above | (low & (column < value))
            above, low, waiting = pc.scalar(False), column >= value, 0
        waiting += counts[value]
    yield above | low


def _row_bytes(rows: Snapshot, of_day: Any) -> int:
    """Of a row in Arrow's memory, as the first of them are."""
    first = next((batch for batch in rows.scan(None, of_day) if batch.num_rows), None)
    return 1 if first is None else max(1, first.nbytes // first.num_rows)
