"""Fleet tables as frames: what the log names when the frame is made, with nothing of Delta Lake in the session."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.fleet.full_points import LAST, LONG_GROUP, arrow, points
from support.fleet.written_files import written

from fleetgauge.fleet.errors import FleetError
from fleetgauge.fleet.schemas import POINTS
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.spark import Frames, Selection, read_points, read_pushes, read_windows, register

HOUR = timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "tables of ours"))


def add(store: Store, rows: list[dict[str, Any]], table: catalog.Table = catalog.POINTS) -> None:
    batch = pa.RecordBatch.from_pylist(rows, schema=table.schema)
    store.change(table, list(written(store.files_of(table), [batch])))


def in_order(frame: DataFrame) -> list[Any]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=repr)


def test_every_value_is_read_as_it_was_written(spark: SparkSession, store: Store) -> None:
    rows = [*points(), dict.fromkeys(POINTS.names) | {"push_id": "without a day"}]
    add(store, rows)
    found = read_points(spark, tables=store.root)
    assert found.schema == spark_schema(POINTS)
    wanted = spark.createDataFrame(pa.Table.from_batches([arrow(rows)]), spark_schema(POINTS))
    assert in_order(found) == in_order(wanted)
    assert len(rows) == found.count()


def test_a_filter_on_days_reads_their_files_alone(spark: SparkSession, store: Store) -> None:
    add(store, points())
    one_day = read_points(spark, tables=store.root).where(F.col("date") == F.lit(LAST.date()))
    for path in Path(catalog.POINTS.path(store.root)).glob("date=2026-03-01/*"):
        path.unlink()
    assert one_day.count() == 3
    assert {row.group_id for row in one_day.select("group_id").distinct().collect()} == {LONG_GROUP, None}


def test_a_selection_is_of_times_and_clients(spark: SparkSession, store: Store) -> None:
    add(store, points())
    chosen = Selection(since=LAST - timedelta(microseconds=1), instance_ids=["client-02-0", "client-02-2"])
    assert [row.push_id for row in read_points(spark, selection=chosen, tables=store.root).collect()] == ["02-0"]


def test_a_selection_prunes_days_and_files(
    spark: SparkSession, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    for rows in (points(), points(before=HOUR)):
        add(store, rows)
    assert len(Frames(spark, store.root).points().inputFiles()) == 4, "two of each day"
    frame = Frames(spark, store.root).points(since=LAST - HOUR / 2)
    assert len(frame.inputFiles()) == 1
    frame.explain("formatted")
    plan = capsys.readouterr().out
    (partitions,) = [line for line in plan.splitlines() if line.startswith("PartitionFilters")]
    assert f">= {LAST.date()}" in partitions
    assert "GreaterThanOrEqual(received_at," in plan
    assert frame.count() == 3


def test_every_table_is_there_by_its_name_or_meaning(spark: SparkSession, store: Store) -> None:
    add(store, points())
    frames = Frames(spark, store.root)
    assert frames.table("points").schema == frames.points().schema == spark_schema(POINTS)
    with pytest.raises(FleetError, match="there is no table verdicts in"):
        frames.verdicts()


def test_tables_are_queryable_by_name_with_comments(spark: SparkSession, store: Store) -> None:
    add(store, points())
    store.make(catalog.PRODUCERS)
    add(store, [{"client_instance_id": "one", "receiver_node_ids": [1, 2]}], catalog.INVENTORY)
    views = ["fleet_points", "fleet_inventory", "fleet_producers"]
    assert register(spark, store.root, "fleet_") == views
    assert [row.receiver_node_ids for row in spark.sql("SELECT * FROM fleet_inventory").collect()] == [[1, 2]]
    assert spark.sql("SELECT push_id FROM fleet_points WHERE date = DATE '2026-03-02'").count() == 3
    comments = {row.col_name: row.comment for row in spark.sql("DESCRIBE fleet_producers").collect()}
    assert comments["record_queue_time_max_ms"].endswith("before it is sent: largest [ms]")
    assert None not in comments.values()
    assert register(spark, store.root, "fleet_") == views, "again, to see later runs"


def test_a_frame_stays_that_of_the_moment_when_it_was_made(spark: SparkSession, store: Store) -> None:
    add(store, points())
    frame = read_points(spark, tables=store.root)
    log = store.log(catalog.POINTS)
    more = list(written(store.files_of(catalog.POINTS), [arrow(points(before=HOUR))]))
    store.change(catalog.POINTS, more, remove=log.paths())
    assert {row.received_at for row in frame.collect()}.isdisjoint(
        {row.received_at for row in read_points(spark, tables=store.root).collect()}
    )
    assert frame.count() == read_points(spark, tables=store.root).count() == 6


def test_columns_that_older_files_lack_are_null(spark: SparkSession, store: Store) -> None:
    fewer = pa.schema([field for field in POINTS if field.name not in ("covers_gap", "distribution")])
    earlier = replace(catalog.POINTS, schema=fewer)
    add(Store(store.root), [{name: row[name] for name in fewer.names} for row in points()], earlier)
    assert (
        read_points(spark, tables=store.root).where("covers_gap IS NOT NULL OR distribution IS NOT NULL").count() == 0
    )
    add(store, points(before=HOUR))
    found = read_points(spark, tables=store.root)
    assert (found.schema, found.count()) == (spark_schema(POINTS), 12)
    assert found.where("distribution.scale = -1 AND covers_gap").count() == 2


def test_a_table_without_rows_is_a_frame_without_rows(spark: SparkSession, store: Store) -> None:
    for table in (catalog.PUSHES, catalog.LATENCY):
        store.make(table)
    assert read_pushes(spark, tables=store.root).schema == spark_schema(catalog.PUSHES.schema)
    assert read_windows(spark, "latency", tables=store.root).count() == 0


def test_what_is_no_table_is_one_sentence(spark: SparkSession, tmp_path: Path, store: Store) -> None:
    with pytest.raises(FleetError, match=f"there is no table points in {tmp_path}: fleet run creates it") as caught:
        read_points(spark, tables=str(tmp_path))
    assert "\n" not in str(caught.value)
    store.make(replace(catalog.POINTS, schema=POINTS.remove(POINTS.get_field_index("cluster_id"))))
    with pytest.raises(FleetError, match="written by an earlier release, whose rows have no cluster id"):
        read_points(spark, tables=store.root)
