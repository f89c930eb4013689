"""A topic of a real Kafka broker for each test."""

import uuid

import pytest
from support.brokers.kafka_broker import KafkaBroker

from fleetgauge.push_log.kafka_topic.clients import make_admin
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.push_log.kafka_topic.topic import ensure_topic


@pytest.fixture
def topic(broker: KafkaBroker) -> KafkaTopicSettings:
    """Settings of a topic that exists and is empty."""
    settings = topic_of(broker)
    ensure_topic(make_admin(settings), settings)
    return settings


def topic_of(broker: KafkaBroker, **changed: object) -> KafkaTopicSettings:
    """Settings of a topic that does not exist yet."""
    name = f"pushes-{uuid.uuid4().hex[:12]}"
    chosen = {"bootstrap_servers": broker.bootstrap, "topic": name, "partitions": 3, "group_prefix": name, **changed}
    return KafkaTopicSettings(**chosen)  # type: ignore[arg-type]
