"""Questions of whole clients on Spark: its part is to bring their rows together."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import DataFrame

from fleet.decode.arrow import RecordBatch, Schema, Table, pa, pc
from fleet.measures.rows import one
from fleet.schemas import INSTANCE
from fleet.spark_schema import spark_schema
from fleet.workers import forget_archives

_ROWS_AT_ONCE: Final = 50_000


def overall(rows: DataFrame, project: Callable[[Table], Table], schema: Schema) -> DataFrame:
    """Partial ROWS, or others of client instances -> a table of clients or links over the whole time."""
    together = rows.repartition(*INSTANCE).sortWithinPartitions(*INSTANCE)
    return together.mapInArrow(_Step(project, INSTANCE), spark_schema(schema))


@dataclass(frozen=True, slots=True)
class _Step:
    """A function over all rows of some keys at once."""

    function: Callable[[Table], Table]
    keys: tuple[str, ...]

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        forget_archives()
        for table in whole(batches, self.keys):
            yield from self.function(table).to_batches()


def whole(batches: Iterable[RecordBatch], keys: Iterable[str], rows: int = _ROWS_AT_ONCE) -> Iterator[Table]:
    """The same rows in tables of about `rows`, none of which ends within the rows of a key; those are together."""
    waiting: list[RecordBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        if count < rows:
            continue
        table = pa.Table.from_batches(waiting).combine_chunks()
        begin = _last_begins(table, keys)
        if begin:
            yield table.slice(0, begin)
            waiting = table.slice(begin).to_batches()
            count -= begin
    if count:
        yield pa.Table.from_batches(waiting)


def _last_begins(table: Table, keys: Iterable[str]) -> int:
    """The row that the rows of the last key begin at."""
    is_last = np.ones(table.num_rows, np.bool_)
    for name in keys:
        column = one(table[name])
        value = column[-1]
        same = pc.equal(column, value).fill_null(False) if value.is_valid else column.is_null()
        is_last &= same.to_numpy(zero_copy_only=False)
    others = np.flatnonzero(~is_last)
    return int(others[-1]) + 1 if len(others) else 0
