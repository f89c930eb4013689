"""Readers and jobs in sessions of a real Spark Connect server, which have no JVM of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.fleet.fleet_commands import FleetCommands
from spark.landing_zone import LandingZone
from support.fleet.killed_runs import fill
from support.fleet.spark_cluster import connect_server, shipped_code
from support.fleet.standing_tables import assert_equal, contents
from support.programs.node import run_cli
from support.waiting import PATIENCE_S

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.timeout(1_800)]

WHERE_CODE_IS = """
import sys
import pyarrow as pa
from fleetgauge.fleet.spark.session import SessionSettings, start_session

def imported(batches):
    import fleetgauge
    for _ in batches:
        yield pa.RecordBatch.from_pylist([{"file": fleetgauge.__file__}])

session = start_session(SessionSettings(master=sys.argv[1], py_files=tuple(sys.argv[2:])))
print(session.range(1).mapInArrow(imported, "file string").first().file)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> LandingZone:
    made = LandingZone(tmp_path_factory.mktemp("zone") / "landing")
    fill(made, 4)
    return made


@pytest.fixture(scope="module")
def tables(zone: LandingZone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of one process, without Spark."""
    made = tmp_path_factory.mktemp("tables")
    run_cli("fleet", "run", "--source", str(zone.root), "--tables", str(made))
    return made


def test_runs_and_questions_give_what_one_process_gives(
    server: str, zone: LandingZone, tables: Path, tmp_path: Path
) -> None:
    with FleetCommands(options=("--remote", server)) as fleet:
        done = fleet.ask("run", "--source", zone.root, "--tables", tmp_path / "tables", "--max-files", "2")
        assert done["exit_code"] == 0, done
        assert_equal(contents(tmp_path / "tables"), contents(tables))
    for question in ("inventory", "latency", "points", "rejects"):
        asked = ("fleet", "show", question, "--source", str(zone.root), "--format", "json")
        here, there = run_cli(*asked), run_cli(*asked, "--remote", server)
        assert sorted(there.stdout.splitlines()) == sorted(here.stdout.splitlines())
        assert "7 repeated pushes were counted once" in there.stderr
        assert there.stderr == here.stderr


def test_a_file_that_cannot_be_read_is_set_aside(server: str, tmp_path: Path) -> None:
    zone = LandingZone(tmp_path / "landing")
    fill(zone, 2)
    (damaged,) = zone.root.glob("**/part-1*")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    run_cli("fleet", "run", "--source", str(zone.root), "--tables", str(tmp_path / "here"))
    run_cli("fleet", "run", "--source", str(zone.root), "--tables", str(tmp_path / "there"), "--remote", server)
    assert_equal(contents(tmp_path / "there"), contents(tmp_path / "here"))
    assert any(str(damaged) in row for row in contents(tmp_path / "there")["rejects"])


def test_readers_and_the_data_source_give_what_tables_give(
    server: str, zone: LandingZone, tables: Path, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "integration.fleet.connect_frames", server, str(zone.root), str(tables), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found.pop("latency")[0]) == len(contents(tables)["latency"])
    for of_zone, of_tables in found.values():
        assert of_zone
        assert of_zone == of_tables


def test_code_that_is_shipped_goes_before_what_the_server_has(server: str, tmp_path: Path) -> None:
    _, archive = shipped_code(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", WHERE_CODE_IS, server, archive],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "fleet.zip/fleetgauge/__init__.py" in done.stdout


def test_a_server_that_is_not_there_is_one_sentence(zone: LandingZone) -> None:
    found = run_cli(
        "fleet", "show", "inventory", "--source", str(zone.root), "--remote", "sc://127.0.0.1:1", check=False
    )
    assert found.returncode == 1
    assert "no Spark Connect server answers at sc://127.0.0.1:1: " in found.stderr
