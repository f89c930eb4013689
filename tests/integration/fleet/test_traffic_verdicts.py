"""`fleet run` on the rows of a gateway, with pushes beside them and without any."""

import json
from pathlib import Path
from typing import Any

import pytest
from spark.landing_zone import NOON_US, LandingZone, push
from support.fleet.standing_tables import rows
from support.gateway.traffic_rows import MINUTE_US, Row, produced, write_traffic
from typer.testing import CliRunner
from unit.fleet.decode import dialect_payloads as dialect

from fleetgauge.cli.fleet.app import app


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetgauge.fleet.pipeline.run._started", lambda _: pytest.fail("Spark was started"))


def fleet(*arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def run(root: Path, tables: Path) -> Row:
    found: Row = fleet("run", "--source", str(root), "--tables", str(tables))
    return found


def test_a_client_that_sends_no_telemetry_is_judged_by_a_gateway(tmp_path: Path) -> None:
    zone, tables = tmp_path / "landing", tmp_path / "tables"
    write_traffic(zone, map(produced, range(40)), "1")
    assert run(zone, tables)["traffic"] == 40
    assert len(rows(tables, "traffic")) == 40
    (verdict,) = fleet("verdicts", "--tables", str(tables))
    assert (verdict["verdict"], verdict["subject"], verdict["judged_by"]) == ("small-batches", "orders", ["gateway"])
    covered = {each["verdict"]: each for each in fleet("verdicts", "--tables", str(tables), "--coverage")}
    assert covered["small-batches"]["judged_by"] == "gateway"
    assert covered["small-batches"]["library"] == "no telemetry"
    (explained,) = fleet("explain", "orders", "--tables", str(tables), "--since", "2026-03-01")
    assert [each["verdict"] for each in explained["verdicts"]] == ["small-batches"]


def test_runs_that_cut_the_traffic_find_what_one_run_finds(tmp_path: Path) -> None:
    """Files of the same windows, also of one that was judged before."""
    zone, whole = LandingZone(tmp_path / "landing"), tmp_path / "whole"
    for part, minutes in enumerate((range(8), range(8, 21), range(21, 40))):
        at = {"received_at": NOON_US + minutes[-1] * MINUTE_US}
        zone.write([push(dialect.librdkafka_producer([(3, 2.5)]), client_id="rd", **at)], name=f"part-{part}")
        write_traffic(zone.root, map(produced, minutes), str(part))
        run(zone.root, tmp_path / "parts")
    run(zone.root, whole)
    found = {(row["verdict"], row["subject"]): row for row in rows(tmp_path / "parts", "verdicts")}
    assert found["small-batches", "orders"]["judged_by"] == ["gateway"]
    assert {(row["verdict"], row["subject"]): row for row in rows(whole, "verdicts")} == found


def test_a_damaged_file_of_traffic_is_set_aside(tmp_path: Path) -> None:
    zone, tables = tmp_path / "landing", tmp_path / "tables"
    write_traffic(zone, map(produced, range(40)), "1")
    (zone / "traffic" / "date=2026-03-01" / "hour=12" / "traffic-2.parquet").write_bytes(b"PAR1")
    said = run(zone, tables)
    assert said["traffic"] == 40
    assert ["the file of traffic cannot be read" in each for each in said["rejects"]] == [True]
