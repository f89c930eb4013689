"""A simulated fleet, as `fleet run` reads it: nothing is rejected, and the tables show the cause that was modelled."""

import json
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.testkit.simulate.plan import BEGIN

pytestmark = pytest.mark.integration

WITH = "slow-node@3:30m..60m,slow-processing@billing:30m..60m"

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sim")
    out = root / "out"
    made = CliRunner().invoke(
        app, ["simulate", str(out), "--clients", "50", "--hours", "1.2", "--seed", "4", "--with", WITH]
    )
    assert made.exit_code == 0, made.output
    done = CliRunner().invoke(
        app, ["run", "--source", str(out / "landing"), "--tables", str(root / "tables"), "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rejects"] == {}
    return root / "tables"


def rows_of(tables: Path, name: str) -> Rows:
    rows: Rows = DeltaTable(str(tables / "gold" / name)).to_pyarrow_table().to_pylist()
    return rows


def values(rows: Rows, column: str, begin_m: int, end_m: int, **of: Any) -> list[float]:
    """What rows of these minutes have there, that are of these values."""
    begin, end = (BEGIN + timedelta(minutes=minutes) for minutes in (begin_m, end_m))
    return [
        row[column]
        for row in rows
        if begin <= row["window_start"] < end
        and row[column] is not None
        and all(row[name] == value for name, value in of.items())
    ]


def test_a_slow_node_is_slow_for_its_clients_and_no_other_node_is(tables: Path) -> None:
    rows = [row for row in rows_of(tables, "latency") if row["client_id"] != "billing"]
    for node_id in (1, 2, 3, 4):
        of = {"node_id": node_id, "role": "producer"}
        before = median(values(rows, "latency_avg_ms", 0, 30, **of))
        during = median(values(rows, "latency_avg_ms", 35, 60, **of))
        after = median(values(rows, "latency_avg_ms", 65, 72, **of))
        assert (during > 2 * before) == (node_id == 3)
        assert 0.6 < after / before < 1.6


def test_an_application_that_is_slow_hardly_polls_and_its_lag_grows(tables: Path) -> None:
    rows = rows_of(tables, "consumers")
    idle = values(rows, "poll_idle_ratio_avg", 40, 60, client_id="billing")
    assert max(idle) < 0.1
    assert min(values(rows, "poll_idle_ratio_avg", 0, 30, client_id="billing")) > 0.3
    lags = values(rows, "lag_records", 40, 60, client_id="billing")
    assert lags
    assert max(lags) > 10 * max(values(rows, "lag_records", 0, 30, client_id="billing"))
    assert min(values(rows, "poll_idle_ratio_avg", 40, 60, client_id="shipping")) > 0.3
