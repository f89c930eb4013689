"""The files of a simulated fleet: the same from the same seed, in the order of receipt, and the truth beside them."""

import json
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fleetgauge.exporters.landing.schema import LANDING_SCHEMA
from fleetgauge.fleet.decode.payloads import decode
from fleetgauge.testkit.simulate.request import SUBJECT_KINDS, parse_with
from fleetgauge.testkit.simulate.simulate import Fleet, make_plan, simulate

WITH = "slow-node@3:5m..20m,slow-processing@billing:5m..20m"


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def rows_of(root: Path) -> list[dict[str, Any]]:
    return [row for path in sorted(root.rglob("pushes-*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sim") / "out"
    simulate(root, Fleet(clients=40, hours=0.5, seed=5, pathologies=parse_with(WITH, 0.5)))
    return root


def test_the_same_seed_writes_the_same_bytes_and_another_seed_others(written: Path, tmp_path: Path) -> None:
    for seed in (5, 6):
        fleet = Fleet(clients=40, hours=0.5, seed=seed, pathologies=parse_with(WITH, 0.5))
        simulate(tmp_path / str(seed), fleet)
    assert files_of(tmp_path / "5") == files_of(written)
    assert files_of(tmp_path / "6") != files_of(written)


def test_the_zone_has_the_form_that_an_exporter_writes(written: Path) -> None:
    files = sorted((written / "landing").rglob("pushes-*.parquet"))
    assert all(pq.read_schema(path).equals(LANDING_SCHEMA, check_metadata=False) for path in files)
    rows = rows_of(written)
    assert all(one["received_at"] <= other["received_at"] for one, other in pairwise(rows))
    assert [row["push_id"] for row in rows] == sorted({row["push_id"] for row in rows})
    assert not decode([row["metrics"] for row in rows]).reasons
    assert min(row["received_at"] for row in rows) >= datetime(2026, 3, 2, 6, tzinfo=UTC)


def test_clients_push_once_an_interval_and_some_pushes_are_heartbeats(written: Path) -> None:
    rows = rows_of(written)
    moments: dict[str, list[datetime]] = {}
    for row in rows:
        if row["push_interval_ms"] == 60_000 and not row["terminating"]:
            moments.setdefault(row["client_instance_id"], []).append(row["received_at"])
    gaps = sorted((later - first).total_seconds() for each in moments.values() for first, later in pairwise(each))
    assert 59.9 < gaps[len(gaps) // 2] < 60.1
    assert any(row["metrics"] == b"" for row in rows)


def test_the_truth_is_a_table_of_the_contracts_words(written: Path) -> None:
    table = pq.read_table(written / "truth.parquet")
    assert table.schema.names == ["verdict", "subject_kind", "subject", "cluster_id", "client_id", "from", "to"]
    rows = table.to_pylist()
    assert [(row["verdict"], row["subject_kind"], row["subject"]) for row in rows] == [
        ("slow-node", "node", "3"),
        ("slow-processing", "client", "billing"),
    ]
    assert {row["cluster_id"] for row in rows} <= {row["cluster_id"] for row in rows_of(written)}
    assert (rows[0]["from"].minute, rows[0]["to"].minute) == (5, 20)
    shown = json.loads((written / "truth.json").read_text())
    assert [{**row, "from": row["from"].isoformat(), "to": row["to"].isoformat()} for row in rows] == shown


def test_one_of_each_is_about_as_many_subjects(tmp_path: Path) -> None:
    simulate(tmp_path / "out", Fleet(clients=150, hours=1.6, seed=2, pathologies=parse_with("all", 1.6)))
    rows = pq.read_table(tmp_path / "out" / "truth.parquet").to_pylist()
    assert {row["verdict"]: row["subject_kind"] for row in rows} == SUBJECT_KINDS
    assert len({(row["subject_kind"], row["subject"]) for row in rows}) == len(rows)


@pytest.mark.parametrize("clients", [1, 3, 10, 60])
def test_a_small_fleet_can_be_planned_whatever_the_seed(clients: int) -> None:
    """A cluster of it may have no clients."""
    for seed in range(15):
        assert make_plan(Fleet(clients=clients, hours=3, seed=seed)).world.apps
