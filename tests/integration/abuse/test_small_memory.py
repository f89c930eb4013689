"""A node in 400 MiB of memory, with everything that clients can make it hold at once: it is not killed."""

import contextlib
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from integration.abuse.control_group import limited_memory
from support.clients.abuse import connections, is_closed, metadata_request, send_until_nobody_takes_more
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import PATIENCE_S, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
MIB = 1 << 20
SUBSCRIPTION = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "100"\n'


def park_all_that_is_taken(peers: list[socket.socket]) -> None:
    """Half a request of 16 MiB from each, as far as it is taken."""
    piece = bytes(MIB)
    for peer in peers:
        with contextlib.suppress(OSError):
            peer.sendall(struct.pack(">i", 16 * MIB))
            for _ in range(15):
                peer.sendall(piece)


@pytest.mark.parametrize(
    "overrides", [(), pytest.param(("workers=2",), marks=pytest.mark.soak)], ids=["one process", "two workers"]
)
def test_a_node_in_400_mib_is_not_killed_by_half_requests_and_unread_responses(
    tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    with (
        limited_memory(400 * MIB) as before,
        Node(tmp_path, "http.listeners=http://127.0.0.1:0", *overrides, config=SUBSCRIPTION, before=before) as node,
    ):
        pids = [each["pid"] for each in node.status().get("workers", [])]
        with (
            connections(node.port, 40) as half,
            connections(node.port, 30, receive_buffer=4_096) as deaf,
            RawClient(node.port, timeout_s=PATIENCE_S) as client,
        ):
            park_all_that_is_taken(half)
            send_until_nobody_takes_more(deaf, metadata_request(1, 10, b"t" * 25_000))
            park_all_that_is_taken(half)
            assert client.push(client.get(), metrics_data(1_000)).error_code == 0
            wait_for(lambda: any(map(is_closed, half)), "the end of a half request")
        node.wait_for(lambda s: s["connections"][0]["open"] == 0, what="everybody to be gone")
        status = node.status()
        assert [each["pid"] for each in status.get("workers", [])] == pids, "no worker was started again"
        assert status["http"]["restarts"] == 0
        node.wait_for(lambda s: s["exporter_process"]["restarts"] == 0, what="the exporter process, the first one")
        assert node.stop() == 0, node.output()


def test_the_configuration_that_is_shown_is_that_of_the_small_memory() -> None:
    command = [sys.executable, "-m", "fleetgauge", "config", "--override", "queued.max.response.bytes=9000000"]
    with limited_memory(400 * MIB) as before:
        shown = subprocess.run(
            [*before, *command], capture_output=True, text=True, check=True, timeout=PATIENCE_S
        ).stdout
    assert f"\nqueued.max.request.bytes = {25 * MIB}\n" in shown
    assert "\nqueued.max.response.bytes = 9000000\n" in shown, "what is configured is not changed"
