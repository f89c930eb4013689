"""What every process of a node writes is for its user alone; and a deep data directory serves like others."""

import os
import stat
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli

from fleetgauge.telemetry.push_record import format_instance_id

pytestmark = pytest.mark.integration


def processes(pid: int) -> list[int]:
    """A process, and all that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in processes(int(child)))]


def umask(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Umask:"))


@pytest.mark.parametrize("workers", [1, 2])
def test_every_process_keeps_its_files_to_its_user_and_is_found_in_a_deep_directory(
    tmp_path: Path, workers: int
) -> None:
    config = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 100\n'
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    before = os.umask(0o022)
    try:
        with Node(deep, f"workers={workers}", "http.listeners=http://127.0.0.1:0", config=config) as node:
            assert node.process is not None
            with RawClient(node.port) as client:
                subscription = client.get()
                assert client.push(subscription, metrics_data()).error_code == 0
                listed = run_cli("clients", "--log-dirs", str(node.data), "--format", "json").stdout
                assert format_instance_id(subscription.client_instance_id) in listed
            node.wait_for(lambda s: s["exporter_process"]["exporters"]["landing"]["state"], what="the exporter")
            number = 3 + (workers if workers > 1 else 0)  # the node, its exporters, HTTP, and its workers
            node.wait_for(lambda s: s["http"]["pid"] is not None, what="the HTTP process")
            found = processes(node.process.pid)
            assert len(found) >= number
            assert {umask(pid) for pid in found} == {"0077"}
            open_to_others = [
                str(path) for path in (node.data, *node.data.rglob("*")) if stat.S_IMODE(path.stat().st_mode) & 0o077
            ]
            assert open_to_others == []
            assert (node.data / "node.sock").is_socket()
            assert node.stop() == 0, node.output()
    finally:
        os.umask(before)
