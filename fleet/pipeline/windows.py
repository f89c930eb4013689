"""Wide rows of whole days written anew: the partial ones of a window as one, or all of them from points.

Tasks write files of a few clients' rows at a time, and one commit puts these in place of the days' old ones.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from fleet import shards
from fleet.decode.arrow import Table
from fleet.engine import Engine
from fleet.measures.aggregate import aggregate
from fleet.measures.merge import merge
from fleet.pipeline.spans import of_days
from fleet.pipeline.standing import Standing
from fleet.tables import catalog
from fleet.tables.parquet_files import WriteFiles
from fleet.tables.store import Store
from fleet.tables.written_file import WrittenFile

_POINTS_AT_ONCE: Final = 1_000_000
_DAY: Final = "partition.date"


def merge_windows(store: Store, engine: Engine, days: Iterable[date], rows_at_once: int = shards.ROWS_AT_ONCE) -> None:
    """Makes the partial rows of each client, link and topic in a window one, in all windows of these days.

    What gold and the verdicts read of them stays the same. Done in one commit; no other run may write meanwhile.

    Args:
        store: the tables.
        engine: runs the tasks.
        days: of receipt (UTC).
        rows_at_once: that a task holds about.
    """
    _write_anew(store, engine, days, catalog.WINDOWS, _Merged(), rows_at_once)


def remake_windows(
    store: Store, engine: Engine, days: Iterable[date], window_s: int, rows_at_once: int = _POINTS_AT_ONCE
) -> None:
    """Makes all wide rows of these days again, from their points, in windows of `window_s` [s]; otherwise the same."""
    _write_anew(store, engine, days, catalog.POINTS, _OfPoints(window_s), rows_at_once)


@dataclass(frozen=True, slots=True)
class _Merged:
    def __call__(self, rows: Table) -> Table:
        return merge([rows])


@dataclass(frozen=True, slots=True)
class _OfPoints:
    window_s: int

    def __call__(self, rows: Table) -> Table:
        return aggregate(rows, self.window_s)


def _write_anew(
    store: Store,
    engine: Engine,
    days: Iterable[date],
    source: catalog.Table,
    make: Callable[[Table], Table],
    rows_at_once: int,
) -> None:
    rows = dict.fromkeys(days, 0)
    given = Standing.of(store, source)
    for file in given.files:
        if file[_DAY] in rows:
            rows[file[_DAY]] += file["num_records"]
    parts = [
        (day, ranges)
        for day, count in sorted(rows.items())
        if count
        for ranges in shards.divided(count, engine.parts, rows_at_once)
    ]
    task = _WriteAnew(source=given, make=make, to=store.files_of(catalog.WINDOWS))
    made = [file for files in engine.map(task, parts) for file in files]
    old = [file["path"] for file in Standing.of(store, catalog.WINDOWS).files if file[_DAY] in rows]
    store.change(catalog.WINDOWS, add=made, remove=old)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WriteAnew:
    """The wide rows of some clients and a day."""

    source: Standing
    make: Callable[[Table], Table]
    to: WriteFiles

    def __call__(self, part: tuple[date, list[shards.Part]]) -> list[WrittenFile]:
        day, ranges = part
        # No measure reads a distribution or all attributes, which most of a point's memory goes to.
        left_out = {"distribution", "attributes", "resource"}
        columns = [name for name in self.source.schema.names if name not in left_out]
        with self.to.open() as writer:
            for each in ranges:
                rows = self.source.table(of_days([day]) & shards.within(each), columns)
                for batch in self.make(rows).to_batches():
                    writer.write(batch)
            writer.finish()
            return writer.take_finished()
