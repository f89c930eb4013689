"""`examples/partition_quotas.py` at a gateway before a real broker: a quota follows what Metadata responses list."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from support.brokers.kafka_broker import KafkaBroker
from support.gateway.gateway import GatewayBefore, make_topic
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration
EXAMPLES = Path(__file__).parents[3] / "examples"
LIMIT = 800_000


@pytest.fixture
def gateway(broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GatewayBefore]:
    """Of a node that leads none of the broker's partitions."""
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    overrides = (
        "client.quota.callback.class=partition_quotas.PartitionQuotas",
        "node.id=7",
        f"quotas.users/ANONYMOUS.producer_byte_rate={LIMIT}",
    )
    with GatewayBefore(tmp_path / "gateway", broker.port, *overrides) as started:
        yield started


def test_a_users_share_follows_the_partitions_that_clients_hear_of(broker: KafkaBroker, gateway: GatewayBefore) -> None:
    topic = f"ANONYMOUS.{uuid.uuid4().hex}"
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": gateway.bootstrap, "log_level": 0}
    admin = AdminClient(settings)

    def wait_for_limit(limit: float) -> None:
        def limit_in_force(status: dict[str, Any]) -> bool:
            admin.list_topics(topic, timeout=PATIENCE_S)  # until the broker itself knows of the change
            found = status["quotas"]["usage"]["Produce"]["user=ANONYMOUS"]["limit"]
            return bool(found == limit)

        gateway.wait_for(limit_in_force, what=f"a limit of {limit}")

    def change(*arguments: str) -> None:
        broker.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap, *arguments)

    make_topic(broker, gateway.bootstrap, topic, partitions=4)
    producer = Producer(settings)
    producer.produce(topic, b"one", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    wait_for_limit(LIMIT / 4)
    change("--alter", "--topic", topic, "--partitions", "8")
    wait_for_limit(LIMIT / 8)
    change("--delete", "--topic", topic)
    wait_for_limit(LIMIT)
