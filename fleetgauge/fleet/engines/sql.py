"""Runs the SQL of gold tables: DuckDB over Arrow tables, in this process or in a task of Spark, or Spark SQL over a
frame.

The tasks of `fleet run` take DuckDB on both engines: Spark's own operators need twenty times the CPU time for the same
rows. Analysts have Spark run the same text, and see it in its plan.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import duckdb

from fleetgauge.fleet.arrow import Table, conformed
from fleetgauge.fleet.gold.sql import Query
from fleetgauge.fleet.measures.rows import one
from fleetgauge.fleet.schemas import conform

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FUNCTIONS: Final = {
    "array_remove(list, value)": "list_filter(list, lambda each: each <> value)",
    "explode(list)": "unnest(list)",
    "max_by(value, rank)": "arg_max_null(value, rank)",
    "struct(a, b)": "row(a, b), (a, b, c) AS row(a, b, c)",
}
"""Functions of Spark that DuckDB lacks, or that treat nulls differently there."""


def answer(query: Query, rows: Any) -> Table:
    """The rows of a query.

    Args:
        query: what is made.
        rows: `query.columns` of the table that it is made of: a `pyarrow.Table`, or a `RecordBatchReader`.
    """
    return next(answers([query], rows))


def answers(queries: Iterable[Query], rows: Table) -> Iterator[Table]:
    """The rows of each query, of the same rows in memory; see `answer`."""
    with _connected() as connection:
        for query in queries:
            connection.register(query.of, rows)
            answer = connection.sql(query.sql).to_arrow_table()
            columns = {name: one(answer[name]) for name in answer.column_names}
            yield conformed(query.schema, columns, answer.num_rows)


@contextmanager
def _connected() -> Iterator[duckdb.DuckDBPyConnection]:
    # One thread: tasks are what runs side by side, and two take half as much CPU time again.
    with duckdb.connect(config={"threads": 1}) as connection:
        for function, macro in _FUNCTIONS.items():
            connection.execute(f"CREATE MACRO {function} AS {macro}")
        yield connection


def frame(query: Query, rows: "DataFrame") -> "DataFrame":
    """The rows of a query as Spark computes them.

    Args:
        query: what is made.
        rows: `query.columns` of the table that it is made of.
    """
    text = re.sub(rf"\bFROM {query.of}\b", "FROM {rows}", query.sql)
    return conform(rows.sparkSession.sql(text, rows=rows), query.schema)
