"""Every configuration key: its name, default, meaning and what is allowed.

Defaults that belong to a room (`telemetry`, `exporters`, `wire`) are taken from that room's settings class, their home.
"""

import itertools
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from base.redaction import secrets_in
from exporters.dead_letters.letter import DeadLetterSettings
from fleetgauge.config.connections import PER_IP_OVERRIDES, parse_overrides
from fleetgauge.config.listeners import HTTP, Endpoint, parse_endpoints, parse_http_endpoints
from fleetgauge.config.security import ListenerKeys, Names, SecurityKeys, read_protocol_map
from push_log.embedded.settings import PushLogSettings
from push_log.group_commit import DEFAULT_ACK_TIMEOUT_MS
from push_log.kafka_topic.settings import OWN_CLIENT_KEYS, KafkaTopicSettings
from quotas.config import QuotaConfig
from quotas.metric_config import INT_MAX
from telemetry.codecs import CompressionType
from telemetry.manager import ClientMetricsSettings
from wire.listener import ListenerSettings
from wire.security_protocol import SecurityProtocol

_WIRE = ListenerSettings()
_TELEMETRY = ClientMetricsSettings()
_LOG = PushLogSettings(dir=Path("push-log"))
_TOPIC = KafkaTopicSettings(bootstrap_servers="-")
_DEAD = DeadLetterSettings(path=Path("dead-letters.db"))
_QUOTAS = QuotaConfig()

TABLES = (
    *("push_log_kafka_client", "client_quota_callback_config", "exporters", "client_metrics", "client_guard"),
    *("listener_name", "sasl_users", "quotas", "referenced_secrets"),
)
"""The fields that hold keys of others: of librdkafka, a quota callback, an exporter's type, a subscription, a guard's
rule, a listener, a user, an entity with quotas, any that holds a secret."""


