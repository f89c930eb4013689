"""Rows of this process as frames."""

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fleetgauge.fleet.schemas import BRONZE, METRICS, REJECTS
from fleetgauge.fleet.spark.local_rows import local_rows
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables.catalog import BATCHES_SCHEMA, RUNS_SCHEMA

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_every_kind_of_value_comes_back_as_it_was_and_the_rest_is_null(spark: SparkSession) -> None:
    given = {
        "app_id": "a",
        "points": 2**40,
        "rejects": {"malformed": 3},
        "dates": [date(2026, 3, 1)],
        "windows": [NOON],
    }
    [row] = local_rows(spark, [given], BATCHES_SCHEMA).collect()
    found = row.asDict(recursive=True)
    assert found["windows"] == [NOON.replace(tzinfo=None)]
    assert {name: found[name] for name in ("app_id", "points", "rejects", "dates")} == {
        name: given[name] for name in ("app_id", "points", "rejects", "dates")
    }
    assert {name for name, value in found.items() if value is None} == set(BATCHES_SCHEMA.names) - given.keys()


@pytest.mark.parametrize("schema", [BRONZE, REJECTS, METRICS, BATCHES_SCHEMA, RUNS_SCHEMA])
def test_no_rows_are_an_empty_frame_of_the_schema_that_no_job_makes(spark: SparkSession, schema: pa.Schema) -> None:
    frame = local_rows(spark, [], schema)
    assert frame.schema == spark_schema(schema)
    assert "LocalRelation <empty>" in frame._jdf.queryExecution().analyzed().toString()
