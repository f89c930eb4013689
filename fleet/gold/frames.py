"""Wide rows in Spark: its part is to bring together what belongs together; what is computed is `fleet.measures`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from pyspark.sql import DataFrame

from fleet.decode.arrow import RecordBatch, Schema, Table, pa, pc
from fleet.measures.aggregate import DEFAULT_WINDOW_S, aggregate, check_window
from fleet.measures.merge import merge
from fleet.measures.rows import ROWS, WINDOW, one
from fleet.schemas import INSTANCE
from fleet.spark_schema import spark_schema
from fleet.workers import forget_archives

_ROWS_AT_ONCE: Final = 50_000
_PUSH: Final = (*INSTANCE, "push_id")


def partials(points: DataFrame, window_s: int = DEFAULT_WINDOW_S) -> DataFrame:
    """POINTS, or SENT_POINTS -> partial ROWS by windows of `window_s` [s].

    Raises:
        ValueError: a day is no multiple of the window.
    """
    check_window(window_s)
    keys = [name for name in _PUSH if name in points.columns]
    together = points.repartition(*keys[:-1]).sortWithinPartitions(*keys)
    return _mapped(together, lambda table: aggregate(table, window_s), ROWS, keys)


def merged(partial: DataFrame) -> DataFrame:
    """Partial ROWS -> ROWS, one a key, those of a window in one task and one after the other."""
    return _mapped(_together(partial, WINDOW), lambda table: merge([table]), ROWS, WINDOW)


def projected(rows: DataFrame, project: Callable[[Table], Table], schema: Schema) -> DataFrame:
    """ROWS as `merged` gives them -> a gold table of clients or links."""
    return _mapped(rows, project, schema, WINDOW)


def by_group(rows: DataFrame, project: Callable[[Table], Table], schema: Schema) -> DataFrame:
    """Merged ROWS -> a gold table of consumer groups."""
    keys = ("cluster_id", "group_id", "window_start")
    return _mapped(_together(rows.where("group_id is not null"), keys), project, schema, keys)


def overall(rows: DataFrame, project: Callable[[Table], Table], schema: Schema) -> DataFrame:
    """Partial ROWS -> a table of clients or links over the whole time."""
    return _mapped(_together(rows, INSTANCE), project, schema, INSTANCE)


def _together(frame: DataFrame, keys: Iterable[str]) -> DataFrame:
    return frame.repartition(*keys).sortWithinPartitions(*keys)


def _mapped(frame: DataFrame, function: Callable[[Table], Table], schema: Schema, keys: Iterable[str]) -> DataFrame:
    return frame.mapInArrow(_Step(function, tuple(keys)), spark_schema(schema))


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
