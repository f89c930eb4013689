"""The format `fleetgauge` of `spark.read` and `spark.readStream`, over landing zones on this machine."""

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark.landing_zone import NOON_US, OTHER_INSTANCE, LandingZone, push
from spark.topic_records import frame_of, good
from support.receivers.s3_store import SECRET, s3, s3_store
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.engines import jobs
from fleetgauge.fleet.engines.questions import question
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.spark import decode_topic, read_pushes, register

DAY_US = 86_400_000_000


@pytest.fixture
def read(spark: SparkSession, zone: LandingZone) -> Callable[..., DataFrame]:
    register(spark)

    def load(**options: str) -> DataFrame:
        return spark.read.format("fleetgauge").options(**options).load(str(zone.root))

    return load


def fill(zone: LandingZone) -> None:
    for number, client_id in enumerate(("one", "two")):
        payload = dialect.java_producer({"node-1": 2.5 + number})
        received_at = NOON_US + number * DAY_US
        rows = [push(payload, client_id=client_id, received_at=received_at), push(dialect.MALFORMED)]
        zone.write(rows, name=f"part-{number}", date=f"2026-03-0{number + 1}")


def in_order(frame: DataFrame) -> list[str]:
    return sorted(repr(row.asDict(recursive=True)) for row in frame.collect())


@pytest.mark.parametrize("kind", ["points", "rejects"])
def test_rows_are_those_of_the_question(
    kind: str, spark: SparkSession, zone: LandingZone, read: Callable[..., DataFrame]
) -> None:
    fill(zone)
    answer = jobs.answer(spark, question(kind), str(zone.root), Selection()).frame
    assert in_order(read(kind=kind)) == in_order(answer) != []


def test_pushes_are_those_of_the_reader_but_for_repeats(
    spark: SparkSession, zone: LandingZone, read: Callable[..., DataFrame]
) -> None:
    one, two = push(client_id="one"), push(client_id="two", client_instance_id=OTHER_INSTANCE)
    zone.write([one, two])
    zone.write([two], name="part-1", hour="13")
    found = read(kind="pushes")
    assert found.schema == read_pushes(spark, str(zone.root)).schema
    assert found.count() == 3
    assert in_order(found.dropDuplicates(["push_id"])) == in_order(read_pushes(spark, str(zone.root)))


def test_options_and_conditions_choose_days_and_clients(zone: LandingZone, read: Callable[..., DataFrame]) -> None:
    fill(zone)
    assert {row.client_id for row in read(kind="pushes", client_id="one").collect()} == {"one"}
    assert {row.client_id for row in read(kind="pushes", since="2026-03-02").collect()} == {"two"}
    (zone.root / "date=2026-03-01" / "hour=12" / "part-0.parquet").write_bytes(b"what no reader of the other day opens")
    second = read(kind="pushes").where(F.col("date") == F.lit(date(2026, 3, 2)))
    assert {row.client_id for row in second.collect()} == {"two"}
    assert {row.client_id for row in second.where("client_id = 'one'").collect()} == set()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "metrics"}, "there is no kind 'metrics': give one of pushes, points, rejects"),
        ({}, "holds no push yet, or is another directory"),
        ({"maxFilesPerTrigger": "0"}, "maxFilesPerTrigger has to be a number of files, not '0'"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    options: dict[str, str], sentence: str, zone: LandingZone, read: Callable[..., DataFrame]
) -> None:
    zone.root.mkdir()
    with pytest.raises(PySparkException, match=sentence):
        read(**options).collect()


def test_a_path_that_is_not_there_is_named(spark: SparkSession, read: Callable[..., DataFrame]) -> None:
    with pytest.raises(PySparkException, match="nosuch"):
        spark.read.format("fleetgauge").load("/nosuch").collect()


def test_records_of_a_topic_are_decoded_in_batch_and_as_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    payload = dialect.java_producer({"node-1": 2.5})
    records = frame_of(spark, [good(metrics=payload, client_id="app"), good().without("schema_version")])
    points = decode_topic(records)
    assert {row.client_id for row in points.collect()} == {"app"}
    assert [row.reason for row in decode_topic(records, "rejects").collect()] == ["there is no header schema_version"]
    records.write.parquet(str(tmp_path / "records"))
    streamed = spark.readStream.schema(records.schema).parquet(str(tmp_path / "records"))
    query = decode_topic(streamed).writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start(str(tmp_path / "points"), format="parquet").awaitTermination()
    assert in_order(spark.read.parquet(str(tmp_path / "points"))) == in_order(points)


