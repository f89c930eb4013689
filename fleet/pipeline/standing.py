"""The rows of a standing table, as tasks read them."""

from collections.abc import Collection, Container, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from fleet.decode.arrow import RecordBatch, Schema, Table, pa
from fleet.tables import catalog
from fleet.tables.log import Snapshot
from fleet.tables.store import Store


@dataclass(frozen=True, slots=True)
class Standing:
    """A table as it is when this is made; goes to Spark's executors.

    Attributes:
        snapshot: of the table.
        schema: of its rows.
    """

    snapshot: Snapshot
    schema: Schema

    @classmethod
    def of(cls, store: Store, table: catalog.Table) -> "Standing":
        """A table, which is made if need be."""
        return cls(store.make(table).snapshot(), table.schema)

    def batches(
        self, where: Any = None, columns: Iterable[str] | None = None, paths: Collection[str] | None = None
    ) -> Iterator[RecordBatch]:
        """Rows, some at a time; see `Snapshot.scan`."""
        schema = self._only(columns)
        for batch in self.snapshot.scan(schema.names, where, paths):
            if batch.num_rows:
                yield batch.cast(schema)

    def table(self, where: Any = None, columns: Iterable[str] | None = None) -> Table:
        """Rows, all in memory."""
        return pa.Table.from_batches(self.batches(where, columns), schema=self._only(columns))

    def _only(self, columns: Iterable[str] | None) -> Schema:
        return self.schema if columns is None else pa.schema([self.schema.field(name) for name in columns])


def files_of(store: Store, table: catalog.Table, days: Container[date] | None = None) -> list[dict[str, Any]]:
    """The files of a table, as `TableLog.files` has them; those of some days, if it is partitioned by days."""
    found: list[dict[str, Any]] = store.make(table).files().to_pylist()
    return found if days is None else [file for file in found if file[f"partition.{catalog.DATE}"] in days]
