"""Spark gives each task its parcels."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleetgauge.fleet.engines.engine import shuffled
from fleetgauge.fleet.engines.parcels import PARCELS
from fleetgauge.fleet.spark.local_rows import local_rows


@pytest.mark.parametrize("tasks", [3, 32, 200])
def test_no_two_tasks_share_a_partition(spark: SparkSession, tasks: int) -> None:
    parcels = local_rows(spark, [{"task": number} for number in range(tasks)], PARCELS)
    found = shuffled(parcels, tasks).select("task", F.spark_partition_id().alias("partition")).collect()
    assert {row.task: row.partition for row in found} == {number: number for number in range(tasks)}
