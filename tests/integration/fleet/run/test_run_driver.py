"""What the tasks of `fleet run` hand to the process that starts them does not grow with the fleet."""

import json
import pickle
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from spark.landing_zone import NOON_US, LandingZone, push
from support.fleet.standing_tables import for_every_table
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.telemetry.push_record import format_instance_id

SHARDS = 64


def handed_over(root: Path, instances: int, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Bytes of what tasks return, pickled, as Spark's would be, of two batches; of each kind of them."""
    found: Counter[str] = Counter()
    run_map, run_make = InProcess.map, InProcess.make

    def noted_map(engine: InProcess, task: Any, parts: Any) -> Any:
        assert len(pickle.dumps(task)) < 20_000, "a task goes to every executor"
        for made in run_map(engine, task, parts):
            found[type(task).__name__] += len(pickle.dumps(made))
            yield made

    def noted_make(engine: InProcess, batch: Any, bad: Any, task: Any) -> Any:
        assert len(pickle.dumps(task)) < 20_000, "a task goes to every executor"
        result = run_make(engine, batch, bad, task)
        found[type(task).__name__] += len(pickle.dumps(result))
        return result

    with monkeypatch.context() as patched:
        patched.setattr(InProcess, "map", noted_map)
        patched.setattr(InProcess, "make", noted_make)
        zone = LandingZone(root / "landing")
        payload = for_every_table(5.0)
        ids = [format_instance_id(uuid.UUID(int=number % SHARDS << 122 | number + 1)) for number in range(instances)]
        zone.write([push(payload, client_id=f"c{n}", client_instance_id=each) for n, each in enumerate(ids)])
        again = {"received_at": NOON_US + 60_000_000}
        zone.write([push(payload, client_instance_id=each, **again) for each in ids], name="part-1")
        arguments = ("--source", str(zone.root), "--tables", str(root / "tables"), "--max-files", "1")
        done = CliRunner().invoke(app, ["run", *arguments, "--format", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["pushes"] == 2 * instances
    return found


def test_what_reaches_the_driver_is_little_however_many_clients_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = (handed_over(tmp_path / str(count), count, monkeypatch) for count in (SHARDS, 1_000))
    assert few.keys() == many.keys() >= {"MakeSilver", "OfClients", "OfWindows"}
    for name, size in many.items():
        assert size < 1.2 * few[name], name
        assert size < 1_000 * SHARDS, name
