"""A data directory that an earlier commit wrote, used by today's node: nothing is lost or delivered twice."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support.clients.pusher import Pusher
from support.fleet.landing import landed
from support.ports import free_port
from support.programs.node import Node, run_cli
from support.receivers.otlp_receivers import GrpcReceiver, HttpReceiver
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
EARLIER = "79669f1"
PUSHES = 10


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier commit's code; it runs with today's libraries, as after a roll-back of Fleetgauge alone."""
    found = subprocess.run(["git", "archive", EARLIER], cwd=ROOT, capture_output=True, check=False)
    if found.returncode != 0:
        pytest.skip(f"needs commit {EARLIER}: clone with history")
    directory = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(found.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory


def config(refusing: int, away: int) -> str:
    return f"""
[client-metrics.all]
metrics = "*"
interval.ms = 60000
[exporters.landing]
type = "landing"
"linger.ms" = 200
[exporters.refusing]
type = "otlp"
protocol = "http/protobuf"
endpoint = "http://127.0.0.1:{refusing}"
[exporters.away]
type = "otlp"
endpoint = "http://127.0.0.1:{away}"
[exporters.page]
type = "prometheus"
listen = "127.0.0.1:0"
"""


def exporters(status: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = status["exporter_process"]["exporters"]
    return found


def test_log_cursors_dead_letters_and_identity_are_kept(earlier: Path, tmp_path: Path) -> None:
    refusing, away = HttpReceiver(), GrpcReceiver(free_port())
    away.stop()  # nothing listens on its port while the earlier node runs
    refusing.answer = lambda handler: handler.reply(400)
    text = config(refusing.port, away.port)
    with Node(tmp_path, config=text, modules=earlier) as node:
        pusher = Pusher(node.port, PUSHES)
        pusher.run()
        assert len(pusher.acknowledged) == PUSHES
        before = node.wait_for(
            lambda s: (
                exporters(s)["landing"]["lag_records"] == 0
                and exporters(s)["away"]["lag_records"] == PUSHES
                and exporters(s)["refusing"]["letters"] == PUSHES
            ),
            what="a landing zone and dead letters, and all of it to wait for the receiver that is away",
        )
        node.kill()  # and not stopped: what is kept does not depend on a clean stop
    files = sorted((node.data / "landing").rglob("*.parquet"))
    receiver = GrpcReceiver(port=away.port)
    with Node(tmp_path, config=text) as node:
        after = node.wait_for(
            lambda s: (
                all(exporters(s)[name]["lag_records"] == 0 for name in ("away", "landing", "refusing"))
                and exporters(s)["refusing"]["letters"] == PUSHES
            ),
            what="the delivery",
        )
        assert after["node"]["cluster_id"] == before["node"]["cluster_id"]
        again = Pusher(node.port, PUSHES)
        again.run()
        node.wait_for(
            lambda s: (
                exporters(s)["refusing"]["letters"] == 2 * PUSHES
                and exporters(s)["landing"]["delivered_records"] == PUSHES
            ),
            what="as many again",
        )
        refusing.answer = lambda handler: handler.reply(200, b"\x0a\x00")
        replayed = run_cli("log", "dead", "replay", "--exporter", "refusing", "-d", str(node.data))
        assert f"delivered {2 * PUSHES}, refused again 0, waiting 0" in replayed.stdout
        assert node.stop() == 0
    rows = Counter(row["client_instance_id"] for row in landed(node.data / "landing"))
    assert set(rows) == pusher.acknowledged | again.acknowledged
    assert set(rows.values()) == {1}
    assert set(files) <= set((node.data / "landing").rglob("*.parquet"))
    received = b"".join(receiver.requests)
    assert all(received.count(each.encode()) == 1 for each in pusher.acknowledged | again.acknowledged)
    receiver.stop()
    refusing.stop()


def fleet(*arguments: str, modules: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """A `fleet` command of today's code, or of that in `modules`."""
    environment = os.environ if modules is None else {**os.environ, "PYTHONPATH": str(modules)}
    command = [sys.executable, "-m", "fleetgauge", "fleet", *arguments]
    return subprocess.run(
        command, cwd=modules, env=environment, capture_output=True, text=True, timeout=8 * PATIENCE_S, check=False
    )


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(3_000)
def test_standing_tables_are_refused_untouched_and_made_again_of_the_landing_zone(
    earlier: Path, tmp_path: Path
) -> None:
    """Rows of these tables do not hold their cluster, which today's need: no step could add it to them."""
    text = f'[client-metrics.all]\nmetrics = "*"\n[exporters.landing]\ntype = "landing"\npath = "{tmp_path}/landing"\n'
    with Node(tmp_path, config=text + '"linger.ms" = 200\n', modules=earlier) as node:
        pusher = Pusher(node.port, PUSHES)
        pusher.run()
        node.wait_for(
            lambda s: exporters(s)["landing"]["delivered_records"] == PUSHES, what="all pushes in the landing zone"
        )
        node.stop()
    source = ("--source", str(tmp_path / "landing"))
    made = fleet("run", *source, "--tables", str(tmp_path / "old"), modules=earlier)
    assert made.returncode == 0, made.stderr
    files = {path: path.read_bytes() for path in (tmp_path / "old").rglob("*") if path.is_file()}
    refused = fleet("run", *source, "--tables", str(tmp_path / "old"))
    assert refused.returncode == 1
    assert "was written by an earlier release" in refused.stderr
    assert "reads everything again from --source" in refused.stderr
    assert {path: path.read_bytes() for path in files} == files
    assert fleet("run", *source, "--tables", str(tmp_path / "new")).returncode == 0
    shown = fleet("show", "clients", "--tables", str(tmp_path / "new"), "--format", "json")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert {row["client_instance_id"] for row in rows} == pusher.acknowledged
