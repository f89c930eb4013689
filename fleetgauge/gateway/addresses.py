"""Addresses under which clients reach the brokers: Kafka's own, or a gateway for each node."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_ENTRY: Final = re.compile(
    r"(?P<node>\d{1,10}|\*)=(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>\d{1,5})(?P<add>\+id)?"
)
_OTHERS: Final = "*"
_ID: Final = "{id}"
_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class _Target:
    host: str
    port: int
    adds_id: bool

    def address(self, node_id: int) -> tuple[str, int]:
        port = self.port + node_id if self.adds_id else self.port
        return self.host.replace(_ID, str(node_id)), min(port, _MAX_PORT)


class NodeAddresses:
    """Addresses by node id: under which clients reach each broker, or the gateway does.

    Args:
        targets: by node id; `*` is every other node.
    """

    def __init__(self, targets: Mapping[str, _Target]) -> None:
        self._by_node = {int(node): target for node, target in targets.items() if node != _OTHERS}
        self._others = targets.get(_OTHERS)

    def of(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        """Host and port for clients. A node without an address (id -1, an empty host) keeps its own."""
        address = self.find(node_id) if node_id >= 0 and host else None
        return (host, port) if address is None else (address[0] or host, address[1])

    def find(self, node_id: int) -> tuple[str, int] | None:
        """Host and port of a node, the host empty if it is the broker's own; None without an entry for it."""
        target = self._by_node.get(node_id, self._others)
        return None if target is None else target.address(node_id)

    def hosts(self) -> tuple[dict[int, str], str]:
        """The host of each node with an entry of its own, and that of all others, with `{id}` for the node id."""
        others = "" if self._others is None else self._others.host
        return {node: target.address(node)[0] for node, target in self._by_node.items()}, others


def parse_nodes(entries: Sequence[str]) -> NodeAddresses | None:
    """Reads `id=host:port,...`; None for no entry: brokers keep their addresses.

    `*` stands for the nodes that are not named, such as brokers that are added later; an empty host for the broker's
    own; `{id}` in a host for the node id, and `+id` after a port for a port per node.

    >>> addresses = parse_nodes(["1=gateway-1.example.com:9092", "*=kafka-{id}.example.com:19000+id"])
    >>> addresses.of(1, "10.0.0.1", 9092), addresses.of(7, "10.0.0.7", 9092)
    (('gateway-1.example.com', 9092), ('kafka-7.example.com', 19007))

    Raises:
        ValueError: an entry has another form, a node occurs twice, or there is none for other nodes.
    """
    targets = _parsed(entries)
    if targets and _OTHERS not in targets:
        raise ValueError(
            "has no entry for other nodes, whose own addresses would lead clients past the gateway once a broker is "
            "added: add *=host:port, for example *=:19092 for the broker's host and another port"
        )
    return NodeAddresses(targets) if targets else None


def parse_brokers(entries: Sequence[str]) -> NodeAddresses | None:
    """Reads `id=host:port,...`, the brokers' addresses for the gateway, as `parse_nodes` does; None for no entry.

    Raises:
        ValueError: an entry has another form, no host or `+id`, or a node occurs twice.
    """
    targets = _parsed(entries)
    for node, target in targets.items():
        if not target.host:
            raise ValueError(f"has no host for node {node}, for example {node}=broker1.internal:9092")
        if target.adds_id:  # a client chooses the id, and could connect to whatever listens on this host
            raise ValueError(f"has +id for node {node}: name the port of each broker, as in 1=host:9092,2=host:9093")
    return NodeAddresses(targets) if targets else None


def _parsed(entries: Sequence[str]) -> dict[str, _Target]:
    targets: dict[str, _Target] = {}
    for entry in entries:
        match = _ENTRY.fullmatch(entry.strip())
        if match is None or not 0 < int(match["port"]) <= _MAX_PORT:
            raise ValueError(f"{entry!r} is not id=host:port, for example 1=gateway-1.example.com:9092, or *=:19092")
        if match["node"] in targets:
            raise ValueError(f"node {match['node']} occurs twice")
        host = match["ipv6"] or match["host"] or ""
        targets[match["node"]] = _Target(host, int(match["port"]), match["add"] is not None)
    return targets
