"""`fleet run` on Spark makes the tables that it makes in one process, and reads what only Spark can."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs
from pyspark.sql import SparkSession
from spark.landing_zone import LandingZone, push
from support.fleet.fleet_in_disorder import fleet_pushes, shuffled_batches
from support.fleet.killed_runs import ON_SPARK, QUICK_SPARK
from support.fleet.standing_tables import assert_equal, contents, rows
from support.receivers.s3_store import SECRET, s3, s3_store
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.engines import processes
from fleetgauge.fleet.engines.choice import Kind
from fleetgauge.fleet.engines.engine import InProcess, OnSpark
from fleetgauge.fleet.engines.processes import InProcesses

pytestmark = pytest.mark.timeout(900)  # runs on Spark, on a machine that may be busy

FILES = 5


def run(source: Path | str, tables: Path, *more: str) -> Result:
    result = CliRunner().invoke(app, ["run", "--source", str(source), "--tables", str(tables), *more])
    assert result.exit_code == 0, result.output
    return result


def fill(zone: LandingZone, files: range) -> None:
    """Pushes of every kind in any order, some of them in several files; the third file is damaged."""
    chance = random.Random(11)
    batches = shuffled_batches(chance, fleet_pushes(chance, pushes_each=20), batches=FILES)
    batches[1] += batches[0][:5]
    batches[1] += [push() | {"push_id": None}, push() | {"client_instance_id": None}, push(received_at=0)]
    for number in files:
        path = zone.write(batches[number], name=f"part-{number}")
        if number == 2:
            path.write_bytes(path.read_bytes()[:-100])


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What each engine was asked."""
    found: Counter[str] = Counter()

    def noting(engine: Any, name: str) -> None:
        own = getattr(engine, name)

        def noted(self: Any, *arguments: Any) -> Any:
            found[f"{engine.__name__}.{name}"] += 1
            return own(self, *arguments)

        monkeypatch.setattr(engine, name, noted)

    for engine in (InProcess, InProcesses, OnSpark):
        for name in ("make", "map"):
            noting(engine, name)
    return found


def test_tables_are_the_same_with_late_files_repeats_bad_files_and_several_batches(
    spark: SparkSession, tmp_path: Path, used: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reads what another has read before the late files, too: what they remember is the same."""
    monkeypatch.setattr(processes, "_BYTES_A_PROCESS", 1)
    zone = LandingZone(tmp_path / "landing")
    with_engine = {"here": ("--processes", "1"), "three": ("--processes", "3"), "spark": ON_SPARK}
    orders = {"here": ("here", "here"), "spark": ("spark", "spark"), "both": ("spark", "here")}
    orders |= {"processes": ("three", "three"), "all": ("three", "spark")}
    for part, files in enumerate((range(3), range(3, FILES))):
        fill(zone, files)
        for name, of_part in orders.items():
            run(zone.root, tmp_path / name, "--max-files", "2", *with_engine[of_part[part]])
    assert (used["InProcess.make"], used["InProcesses.make"], used["OnSpark.make"]) == (4, 5, 6)
    assert used["OnSpark.map"]
    assert used["InProcesses.map"]
    expected = contents(tmp_path / "here")
    assert len(rows(tmp_path / "here", "rejects")) >= 4
    for name in orders:
        assert_equal(contents(tmp_path / name), expected)


def test_a_zone_on_any_file_system_is_read_by_spark(spark: SparkSession, tmp_path: Path, used: Counter[str]) -> None:
    """Hadoop's viewfs stands for the file systems that only Spark can list, and executors do not have as a path."""
    zone = LandingZone(tmp_path / "landing")
    fill(zone, range(FILES))
    context: Any = spark.sparkContext._jsc
    context.hadoopConfiguration().set("fs.viewfs.mounttable.lake.link./landing", zone.root.as_uri())
    run("viewfs://lake/landing", tmp_path / "tables", *QUICK_SPARK)
    assert (used["InProcess.make"], used["OnSpark.make"]) == (0, 1)
    run(zone.root, tmp_path / "here")
    # A reject names its file by the URI that it was read from.
    assert_equal(*(contents(tmp_path / name, without=("rejects",)) for name in ("tables", "here")))
    again = run("viewfs://lake/landing", tmp_path / "tables", *QUICK_SPARK)
    assert again.stdout == "nothing new in viewfs://lake/landing\n"


def test_a_large_zone_in_s3_is_read_by_spark_which_has_no_classes_for_it(
    spark: SparkSession, tmp_path: Path, used: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(Kind.TABLES.__dict__, "_value_", 0)
    zone = LandingZone(tmp_path / "landing")
    fill(zone, range(3))
    with s3_store(tmp_path / "access.log") as port:
        s3(port).create_dir("lake")
        fs.copy_files(str(zone.root), "lake/pushes", destination_filesystem=s3(port))
        keys = {"endpoint": f"http://127.0.0.1:{port}", "access.key": "key", "secret.key": SECRET}
        conf = [word for key, value in keys.items() for word in ("--conf", f"spark.hadoop.fs.s3a.{key}={value}")]
        run("s3://lake/pushes?region=us-east-1", tmp_path / "s3", *conf, *QUICK_SPARK)
    assert used["OnSpark.make"] == 1
    run(zone.root, tmp_path / "here")
    found, expected = (contents(tmp_path / name, without=("rejects",)) for name in ("s3", "here"))
    assert_equal(found, expected)
    assert len(rows(tmp_path / "s3", "rejects")) == len(rows(tmp_path / "here", "rejects"))


def test_a_file_system_that_spark_does_not_know_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    result = CliRunner().invoke(
        app, ["run", "--source", "foo://landing", "--tables", str(tmp_path / "tables"), *QUICK_SPARK]
    )
    assert (result.exit_code, result.stdout) == (1, ""), result.output
    (sentence,) = result.stderr.strip().splitlines()
    said = "cannot list the landing zone foo://landing: org.apache.hadoop.fs.UnsupportedFileSystemException: No FileS"
    assert said in sentence
