"""Clusters judged by several tasks beside all of them judged by one."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from support.fleet.changed_pushes import Zone, beside, renamed
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.engines.processes import InProcesses
from fleetgauge.fleet.pipeline import clusters
from fleetgauge.fleet.pipeline.of_verdicts import replace_verdicts
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.simulate.plan import BEGIN
from fleetgauge.verdicts.rules import default_rules

pytestmark = pytest.mark.integration

EVER = datetime.max.replace(tzinfo=UTC)
FAULTS = "slow-node@2:30m..80m,slow-processing@billing:25m..72m"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet in three clusters: one as it is, the same in another cluster, and one with other faults."""
    root = tmp_path_factory.mktemp("clusters")
    for seed, faults in ((4, ("--with", FAULTS)), (5, ("--with", "throttled@orders:40m..85m"))):
        run("simulate", root / str(seed), "--clients", 40, "--hours", 1.5, "--seed", seed, *faults)
    one, other = (Zone.read(root / seed / "landing") for seed in ("4", "5"))
    zone = beside(other, cluster_id="third")(beside(renamed(one), cluster_id="second")(one))
    zone.write(root / "landing")
    run("run", "--source", root / "landing", "--tables", root / "tables")
    return root / "tables"


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.stdout


def judged(tables: Path, directory: Path, *steps: tuple[int, timedelta]) -> dict[str, Any]:
    """What is found by runs with so many processes, each up to a time after the beginning, or all."""
    shutil.copytree(tables, directory)
    store, begin = Store(str(directory), {}), datetime.min.replace(tzinfo=UTC)
    for cores, minutes in steps:
        end = BEGIN + minutes
        engine = InProcesses(cores)
        replace_verdicts(store, engine, [(begin, EVER)], default_rules(), 300, end if minutes else None)
        engine.close()
        begin = end
    found: dict[str, Any] = {
        name: sorted(DeltaTable(str(directory / name)).to_pyarrow_table().to_pylist(), key=repr)
        for name in ("gold/verdicts", "gold/group_trends")
    }
    found["coverage"] = json.loads(run("verdicts", "--coverage", "--tables", directory, "--format", "json"))
    found["explained"] = json.loads(run("explain", "node", "2", "--tables", directory, "--format", "json"))
    found["of"] = {row["cluster_id"] for row in found["gold/verdicts"]}
    return found


ALL = timedelta(0)


@pytest.mark.parametrize(
    "steps",
    [
        [(2, ALL)],
        [(3, timedelta(minutes=50)), (2, timedelta(minutes=70)), (1, ALL)],
    ],
    ids=["two tasks", "three, two, one"],
)
def test_tasks_by_clusters_give_the_verdicts_of_one(
    steps: list[tuple[int, timedelta]], tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = judged(tables, tmp_path / "one", (1, ALL))
    assert len(expected["of"]) == 3
    monkeypatch.setattr(clusters, "_LEAST_INSTANCES", 10)
    known = Store(str(tables), {}).snapshot(catalog.CLIENTS).table(("cluster_id",))
    assert [len(clusters.divided(known, InProcesses(count))) for count in (1, 2, 3)] == [1, 2, 3]
    assert judged(tables, tmp_path / "several", *steps) == expected
