"""The broker that a client selects by the server name of its TLS handshake, for one gateway before all brokers."""

import re
from collections.abc import Iterable
from typing import Final

from fleetgauge.gateway.addresses import NodeAddresses
from fleetgauge.wire.errors import ProtocolError

_ID: Final = "{id}"
_NAME: Final = re.compile(r"([a-z0-9_-]+\.)+[a-z_-][a-z0-9_-]*")


class ServerNames:
    """Finds the broker of a server name; `find` is a `wire.tls.server_name.FindServer`.

    >>> from fleetgauge.gateway.addresses import parse_brokers, parse_nodes
    >>> nodes, brokers = parse_nodes(["*=kafka-{id}.example.com:9093"]), parse_brokers(["1=10.0.0.1:9092"])
    >>> names = ServerNames(nodes, brokers, bootstrap=["kafka.example.com"])
    >>> names.find("Kafka-1.example.com"), names.find("kafka.example.com")
    (('10.0.0.1', 9092), None)

    Args:
        nodes: the addresses that clients learn; each host is the name of its node.
        brokers: the brokers' addresses for the gateway.
        bootstrap: names under which a client may reach any broker.

    Raises:
        ValueError: a node has no name that clients send, or that of another one.
    """

    def __init__(self, nodes: NodeAddresses, brokers: NodeAddresses, bootstrap: Iterable[str]) -> None:
        own, others = nodes.hosts()
        if others.count(_ID) != 1:
            raise ValueError("needs {id} in the host of other nodes, for example *=kafka-{id}.example.com:9093")
        for host in (*own.values(), others.replace(_ID, "0")):
            if not _NAME.fullmatch(host.lower()):
                raise ValueError(f"has {host!r}, but clients send only server names with a dot: kafka.example.com")
        before, after = map(re.escape, others.lower().split(_ID))
        self._others = re.compile(f"{before}([0-9]{{1,10}}){after}")
        self._nodes: dict[str, int] = {}
        for node, host in own.items():
            if self._node(host.lower()) not in {None, node}:
                raise ValueError(f"has {host} for node {node}, which is also another node's name")
            self._nodes[host.lower()] = node
        self._brokers = brokers
        self._bootstrap = frozenset(name.lower() for name in bootstrap)

    def find(self, name: str) -> tuple[str, int] | None:
        """Host and port of the broker that a client selects; None for any broker.

        Args:
            name: as the client sent it; empty if it sent none.

        Raises:
            ProtocolError: `unknown_node`, the name is that of a node without an address; `unknown_server_name`, it is
                another one.
        """
        node = self._node(name.lower())
        if node is not None:
            address = self._brokers.find(node)
            if address is None:
                raise ProtocolError("unknown_node", f"{name} is node {node}, and gateway.brokers has no entry for it")
            return address
        if name.lower() in self._bootstrap:
            return None
        if not name:
            detail = "the client sent no server name (SNI), as for an IP address or a name without a dot"
            raise ProtocolError("unknown_server_name", detail)
        detail = f"the client's server name {name!r} is not a host of gateway.nodes or advertised.listeners"
        raise ProtocolError("unknown_server_name", detail)

    def _node(self, name: str) -> int | None:
        node = self._nodes.get(name)
        if node is None and (match := self._others.fullmatch(name)) is not None:
            node = int(match[1])
        return node
