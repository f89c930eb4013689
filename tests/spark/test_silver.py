"""Silver rows of a source on Spark: the functions of one process, after one shuffle."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertSchemaEqual
from spark.landing_zone import ONE_INSTANCE, OTHER_INSTANCE, LandingZone, push
from support.fleet.fleet_in_disorder import fleet_pushes, shuffled_batches
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.arrow import Schema
from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.engines.engine import packing, shuffled
from fleetgauge.fleet.engines.parcels import PARCELS, Unpack
from fleetgauge.fleet.engines.questions import question
from fleetgauge.fleet.errors import SchemaError
from fleetgauge.fleet.schemas import BRONZE, POINTS, PUSHES, REJECTS, conform
from fleetgauge.fleet.silver.repeats import ORDER
from fleetgauge.fleet.source.bronze import read_landing
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables import catalog


def rows_of(frame: DataFrame, schema: Schema) -> list[dict[str, Any]]:
    assertSchemaEqual(frame.schema, spark_schema(schema))
    rows: list[dict[str, Any]] = frame.toArrow().cast(schema).to_pylist()
    return sorted(rows, key=repr)


def test_pushes_and_points_of_a_source_are_those_of_the_tables(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    chance = random.Random(3)
    pushes = fleet_pushes(chance)
    tables = SilverTables(tmp_path)
    tables.read(pushes)
    for number, batch in enumerate(shuffled_batches(chance, pushes, batches=4)):
        zone.write(batch, name=f"part-{number}")
    source = str(zone.root)
    assert rows_of(jobs.pushes(spark, source, Selection()), PUSHES) == tables.rows(catalog.PUSHES)
    assert rows_of(jobs.points(spark, source, Selection()), POINTS) == tables.rows(catalog.POINTS)


def test_one_shuffle_brings_all_pushes_of_an_instance_to_one_task_in_their_order(
    spark: SparkSession, zone: LandingZone, capsys: Any
) -> None:
    ids = (ONE_INSTANCE, OTHER_INSTANCE, None, "-" * 22, "z" * 22)
    for number in range(4):
        zone.write([push(cluster_id=None) | {"client_instance_id": each} for each in ids], name=f"part-{number}")
    pack = packing(spark)
    unpack = Unpack(shards=pack.shards)
    parcels = read_landing(spark, str(zone.root)).mapInArrow(pack, spark_schema(PARCELS))
    schema = spark_schema(pa.schema([("task", pa.int64()), ("keys", pa.list_(pa.list_(pa.string())))]))

    def told(parcels: Any) -> Any:
        rows = [[str(row[name]) for name in ORDER] for batch in unpack(parcels) for row in batch.to_pylist()]
        context = TaskContext.get()
        assert context is not None
        yield pa.RecordBatch.from_pylist([{"task": context.partitionId(), "keys": rows}])

    tasks = [row["keys"] for row in shuffled(parcels, pack.tasks).mapInArrow(told, schema).collect()]
    assert sum(map(len, tasks)) == 20
    for keys in tasks:
        assert keys == sorted(keys, key=lambda key: (key[0] != "None", key))
        assert {key[1] for key in keys} <= {""}
    for each in ids:
        assert len([keys for keys in tasks if str(each) in {key[0] for key in keys}]) == 1
    asked = question("points")
    jobs.answer(spark, asked, str(zone.root), Selection()).frame.explain()
    plan = capsys.readouterr().out
    assert (plan.count("Exchange"), plan.count("Join")) == (1, 0)


def test_repeats_are_left_out_and_counted_wherever_they_lie_and_bad_rows_are_not(
    spark: SparkSession, zone: LandingZone
) -> None:
    one, two = push(client_id="one"), push(client_id="two", client_instance_id=OTHER_INSTANCE)
    bad = push() | {"push_id": None}
    zone.write([one, one, two, bad, bad])
    zone.write([two, one], name="part-1", hour="13")
    answer = jobs.answer(spark, question("rejects"), str(zone.root), Selection())
    assert [row.reason for row in answer.frame.collect()] == ["push_id is null"] * 2
    assert (answer.repeats, answer.rejects) == (3, 2)
    found = jobs.pushes(spark, str(zone.root), Selection()).collect()
    assert sorted(row.client_id for row in found) == ["one", "two"]


def test_conform_names_missing_columns(spark: SparkSession) -> None:
    with pytest.raises(SchemaError, match="columns are missing: received_at, cluster_id, client_instance_id"):
        conform(
            spark.createDataFrame([("x", "c")], "push_id string, client_id string").withColumns(
                {name: F.lit(None) for name in ("source_file", "source_row", "reason", "principal", "payload", "date")}
            ),
            REJECTS,
        )


def test_a_source_of_no_rows_has_the_columns_of_one(spark: SparkSession, zone: LandingZone) -> None:
    zone.write([])
    assert rows_of(jobs.points(spark, str(zone.root), Selection()), POINTS) == []
    assertSchemaEqual(read_landing(spark, str(zone.root)).schema, spark_schema(BRONZE))
