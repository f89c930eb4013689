"""Three real brokers with the plugin on loopback, behind proxies that can be made slow.

Clients come through one of the `LISTENERS` of each broker: most of them through `NEAR`, whose proxies stand before one
broker each; the others are for clients that have these proxies for themselves. Brokers, tools and readers of the push
log use a listener without a proxy.
"""

from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.brokers.broker_pipeline import PACKAGE, REPORTERS
from support.brokers.kafka_broker import KafkaBroker
from support.brokers.kafka_jars import bridge_jar
from support.clients.push_watch import PARTITIONS
from support.ports import free_ports
from support.proxies.delaying_proxy import DelayingProxy
from support.waiting import PATIENCE_S

VERSION = "4.3.1"
NODES = (1, 2, 3)
NEAR, FAR, PATH, ZONE = LISTENERS = "NEAR", "FAR", "PATH", "ZONE"
_EVERY = ""


class _Node(KafkaBroker):
    """One broker of the cluster; the first is its controller as well."""

    def __init__(self, directory: Path, node_id: int, controller_port: int | None) -> None:
        self._id, self._controller = node_id, controller_port
        self._delays_s: defaultdict[str, float] = defaultdict(float)
        ports = free_ports(len(LISTENERS))
        self.proxies = {name: DelayingProxy(port) for name, port in zip(LISTENERS, ports, strict=True)}
        plugin = {
            "metric.reporters": f"org.apache.kafka.common.metrics.JmxReporter,{PACKAGE}.{REPORTERS[VERSION]}",
            "fleetgauge.topic.partitions": str(PARTITIONS),
        }
        super().__init__(directory, VERSION, jars=[bridge_jar()], properties=plugin, heap="256m")

    def _defaults(self) -> dict[str, str]:
        found = super()._defaults()
        controller = "" if self._controller else f",{found['listeners'].partition(',')[2]}"
        plain = found["advertised.listeners"]
        upstream = ",".join(f"{name}://127.0.0.1:{proxy.upstream_port}" for name, proxy in self.proxies.items())
        advertised = ",".join(f"{name}://127.0.0.1:{proxy.port}" for name, proxy in self.proxies.items())
        return {
            **found,
            "process.roles": "broker" if self._controller else "broker,controller",
            "node.id": str(self._id),
            "controller.quorum.voters": f"{NODES[0]}@127.0.0.1:{self._controller or self.controller_port}",
            "listeners": f"{plain},{upstream}{controller}",
            "advertised.listeners": f"{plain},{advertised}",
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "CONTROLLER", *LISTENERS)
            ),
            "offsets.topic.num.partitions": "3",
        }

    def delay(self, delay_s: float, listener: str) -> None:
        """Has answers come so late through a listener, and beside that so late through `_EVERY` one."""
        self._delays_s[listener] = delay_s
        for name, proxy in self.proxies.items():
            proxy.delay_s = self._delays_s[_EVERY] + self._delays_s[name]


class KafkaCluster:
    """The three brokers; `bootstrap` is where there is no proxy."""

    def __init__(self, directory: Path) -> None:
        first = _Node(directory / "1", NODES[0], None)
        self.nodes = {NODES[0]: first}
        self.nodes |= {node: _Node(directory / str(node), node, first.controller_port) for node in NODES[1:]}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for node in self.nodes.values():
                stack.callback(node.kill)
                for proxy in node.proxies.values():
                    stack.enter_context(proxy)
            for node in self.nodes.values():
                node.launch()
            for node in self.nodes.values():
                node.wait_until_started()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def through(self, listener: str) -> str:
        """The bootstrap servers of clients that come through this listener."""
        return ",".join(f"127.0.0.1:{node.proxies[listener].port}" for node in self.nodes.values())

    def delay(self, delay_s: float, *nodes: int, listener: str = _EVERY) -> None:
        """Has the answers of these brokers come so late from now on; see `_Node.delay`."""
        for node in nodes or NODES:
            self.nodes[node].delay(delay_s, listener)

    def create_topics(self, partitions: dict[str, int], **config: str) -> None:
        """Topics with this configuration, of which each broker leads as many partitions."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "enable.metrics.push": False, "log_level": 3})
        made = admin.create_topics([NewTopic(name, count, 1, config=config) for name, count in partitions.items()])
        for each in made.values():
            each.result(PATIENCE_S)

    def limit(self, client_id: str, bytes_per_s: int | None) -> None:
        """Sets a client id's producer quota, which each broker keeps for itself; None removes it."""
        change = (
            ("--delete-config", "producer_byte_rate")
            if bytes_per_s is None
            else ("--add-config", f"producer_byte_rate={bytes_per_s}")
        )
        self.nodes[NODES[0]].tool(
            *("kafka.admin.ConfigCommand", "--bootstrap-server", self.bootstrap, "--alter"),
            *("--entity-type", "clients", "--entity-name", client_id, *change),
        )
