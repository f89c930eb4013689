"""Real clients of every library at work, on the page of client series of `fleetgauge export`."""

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.brokers.broker_pipeline import PUSH_TOPIC, broker_with_plugin
from support.built import ROOT
from support.clients.working_clients import FRANZ_GO, LIBRARIES, LIBRDKAFKA, WorkingClients
from support.ports import free_port
from support.programs.export import Export
from support.waiting import PATIENCE_S

TOPIC = "orders"
PARTITIONS = 2
"""As many as a group has members; librdkafka's has one more, which is idle."""
PUSH_INTERVAL_MS = 1_000
METRICS = re.findall(r"--metrics '(\S+)'", (ROOT / "docs" / "deliver" / "grafana.md").read_text())[0]
"""What the page on dashboards tells readers to subscribe to."""
LABELS = json.loads(
    re.findall(r"^ *labels = (\[.*\])", (ROOT / "docs" / "deliver" / "grafana.md").read_text(), re.MULTILINE)[0]
)
"""And which labels it has."""
QUOTAS = {
    "franz-go-1.22.2-producer-1": ("producer_byte_rate", 400),
    **{f"java-4.4.0-consumer-{number}": ("consumer_byte_rate", 1000) for number in range(1, PARTITIONS + 1)},
}
"""Key and limit [B/s] by client id: less than what the client sends, or than what the consumers of a group read."""


class ScrapedClients:
    """A broker with the plugin, per library producers and a group of consumers, quotas for two of them, and the page.

    Attributes:
        target: host:port of the page.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self.target = f"127.0.0.1:{free_port()}"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.broker = stack.enter_context(broker_with_plugin(self._directory / "kafka", "4.3.1"))
            self.broker.subscribe(metrics=METRICS, interval_ms=PUSH_INTERVAL_MS)
            admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "enable.metrics.push": False})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)
            stack.enter_context(Export(self._directory, self._config()))
            for library in (*LIBRARIES, FRANZ_GO):
                name = library.replace(" ", "-")
                clients = WorkingClients(library, self.broker.bootstrap, self._directory / f"{name}.log")
                stack.callback(clients.kill)
                for number in (1, 2):
                    clients.producer(f"{name}-producer-{number}", TOPIC, per_s=10, size=500)
                for number in range(1, PARTITIONS + 1 + (library == LIBRDKAFKA)):
                    clients.consumer(f"{name}-consumer-{number}", TOPIC, name)
            for client_id, (key, limit) in QUOTAS.items():
                self.broker.tool(
                    *("kafka.admin.ConfigCommand", "--bootstrap-server", self.broker.bootstrap, "--alter"),
                    *("--entity-type", "clients", "--entity-name", client_id, "--add-config", f"{key}={limit}"),
                )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _config(self) -> Path:
        config = self._directory / "export.toml"
        config.write_text(
            f"""
push.log.type = "kafka"
push.log.kafka.bootstrap.servers = "{self.broker.bootstrap}"
push.log.kafka.topic.name = "{PUSH_TOPIC}"

[exporters.page]
type = "prometheus"
listen = "{self.target}"
labels = {json.dumps(LABELS)}
linger.ms = 100
"""
        )
        return config
