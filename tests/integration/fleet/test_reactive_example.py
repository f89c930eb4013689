"""KIP-714's example of reactive monitoring: a consumer is reported by its client id, asked, seen, and left alone again.

docs/analyse/reactive-example.md tells the same for an operator.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from support.fleet.killed_runs import QUICK_JVM
from support.programs.node import Node
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

from fleetgauge.fleet.errors import JavaError
from fleetgauge.fleet.spark.session import check_java

pytest.importorskip("confluent_kafka")
pytestmark = [pytest.mark.integration, pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(900)]  # minutes

REPORTED = "billing-worker"
IDLE = "org.apache.kafka.consumer.poll.idle.ratio.avg"
STANDING = '[client-metrics.standing]\nmetrics = "org.apache.kafka.consumer.coordinator."\ninterval.ms = 2000\n'
ADDED = (
    '[client-metrics.lagging]\nmetrics = "org.apache.kafka.consumer."\ninterval.ms = 10000\n'
    f'match = "client_id={REPORTED},client_source_address=127.0.0.1"\n'
)
PROGRAM = Path(__file__).parents[2] / "support" / "clients" / "slowing_consumer.py"


@contextmanager
def consumer(node: Node, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        command = [sys.executable, "-u", str(PROGRAM), f"127.0.0.1:{node.port}", REPORTED]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
    follow(log)
    assert process.stdin is not None
    try:
        yield process
    finally:
        unfollow(log)
        process.stdin.close()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
            process.wait()


def landed(landing: Path) -> list[dict[str, Any]]:
    """Pushes in the landing zone, by time."""
    files = [str(path) for path in landing.glob("date=*/hour=*/*.parquet")]
    if not files:
        return []
    rows: list[dict[str, Any]] = ds.dataset(files).to_table().to_pylist()
    return sorted(rows, key=lambda row: row["push_id"])


def has_the_metric(row: dict[str, Any]) -> bool:
    return IDLE.encode() in row["metrics"]


def test_a_lagging_consumer_is_asked_by_its_client_id_and_its_trend_is_seen(tmp_path: Path) -> None:
    try:
        check_java()
    except JavaError as error:
        pytest.skip(str(error))
    landing = tmp_path / "landing"
    exporters = f'[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 500\n'
    with Node(tmp_path, config=STANDING + exporters) as node:
        with consumer(node, tmp_path / "consumer.log"):
            before = wait_for(
                lambda: landed(landing), "pushes under the standing subscription", until=lambda found: len(found) >= 2
            )
            node.reread(STANDING + ADDED + exporters)
            wait_for(
                lambda: sum(map(has_the_metric, landed(landing))),
                "pushes under the added subscription",
                until=lambda count: count >= 6,
            )
            node.reread(STANDING + exporters)
            wait_for(
                lambda: landed(landing)[-1],
                "a push without the removed subscription",
                until=lambda last: (
                    last["subscription_id"] == before[-1]["subscription_id"] and not has_the_metric(last)
                ),
            )
        assert node.stop() == 0, node.output()
    pushes = landed(landing)
    asked = [row for row in pushes if has_the_metric(row)]
    assert not any(map(has_the_metric, before)), "nobody had asked for it"
    assert len({row["client_instance_id"] for row in pushes}) == 1, "the same instance all along"
    shown = subprocess.run(
        [
            *(sys.executable, "-m", "fleetgauge.cli.fleet.app", "show", "points", "--format", "json"),
            *("--master", "local[2]"),
            *("--source", str(landing), "--client-id", REPORTED, "--metric", IDLE),
        ],
        env={**os.environ, **QUICK_JVM},
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE_S,
        check=False,
    )
    assert shown.returncode == 0, shown.stderr
    points = sorted(map(json.loads, shown.stdout.splitlines()), key=lambda point: point["received_at"])
    assert [point["push_id"] for point in points] == [row["push_id"] for row in asked]
    values = [point["value"] for point in points]
    assert 1 >= values[0] > values[-1] >= 0, "the application takes more and more of the time between two polls"
