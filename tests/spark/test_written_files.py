"""Files that Python workers write become part of a Delta table, and are as good as Spark's own."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from support.written_files import written

from fleet.schemas import DISTRIBUTION, POINTS
from fleet.session import conf_for, session_conf
from fleet.tables import catalog, delta
from fleet.tables.log import Transaction
from fleet.tables.parquet_files import WriteFiles
from fleet.tables.store import Store
from fleet.tables.written_file import WrittenFile

LAST = datetime(2026, 3, 2, 12, 0, 0, 123_456, tzinfo=UTC)
LONG_GROUP = 60 * "é"
FIRST_BATCH = Transaction(app_id="checkpoint", version=0)
SCHEMA = to_arrow_schema(POINTS)


def points(*, before: timedelta = timedelta(0)) -> list[dict[str, Any]]:
    """Two days of three clients each; every column is given in one row, and few in the others."""
    full: dict[str, Any] = {}
    for field in POINTS.fields:
        full[field.name] = {
            T.StringType(): f"{field.name} é",
            T.IntegerType(): -7,
            T.LongType(): 2**62,
            T.DoubleType(): 0.1,
            T.BooleanType(): True,
        }.get(field.dataType)
    full["attributes"] = full["resource"] = [("k", "v"), ("none", None)]
    full["distribution"] = {field.name: None for field in DISTRIBUTION.fields} | {
        "min": 0.5,
        "bounds": [1.0, None, 2.5],
        "bucket_counts": [],
        "scale": -1,
    }
    rows = []
    for day in (LAST, LAST - timedelta(days=1)):
        for number in range(3):
            at = day - before - timedelta(microseconds=number)
            given = full if number == 0 else {"attributes": [], "value": float(number)}
            own = {"received_at": at, "date": at.date(), "push_id": f"{at:%d}-{number}", "point_index": number}
            row = dict.fromkeys(POINTS.names) | given | own | {"client_instance_id": f"client-{at:%d}-{number}"}
            rows.append(row | {"group_id": LONG_GROUP if number else None})
    return rows


def frame(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA), POINTS)


def writer(store: Store) -> WriteFiles:
    return WriteFiles(directory=catalog.POINTS.path(store.root), schema=SCHEMA, statistics_of=catalog.POINTS.indexed)


def write_here(store: Store, rows: list[dict[str, Any]]) -> list[WrittenFile]:
    return list(written(writer(store), [pa.RecordBatch.from_pylist(rows, schema=SCHEMA)]))


def in_order(found: DataFrame) -> list[Any]:
    return sorted(found.collect(), key=lambda row: row.push_id)


@pytest.fixture
def store(delta_lake: SparkSession, tmp_path: Path) -> Iterator[Store]:
    with session_conf(delta_lake, conf_for(len(points()))):
        yield Store(delta_lake, str(tmp_path / "tables"))


def test_rows_that_workers_write_are_those_that_spark_appends(store: Store, tmp_path: Path) -> None:
    spark, rows = store.spark, points()
    given = frame(spark, rows)
    by_spark = Store(spark, str(tmp_path / "by-spark"))
    by_spark.append(catalog.POINTS, given)
    files = write_here(store, rows)
    assert len(files) == 2

    store.add_files(catalog.POINTS, files, FIRST_BATCH)
    wanted = in_order(by_spark.read(catalog.POINTS))
    assert in_order(store.read(catalog.POINTS)) == wanted
    assert len(wanted) == len(rows) == store.rows_written["points"]
    assert store.log(catalog.POINTS).size() == (2, sum(file.size_bytes for file in files), len(rows))
    assert store.last_version(catalog.POINTS, "checkpoint") == 0

    _queries_pass_over_files_but_never_over_rows(store)

    log = store.log(catalog.POINTS)
    before = log.version()
    for again in (FIRST_BATCH, replace(FIRST_BATCH, version=-1)):
        store.add_files(catalog.POINTS, write_here(store, rows), again)
    assert (log.version(), store.rows_written["points"]) == (before, len(rows))

    _others_read_compact_and_vacuum_it(store, wanted)


def _queries_pass_over_files_but_never_over_rows(store: Store) -> None:
    table = store.read(catalog.POINTS)
    group = F.col("group_id")
    for condition, files, rows in (
        (F.col("received_at") == F.lit(LAST), 1, 1),
        (F.col("received_at") <= F.lit(LAST - timedelta(days=1, microseconds=2)), 1, 1),
        (F.col("received_at") > F.lit(LAST + timedelta(milliseconds=3)), 0, 0),
        (F.col("client_instance_id") == "client-02-2", 1, 1),
        (group == LONG_GROUP, 2, 4),
        (group.isNull(), 2, 2),
        (group == "a", 0, 0),
    ):
        found = table.where(condition)
        assert (len(found.inputFiles()), len(found.select("push_id").collect())) == (files, rows), str(condition)


def _others_read_compact_and_vacuum_it(store: Store, wanted: list[Any]) -> None:
    path = catalog.POINTS.path(store.root)
    ids = {row.push_id for row in wanted}
    assert set(DeltaTable(path).to_pyarrow_table()["push_id"].to_pylist()) == ids
    last = DeltaTable(path).to_pyarrow_dataset().to_table(filter=pa.compute.field("received_at") == LAST)
    assert last["push_id"].to_pylist() == ["02-0"]
    store.add_files(
        catalog.POINTS, write_here(store, points(before=timedelta(hours=1))), Transaction(app_id="b", version=3)
    )
    orphans = {Path(path, file.path) for file in write_here(store, points())}
    delta.compact(store.spark, path, clustered_by=catalog.POINTS.clustered_by)
    delta.vacuum(store.spark, path, 0)
    assert store.log(catalog.POINTS).size().files == 2
    left = set(Path(path).rglob("date=*/*.parquet"))
    assert len(left) == 2
    assert not left & orphans
    assert in_order(store.read(catalog.POINTS).where(F.col("received_at") > F.lit(LAST - timedelta(minutes=1)))) == [
        row for row in wanted if row.push_id.startswith("02")
    ]
    assert set(DeltaTable(path).to_pyarrow_table()["push_id"].to_pylist()) == ids


def test_what_others_write_meanwhile_stays_unless_it_is_the_same_application(store: Store) -> None:
    fewer = T.StructType([field for field in POINTS.fields if field.name not in ("covers_gap", "distribution")])
    store.make(replace(catalog.POINTS, schema=fewer))
    log, files = store.log(catalog.POINTS), write_here(store, points())
    store = Store(store.spark, store.root)

    def while_writes(app_id: str) -> Iterator[WrittenFile]:
        earlier = write_here(store, points(before=timedelta(hours=1)))
        log.add_files(earlier, replace(FIRST_BATCH, app_id=app_id))
        yield from files

    store.add_files(catalog.POINTS, while_writes("another"), FIRST_BATCH)
    assert store.rows_written["points"] == 6, "of its own"
    found = store.read(catalog.POINTS)
    assert found.columns == [*fewer.names, "distribution", "covers_gap"], "a table of an earlier release has them last"
    assert found.where("distribution.scale = -1 and covers_gap").count() == 4

    # Nobody has version 1 before, and somebody else has it meanwhile.
    def loses() -> Iterator[WrittenFile]:
        log.add_files([], replace(FIRST_BATCH, version=1))
        yield from files

    with pytest.raises(CommitFailedError) as raised:
        store.add_files(catalog.POINTS, loses(), replace(FIRST_BATCH, version=1))
    assert delta.is_conflict(raised.value)
    assert store.log(catalog.POINTS).size().files == 4, "nothing of the loser"
