"""The rows of a standing table, as tasks read them."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
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
        files: one each, as `TableLog.files` has them.
    """

    snapshot: Snapshot
    schema: Schema
    files: list[dict[str, Any]]

    @classmethod
    def of(cls, store: Store, table: catalog.Table) -> "Standing":
        """A table, which is made if need be."""
        log = store.make(table)
        return cls(log.snapshot(), table.schema, log.files().to_pylist())

    @property
    def count(self) -> int:
        """Rows that it has."""
        return sum(file["num_records"] for file in self.files)

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
