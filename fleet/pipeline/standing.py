"""The rows of a standing table, as tasks read them."""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fleet.decode.arrow import RecordBatch, Schema, Table, pa
from fleet.tables import catalog
from fleet.tables.log import TableLog
from fleet.tables.store import Store


@dataclass(frozen=True, slots=True)
class Standing:
    """A table that is there; goes to Spark's executors.

    Attributes:
        log: of the table.
        schema: of its rows.
    """

    log: TableLog
    schema: Schema

    @classmethod
    def of(cls, store: Store, table: catalog.Table) -> "Standing":
        """A table, which is made if need be."""
        return cls(store.make(table), table.schema)

    def batches(
        self, where: Any = None, columns: Iterable[str] | None = None, files: Container[str] | None = None
    ) -> Iterator[RecordBatch]:
        """Rows, some at a time; see `TableLog.scan`."""
        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        for batch in self.log.scan(names, where, files=files):
            if batch.num_rows:
                yield batch.cast(schema)

    def table(self, where: Any = None, columns: Iterable[str] | None = None) -> Table:
        """Rows, all in memory."""
        names = self.schema.names if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        return pa.Table.from_batches(self.batches(where, names), schema=schema)

    def files(self) -> list[dict[str, Any]]:
        """Its files, as `TableLog.files` has them; `None` for what one does not say."""
        found: list[dict[str, Any]] = self.log.files().to_pylist()
        return found
