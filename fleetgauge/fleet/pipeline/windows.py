"""Wide rows of whole days, computed again from their points and empty pushes.

Tasks write files of a few clients' rows at a time, and one commit puts these in place of the days' old ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import pc
from fleetgauge.fleet.engines.engine import Engine
from fleetgauge.fleet.measures.aggregate import aggregate, presence
from fleetgauge.fleet.pipeline.spans import of_days
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.parquet_files import WriteFiles
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import WrittenFile

_POINTS_AT_ONCE: Final = 1_000_000

_COLUMNS: Final = tuple(
    name for name in catalog.POINTS.schema.names if name not in ("distribution", "attributes", "resource")
)
"""Columns that measures do not read; they take most of a point's memory."""


def remake_windows(
    store: Store, engine: Engine, days: Iterable[date], window_s: int, rows_at_once: int = _POINTS_AT_ONCE
) -> None:
    """Replaces all wide rows of some days.

    Args:
        store: the tables.
        engine: runs the tasks.
        days: of receipt (UTC).
        window_s: length of the windows [s].
        rows_at_once: points and pushes that a task holds about.
    """
    count = dict.fromkeys(days, 0)
    for table in (catalog.POINTS, catalog.PUSHES):
        for file in store.files(table, count):
            count[file["partition.date"]] += file["num_records"]
    parts = [
        (day, ranges)
        for day, rows in sorted(count.items())
        if rows
        for ranges in shards.divided(rows, engine.parts, rows_at_once)
    ]
    points, pushes = store.snapshot(catalog.POINTS), store.snapshot(catalog.PUSHES)
    task = _OfDay(points=points, pushes=pushes, window_s=window_s, to=store.files_of(catalog.WINDOWS))
    written = [file for files in engine.map(task, parts) for file in files]
    old = store.files(catalog.WINDOWS, count)
    store.change(catalog.WINDOWS, add=written, remove=[file["path"] for file in old])


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfDay:
    """Writes the wide rows of some clients and a day to files."""

    points: Snapshot
    pushes: Snapshot
    window_s: int
    to: WriteFiles

    def __call__(self, part: tuple[date, list[shards.Part]]) -> list[WrittenFile]:
        day, ranges = part
        with self.to.open() as writer:
            for each in ranges:
                where = of_days([day]) & shards.within(each)
                writer.write_table(aggregate(self.points.table(_COLUMNS, where), self.window_s))
                empty = self.pushes.table(where=where & (pc.field("points") == 0))
                writer.write_table(presence(empty, self.window_s))
            return writer.take_all()
