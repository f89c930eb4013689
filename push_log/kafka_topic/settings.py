"""The settings of a Kafka topic as push log: the home of their defaults, checked when they are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from push_log.embedded.settings import MIB

DEFAULT_TOPIC: Final = "fleetgauge-pushes"
"""The broker plugin's default too (`fleetgauge.topic` in `server.properties`)."""

DEFAULT_PARTITIONS: Final = 12
"""The broker plugin's default too (`fleetgauge.topic.partitions`)."""

OWN_CLIENT_KEYS: Final = frozenset({
    "acks",
    "allow.auto.create.topics",
    "auto.offset.reset",
    "bootstrap.servers",
    "delivery.report.only.error",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.metrics.push",
    "enable.partition.eof",
    "group.id",
    "group.protocol",
    "isolation.level",
    "metadata.broker.list",
    "partition.assignment.strategy",
    "request.required.acks",
})  # fmt: skip
"""What the promises of the log rest on: not to be set with `push.log.kafka.client.*`."""

_RECORD_OVERHEAD_BYTES: Final = MIB
"""Room for key, headers and framing beside the largest payload [B]: 17 headers, labels of 1 KiB at most."""

_LARGEST_MESSAGE_BYTES: Final = 1_000_000_000
"""librdkafka's own bound [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopicSettings:
    """Where the topic is, how it is made when it is missing, and who reads it.

    Attributes:
        bootstrap_servers: host:port,... of the cluster.
        topic: its name.
        partitions: of a topic that is made here; as many processes can share an exporter's work.
        replication_factor: of a topic that is made here; -1 leaves it to the broker's `default.replication.factor`.
        retention_ms: of a topic that is made here [ms].
        group_prefix: an exporter's consumer group is `<group_prefix>-<exporter>`.
        client: settings of librdkafka by its own names, for producer, consumers and admin client alike: security and
            the like.
        max_payload_bytes: the largest payload, decompressed, that the log must take [B].
    """

    bootstrap_servers: str
    topic: str = DEFAULT_TOPIC
    partitions: int = DEFAULT_PARTITIONS
    replication_factor: int = -1
    retention_ms: int = 7 * 24 * 3_600_000
    group_prefix: str = "fleetgauge"
    client: Mapping[str, str] = field(default_factory=dict)
    max_payload_bytes: int = 16 * MIB

    def __post_init__(self) -> None:
        for name in ("bootstrap_servers", "topic", "group_prefix"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} must not be empty")
        if self.partitions < 1 or self.retention_ms < -1 or self.retention_ms == 0 or self.max_payload_bytes < 1:
            raise ValueError(f"partitions, retention and the largest payload must be positive: {self}")
        if self.replication_factor < 1 and self.replication_factor != -1:
            raise ValueError(f"replication_factor must be positive, or -1, not {self.replication_factor}")
        for key in self.client:
            if key in OWN_CLIENT_KEYS:
                raise ValueError(f"{key} is set by Fleetgauge, since the log's promises rest on it")

    @property
    def max_record_bytes(self) -> int:
        """The largest record, uncompressed [B]: `max.message.bytes` of the topic and what the clients must take.

        A record is compressed on the topic, so this is more than any needs.
        """
        return min(self.max_payload_bytes + _RECORD_OVERHEAD_BYTES, _LARGEST_MESSAGE_BYTES)

    def group_of(self, exporter: str) -> str:
        """The consumer group of an exporter."""
        return f"{self.group_prefix}-{exporter}"
