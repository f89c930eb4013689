"""Every configuration key: its name, default, meaning and allowed values.

The key of a field is its name with dots in place of underscores; where that differs, the field has an `alias`. Its
docstring is the key's meaning, which `fleetgauge config` prints. Defaults
of `wire`, `quotas`, `telemetry`, `push_log` and `exporters` come from the settings classes of those packages.
"""

import itertools
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from fleetgauge.base.errors import ConfigError
from fleetgauge.base.redaction import secrets_in
from fleetgauge.exporters.dead_letters.letter import DeadLetterSettings
from fleetgauge.exporters.landing.retention import MIN_RETENTION_MS
from fleetgauge.gateway.addresses import parse_brokers, parse_nodes
from fleetgauge.gateway.server_names import ServerNames
from fleetgauge.node.audit import AuditSettings
from fleetgauge.node.authorizer.settings import AuthorizationSettings
from fleetgauge.node.authorizer.standard_authorizer import read_super_users
from fleetgauge.node.config.authorization import read_acls
from fleetgauge.node.config.connections import PER_IP_OVERRIDES, parse_overrides
from fleetgauge.node.config.http import HttpKeys
from fleetgauge.node.config.listeners import HTTP, LOOPBACK, Endpoint, Endpoints, HttpEndpoints
from fleetgauge.node.config.security import ListenerKeys, Names, OptionalPath, SecurityKeys, checked, read_protocol_map
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.group_commit import DEFAULT_ACK_TIMEOUT_MS
from fleetgauge.push_log.kafka_topic.settings import OWN_CLIENT_KEYS, KafkaTopicSettings
from fleetgauge.push_log.loop_commit import DEFAULT_LINGER_US, MAX_LINGER_US
from fleetgauge.quotas.config import QuotaConfig
from fleetgauge.quotas.metrics.metric_config import INT_MAX
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.settings import ClientMetricsSettings
from fleetgauge.wire.listener import ListenerSettings
from fleetgauge.wire.sasl.login import Login
from fleetgauge.wire.security_protocol import SecurityProtocol

_WIRE = ListenerSettings()
_TELEMETRY = ClientMetricsSettings()
_LOG = PushLogSettings(dir=Path("push-log"))
_TOPIC = KafkaTopicSettings(bootstrap_servers="-")
_DEAD = DeadLetterSettings(path=Path("dead-letters.db"))
_QUOTAS = QuotaConfig()

TABLES = (
    *("push_log_kafka_client", "client_quota_callback_config", "metrics_context", "exporters", "client_metrics"),
    *("client_guard", "acls", "client_id_patterns", "listener_name", "sasl_users", "quotas", "referenced_secrets"),
)
"""The fields whose keys are not listed here: those of librdkafka, a quota callback, the metrics context, an exporter, a
subscription, a rule of the client guard, ACLs, client ids, a listener, a user, a quota entity; and the secrets that
references stand for."""


