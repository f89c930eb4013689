"""Spark gives each client instance to the task that has its shard, and each task its part."""

from base64 import urlsafe_b64encode
from collections import Counter
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleetgauge.fleet.engines.engine import in_order
from fleetgauge.fleet.schemas import BRONZE
from fleetgauge.fleet.shards import placed, shards_for, shards_of, task_of
from fleetgauge.fleet.spark.local_rows import local_rows

CHANCE = Random(7)
IDS = [urlsafe_b64encode(CHANCE.randbytes(16)).decode().rstrip("=") for _ in range(4_000)]
ODD = ["", "-", "A", "A-", " ", "~", "\u00e9\u00e9", "zzzz"]


@pytest.mark.parametrize("tasks", [3, 32, 200])
def test_spark_numbers_shards_as_we_do_and_no_two_tasks_share_a_partition(spark: SparkSession, tasks: int) -> None:
    count = shards_for(tasks)
    ids = local_rows(spark, [{"client_instance_id": each} for each in [*IDS, None]], BRONZE)
    found = ids.select(
        "client_instance_id", F.expr(task_of("client_instance_id", count, tasks)).alias("task")
    ).collect()
    numbers = shards_of(pa.array([row.client_instance_id for row in found]), count) * tasks // count
    assert [row.task for row in found] == numbers.tolist()
    places = local_rows(spark, [{"source_row": number} for number in placed(tasks)], BRONZE)
    given = places.repartition(tasks, F.col("source_row").cast("int"))
    partitions = {
        row.source_row: row.partition for row in given.withColumn("partition", F.spark_partition_id()).collect()
    }
    assert [partitions[number] for number in placed(tasks)] == list(range(tasks))


def test_a_shard_is_one_tasks_and_tasks_have_about_as_many_rows(spark: SparkSession) -> None:
    rows = [{"client_instance_id": each, "push_id": str(number)} for number, each in enumerate([*IDS, *ODD, None])]
    divided = in_order(local_rows(spark, rows, BRONZE))
    found = divided.select("client_instance_id", F.spark_partition_id().alias("task")).collect()
    assert len(found) == len(rows)
    own = [row for row in found if row.client_instance_id in IDS]
    shards = shards_of(pa.array([row.client_instance_id for row in own]), shards_for(divided.rdd.getNumPartitions()))
    assert len({(int(shard), row.task) for shard, row in zip(shards, own, strict=True)}) == len(set(shards.tolist()))
    sizes = Counter(row.task for row in own)
    assert len(sizes) == divided.rdd.getNumPartitions()
    assert max(sizes.values()) < 1.3 * len(own) / len(sizes)
