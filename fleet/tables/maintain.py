"""Compaction and retention: what keeps standing tables quick and bounded, all of it Delta's own."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from fleet.tables import catalog, delta
from fleet.tables.store import Store

SMALL_FILE_BYTES: Final = 64 * 1024 * 1024
"""A day (or a table without days) with two files smaller than this is written anew."""

VACUUM_AFTER_HOURS: Final = 7 * 24
"""How long files that were replaced stay [h]: for readers that began before, and for time travel (Delta's default)."""


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
    spark, path = store.spark, table.path(store.root)
    log = store.log(table)
    before = log.size().files
    stage(f"{table.name}: retention")
    deleted = _delete_old(spark, table, path, keep_from)
    stage(f"{table.name}: compaction")
    _compact(store, table)
    stage(f"{table.name}: vacuum")
    delta.vacuum(spark, path, vacuum_after_hours)
    after = log.size()
    return Upkeep(files_before=before, files=after.files, size_bytes=after.size_bytes, deleted=deleted)


def _delete_old(spark: SparkSession, table: catalog.Table, path: str, keep_from: datetime | None) -> int:
    if keep_from is None:
        return 0
    if table.dated:
        return delta.delete(spark, path, f"{catalog.DATE} < DATE'{keep_from:%Y-%m-%d}'")
    if table.seen_at is not None:
        return delta.delete(spark, path, f"{table.seen_at} < TIMESTAMP'{keep_from:%Y-%m-%d} 00:00:00'")
    return 0


def _compact(store: Store, table: catalog.Table) -> None:
    scattered = [day for day, files in store.log(table).small_files(SMALL_FILE_BYTES).items() if files > 1]
    if not scattered:
        return
    where = None
    if table.dated:
        days = ", ".join(f"DATE'{day}'" for day in scattered if day is not None)
        named = [f"{catalog.DATE} IN ({days})"] if days else []
        where = " OR ".join(named + ([f"{catalog.DATE} IS NULL"] if None in scattered else []))
    delta.compact(store.spark, table.path(store.root), clustered_by=table.clustered_by, where=where)
