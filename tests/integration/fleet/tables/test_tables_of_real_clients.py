"""Real clients of three libraries push to `fleetgauge serve`, and silver tells them and what they sent."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.clients.client_fleet import ALL_EACH_SECOND
from support.clients.telemetry_clients import (
    FranzGoProcess,
    JavaProcess,
    LibrdkafkaProcess,
    missing_tools,
)
from support.programs.node import Node
from support.waiting import wait_for

from fleetgauge.fleet.engines.engine import Batch, InProcess
from fleetgauge.fleet.gold.metrics import metrics
from fleetgauge.fleet.pipeline.answers import Answers
from fleetgauge.fleet.pipeline.batch import BatchWriter
from fleetgauge.fleet.pipeline.pending import pending
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools()),
    # The first test on a machine has the clients fetched and built, which takes minutes there.
    pytest.mark.timeout(1200),
]

PUSHES_EACH = 3
MARKS = ("gap", "covers_gap", "before_subscription", "reset")
LIBRARIES = ((JavaProcess, "4.4.0"), (LibrdkafkaProcess, LibrdkafkaProcess.NEWEST), (FranzGoProcess, "1.22.2"))


@pytest.mark.soak
def test_every_client_is_told_by_its_own_id_and_its_sums_are_whole(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    exporters = f'[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 500\n'
    processes = []
    with Node(tmp_path, config=ALL_EACH_SECOND + exporters) as node:
        try:
            for kind, version in LIBRARIES:
                processes.append(kind(version, f"127.0.0.1:{node.port}", tmp_path))
            pushing = [client for process in processes for client in process.clients]
            wait_for(
                lambda: {client.name: client.acknowledged() for client in pushing},
                "pushes of each client",
                until=lambda counts: min(counts.values()) >= PUSHES_EACH,
            )
            for process in processes:
                process.ask_to_close()
            for process in processes:
                process.wait()
        finally:
            for process in processes:
                process.kill()
        assert node.stop() == 0, node.output()
    found = fleet_tables(landing, tmp_path / "tables")
    ids = {client.instance_id(): client for client in pushing}
    clients = {row["client_instance_id"]: row for row in found["clients"]}
    assert {key: row["dialect"] for key, row in clients.items()} == {
        key: client.process.library for key, client in ids.items()
    }
    pushed = {row["client_instance_id"]: row["pushes"] for row in found["inventory"]}
    assert {key for key, client in ids.items() if pushed[key] < client.acknowledged()} == set()
    assert {clients[key]["state"] for key, client in ids.items() if client.process.library != "java"} == {"ended"}
    marks = {row["client_instance_id"]: row for row in found["marks"]}
    assert set(marks) == set(ids), "every client sent some metric"
    assert {row["reset"] for row in marks.values()} == {0}
    of_java = [row for row in marks.values() if row["dialect"] == "java"]
    assert all(0 < row["before_subscription"] < row["deltas"] for row in of_java), (
        "first deltas reach back, others do not"
    )
    assert found["unknown_metrics"] == []


def fleet_tables(landing: Path, root: Path) -> dict[str, list[dict[str, Any]]]:
    """`clients` and `inventory`, one row each; `marks`, how many points of sums have which marks, by client;
    `unknown_metrics`, names of Java's metrics that the standard-metrics table lacks.

    Args:
        landing: the zone.
        root: of the tables, which are made.
    """
    store, now = Store(str(root)), datetime.now(UTC)
    files = tuple(str(path) for path in sorted(landing.rglob("*.parquet")))
    BatchWriter(store, InProcess(), "app", "zone", 300, lambda _: None).write(Batch(number=0, files=files))
    found = pending(store, window_s=300, now=now)
    Answers(store, InProcess(), 300, lambda _: None).refresh(found.spans, now)
    points = store.rows(catalog.POINTS)
    known = set(metrics()["metric_name"].to_pylist())
    of_java = {row["metric_name"] for row in points if row["dialect"] == "java"}
    return {
        "clients": store.rows(catalog.CLIENTS),
        "inventory": store.rows(catalog.INVENTORY),
        "marks": _marks(points),
        "unknown_metrics": [{"metric_name": name} for name in sorted(of_java - known)],
    }


def _marks(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in points:
        count = counts.setdefault((row["client_instance_id"], row["dialect"]), Counter(dict.fromkeys(MARKS, 0)))
        count["deltas"] += row["delta"] is not None
        for mark in MARKS:
            count[mark] += bool(row[mark])
    return [{"client_instance_id": name, "dialect": dialect, **count} for (name, dialect), count in counts.items()]