class ServiceConfig(ListenerKeys):
    """The configuration of one node, checked. Field aliases are the keys that an operator writes.

    The keys of `ListenerKeys` stand for every listener that has no value of its own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    listeners: tuple[Endpoint, ...] = Field(
        default=(Endpoint("PLAINTEXT", "127.0.0.1", 9092),),
        alias="listeners",
        description="Where to listen, in Kafka's form NAME://host:port,...",
    )
    advertised_listeners: tuple[Endpoint, ...] = Field(
        default=(),
        alias="advertised.listeners",
        description="What clients are told to connect to; by default the listeners.",
    )
    # Not 9464: that is where OpenTelemetry has a Prometheus exporter, here `type = "prometheus"`, serve its page.
    http_listeners: tuple[Endpoint, ...] = Field(
        default=(Endpoint(HTTP, "127.0.0.1", 9465),),
        alias="http.listeners",
        max_length=8,
        description="Where /healthz, /readyz, /metrics and /clients are served, http://host:port,...; empty: nowhere "
        "(extra: http).",
    )
    listener_security_protocol_map: Names = Field(
        default=tuple(f"{protocol}:{protocol}" for protocol in SecurityProtocol),
        alias="listener.security.protocol.map",
        description="NAME:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL,...: what each listener speaks.",
    )
    handshake_timeout_ms: int = Field(
        default=_WIRE.handshake_timeout_ms,
        ge=100,
        alias="handshake.timeout.ms",
        description="PROXY header, TLS and SASL of a connection take no longer together [ms].",
    )
    max_unfinished_handshakes: int = Field(
        default=_WIRE.max_unfinished_handshakes,
        ge=1,
        le=100_000,
        alias="max.unfinished.handshakes",
        description="Connections of a listener that are not let in yet; for one more, the oldest of the address with "
        "most is closed.",
    )
    node_id: int = Field(default=1, ge=0, le=INT_MAX, alias="node.id", description="Kafka node id of this node.")
    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        alias="workers",
        description="Listener processes, which share the listeners and the limits; more than one on Linux alone.",
    )
    cluster_id: str = Field(
        default="",
        alias="cluster.id",
        max_length=256,
        description="By default made at the first start and kept in the data directory.",
    )
    log_dirs: Path = Field(
        default=Path("fleetgauge-data"),
        alias="log.dirs",
        description="The data directory: push log, state and, by default, the landing zone.",
    )
    socket_request_max_bytes: int = Field(
        default=_WIRE.socket_request_max_bytes,
        ge=1024,
        le=INT_MAX,
        alias="socket.request.max.bytes",
        description="Largest request frame [B]; a larger one closes its connection.",
    )
    queued_max_request_bytes: int = Field(
        default=_WIRE.queued_max_request_bytes,
        ge=1024,
        alias="queued.max.request.bytes",
        description="Incomplete and waiting requests over all connections [B]; beyond, those that hold most are "
        "closed. By default a 16th of the memory, 16 to 512 MiB.",
    )
    queued_max_response_bytes: int = Field(
        default=_WIRE.queued_max_response_bytes,
        ge=1024 * 1024,
        alias="queued.max.response.bytes",
        description="Responses left unread over all connections [B]; beyond, those that hold most are closed. By "
        "default a 32nd of the memory, 8 to 128 MiB.",
    )
    request_receive_timeout_ms: int = Field(
        default=_WIRE.request_receive_timeout_ms,
        ge=100,
        alias="request.receive.timeout.ms",
        description="A request takes no longer from its first byte to its last, or its connection is closed [ms].",
    )
    socket_listen_backlog_size: int = Field(
        default=_WIRE.socket_listen_backlog_size,
        ge=1,
        le=65535,
        alias="socket.listen.backlog.size",
        description="Connections that may wait to be accepted.",
    )
    connections_max_idle_ms: int = Field(
        default=_WIRE.connections_max_idle_ms,
        ge=1000,
        alias="connections.max.idle.ms",
        description="A connection without traffic for so long is closed [ms].",
    )
    max_in_flight_requests: int = Field(
        default=_WIRE.max_in_flight_requests,
        ge=1,
        le=100_000,
        alias="max.in.flight.requests.per.connection",
        description="Requests of one connection that may await their response; later ones wait unread.",
    )
    max_connections_per_ip: int = Field(
        default=_QUOTAS.max_connections_per_ip,
        ge=0,
        le=INT_MAX,
        alias="max.connections.per.ip",
        description="Connections of one client address (behind a load balancer, the client's own); more are closed. By "
        "default half of max.connections, of one worker.",
    )
    max_connections_per_ip_overrides: Names = Field(
        default=(),
        alias="max.connections.per.ip.overrides",
        description="host:count,...: addresses or host names that have another limit; looked up at the start.",
    )
    quota_window_num: int = Field(
        default=_QUOTAS.quota_window_num,
        ge=1,
        le=INT_MAX,
        alias="quota.window.num",
        description="Windows over which a quota's usage is taken, the current one included.",
    )
    quota_window_size_seconds: int = Field(
        default=_QUOTAS.quota_window_size_seconds,
        ge=1,
        le=INT_MAX,
        alias="quota.window.size.seconds",
        description="Width of one; over a request or connection quota nobody is held for longer at once [s].",
    )
    client_quota_callback_class: str = Field(
        default="",
        alias="client.quota.callback.class",
        description="Who shares a quota and how large it is, by a class of one's own (KIP-257), by dotted path.",
    )
    client_quota_callback_config: dict[str, str] = Field(
        default_factory=dict,
        alias="client.quota.callback.config",
        description="client.quota.callback.config.<key>: what that class is configured with, beside these keys.",
    )
    inter_broker_listener_name: str = Field(
        default="",
        alias="inter.broker.listener.name",
        description="A listener that the node's max.connections and max.connection.creation.rate spare, as Kafka's.",
    )
    telemetry_max_bytes: int = Field(
        default=_TELEMETRY.telemetry_max_bytes,
        ge=1,
        le=INT_MAX,
        alias="telemetry.max.bytes",
        description="Largest push as received [B].",
    )
    telemetry_max_decompressed_bytes: int = Field(
        default=_TELEMETRY.telemetry_max_decompressed_bytes,
        ge=1,
        le=INT_MAX,
        alias="telemetry.max.decompressed.bytes",
        description="Largest push when decompressed [B].",
    )
    telemetry_compression_types: Names = Field(
        default=tuple(codec.label for codec in _TELEMETRY.compression_types),
        alias="telemetry.compression.types",
        description="Compression types offered to clients, the preferred one first.",
    )
    client_instances_max: int = Field(
        default=_TELEMETRY.cache_max_size,
        ge=1,
        le=10_000_000,
        alias="telemetry.client.instances.max",
        description="Client instances that are remembered; beyond, the least recently seen is forgotten. As many are "
        "listed as ended or vanished; of fleetgauge export, as many are listed in all.",
    )
    client_instance_metrics_max: int = Field(
        default=_TELEMETRY.instance_metrics_max,
        ge=0,
        le=10_000_000,
        alias="telemetry.client.instance.metrics.max",
        description="Client instances that have metrics of their own (tag client_instance_id) beside the totals.",
    )
    telemetry_byte_rate_per_ip: int = Field(
        default=_TELEMETRY.sender_limits.bytes_per_ip,
        ge=0,
        alias="telemetry.max.byte.rate.per.ip",
        description="Payload bytes that all clients of an address may push together; beyond, "
        "THROTTLING_QUOTA_EXCEEDED; 0: no limit [B/s].",
    )
    telemetry_byte_rate_per_principal: int = Field(
        default=_TELEMETRY.sender_limits.bytes_per_principal,
        ge=0,
        alias="telemetry.max.byte.rate.per.principal",
        description="Likewise for all clients of an authenticated principal [B/s].",
    )
    telemetry_new_instance_rate_per_ip: int = Field(
        default=_TELEMETRY.sender_limits.new_instances_per_ip,
        ge=0,
        alias="telemetry.max.new.instance.rate.per.ip",
        description="Client instances that an address may make known here, in bursts of 160 s; 0: no limit [1/s].",
    )
    telemetry_new_instance_rate_per_principal: int = Field(
        default=_TELEMETRY.sender_limits.new_instances_per_principal,
        ge=0,
        alias="telemetry.max.new.instance.rate.per.principal",
        description="Likewise for an authenticated principal [1/s].",
    )
    metric_reporters: Names = Field(
        default=(),
        alias="metric.reporters",
        description="Reporters of one's own, by dotted path or entry point name.",
    )
    plugin_export_timeout_ms: int = Field(
        default=500,
        ge=1,
        alias="plugin.export.timeout.ms",
        description="A reporter's awaitable is cancelled and counted after so long [ms].",
    )
    push_log: Literal["sqlite", "kafka"] = Field(
        default="sqlite",
        alias="push.log",
        description="sqlite: in the data directory; kafka: a topic, shared by many nodes (extra: kafka).",
    )
    push_log_kafka_bootstrap_servers: Names = Field(
        default=(),
        alias="push.log.kafka.bootstrap.servers",
        description="host:port,... of the cluster with the topic; needed with push.log=kafka.",
    )
    push_log_kafka_topic: str = Field(
        default=_TOPIC.topic,
        pattern=r"^[a-zA-Z0-9._-]{1,249}$",
        alias="push.log.kafka.topic",
        description="The topic; the broker plugin's fleetgauge.topic.",
    )
    push_log_kafka_topic_partitions: int = Field(
        default=_TOPIC.partitions,
        ge=1,
        le=10_000,
        alias="push.log.kafka.topic.partitions",
        description="Of a topic that is made here; as many processes can share an exporter's work.",
    )
    push_log_kafka_topic_replication_factor: int = Field(
        default=_TOPIC.replication_factor,
        ge=-1,
        le=32_767,
        alias="push.log.kafka.topic.replication.factor",
        description="Of a topic that is made here; -1: the broker's default.replication.factor.",
    )
    push_log_kafka_topic_retention_ms: int = Field(
        default=_TOPIC.retention_ms,
        ge=-1,
        alias="push.log.kafka.topic.retention.ms",
        description="Of a topic that is made here; -1: for ever [ms].",
    )
    push_log_kafka_group_prefix: str = Field(
        default=_TOPIC.group_prefix,
        min_length=1,
        max_length=200,
        alias="push.log.kafka.group.prefix",
        description="An exporter reads as the consumer group <prefix>-<exporter>.",
    )
    push_log_kafka_client: dict[str, str] = Field(
        default_factory=dict,
        alias="push.log.kafka.client",
        description="push.log.kafka.client.<key>: settings of librdkafka by its own names, such as security.protocol.",
    )
    push_log_segment_bytes: int = Field(
        default=_LOG.segment_bytes,
        ge=1 << 20,
        alias="push.log.segment.bytes",
        description="A segment of the log is closed at this size [B].",
    )
    push_log_segment_ms: int = Field(
        default=_LOG.segment_ms,
        ge=1000,
        alias="push.log.segment.ms",
        description="A segment of the log is closed at this age [ms].",
    )
    push_log_retention_bytes: int = Field(
        default=_LOG.retention_bytes,
        ge=1 << 20,
        alias="push.log.retention.bytes",
        description="Beyond this size the oldest segment goes; what it held undelivered is counted [B].",
    )
    push_log_retention_ms: int = Field(
        default=_LOG.retention_ms,
        ge=1000,
        alias="push.log.retention.ms",
        description="A segment that has been complete for this long goes, by the time that the log has seen pass; what "
        "it held undelivered is counted [ms].",
    )
    push_log_flush: Literal["os", "fsync"] = Field(
        default=_LOG.flush,
        alias="push.log.flush",
        description="os: acknowledged pushes survive the death of every process; fsync: and power loss.",
    )
    push_log_min_free_bytes: int = Field(
        default=_LOG.min_free_bytes,
        ge=0,
        alias="push.log.min.free.bytes",
        description="With less room than this on the disk, pushes are answered THROTTLING_QUOTA_EXCEEDED [B].",
    )
    push_log_ack_timeout_ms: int = Field(
        default=DEFAULT_ACK_TIMEOUT_MS,
        ge=1,
        alias="push.log.ack.timeout.ms",
        description="A push that is not in the log after so long is answered THROTTLING_QUOTA_EXCEEDED [ms].",
    )
    dead_letter_retention_bytes: int = Field(
        default=_DEAD.retention_bytes,
        ge=1 << 20,
        alias="dead.letter.retention.bytes",
        description="Beyond this size the push that was refused longest ago goes, counted [B].",
    )
    dead_letter_retention_ms: int = Field(
        default=_DEAD.retention_ms,
        ge=1000,
        alias="dead.letter.retention.ms",
        description="A push that was refused longer ago goes, counted [ms].",
    )
    shutdown_timeout_ms: int = Field(
        default=10_000,
        ge=0,
        alias="shutdown.timeout.ms",
        description="How long a stop waits for responses and for the exporters to deliver the log [ms].",
    )
    logging_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", alias="logging.level", description="What is logged."
    )
    logging_format: Literal["auto", "human", "json"] = Field(
        default="auto",
        alias="logging.format",
        description="auto: human on a terminal, JSON otherwise.",
    )
    exporters: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="[exporters.<name>]: where pushes are delivered; keys by type."
    )
    client_metrics: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        alias="client-metrics",
        description="[client-metrics.<name>]: subscriptions with metrics, interval.ms and match, as in Kafka.",
    )
    client_guard: dict[str, dict[str, Any]] = Field(
        default_factory=dict,
        alias="client-guard",
        description="[client-guard.<name>]: what faulty clients are asked for; rules, and changes of the shipped ones.",
    )
    listener_name: dict[str, Any] = Field(
        default_factory=dict,
        alias="listener.name",
        description="listener.name.<name in lower case>.<key>: a key of one listener alone, as in Kafka.",
    )
    sasl_users: dict[str, dict[str, str]] = Field(
        default_factory=dict,
        alias="sasl.users",
        description="[sasl.users.<name>]: salted hashes by mechanism, as fleetgauge credentials makes them.",
    )
    quotas: dict[str, dict[str, float]] = Field(
        default_factory=dict,
        description='[quotas."users/<name>/clients/<client id>"] and the like: limits by Kafka\'s names and our own.',
    )
    referenced_secrets: dict[str, tuple[str, ...]] = Field(
        default_factory=dict,
        description="No key of an operator's: what the references in the values of secret keys stand for, by key.",
    )

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_truth_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and field.annotation is int:
            raise ValueError("a number is needed")
        return value

    @field_validator("log_dirs", mode="before")
    @classmethod
    def _name_a_directory(cls, value: object) -> object:
        if isinstance(value, str) and (not value.strip() or "\0" in value):
            raise ValueError("needs the name of a directory")
        return value

    @field_validator("listeners", "advertised_listeners", mode="before")
    @classmethod
    def _read_endpoints(cls, value: object) -> object:
        if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
            value = ",".join(value)
        if isinstance(value, str):
            return parse_endpoints(value) if value else ()
        return value

    @field_validator("http_listeners", mode="before")
    @classmethod
    def _read_http_endpoints(cls, value: object) -> object:
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            value = ",".join(value)
        return parse_http_endpoints(value) if isinstance(value, str) else value

    @field_validator("listener_security_protocol_map")
    @classmethod
    def _read_protocol_map(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        read_protocol_map(value)
        return value

    @field_validator("workers")
    @classmethod
    def _share_ports_only_where_that_works(cls, value: int) -> int:
        if value > 1 and sys.platform != "linux":
            raise ValueError(
                "several processes share a listener by SO_REUSEPORT, which spreads connections on Linux alone; leave "
                "it at 1 here"
            )
        return value

    @field_validator("max_connections_per_ip_overrides")
    @classmethod
    def _read_overrides(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        parse_overrides(value)
        return value

    @model_validator(mode="after")
    def _let_somebody_in(self) -> "ServiceConfig":
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            raise ValueError(f"max.connections.per.ip can be 0 only if {PER_IP_OVERRIDES} lets some addresses in")
        names = {endpoint.listener_name for endpoint in self.listeners}
        if self.inter_broker_listener_name and self.inter_broker_listener_name.upper() not in names:
            raise ValueError(
                f"inter.broker.listener.name is {self.inter_broker_listener_name}, and listeners has no such name"
            )
        return self

    @field_validator("push_log_kafka_topic_replication_factor", "push_log_kafka_topic_retention_ms")
    @classmethod
    def _be_no_zero(cls, value: int) -> int:
        if value == 0:
            raise ValueError("must be positive, or -1")
        return value

    @field_validator("push_log_kafka_client")
    @classmethod
    def _leave_own_keys(cls, value: dict[str, str]) -> dict[str, str]:
        for key in sorted(OWN_CLIENT_KEYS & value.keys()):
            raise ValueError(f"push.log.kafka.client.{key} is not to be set, since the log's promises rest on it")
        return value

    @field_validator("telemetry_compression_types")
    @classmethod
    def _know_compression_types(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        known = {codec.label for codec in CompressionType if codec is not CompressionType.NONE}
        wrong = [name for name in value if name.lower() not in known]
        if wrong or len(set(value)) != len(value):
            raise ValueError(f"takes each of {', '.join(sorted(known))} at most once")
        return tuple(name.lower() for name in value)

    @model_validator(mode="after")
    def _say_where_the_topic_is(self) -> "ServiceConfig":
        if self.push_log == "kafka" and not self.push_log_kafka_bootstrap_servers:
            raise ValueError(
                "push.log=kafka needs push.log.kafka.bootstrap.servers, for example "
                "push.log.kafka.bootstrap.servers=broker1.example.com:9092"
            )
        return self

    def secrets(self, tables: tuple[str, ...] = ("",)) -> frozenset[str]:
        """The values that no log line may show, of keys that begin so: whole, and in their parts."""
        named = ((field.alias or name, getattr(self, name)) for name, field in ServiceConfig.model_fields.items())
        values = (text for key, value in named if key.startswith(tables) for text in secrets_in(key, value))
        referenced = (texts for key, texts in self.referenced_secrets.items() if key.startswith(tables))
        return frozenset((*values, *itertools.chain.from_iterable(referenced)))

    def security_protocols(self) -> dict[str, SecurityProtocol]:
        """What each listener speaks."""
        known = read_protocol_map(self.listener_security_protocol_map)
        return {endpoint.listener_name: known[endpoint.listener_name] for endpoint in self.listeners}

    def security_keys(self) -> SecurityKeys:
        """What each listener asks of its clients.

        Raises:
            ConfigError: a listener's own key is unknown, or what belongs together is not there.
        """
        return SecurityKeys(self, self.listener_name, self.security_protocols(), self.sasl_users)

    @model_validator(mode="after")
    def _know_what_listeners_speak(self) -> "ServiceConfig":
        known = read_protocol_map(self.listener_security_protocol_map)
        for endpoint in self.listeners:
            if endpoint.listener_name not in known:
                raise ValueError(
                    f"listeners holds {endpoint}, and listener.security.protocol.map does not say what it speaks; add "
                    f"{endpoint.listener_name}:PLAINTEXT, or another of {', '.join(SecurityProtocol)}"
                )
        return self

    @model_validator(mode="after")
    def _advertise_what_clients_can_reach(self) -> "ServiceConfig":
        names = {endpoint.listener_name for endpoint in self.listeners}
        for endpoint in self.advertised_listeners:
            if endpoint.listener_name not in names:
                raise ValueError(f"advertised.listeners names {endpoint.listener_name}, and listeners has no such name")
            if endpoint.is_wildcard or endpoint.port == 0:
                raise ValueError(f"advertised.listeners holds {endpoint}, and no client can connect to that")
        advertised = {endpoint.listener_name for endpoint in self.advertised_listeners}
        for endpoint in self.listeners:
            if endpoint.is_wildcard and endpoint.listener_name not in advertised:
                raise ValueError(
                    f"listeners holds {endpoint}, and clients cannot be sent there: name the address that they can "
                    f"reach, for example advertised.listeners={endpoint.listener_name}://broker1.example.com:9092"
                )
        return self