class Streamed:
    """A query that appends the client ids of pushes to a directory, whenever it is run."""

    def __init__(self, spark: SparkSession, zone: LandingZone, root: Path, **trigger: Any) -> None:
        self._spark = spark
        self._zone = zone
        self._root = root
        self._options = {"maxFilesPerTrigger": trigger.pop("files")} if "files" in trigger else {}
        self._trigger = trigger or {"availableNow": True}

    def run(self) -> list[str]:
        reader = self._spark.readStream.format("fleetgauge").options(kind="pushes", **self._options)
        pushes = reader.load(str(self._zone.root))
        writer = pushes.select("client_id").writeStream.option("checkpointLocation", str(self._root / "checkpoint"))
        query = writer.trigger(**self._trigger).start(str(self._root / "found"), format="parquet")
        try:
            query.processAllAvailable() if "processingTime" in self._trigger else query.awaitTermination()
        finally:
            query.stop()
        return sorted(row.client_id for row in self._spark.read.parquet(str(self._root / "found")).collect())

    @property
    def batches(self) -> int:
        return len(list((self._root / "checkpoint" / "commits").glob("[0-9]*")))


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}])
def test_a_stream_that_is_started_again_reads_every_file_once(
    trigger: dict[str, Any], spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    register(spark)
    stream = Streamed(spark, zone, tmp_path, **trigger)
    zone.write([push(client_id="a")], name="part-0", hour="11")
    zone.write([push(client_id="b")], name="part-1", hour="12")
    assert stream.run() == ["a", "b"]
    assert stream.run() == ["a", "b"]
    zone.write([push(client_id="c")], name="part-2", hour="12")
    zone.write([push(client_id="of an hour long past")], name="part-3", date="2026-01-01", hour="03")
    assert stream.run() == ["a", "b", "c", "of an hour long past"]


def test_a_batch_has_as_many_files_as_are_asked_for_the_oldest_first(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    register(spark)
    stream = Streamed(spark, zone, tmp_path, files="2")
    for number in range(5):
        path = zone.write([push(client_id=str(number))], name=f"part-{4 - number}")
        os.utime(path, (NOON_US // 1_000_000, NOON_US // 1_000_000 + number))
    assert stream.run() == ["0", "1", "2", "3", "4"]
    assert stream.batches == 3
    first = (tmp_path / "checkpoint" / "offsets" / "0").read_text()
    assert ("part-4" in first, "part-3" in first, "part-2" in first) == (True, True, False)
    assert stream.run() == ["0", "1", "2", "3", "4"]


def test_a_batch_that_was_cut_off_is_read_again_with_the_files_that_it_had(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    register(spark)
    stream = Streamed(spark, zone, tmp_path)
    zone.write([push(client_id="a")], name="part-0")
    assert stream.run() == ["a"]
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink()
    zone.write([push(client_id="b")], name="part-1")
    assert stream.run() == ["a", "b"], "the directory has batch 0, and takes it once"


def test_files_that_were_written_long_ago_are_forgotten_and_read_once(
    spark: SparkSession, zone: LandingZone, tmp_path: Path
) -> None:
    register(spark)
    stream = Streamed(spark, zone, tmp_path)
    for number, hour in enumerate(("09", "10", "11")):
        path = zone.write([push(client_id=hour)], name="part-0", hour=hour)
        written_s = NOON_US // 1_000_000 + number * 7_200
        os.utime(path, (written_s, written_s))
        assert stream.run() == [f"{9 + each:02}" for each in range(number + 1)]
    offset = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]"), key=lambda file: int(file.name)).read_text()
    assert "hour=11" in offset
    assert "hour=09" not in offset


def test_a_zone_in_s3_is_read_in_batch_and_as_a_stream(spark: SparkSession, zone: LandingZone, tmp_path: Path) -> None:
    register(spark)
    fill(zone)
    with s3_store(tmp_path / "access.log") as port:
        s3(port).create_dir("lake")
        fs.copy_files(str(zone.root), "lake/pushes", destination_filesystem=s3(port))
        places = {"endpoint": f"http://127.0.0.1:{port}", "endpoint.region": "us-east-1"}
        keys = {**places, "access.key": "key", "secret.key": SECRET}
        options = {"kind": "pushes", **{f"spark.hadoop.fs.s3a.{key}": value for key, value in keys.items()}}
        read = spark.read.format("fleetgauge").options(**options).load("s3://lake/pushes")
        assert {row.client_id for row in read.collect()} == {"one", "two"}
        streamed = spark.readStream.format("fleetgauge").options(**options).load("s3a://lake/pushes")
        writer = streamed.select("client_id").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        for _ in range(2):
            query = writer.trigger(availableNow=True).start(str(tmp_path / "found"), format="parquet")
            query.awaitTermination()
    assert sorted(row.client_id for row in spark.read.parquet(str(tmp_path / "found")).collect()) == ["one", "two"]
