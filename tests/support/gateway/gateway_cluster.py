"""A cluster of three real brokers for gateways."""

from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from support.brokers.kafka_broker import KafkaBroker
from support.waiting import PATIENCE_S, wait_for


def create_topic(bootstrap: str, name: str, partitions: int = 1, replicas: int = 1, /, **settings: str) -> None:
    """Makes a topic, as soon as the brokers know each other."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **settings})

    def make() -> bool:
        try:
            admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # by an attempt whose answer was lost
                raise
        return True

    wait_for(make, f"the topic {name}", ignoring=(KafkaException,))


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
