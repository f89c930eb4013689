"""Three real brokers, and a gateway before each."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gateway.gateway import GatewayBefore
from support.gateway.gateway_cluster import ClusterBroker
from support.ports import free_ports


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[ClusterBroker]]:
    first = ClusterBroker(tmp_path / "kafka-1", 1, None)
    nodes = [first, *(ClusterBroker(tmp_path / f"kafka-{node}", node, first.controller_port) for node in (2, 3))]
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.callback(node.kill)
            node.launch()
        for node in nodes:
            node.wait_until_started()
        yield nodes


@pytest.fixture
def cluster(brokers: list[ClusterBroker], tmp_path: Path) -> Iterator[tuple[list[ClusterBroker], list[GatewayBefore]]]:
    """Three brokers, each behind its gateway; brokers are mapped one by one."""
    ports = free_ports(3)
    nodes = ",".join([*(f"{node}=127.0.0.1:{port}" for node, port in enumerate(ports, 1)), "*=127.0.0.1:1"])
    with contextlib.ExitStack() as stack:
        gateways = []
        for broker, port in zip(brokers, ports, strict=True):
            gateway = GatewayBefore(tmp_path / f"gateway-{port}", broker.port, nodes=nodes, port=port)
            gateways.append(stack.enter_context(gateway))
        yield brokers, gateways
