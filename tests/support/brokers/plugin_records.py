"""Push records on a topic as the broker plugin writes them, without brokers that have it."""

import time
import uuid
from typing import Any, Final

from confluent_kafka import Producer
from support.payloads.payloads import metrics_data
from support.programs.push_log import push_record
from support.waiting import PATIENCE_S

from fleetgauge.push_log.kafka_topic.record_codec import encode_record
from fleetgauge.push_log.kafka_topic.settings import KafkaTopicSettings
from fleetgauge.telemetry.push_record import PushIds, format_instance_id

_IDS: Final = PushIds()
_UNKNOWN_TO_PLUGINS: Final = {"subscription_id": None, "compression_type": None, "payload_bytes": None}


class Brokers:
    """Writes push records as the plugin does: keyed by instance, without what a plugin is not told."""

    def __init__(self, topic: KafkaTopicSettings) -> None:
        self._topic = topic.topic
        self._producer = Producer({"bootstrap.servers": topic.bootstrap_servers, "enable.metrics.push": False})

    def push(self, client_id: str, *, instance: str = "", ago_s: float = 0.0, partition: int = 0, **fields: Any) -> str:
        """One push of a client; returns its instance id."""
        instance = instance or format_instance_id(uuid.uuid4())
        received_at = round((time.time() - ago_s) * 1e6)
        record = push_record(0, metrics_data())._replace(
            push_id=_IDS.next_id(received_at),
            received_at=received_at,
            client_instance_id=instance,
            client_id=client_id,
            **{"push_interval_ms": 1_000, **_UNKNOWN_TO_PLUGINS, **fields},
        )
        key, value, headers = encode_record(record)
        self._producer.produce(
            self._topic, key=key, value=value, headers=headers, partition=partition, timestamp=received_at // 1_000
        )
        assert self._producer.flush(PATIENCE_S) == 0
        return instance
