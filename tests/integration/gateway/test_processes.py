"""`fleetgauge gateway` as its own process, before `fleetgauge serve` in place of a broker: workers, PROXY headers."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from support.gateway.gateway import GatewayBefore
from support.programs.node import Node, run_cli
from support.waiting import wait_for

pytestmark = pytest.mark.integration
TRUSTED = ("proxy.protocol.enable=true", "proxy.protocol.trusted.addresses=127.0.0.1")
SUBSCRIPTION = '[client-metrics.all]\nmetrics = "*"\n"interval.ms" = "1000"\n'


@pytest.fixture
def behind_proxy(tmp_path: Path) -> Iterator[Node]:
    """What receives telemetry only behind a PROXY header."""
    (tmp_path / "broker").mkdir()
    with Node(tmp_path / "broker", *TRUSTED, config=SUBSCRIPTION) as node:
        yield node


def clients_of(node: Node) -> list[dict[str, Any]]:
    printed = run_cli("clients", "--log-dirs", str(node.data), "--format", "json").stdout
    return [json.loads(line) for line in printed.splitlines()]


def producers(bootstrap: str, number: int) -> list[Producer]:
    """Producers that connect, and push, without a topic to produce to."""
    settings = {"bootstrap.servers": bootstrap, "log_level": 0}
    return [Producer({**settings, "client.id": f"through-{each}"}) for each in range(number)]


def test_telemetry_that_passes_has_the_clients_address_at_the_broker(tmp_path: Path, behind_proxy: Node) -> None:
    keys = ("gateway.proxy.protocol.enable=true", "gateway.telemetry=pass")
    with GatewayBefore(tmp_path / "gateway", behind_proxy.port, *keys) as gateway:
        own = producers(gateway.bootstrap, 1)
        behind_proxy.wait_for(
            lambda status: own[0].poll(0.1) >= 0 and status["telemetry"]["push_answers"].get("NONE", 0) > 0,
            what="a push",
        )
        (client,) = clients_of(behind_proxy)
        assert client["client_id"] == "through-0"
        assert client["client_source_address"] == "127.0.0.1"


def test_two_workers_share_the_connections_of_a_gateway(tmp_path: Path, behind_proxy: Node) -> None:
    keys = ("gateway.proxy.protocol.enable=true", "workers=2")
    with GatewayBefore(tmp_path / "gateway", behind_proxy.port, *keys) as gateway:
        own = producers(gateway.bootstrap, 8)

        def pushed(status: dict[str, Any]) -> bool:
            for producer in own:
                producer.poll(0)
            return bool(status["telemetry"]["push_answers"].get("NONE", 0) >= len(own))

        gateway.wait_for(pushed, what="pushes")
        wait_for(
            lambda: {each["client_id"] for each in clients_of(gateway) if each["pushes"]},
            "a push of each",
            until=lambda pushing: pushing == {f"through-{each}" for each in range(8)},
        )
        status = gateway.wait_for(
            lambda status: status["gateway"]["broker_connections"] == status["connections"][0]["open"] >= len(own),
            what="a connection to the broker for each that is open",
        )
        assert status["gateway"]["broker"] == f"127.0.0.1:{behind_proxy.port}"
        assert status["gateway"]["requests"]["ApiVersions"] >= len(own)
        assert sum(each["requests"] for each in status["gateway"]["traffic"]["by_client"].values()) >= 3 * len(own)
        assert not behind_proxy.status()["telemetry"]["push_answers"]  # the gateway answers them itself
        os.kill(status["workers"][0]["pid"], signal.SIGKILL)
        gateway.wait_for(
            lambda after: (
                pushed(after)
                and {each["pid"] for each in after["workers"]}.isdisjoint({None, status["workers"][0]["pid"]})
            ),
            what="another worker",
        )
        gateway.wait_for(
            lambda after: pushed(after) and after["gateway"]["broker_connections"] >= len(own),
            what="the connections of all clients",
        )
        assert gateway.stop() == 0
