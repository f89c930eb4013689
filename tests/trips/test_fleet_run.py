"""`fleetgauge fleet run` over what real clients pushed: in its own process, and on Spark."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.fleet.killed_runs import ON_SPARK
from support.fleet.standing_tables import contents
from support.programs.node import run_cli

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java
from trips.conftest import Exported


def test_a_window_that_lasts_is_judged_up_to_the_last_push(zone: Path, tmp_path: Path) -> None:
    run_cli("fleet", "run", "--source", str(zone), "--tables", str(tmp_path / "tables"))
    listed = run_cli("fleet", "verdicts", "--tables", str(tmp_path / "tables")).stdout
    found = re.search(r" to (\d{4}-\d\d-\d\d \d\d:\d\d) UTC", " ".join(listed.split()))
    assert found is not None, listed
    assert found[1] <= f"{datetime.now(UTC):%Y-%m-%d %H:%M}"


@pytest.mark.spark
def test_both_engines_make_the_same_tables(exported: Exported, zone: Path, tmp_path: Path) -> None:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    run_cli("fleet", "run", "--source", str(zone), "--tables", str(tmp_path / "in process"))
    run_cli("fleet", "run", "--source", str(zone), "--tables", str(tmp_path / "on spark"), *ON_SPARK)
    in_process, on_spark = contents(tmp_path / "in process"), contents(tmp_path / "on spark")
    assert {name: len(rows) for name, rows in on_spark.items()} == {
        name: len(rows) for name, rows in in_process.items()
    }
    assert on_spark == in_process
    assert len(in_process["clients"]) == len(exported.client_ids)
    assert in_process["points"]
