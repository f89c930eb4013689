"""What `fleet run` takes into the driver does not grow with the fleet."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame
from support.killed_runs import QUICK_SPARK
from support.standing_tables import for_every_table
from typer.testing import CliRunner

from fleet.cli import app
from telemetry.push_record import format_instance_id
from tests.spark.landing_zone import NOON_US, LandingZone, push

INSTANCES = 1_000
FEW = 50
"""Rows of all answers together: files, days, batches, counts by reason."""


@pytest.mark.timeout(600)
def test_the_rows_that_reach_the_driver_are_few_however_many_clients_there_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[list[Any]] = []
    collect = DataFrame.collect

    def noted(frame: DataFrame) -> list[Any]:
        collected.append(collect(frame))
        return collected[-1]

    monkeypatch.setattr(DataFrame, "collect", noted)
    for name in ("toPandas", "toArrow", "toLocalIterator", "take"):
        monkeypatch.delattr(DataFrame, name)
    zone = LandingZone(tmp_path / "landing")
    payload = for_every_table(5.0)
    ids = [format_instance_id(uuid.UUID(int=number + 1)) for number in range(INSTANCES)]
    zone.write([push(payload, client_id=f"c{n}", client_instance_id=each) for n, each in enumerate(ids)])
    again = {"received_at": NOON_US + 60_000_000}
    zone.write([push(payload, client_instance_id=each, **again) for each in ids], name="part-1")

    arguments = ("--source", str(zone.root), "--tables", str(tmp_path / "tables"), "--max-files", "1")
    done = CliRunner().invoke(app, ["run", *arguments, *QUICK_SPARK, "--format", "json"])

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["pushes"] == 2 * INSTANCES
    assert collected
    assert sum(map(len, collected)) <= FEW, [str(rows)[:200] for rows in collected if len(rows) > 1]
