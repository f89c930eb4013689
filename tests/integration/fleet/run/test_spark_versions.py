"""The oldest and the newest version of PySpark that are supported make the tables that one process makes."""

import random
from pathlib import Path

import pytest
from spark.landing_zone import NOON_US, LandingZone, push
from support.fleet.killed_runs import ON_SPARK, RUN_S, fill, kill_at_random, start_run
from support.fleet.spark_versions import LOCKED, NEWEST, OLDEST, SparkPython, spark_python
from support.fleet.standing_tables import assert_equal, contents
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(1_800)]


def run(zone: LandingZone, tables: Path, *more: str, python: SparkPython = LOCKED) -> None:
    process = start_run(str(zone.root), tables, *more, python=python)
    out, err = process.communicate(timeout=RUN_S)
    assert process.returncode == 0, err or out


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_runs_on_spark_killed_late_and_rebuilt_make_the_tables_of_one_process(version: str, tmp_path: Path) -> None:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    zone, python = LandingZone(tmp_path / "landing"), spark_python(version)
    here, there = tmp_path / "here", tmp_path / "there"
    fill(zone, 4)
    run(zone, here)
    killed = start_run(str(zone.root), there, "--max-files", "1", *ON_SPARK, python=python)
    kill_at_random(killed, there, random.Random(), with_jvm=True, linger_s=0.1)
    run(zone, there, *ON_SPARK, python=python)
    assert_equal(contents(there), contents(here))
    zone.write([push(dialect.java_producer({"node-1": 1.5}), received_at=NOON_US - 30_000_000)], name="late")
    run(zone, here)
    run(zone, there, *ON_SPARK, python=python)
    assert_equal(contents(there), contents(here))
    run(zone, there, "--rebuild", *ON_SPARK, python=python)
    assert_equal(contents(there), contents(here))
