"""The settings of a Kafka topic as push log, with their defaults and checks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from fleetgauge.push_log.embedded.settings import MIB

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
"""Settings that the log's guarantees depend on; `push.log.kafka.client.*` cannot set them."""

_RECORD_OVERHEAD_BYTES: Final = MIB
"""Space for key, headers and framing of the largest record [B]: 17 headers, labels of at most 1 KiB."""

_LARGEST_MESSAGE_BYTES: Final = 1_000_000_000
"""The limit of librdkafka [B]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopicSettings:
    """The topic, its cluster, how a missing topic is created, and its consumer groups.

    Attributes:
        bootstrap_servers: host:port,... of the cluster.
        topic: the topic's name.
        partitions: of a topic created here; at most as many processes share an exporter.
        replication_factor: of a topic created here; -1 for the broker's `default.replication.factor`.
        retention_ms: of a topic created here [ms].
        cleanup_policy: of a topic created here; compact keeps the last record of each key.
        group_prefix: an exporter's consumer group is `<group_prefix>-<exporter>`.
        client: librdkafka settings for producer, consumers and admin client, such as security.
        max_payload_bytes: the largest decompressed payload of a push [B].
    """

    bootstrap_servers: str
    topic: str = DEFAULT_TOPIC
    partitions: int = DEFAULT_PARTITIONS
    replication_factor: int = -1
    retention_ms: int = 7 * 24 * 3_600_000
    cleanup_policy: Literal["delete", "compact"] = "delete"
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
                raise ValueError(f"{key} is set by Fleetgauge, since the log's guarantees depend on it")

    @property
    def max_record_bytes(self) -> int:
        """The largest uncompressed record [B]: `max.message.bytes` of the topic, and the bound of the clients.

        Records are compressed on the topic, so each is smaller than this.
        """
        return min(self.max_payload_bytes + _RECORD_OVERHEAD_BYTES, _LARGEST_MESSAGE_BYTES)

    def group_of(self, exporter: str) -> str:
        """The consumer group of an exporter."""
        return f"{self.group_prefix}-{exporter}"
