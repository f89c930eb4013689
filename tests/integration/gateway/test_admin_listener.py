"""Kafka's own tools at a gateway's admin listener: they set its subscriptions and limits while clients pass."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.brokers.kafka_broker import KafkaBroker
from support.gateway.gateway import GatewayBefore, make_topic

pytestmark = pytest.mark.integration
CONFIGS = ("kafka.admin.ConfigCommand", "--bootstrap-server")
LIMIT = 2_000


@pytest.fixture
def gateway(broker: KafkaBroker, tmp_path: Path) -> Iterator[GatewayBefore]:
    with GatewayBefore(tmp_path / "gateway", broker.port, has_admin_listener=True) as started:
        yield started


def test_kafkas_tools_set_limits_and_subscriptions_of_the_gateway(broker: KafkaBroker, gateway: GatewayBefore) -> None:
    topic = f"limited-{uuid.uuid4().hex[:8]}"
    make_topic(broker, gateway.bootstrap, topic)
    at_gateway = f"127.0.0.1:{gateway.port_of('ADMIN')}"
    entity = ("--entity-type", "clients", "--entity-name", topic)
    broker.tool(*CONFIGS, at_gateway, "--alter", *entity, "--add-config", f"producer_byte_rate={LIMIT}")
    assert f"producer_byte_rate={LIMIT}.0" in broker.tool(*CONFIGS, at_gateway, "--describe", *entity)
    assert "producer_byte_rate" not in broker.tool(*CONFIGS, gateway.bootstrap, "--describe", *entity)
    broker.tool(
        *("org.apache.kafka.tools.ClientMetricsCommand", "--bootstrap-server", at_gateway, "--alter"),
        *("--name", "all", "--interval", "100", "--match", f"client_id={topic}"),
    )

    producer = Producer({"bootstrap.servers": gateway.bootstrap, "client.id": topic, "log_level": 0, "linger.ms": 0})
    producer.produce(topic, b"connects")
    gateway.wait_for(
        lambda status: producer.poll(0.1) >= 0 and status["telemetry"]["push_answers"].get("NONE", 0) > 0,
        what="a push",  # before the producer is muted for its limit
    )
    for _ in range(30):
        producer.produce(topic, bytes(10_000))
    status = gateway.wait_for(
        lambda status: producer.poll(0.1) >= 0 and status["gateway"]["traffic"]["throttled"]["Produce"] > 0,
        what="a throttled Produce",
    )
    assert status["telemetry"]["subscription_properties"]["all"]["interval.ms"] == "100"
    assert status["telemetry"]["admin_answers"] == {
        "DESCRIBE_CLIENT_QUOTAS: answered": 2,
        "ALTER_CLIENT_QUOTAS: answered": 1,
        "INCREMENTAL_ALTER_CONFIGS: answered": 1,
    }
    producer.purge()
