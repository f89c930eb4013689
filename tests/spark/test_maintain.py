"""Upkeep of standing tables, and how few files the usual questions read after it."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from support.killed_runs import QUICK_SPARK
from support.standing_tables import rows
from typer.testing import CliRunner

from fleet.cli import app
from fleet.measures.aggregate import aggregate
from fleet.measures.merge import merge
from fleet.pipeline.show import open_table
from fleet.schemas import POINTS, PUSHES, SENT_POINTS
from fleet.small_tables import rows as table_of_rows
from fleet.spark_schema import spark_schema
from fleet.tables import catalog, delta
from fleet.tables.maintain import maintain
from fleet.tables.store import Store

pytestmark = pytest.mark.timeout(900)  # dozens of commits, on a machine that may be busy

TODAY = datetime(2026, 3, 2, 12, tzinfo=UTC)
CLIENTS, POINTS_EACH = 64, 40


def client(number: int) -> str:
    return f"{number * 7919 % 1000:03}-client-instance-id"


def two_days(spark: SparkSession, schema_names: list[str]) -> DataFrame:
    """Points (or pushes) of many clients on two days; what is not given is null."""
    received_at = F.lit(TODAY) - F.make_dt_interval(days=(F.col("id") % 2).cast("int"))
    number = ((F.col("id") / 2).cast("int") % CLIENTS) * 7919 % 1000
    given = {
        "received_at": received_at,
        "date": F.to_date(received_at),
        "client_instance_id": F.format_string("%03d-client-instance-id", number.cast("int")),
        "group_id": F.format_string("group-%d", (number % 4).cast("int")),
        "value": F.rand(7),
        "push_id": F.format_string("%032x", F.col("id")),
    }
    frame = spark.range(2 * CLIENTS * POINTS_EACH)
    return frame.select(*(given.get(name, F.lit(None)).alias(name) for name in schema_names))


@pytest.fixture
def store(delta_lake: SparkSession, tmp_path: Path) -> Store:
    """Two tables in many small files."""
    found = Store(delta_lake, str(tmp_path / "tables"))
    for table, schema in ((catalog.POINTS, POINTS), (catalog.PUSHES, PUSHES)):
        for _ in range(2):
            found.append(table, two_days(delta_lake, schema.names).repartition(3))
    return found


@pytest.mark.soak
def test_upkeep_leaves_what_is_asked_for_together_in_few_files(store: Store) -> None:
    spark = store.spark
    of_one = (ds.field("date") == TODAY.date()) & (ds.field("client_instance_id") == client(5))

    def files_read(where: ds.Expression | None = None) -> int:
        found = open_table(catalog.POINTS, store.root).to_pyarrow_dataset()
        return len(list(found.get_fragments(where)))

    scattered = files_read(of_one)
    max_file_size = "spark.databricks.delta.optimize.maxFileSize"
    spark.conf.set(max_file_size, str(20_000))
    try:
        delta.compact(spark, catalog.POINTS.path(store.root), clustered_by=catalog.POINTS.clustered_by)
    finally:
        spark.conf.unset(max_file_size)
    everything = files_read()
    assert scattered == everything_of_a_day(store) or scattered > 1
    assert everything >= 8, "there have to be files to be passed over"
    assert files_read(of_one) <= everything / 4
    rows_of_one = (F.col("date") == F.lit(TODAY.date())) & (F.col("client_instance_id") == client(5))
    assert store.read(catalog.POINTS).where(rows_of_one).count() == 2 * POINTS_EACH


def everything_of_a_day(store: Store) -> int:
    return len(store.read(catalog.POINTS).where(F.col("date") == F.lit(TODAY.date())).inputFiles())


@pytest.mark.soak  # a minute
def test_upkeep_compacts_deletes_old_days_and_vacuums(store: Store) -> None:
    root = Path(store.root)
    result = CliRunner().invoke(
        app,
        [
            *("maintain", "--tables", store.root, "--keep", TODAY.date().isoformat(), "--vacuum-after", "0s"),
            *("--format", "json", *QUICK_SPARK),
        ],
    )
    assert result.exit_code == 0, result.output
    done = json.loads(result.stdout)
    kept = 2 * CLIENTS * POINTS_EACH
    assert {name: (each["files"], each["deleted"]) for name, each in done.items()} == {
        "points": (1, kept),
        "pushes": (1, kept),
    }
    assert {str(row["date"]) for row in rows(root, "points")} == {"2026-03-02"}
    assert len(list((root / "silver" / "points").rglob("*.parquet"))) == 1, "what was replaced is gone"
    again = CliRunner().invoke(app, ["maintain", "--tables", store.root, "--format", "json", *QUICK_SPARK])
    done = json.loads(again.stdout)
    assert (done["points"]["files_before"], done["points"]["files"], done["points"]["deleted"]) == (1, 1, 0)


def test_upkeep_makes_partial_wide_rows_of_a_window_one(delta_lake: SparkSession, tmp_path: Path) -> None:
    store = Store(delta_lake, str(tmp_path / "tables"))
    columns = "client_instance_id received_at metric_name node_id value"
    latency = "org.apache.kafka.producer.node.request.latency.avg"
    parts = [
        aggregate(table_of_rows(SENT_POINTS, columns, (client, at, latency, 1, value)), 300)
        for client, at, value in (("one", "12:00:00", 3.0), ("one", "12:01:00", 5.0), ("two", "12:01:00", 7.0))
    ]
    for part in parts:
        store.append(catalog.WINDOWS, delta_lake.createDataFrame(part, spark_schema(catalog.WINDOWS.schema)))
    maintain(store, keep_from=None, vacuum_after_hours=168, stage=lambda _: None)
    found = rows(tmp_path / "tables", "windows")
    assert sorted(map(repr, found)) == sorted(map(repr, merge(parts).to_pylist()))
    assert len(found) == 4 < sum(part.num_rows for part in parts)
