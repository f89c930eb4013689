"""A cluster of three real brokers for gateways."""

import contextlib
import time
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.kafka_broker import KafkaBroker

_WITHIN_S = 120.0


def create_topic(bootstrap: str, name: str, partitions: int = 1, replicas: int = 1, **settings: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **settings})
    deadline = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):  # the brokers do not know each other yet
            admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(30)
            return
        time.sleep(0.5)
    raise AssertionError(f"{name} could not be made")


class ClusterBroker(KafkaBroker):
    """One of three brokers; the first is the controller, too."""

    def __init__(self, directory: Path, node: int, controller_port: int | None) -> None:
        self._node, self._controller = node, controller_port
        super().__init__(directory, "4.3.1", heap="256m")

    def _defaults(self) -> dict[str, str]:
        found = super()._defaults()
        if self._controller is not None:
            found["process.roles"] = "broker"
            found["listeners"] = found["listeners"].partition(",")[0]
        return {
            **found,
            "node.id": str(self._node),
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller or self.controller_port}",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
