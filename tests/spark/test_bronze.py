import shutil
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.testing import assertSchemaEqual
from spark.landing_zone import NOON_US, ONE_INSTANCE, OTHER_INSTANCE, LandingZone, push

from fleetgauge.exporters.landing.exporter import partition_of
from fleetgauge.exporters.landing.parquet import encode
from fleetgauge.fleet.errors import LandingError
from fleetgauge.fleet.schemas import BRONZE, CHECKED, PUSH_RECORD
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.source.bronze import read_landing
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.spark_schema import spark_schema
from fleetgauge.telemetry.push_record import PushRecord


def test_bronze_has_the_push_records_fields_in_their_order() -> None:
    assert tuple(PUSH_RECORD.names) == PushRecord._fields


def test_a_file_of_the_sinks_own_exporter_is_read_to_the_last_value(spark: SparkSession, zone: LandingZone) -> None:
    known = PushRecord(**push(b"payload"))
    unknown = PushRecord(
        **push() | dict.fromkeys(["client_source_port", "subscription_id", "push_interval_ms", "compression_type"])
    )
    folder = zone.root / partition_of(NOON_US)
    folder.mkdir(parents=True)
    (folder / "pushes-1_2-x.parquet").write_bytes(encode([known, unknown]))
    rows = read_landing(spark, str(zone.root)).orderBy("push_id").drop("source_file", "source_row", "fault")
    found = rows.withColumn("received_at", F.unix_micros("received_at")).collect()
    assert [PushRecord(*row)._replace(metrics=bytes(row.metrics)) for row in found] == [known, unknown]


def test_folders_of_other_days_than_the_selected_are_not_read(spark: SparkSession, zone: LandingZone) -> None:
    misfiled = zone.write([push(), push()])
    for day in ("2026-02-28", "2026-03-03"):
        other = zone.root / f"date={day}" / "hour=12"
        other.mkdir(parents=True)
        shutil.copy(misfiled, other)
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert read_landing(spark, str(zone.root), Selection(since=noon)).count() == 4
    assert read_landing(spark, str(zone.root), Selection(until=noon + timedelta(days=1))).count() == 4
    assert read_landing(spark, str(zone.root)).count() == 6


def test_every_row_says_from_which_file_and_row_it_came(spark: SparkSession, zone: LandingZone) -> None:
    zone.write([push(client_id="a"), push(client_id="b")])
    bronze = read_landing(spark, str(zone.root))
    assertSchemaEqual(bronze.schema, spark_schema(BRONZE))
    found = {row.client_id: (row.source_file, row.source_row) for row in bronze.collect()}
    assert {client: row for client, (_, row) in found.items()} == {"a": 0, "b": 1}
    assert all(file.endswith("/hour=12/part-0.parquet") for file, _ in found.values())


def test_unfinished_files_are_no_part_of_the_zone(spark: SparkSession, zone: LandingZone) -> None:
    path = zone.write([push()])
    path.with_name("_part-1.parquet").write_bytes(b"half")
    path.with_name(".part-2.parquet").write_bytes(b"half")
    assert read_landing(spark, str(zone.root)).count() == 1


def test_a_selection_by_time_client_and_instance(spark: SparkSession, zone: LandingZone) -> None:
    zone.write(
        [
            push(client_id="early", received_at=NOON_US - 1),
            push(client_id="at-noon"),
            push(client_id="late", received_at=NOON_US + 60_000_000, client_instance_id=OTHER_INSTANCE),
        ]
    )

    def clients(**selection: object) -> set[str]:
        frame = read_landing(spark, str(zone.root), Selection(**selection))  # type: ignore[arg-type]
        return {row.client_id for row in frame.collect()}

    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert clients(since=noon) == {"at-noon", "late"}
    assert clients(until=noon) == {"early"}
    assert clients(instance_ids=[OTHER_INSTANCE]) == {"late"}
    assert clients(instance_ids=[ONE_INSTANCE], client_ids=["at-noon", "late"]) == {"at-noon"}


def test_a_missing_path_says_which_and_what_to_do(spark: SparkSession, zone: LandingZone) -> None:
    with pytest.raises(LandingError, match=r"no landing zone at .*landing: set --source to the directory"):
        read_landing(spark, str(zone.root))


def test_an_empty_zone_says_so(spark: SparkSession, zone: LandingZone) -> None:
    zone.root.mkdir()
    with pytest.raises(LandingError, match="holds no push yet"):
        read_landing(spark, str(zone.root))


def test_other_parquet_files_are_refused_by_their_columns(spark: SparkSession, zone: LandingZone) -> None:
    zone.root.mkdir()
    pq.write_table(pa.table({"push_id": ["x"], "other": [1]}), zone.root / "x.parquet")
    with pytest.raises(LandingError, match="holds no push records: its files have no column received_at, receiver"):
        read_landing(spark, str(zone.root))


def test_a_column_of_another_type_is_refused_by_name(spark: SparkSession, zone: LandingZone) -> None:
    path = zone.write([push()])
    table = pq.read_table(path)
    index = table.column_names.index("received_at")
    pq.write_table(table.set_column(index, "received_at", table["received_at"].cast(pa.int64())), path)
    with pytest.raises(LandingError, match="its files have received_at as int64"):
        read_landing(spark, str(zone.root))


def test_records_of_a_newer_form_are_refused_by_their_version(spark: SparkSession, zone: LandingZone) -> None:
    path = zone.write([push(schema_version=2)])
    pq.write_table(pq.read_table(path).drop_columns(["listener"]), path)
    with pytest.raises(LandingError, match=r"has push records of schema version 2, and .* up to 1: upgrade it"):
        read_landing(spark, str(zone.root))


def test_files_of_a_newer_form_beside_ours_leave_ours_readable(spark: SparkSession, zone: LandingZone) -> None:
    zone.write([push(client_id="ours")])
    newer = zone.write([push(client_id="newer", schema_version=2)], name="part-1")
    table = pq.read_table(newer)
    pq.write_table(table.append_column("what_is_new", pa.array(["?"])), newer)
    found = read_landing(spark, str(zone.root)).mapInArrow(checked, spark_schema(CHECKED)).collect()
    assert {row.client_id: row.reason for row in found} == {
        "ours": None,
        "newer": "schema_version 2 is newer than 1",
    }


def test_what_is_no_parquet_is_refused_with_its_path(spark: SparkSession, zone: LandingZone) -> None:
    zone.root.mkdir()
    (zone.root / "notes.txt").write_text("hello")
    with pytest.raises(LandingError, match=r"/notes\.txt cannot be read: remove it"):
        read_landing(spark, str(zone.root))
