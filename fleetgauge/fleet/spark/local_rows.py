"""A DataFrame of rows in this process."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fleetgauge.fleet.arrow import Schema, pa
from fleetgauge.fleet.spark_schema import spark_schema


def local_rows(spark: SparkSession, rows: Iterable[Mapping[str, Any]], schema: Schema) -> DataFrame:
    """A frame of `schema`; columns that a row lacks are null.

    They are handed to Spark as Arrow, which keeps few rows in the plan. A list has it start a Python worker, in a job
    with a task for each core.
    """
    table: Any = pa.Table.from_pylist(list(rows), schema=schema)
    return spark.createDataFrame(table, spark_schema(schema))
