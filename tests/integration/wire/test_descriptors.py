"""A node with few descriptors: clients cannot have the last of them."""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.clients.abuse import is_closed
from support.clients.raw_client import RawClient
from support.http import get
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli
from support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration

FILES, CLIENTS = 256, 400
SUBSCRIPTION = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "100"\n'
FEW_FILES = ("prlimit", f"--nofile=128:{FILES}")
"""The soft limit is lower, as it is on most machines."""


@pytest.fixture
def peers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def crowd(peers: ExitStack, port: int, count: int, address: str) -> list[socket.socket]:
    """Idle connections, accepted or still waiting."""
    opened = []
    for _ in range(count):
        peer = peers.enter_context(socket.socket())
        peer.bind((address, 0))
        peer.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError):
            peer.connect(("127.0.0.1", port))
        opened.append(peer)
    return opened


def check_that_it_works(node: Node, client: RawClient) -> None:
    """The HTTP port, the control socket, the log and the clients that are there do what they always do."""
    wait_for(lambda: get(node, "/healthz").json(), "the node's health", until=lambda health: health == {"status": "ok"})
    wait_for(lambda: get(node, "/readyz").status, "the node to be ready", until=lambda status: status == 200)
    assert b"fleetgauge_accept_errors_total" in get(node, "/metrics").body
    assert "open" in run_cli("status", "--log-dirs", str(node.data)).stdout
    assert client.push(client.get(), metrics_data(10)).error_code == 0
    node.wait_for(lambda s: s["push_log"]["logged"] > 0, what="the push to be logged")


def test_clients_that_wait_for_a_place_leave_descriptors_for_everything_else(tmp_path: Path, peers: ExitStack) -> None:
    overrides = ("http.listeners=http://127.0.0.1:0",)
    with Node(tmp_path, *overrides, config=SUBSCRIPTION, before=FEW_FILES) as node, RawClient(node.port) as client:
        assert client.get().error_code == 0
        crowd(peers, node.port, CLIENTS // 2, "127.0.0.8")
        crowd(peers, node.port, CLIENTS // 2, "127.0.0.9")
        node.wait_for(
            lambda s: (
                (s["connections"][0]["accept_waits"] > 0, s["connections"][0]["open"]) == (True, FILES - FILES // 4)
            ),
            what="connections that wait",
        )
        check_that_it_works(node, client)
        assert node.status()["connections"][0]["accept_errors"] == 0
        peers.close()
        node.wait_for(lambda s: s["connections"][0]["open"] == 1, what="the crowd to be gone")
        with RawClient(node.port) as another:
            assert another.get().error_code == 0


def test_limits_above_what_descriptors_allow_do_not_give_clients_the_last_of_them(
    tmp_path: Path, peers: ExitStack
) -> None:
    """What cannot be served is closed. Even the HTTP process is started again when it ends."""
    unlimited = ("max.connections=2147483647", "max.connections.per.ip=2147483647")
    overrides = ("http.listeners=http://127.0.0.1:0", "push.log.segment.ms=1000", *unlimited)
    with Node(tmp_path, *overrides, config=SUBSCRIPTION, before=FEW_FILES) as node, RawClient(node.port) as client:
        assert client.get().error_code == 0
        attackers = crowd(peers, node.port, CLIENTS, "127.0.0.9")
        status = node.wait_for(
            lambda s: s["connections"][0]["closed"].get("descriptors_exhausted", 0) > 2, what="refusals"
        )
        check_that_it_works(node, client)
        listener = status["connections"][0]
        assert listener["accept_errors"] == listener["closed"]["descriptors_exhausted"]
        assert "raise the limit of open files" in node.log.read_text()
        assert b'fleetgauge_connections_closed_total{listener="PLAINTEXT",reason="descriptors_exhausted"}' in (
            get(node, "/metrics").body
        )
        assert not any(map(is_closed, attackers[: FILES // 4])), "who is connected stays"
        os.kill(status["http"]["pid"], signal.SIGKILL)
        node.wait_for(lambda s: s["http"]["restarts"] == 1 and s["http"]["pid"] is not None, what="another process")
        wait_for(
            lambda: get(node, "/healthz").status,
            "an answer of the other process",
            until=lambda status: status == 200,
            ignoring=(OSError,),
        )
