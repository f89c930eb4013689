"""Real clients of three libraries push to `fleetgauge serve`, and silver tells them and what they sent."""

from pathlib import Path

import pytest
from support.client_fleet import ALL_EACH_SECOND
from support.fleet_tables import fleet_tables
from support.node import Node
from support.telemetry_clients import (
    FranzGoProcess,
    JavaProcess,
    LibrdkafkaProcess,
    missing_tools,
    wait_until,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing_tools()), reason=missing_tools()),
    # The first test on a machine has the clients fetched and built, which takes minutes there.
    pytest.mark.timeout(1200),
]

PUSHES_EACH = 3
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
            wait_until(lambda: [c.name for c in pushing if c.acknowledged() < PUSHES_EACH], "pushes of each client")
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
