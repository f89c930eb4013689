"""A node's telemetry room and its clients (`unit.telemetry.node`) as fixtures."""

import pytest
from unit.telemetry.node import Client, Node

from fleetgauge.base.principal import KafkaPrincipal


@pytest.fixture
def make_node() -> type[Node]:
    return Node


@pytest.fixture
def make_client() -> type[Client]:
    return Client


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def client(node: Node) -> Client:
    return Client(node)


@pytest.fixture
def alice() -> KafkaPrincipal:
    return KafkaPrincipal("User", "alice")