class ServiceConfig(ListenerKeys, HttpKeys):
    """The checked configuration of one node.

    The keys of `ListenerKeys` apply to every listener without a value of its own, those of `HttpKeys` to all pages.
    """

    listeners: Endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    """Where to listen, in Kafka's form NAME://host:port,..."""
    advertised_listeners: Endpoints = ()
    """Addresses that clients connect to; by default the listeners."""
    # Not 9464: OpenTelemetry's default port for a Prometheus exporter, here `type = "prometheus"`.
    http_listeners: HttpEndpoints = Field(default=(Endpoint(HTTP, "127.0.0.1", 9465),), max_length=8)
    """Addresses of /healthz, /readyz, /metrics and /clients, http(s)://host:port,...; empty: off (extra: http)."""
    console_enabled: bool = True
    """Serve the console, a page that shows the fleet, on these addresses too (extra: console)."""
    console_clients_max: int = Field(default=100_000, ge=1, le=10_000_000)
    """Maximum number of clients that the console keeps; beyond it, those silent for longest are dropped."""
    console_tables: str = ""
    """Root of the tables (fleetgauge fleet run) whose verdicts the console shows; by default the console evaluates
    verdicts itself.
    """
    console_rules_file: OptionalPath = None
    """Rule file (fleetgauge fleet rules) for the console's verdicts; by default the default rules."""
    console_decode_cores: float = Field(default=0.5, gt=0, le=64)
    """CPU for decoding payloads [cores]; if it does not suffice, the console decodes the payloads of a part of the
    clients.
    """
    console_operate_token_file: OptionalPath = None
    """File with the token that allows changes on the console; by default the console is read-only."""
    listener_security_protocol_map: Annotated[Names, checked(read_protocol_map)] = tuple(
        f"{protocol}:{protocol}" for protocol in SecurityProtocol
    )
    """NAME:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL,...: the security protocol of each listener."""
    handshake_timeout_ms: int = Field(default=_WIRE.handshake_timeout_ms, ge=100)
    """Time limit of a connection's PROXY header, TLS and SASL handshakes together [ms]."""
    max_unfinished_handshakes: int = Field(default=_WIRE.max_unfinished_handshakes, ge=1, le=100_000)
    """Unfinished handshakes of a listener; for one more, the oldest of the address with the most is closed."""
    node_id: int = Field(default=1, ge=0, le=INT_MAX)
    """Kafka node id of this node."""
    workers: int = Field(default=1, ge=1, le=64)
    """Listener processes, which share the listeners and the limits; more than one only on Linux."""
    cluster_id: str = Field(default="", max_length=256)
    """Cluster id; by default generated at the first start and kept in the data directory."""
    log_dirs: Path = Path("fleetgauge-data")
    """The data directory: push log, state and, by default, the landing zone."""
    socket_request_max_bytes: int = Field(default=_WIRE.socket_request_max_bytes, ge=1024, le=INT_MAX)
    """Largest request frame [B]; a larger one closes its connection."""
    queued_max_request_bytes: int = Field(default=_WIRE.queued_max_request_bytes, ge=1024)
    """Incomplete and waiting requests of all connections [B]; beyond it, the connections that hold the most are closed.
    By default a 16th of the memory, 16 to 512 MiB."""
    queued_max_response_bytes: int = Field(default=_WIRE.queued_max_response_bytes, ge=1024 * 1024)
    """Unread responses of all connections [B]; beyond it, those that hold the most are closed. By default a 32nd of the
    memory, 8 to 128 MiB."""
    request_receive_timeout_ms: int = Field(default=_WIRE.request_receive_timeout_ms, ge=100)
    """Time limit from a request's first byte to its last; beyond it, its connection is closed [ms]."""
    socket_listen_backlog_size: int = Field(default=_WIRE.socket_listen_backlog_size, ge=1, le=65535)
    """Connections that may wait to be accepted."""
    connections_max_idle_ms: int = Field(default=_WIRE.connections_max_idle_ms, ge=1000)
    """A connection without traffic for this long is closed [ms]."""
    max_in_flight_requests: int = Field(
        default=_WIRE.max_in_flight_requests, ge=1, le=100_000, alias="max.in.flight.requests.per.connection"
    )
    """Requests of one connection that may await their response; later ones are not read yet."""
    max_connections_per_ip: int = Field(default=_QUOTAS.max_connections_per_ip, ge=0, le=INT_MAX)
    """Connections of one client address (behind a load balancer, the client's own); more are closed. By default half of
    a worker's share of max.connections."""
    max_connections_per_ip_overrides: Annotated[Names, checked(parse_overrides)] = ()
    """host:count,...: addresses or host names with another limit; resolved at the start."""
    quota_window_num: int = Field(default=_QUOTAS.quota_window_num, ge=1, le=INT_MAX)
    """Number of windows over which a quota's usage is measured, the current one included."""
    quota_window_size_seconds: int = Field(default=_QUOTAS.quota_window_size_seconds, ge=1, le=INT_MAX)
    """Width of one window, and the longest throttle time of a request or connection quota [s]."""
    controller_quota_window_num: int = Field(default=_QUOTAS.controller_quota_window_num, ge=1, le=INT_MAX)
    """Number of windows for a gateway's controller_mutation_rate; its burst is number x width x rate."""
    controller_quota_window_size_seconds: int = Field(
        default=_QUOTAS.controller_quota_window_size_seconds, ge=1, le=INT_MAX
    )
    """Width of one window of controller_mutation_rate [s]."""
    client_quota_callback_class: str = ""
    """Dotted path of a custom ClientQuotaCallback (KIP-257), which decides on shared quotas and limits."""
    client_quota_callback_config: dict[str, str] = Field(default_factory=dict)
    """client.quota.callback.config.<key>: additional configuration of that class."""
    admin_listeners: Names = (LOOPBACK,)
    """Listeners whose clients may change subscriptions, quotas and users by Kafka's admin APIs; loopback: those
    bound to a loopback address, without PROXY headers; empty: none. A gateway passes nothing on the listeners that are
    named here, and loopback names none."""
    authorizer_class_name: Literal["", "standard", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"] = ""
    """standard, or Kafka's name of its StandardAuthorizer: what no ACL allows is denied; empty: all is allowed."""
    super_users: Annotated[str, checked(read_super_users)] = ""
    """Principals that may do everything, as in Kafka: User:alice;User:bob."""
    allow_everyone_if_no_acl_found: bool = False
    """With an authorizer: whether everyone may do everything on a resource that has no ACL."""
    telemetry_acl_required: bool = False
    """With an authorizer: whether GetTelemetrySubscriptions and PushTelemetry need DESCRIBE on the cluster; in Kafka
    they need nothing."""
    inter_broker_listener_name: str = ""
    """A listener exempt from the node's max.connections and max.connection.creation.rate, as in Kafka."""
    telemetry_max_bytes: int = Field(default=_TELEMETRY.telemetry_max_bytes, ge=1, le=INT_MAX)
    """Largest push as received [B]."""
    telemetry_max_decompressed_bytes: int = Field(default=_TELEMETRY.telemetry_max_decompressed_bytes, ge=1, le=INT_MAX)
    """Largest push when decompressed [B]."""
    telemetry_malformed: Literal["accept", "refuse"] = "accept"
    """Pushes whose payload is not well-formed OTLP. accept: answered NONE, as by a broker, counted, and delivered with
    U+FFFD where text is not UTF-8; refuse: answered INVALID_RECORD, on which clients switch their telemetry off."""
    telemetry_compression_types: Names = tuple(codec.label for codec in _TELEMETRY.compression_types)
    """Compression types offered to clients, the preferred one first."""
    client_metrics_resources_max: int = Field(default=200, ge=1, le=10_000, alias="client.metrics.resources.max")
    """Client-metrics resources beyond which tools cannot create another: each is matched with every client."""
    client_instances_max: int = Field(
        default=_TELEMETRY.cache_max_size, ge=1, le=10_000_000, alias="telemetry.client.instances.max"
    )
    """Client instances kept in memory; beyond it, the least recently seen is evicted. As many again are listed as ended
    or vanished; for fleetgauge export it bounds the whole list."""
    client_instance_metrics_max: int = Field(
        default=_TELEMETRY.instance_metrics_max, ge=0, le=10_000_000, alias="telemetry.client.instance.metrics.max"
    )
    """Client instances with metrics of their own (tag client_instance_id), in addition to the totals."""
    telemetry_byte_rate_per_ip: int = Field(
        default=_TELEMETRY.sender_limits.bytes_per_ip, ge=0, alias="telemetry.max.byte.rate.per.ip"
    )
    """Payload bytes that all clients of an address may push together; beyond it, they get THROTTLING_QUOTA_EXCEEDED; 0:
    no limit [B/s]."""
    telemetry_byte_rate_per_principal: int = Field(
        default=_TELEMETRY.sender_limits.bytes_per_principal, ge=0, alias="telemetry.max.byte.rate.per.principal"
    )
    """Payload bytes that all clients of an authenticated principal may push together; 0: no limit [B/s]."""
    telemetry_new_instance_rate_per_ip: int = Field(
        default=_TELEMETRY.sender_limits.new_instances_per_ip, ge=0, alias="telemetry.max.new.instance.rate.per.ip"
    )
    """New client instances per address, in bursts of up to 160 s of this rate; 0: no limit [1/s]."""
    telemetry_new_instance_rate_per_principal: int = Field(
        default=_TELEMETRY.sender_limits.new_instances_per_principal,
        ge=0,
        alias="telemetry.max.new.instance.rate.per.principal",
    )
    """New client instances per authenticated principal, in bursts as per address; 0: no limit [1/s]."""
    metric_reporters: Names = ()
    """Custom reporters, by dotted path or entry point name."""
    metrics_context: dict[str, str] = Field(default_factory=dict)
    """metrics.context.<label>: labels of the metrics context (KIP-606), for custom reporters."""
    plugin_export_timeout_ms: int = Field(default=500, ge=1)
    """A reporter's awaitable is cancelled, and counted, after this time [ms]."""
    push_log: Literal["sqlite", "kafka"] = Field(default="sqlite", alias="push.log.type")
    """sqlite: in the data directory; kafka: a topic, shared by many nodes (extra: kafka)."""
    push_log_kafka_bootstrap_servers: Names = ()
    """host:port,... of the cluster with the topic; required with push.log.type=kafka."""
    push_log_kafka_topic: str = Field(
        default=_TOPIC.topic, pattern=r"^[a-zA-Z0-9._-]{1,249}$", alias="push.log.kafka.topic.name"
    )
    """The topic, as in fleetgauge.topic of the broker plugin."""
    push_log_kafka_topic_partitions: int = Field(default=_TOPIC.partitions, ge=1, le=10_000)
    """Partitions of a topic that Fleetgauge creates: at most as many processes share an exporter."""
    push_log_kafka_topic_replication_factor: int = Field(default=_TOPIC.replication_factor, ge=-1, le=32_767)
    """Replication factor of a topic that Fleetgauge creates; -1: the broker's default."""
    push_log_kafka_topic_retention_ms: int = Field(default=_TOPIC.retention_ms, ge=-1)
    """Retention of a topic that Fleetgauge creates; -1: unlimited [ms]."""
    push_log_kafka_group_prefix: str = Field(default=_TOPIC.group_prefix, min_length=1, max_length=200)
    """The consumer group of an exporter is <prefix>-<exporter>."""
    push_log_kafka_client: dict[str, str] = Field(default_factory=dict)
    """push.log.kafka.client.<key>: librdkafka settings, such as security.protocol."""
    state_store: Literal["sqlite", "kafka"] = "sqlite"
    """Where changes by admin tools are kept: in the data directory, or on a topic that several nodes share."""
    state_topic: str = Field(default="fleetgauge-state", pattern=r"^[a-zA-Z0-9._-]{1,249}$")
    """With state.store=kafka, the compacted topic at push.log.kafka.bootstrap.servers; the nodes of one topic have one
    state."""
    push_log_segment_bytes: int = Field(default=_LOG.segment_bytes, ge=1 << 20)
    """A segment of the log is sealed at this size [B]."""
    push_log_segment_ms: int = Field(default=_LOG.segment_ms, ge=1000)
    """A segment of the log is sealed at this age [ms]."""
    push_log_retention_bytes: int = Field(default=_LOG.retention_bytes, ge=1 << 20)
    """Beyond this size the oldest segment is deleted; its undelivered pushes are counted as lost [B]."""
    push_log_retention_ms: int = Field(default=_LOG.retention_ms, ge=1000)
    """A segment is deleted this long after it was sealed, in time during which the machine was up; its undelivered
    pushes are counted as lost [ms]."""
    push_log_flush: Literal["os", "fsync"] = _LOG.flush
    """os: acknowledged pushes survive a crash of every process; fsync: power loss too."""
    push_log_append_linger_us: int = Field(default=DEFAULT_LINGER_US, ge=0, le=MAX_LINGER_US)
    """With push.log.flush=os: minimum time between two commits [us]; 0 commits as soon as possible. A busy node spends
    less CPU per push, and answers up to this time later."""
    push_log_min_free_bytes: int = Field(default=_LOG.min_free_bytes, ge=0)
    """With less free disk space than this, pushes get THROTTLING_QUOTA_EXCEEDED [B]."""
    push_log_ack_timeout_ms: int = Field(default=DEFAULT_ACK_TIMEOUT_MS, ge=1)
    """A push that is not in the log after this time gets THROTTLING_QUOTA_EXCEEDED [ms]."""
    dead_letter_retention_bytes: int = Field(default=_DEAD.retention_bytes, ge=1 << 20)
    """Beyond this size the oldest dead letter is deleted and counted as lost [B]."""
    dead_letter_retention_ms: int = Field(default=_DEAD.retention_ms, ge=1000)
    """A dead letter of this age is deleted and counted as lost [ms]."""
    shutdown_timeout_ms: int = Field(default=10_000, ge=0)
    """Time limit of a shutdown, in which responses are sent and the exporters deliver the log [ms]."""
    logging_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level that is logged."""
    logging_format: Literal["auto", "human", "json"] = "auto"
    """auto: human on a terminal, JSON otherwise."""
    audit_log_output: Literal["file", "stdout", "off"] = "file"
    """Where log-ins, denials, changes and administrative commands are recorded, as lines of JSON."""
    audit_log_file: OptionalPath = None
    """The file of audit.log.output=file; by default audit.log in the data directory."""
    audit_log_max_bytes: int = Field(default=10 << 20, ge=1 << 16)
    """The audit log's file is rotated at this size [B]."""
    audit_log_max_files: int = Field(default=10, ge=1, le=1_000)
    """Files of the audit log that are kept, the current one included; older ones are deleted."""
    audit_log_max_lines_per_minute: int = Field(default=600, ge=1, le=1_000_000)
    """Lines of a process about log-ins and denials, and as many about changes; what is left out is counted [1/min]."""
    offsets_bootstrap_servers: Names = ()
    """host:port,... of the cluster whose consumer groups are sampled to the landing zone; empty: off (extra: kafka)."""
    offsets_command_config: OptionalPath = None
    """File with client settings for the sampled cluster, in the form of --command-config of Kafka's own tools."""
    offsets_groups: Names = ()
    """Only these groups; by default all that the brokers list."""
    offsets_interval_ms: int = Field(default=60_000, ge=1_000, le=300_000)
    """Time between two samples of each group [ms]."""
    offsets_request_timeout_ms: int = Field(default=5_000, ge=100, le=60_000)
    """Time limit of a request to a broker [ms]."""
    offsets_max_request_rate: int = Field(default=500, ge=1, le=10_000)
    """Requests of the sampler at most [1/s]."""
    offsets_path: str = ""
    """Root of the landing zone for samples; by default that of the exporter landing."""
    offsets_linger_ms: int = Field(default=60_000, ge=1_000, le=3_600_000)
    """A file of samples is written at this age [ms]."""
    offsets_retention_ms: int = Field(default=0, ge=0)
    """Sample files are deleted this long after the end of their hour; 0 keeps all [ms]."""
    offsets_cluster_id: str = Field(default="", max_length=256)
    """Cluster id written to samples instead of the cluster's own; set it if the pushes have another one."""
    subscriptions_bootstrap_servers: Names = ()
    """host:port,... of the cluster whose subscriptions the console shows and removes after their deadline (fleetgauge
    subscriptions expire); by default push.log.kafka.bootstrap.servers, except on a node; set and empty: off (extra:
    kafka).
    """
    subscriptions_command_config: OptionalPath = None
    """File with client settings for that cluster, in the form of --command-config of Kafka's own tools; by default the
    security settings of push.log.kafka.client, if its brokers are the default.
    """
    gateway_broker: str = ""
    """host:port of the broker behind fleetgauge gateway, which client connections are passed to; with gateway.brokers,
    those to the hosts of advertised.listeners."""
    gateway_security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """Security protocol of that broker's listener. With SASL_*, clients authenticate at the broker, and the gateway
    answers telemetry only after that, unless gateway.sasl.username is set.
    """
    gateway_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """SASL mechanism of gateway.sasl.username."""
    gateway_sasl_username: str = ""
    """The gateway's own user at the broker; clients then authenticate at the gateway's listeners. Empty: SASL passes to
    the broker.
    """
    gateway_sasl_password: str = ""
    """Its password; reread on SIGHUP."""
    gateway_tls_ca_file: OptionalPath = None
    """PEM file with the CA certificates of the broker's certificate; by default the system's."""
    gateway_tls_cert_file: OptionalPath = None
    """PEM file with the gateway's own certificate chain, for a broker that requires one."""
    gateway_tls_key_file: OptionalPath = None
    """PEM file with its private key, without a password."""
    gateway_tls_server_name: str = ""
    """Name in the broker's certificate; by default the host of gateway.broker."""
    gateway_proxy_protocol_enable: bool = False
    """Send a PROXY header, version 2, with the client's address on connections to the broker. Kafka's brokers do not
    read it: use it for a load balancer in between, or for a node with proxy.protocol.enable.
    """
    gateway_nodes: Annotated[Names, checked(parse_nodes)] = ()
    """id=host:port,...: address of the gateway before each broker, as clients reach it, and *=host:port for all other
    brokers; empty: brokers already advertise their gateways."""
    gateway_brokers: Annotated[Names, checked(parse_brokers)] = ()
    """id=host:port,...: each broker's address for the gateway, where one gateway stands before all brokers; *= and {id}
    as in gateway.nodes, whose hosts are then the TLS server names (SNI) that lead to these brokers."""
    gateway_telemetry: Literal["answer", "pass"] = "answer"
    """answer: the gateway answers GetTelemetrySubscriptions and PushTelemetry; pass: the broker does."""
    gateway_request_max_bytes: int = Field(default=100 * 1024 * 1024, ge=1024, le=INT_MAX)
    """Largest request that passes [B]; at least the broker's socket.request.max.bytes."""
    gateway_traffic_path: str = ""
    """Landing zone of the rows of traffic; by default that of the landing exporter."""
    gateway_traffic_interval_ms: int = Field(default=60_000, ge=0)
    """Interval at which traffic rows are written [ms]; 0: never."""
    gateway_response_timeout_ms: int = Field(default=1_800_000, ge=1_000)
    """A connection whose broker has sent nothing for this long, while a request waits, is closed [ms]."""
    exporter_hang_timeout_seconds: int = Field(default=300, ge=0, le=86_400)
    """The exporter process is killed and started again if it does not report for this time, or an exporter does not
    return from one call; longer than any exporter's own timeout; 0: never [s]."""
    exporters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """[exporters.<name>]: a destination of pushes; its keys depend on its type."""
    client_metrics: dict[str, dict[str, str]] = Field(default_factory=dict, alias="client-metrics")
    """[client-metrics.<name>]: subscriptions with metrics, interval.ms and match, as in Kafka."""
    client_guard: dict[str, dict[str, Any]] = Field(default_factory=dict, alias="client-guard")
    """[client-guard.<name>]: subscriptions of faulty clients; rules, and changes of built-in ones."""
    acls: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """[acls.<name>]: ACLs as kafka-acls.sh creates them; principals, operations, hosts, permission and a resource."""
    client_id_patterns: dict[str, str] = Field(default_factory=dict)
    """[client.id.patterns]: RE2 patterns of the client ids that a principal may use for telemetry; "User:*" for the
    principals without a pattern of their own."""
    listener_name: dict[str, Any] = Field(default_factory=dict)
    """listener.name.<name in lower case>.<key>: a key of one listener, as in Kafka."""
    sasl_users: dict[str, dict[str, str]] = Field(default_factory=dict)
    """[sasl.users.<name>]: salted hashes by mechanism, as fleetgauge credentials prints them."""
    quotas: dict[str, dict[str, float]] = Field(default_factory=dict)
    """[quotas."users/<name>/clients/<client id>"] and the like: limits by Kafka's names, and our own."""
    referenced_secrets: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Internal: the secrets that references in values stand for, by key."""

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_boolean_for_a_number(cls, value: object, info: ValidationInfo) -> object:
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

    @field_validator("workers")
    @classmethod
    def _check_workers(cls, value: int) -> int:
        if value > 1 and sys.platform != "linux":
            raise ValueError(
                "several processes share a listener by SO_REUSEPORT, which spreads connections only on Linux; leave "
                "it at 1 here"
            )
        return value

    @model_validator(mode="after")
    def _check_connection_limits(self) -> "ServiceConfig":
        if self.max_connections_per_ip == 0 and not self.max_connections_per_ip_overrides:
            raise ValueError(f"max.connections.per.ip can be 0 only if {PER_IP_OVERRIDES} allows some addresses")
        names = {endpoint.listener_name for endpoint in self.listeners}
        if self.inter_broker_listener_name and self.inter_broker_listener_name.upper() not in names:
            raise ValueError(
                f"inter.broker.listener.name is {self.inter_broker_listener_name}, but listeners has no such name"
            )
        return self

    @field_validator("push_log_kafka_topic_replication_factor", "push_log_kafka_topic_retention_ms")
    @classmethod
    def _refuse_zero(cls, value: int) -> int:
        if value == 0:
            raise ValueError("must be positive, or -1")
        return value

    @field_validator("offsets_retention_ms")
    @classmethod
    def _keep_an_hour(cls, value: int) -> int:
        if 0 < value < MIN_RETENTION_MS:
            raise ValueError(f"must be 0, or at least {MIN_RETENTION_MS}: the analysis has to read the files first")
        return value

    @field_validator("push_log_kafka_client")
    @classmethod
    def _refuse_own_client_keys(cls, value: dict[str, str]) -> dict[str, str]:
        for key in sorted(OWN_CLIENT_KEYS & value.keys()):
            raise ValueError(f"push.log.kafka.client.{key} cannot be set, since the log's guarantees depend on it")
        return value

    @field_validator("telemetry_compression_types")
    @classmethod
    def _check_compression_types(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        known = {codec.label for codec in CompressionType if codec is not CompressionType.NONE}
        wrong = [name for name in value if name.lower() not in known]
        if wrong or len(set(value)) != len(value):
            raise ValueError(f"takes each of {', '.join(sorted(known))} at most once")
        return tuple(name.lower() for name in value)

    @model_validator(mode="after")
    def _require_bootstrap_servers(self) -> "ServiceConfig":
        for key, store in (("push.log.type", self.push_log), ("state.store", self.state_store)):
            if store == "kafka" and not self.push_log_kafka_bootstrap_servers:
                raise ValueError(
                    f"{key}=kafka needs push.log.kafka.bootstrap.servers, for example "
                    "push.log.kafka.bootstrap.servers=broker1.example.com:9092"
                )
        if self.state_store == "kafka" and self.state_topic == self.push_log_kafka_topic:
            raise ValueError(f"state.topic and push.log.kafka.topic.name are both {self.state_topic}: name two topics")
        return self

    def secrets(self, tables: tuple[str, ...] = ("",)) -> frozenset[str]:
        """The secrets, whole and in parts, in the values of keys with these prefixes. No log line may show them."""
        named = ((field.alias or name, getattr(self, name)) for name, field in ServiceConfig.model_fields.items())
        values = (text for key, value in named if key.startswith(tables) for text in secrets_in(key, value))
        referenced = (texts for key, texts in self.referenced_secrets.items() if key.startswith(tables))
        return frozenset((*values, *itertools.chain.from_iterable(referenced)))

    def audit_settings(self) -> AuditSettings:
        """Where the audit log is written."""
        return AuditSettings(
            output=self.audit_log_output,
            path=(self.audit_log_file or DataDirectory(self.log_dirs).audit_log).absolute(),
            max_bytes=self.audit_log_max_bytes,
            max_files=self.audit_log_max_files,
            lines_per_minute=self.audit_log_max_lines_per_minute,
        )

    def authorization_settings(self) -> AuthorizationSettings:
        """Settings of authorization."""
        return AuthorizationSettings(
            is_enabled=bool(self.authorizer_class_name),
            super_users=read_super_users(self.super_users),
            allow_everyone_if_no_acl_found=self.allow_everyone_if_no_acl_found,
            telemetry_needs_describe=self.telemetry_acl_required,
            acls=read_acls(self.acls),
            client_id_patterns=self.client_id_patterns,
        )

    def admin_listener_names(self) -> frozenset[str]:
        """The listeners that serve Kafka's admin APIs."""
        by_name, named = self.security_keys().by_listener, {name.upper() for name in self.admin_listeners}
        # A gateway's listener on loopback passes traffic: one that does not has to be named.
        on_loopback = {
            each.listener_name
            for each in self.listeners
            if each.is_loopback and not by_name[each.listener_name].proxy_protocol_enable and not self.gateway_broker
        }
        # A listener that is called LOOPBACK, wherever it is bound, is not named by the default.
        return frozenset(named - {LOOPBACK.upper()} | (on_loopback if LOOPBACK.upper() in named else set()))

    def passing_listener_names(self) -> frozenset[str]:
        """The listeners whose connections a gateway passes to the broker; none of `fleetgauge serve`."""
        if not self.gateway_broker:
            return frozenset()
        own = {name.upper() for name in self.admin_listeners} - {LOOPBACK.upper()}
        return frozenset({each.listener_name for each in self.listeners} - own)

    def gateway_login(self) -> Login | None:
        """The gateway's own user at the broker; None without `gateway.sasl.username`.

        Raises:
            ConfigError: the user has no password, or the broker's listener has no SASL.
        """
        if not self.gateway_sasl_username and not self.gateway_sasl_password:
            return None
        if not self.gateway_security_protocol.has_sasl:
            protocol = self.gateway_security_protocol
            raise ConfigError(
                "gateway.sasl.username",
                f"is set, but gateway.security.protocol is {protocol}: set it to SASL_SSL or SASL_PLAINTEXT",
            )
        try:
            return Login(
                mechanism=self.gateway_sasl_mechanism,
                username=self.gateway_sasl_username,
                password=self.gateway_sasl_password,
            )
        except ValueError as error:
            raise ConfigError("gateway.sasl.password", f"or gateway.sasl.username is not usable: {error}") from error

    def gateway_server_names(self) -> ServerNames | None:
        """Finds the brokers of `gateway.brokers`; None without that key.

        Raises:
            ConfigError: the nodes have no names that tell them apart.
        """
        brokers, nodes = parse_brokers(self.gateway_brokers), parse_nodes(self.gateway_nodes)
        if brokers is None:
            return None
        if nodes is None:
            example = "for example *=kafka-{id}.example.com:9093"
            raise ConfigError("gateway.nodes", f"is not set, but gateway.brokers needs a name for each node, {example}")
        passing = self.passing_listener_names()
        advertised = self.advertised_listeners or self.listeners
        try:
            return ServerNames(nodes, brokers, [each.host for each in advertised if each.listener_name in passing])
        except ValueError as error:
            raise ConfigError("gateway.nodes", f"{error} (needed by gateway.brokers)") from error

    def security_protocols(self) -> dict[str, SecurityProtocol]:
        """The security protocol of each listener."""
        known = read_protocol_map(self.listener_security_protocol_map)
        return {endpoint.listener_name: known[endpoint.listener_name] for endpoint in self.listeners}

    def security_keys(self) -> SecurityKeys:
        """The security keys of each listener.

        Raises:
            ConfigError: a key of a listener is unknown, or a required key is missing.
        """
        return SecurityKeys(self, self.listener_name, self.security_protocols(), self.sasl_users)

    @model_validator(mode="after")
    def _check_authorizer(self) -> "ServiceConfig":
        rules = {
            "super.users": self.super_users,
            "telemetry.acl.required": self.telemetry_acl_required,
            "acls": self.acls,
        }
        for key, rule in rules.items():
            if rule and not self.authorizer_class_name:
                raise ValueError(f"{key} has no effect without an authorizer: set authorizer.class.name=standard")
        return self

    @model_validator(mode="after")
    def _check_admin_listeners(self) -> "ServiceConfig":
        names = {endpoint.listener_name for endpoint in self.listeners}
        for name in self.admin_listeners:
            if name.upper() not in {*names, LOOPBACK.upper()}:
                raise ValueError(
                    f"admin.listeners names {name}, but listeners has no such name: use {LOOPBACK}, or some of "
                    f"{', '.join(sorted(names))}"
                )
        return self

    @model_validator(mode="after")
    def _check_protocol_of_each_listener(self) -> "ServiceConfig":
        known = read_protocol_map(self.listener_security_protocol_map)
        for endpoint in self.listeners:
            if endpoint.listener_name not in known:
                raise ValueError(
                    f"listeners holds {endpoint}, but listener.security.protocol.map has no protocol for it; add "
                    f"{endpoint.listener_name}:PLAINTEXT, or another of {', '.join(SecurityProtocol)}"
                )
        return self

    @model_validator(mode="after")
    def _check_advertised_listeners(self) -> "ServiceConfig":
        names = {endpoint.listener_name for endpoint in self.listeners}
        for endpoint in self.advertised_listeners:
            if endpoint.listener_name not in names:
                raise ValueError(f"advertised.listeners names {endpoint.listener_name}, but listeners has no such name")
            if endpoint.is_wildcard or endpoint.port == 0:
                raise ValueError(f"advertised.listeners holds {endpoint}, but no client can connect to that")
        advertised = {endpoint.listener_name for endpoint in self.advertised_listeners}
        for endpoint in self.listeners:
            if endpoint.is_wildcard and endpoint.listener_name not in advertised:
                raise ValueError(
                    f"listeners holds {endpoint}, but clients cannot connect to that: use an address that they can "
                    f"reach, for example advertised.listeners={endpoint.listener_name}://broker1.example.com:9092"
                )
        return self
