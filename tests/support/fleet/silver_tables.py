"""The silver tables of batches of pushes, on disk, as a run in this process writes them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spark.landing_zone import LandingZone

from fleetgauge.fleet.engines.engine import Batch, InProcess
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.pipeline.batch import BatchReport, BatchWriter
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

Row = dict[str, Any]


class SilverTables:
    """Tables under a directory, and the landing zone beside them."""

    def __init__(self, root: Path) -> None:
        self.store = Store(f"file:{root / 'tables'}")
        self._zone = LandingZone(root / "landing")
        self._batches = 0

    def read(self, pushes: Iterable[Row]) -> BatchReport | None:
        """The next batch, of one file."""
        path = self._zone.write(pushes, name=f"part-{self._batches}")
        batch = Batch(number=self._batches, files=(str(path),))
        report = self.write(batch)
        self._batches += 1
        return report

    def read_again(self) -> BatchReport | None:
        """The batch that was cut off."""
        (path,) = self._zone.root.rglob(f"part-{self._batches}.parquet")
        report = self.write(Batch(number=self._batches, files=(str(path),)))
        self._batches += 1
        return report

    def write(self, batch: Batch) -> BatchReport | None:
        return BatchWriter(self.store, InProcess(), "app", "zone", 300, lambda _: None).write(batch)

    def rows(self, table: catalog.Table) -> list[Row]:
        """All rows of a table, by the text of them."""
        found = self.store.log(table).rows() if self.store.has(table) else table.schema.empty_table()
        found = merge([found]) if table is catalog.WINDOWS else found
        rows: list[Row] = found.select(table.schema.names).to_pylist()
        return sorted(rows, key=repr)

    @property
    def points(self) -> list[Row]:
        return sorted(
            self.rows(catalog.POINTS), key=lambda row: (row["received_at"], row["push_id"], row["point_index"])
        )

    def tables(self) -> dict[str, list[str]]:
        """Every row of the tables that follow from the pushes alone, as text, in order; wide rows merged."""
        names = (catalog.POINTS, catalog.PUSHES, catalog.SERIES, catalog.WINDOWS)
        found = {table.name: [repr(row) for row in self.rows(table)] for table in names}
        places = ("source_file", "source_row")
        rejects = [{k: v for k, v in row.items() if k not in places} for row in self.rows(catalog.REJECTS)]
        return found | {catalog.REJECTS.name: sorted(set(map(repr, rejects)))}  # a repeat of such a push is one, too
