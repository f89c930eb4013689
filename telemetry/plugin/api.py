"""Kafka's interfaces for those who receive client telemetry: reporters, receivers, and what they are given.

Names and order of calls are Kafka's: `configure`, `context_change`, `init`, then `client_receiver` or
`client_telemetry_exporter` once, then `export_metrics` for every push (KIP-714, Client telemetry receiver; KIP-1217).
"""

import hashlib
import struct
import uuid
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from base.principal import KafkaPrincipal
from quotas.kafka_metric import KafkaMetric

CONTENT_TYPE: Final = "application/x-protobuf;type=otlp+metrics0.19"

_SENDER_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">I")


def _digest(parts: Iterable[str]) -> bytes:
    """BLAKE2b of the parts, each behind its length, so that no two lists have the same text."""
    hashed = hashlib.blake2b(digest_size=_SENDER_BYTES)
    for part in parts:
        content = part.encode(errors="surrogatepass")
        hashed.update(_LENGTH.pack(len(content)) + content)
    return hashed.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who sent a request, and how (Kafka's `AuthorizableRequestContext` and what its implementation adds).

    Attributes:
        listener_name: the receiving listener, for example `PLAINTEXT`.
        security_protocol: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        principal: whom the connection authenticated as.
        client_id: of the request's header; empty where the client sent none.
        client_software_name: of ApiVersions v3 and later, for example `apache-kafka-java`.
        client_software_version: of ApiVersions v3 and later.
        client_address: the connection's source address.
        client_port: the connection's source port.
        connection_id: unique among the open connections of this node.
        correlation_id: of the request's header.
        sender: digest [16 B] of principal, client id and source address, which tell one sender from another under the
            same instance id, on whatever connection. The software does too, where a connection has named it.
    """

    listener_name: str
    security_protocol: str
    principal: KafkaPrincipal
    client_id: str
    client_software_name: str
    client_software_version: str
    client_address: str
    client_port: int
    connection_id: str
    correlation_id: int
    sender: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        principal = self.principal
        parts = (
            principal.principal_type,
            principal.name,
            self.client_id,
            self.client_address,
        )
        object.__setattr__(self, "sender", _digest(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTelemetryPayload:
    """One push as a receiver sees it.

    Attributes:
        client_instance_id: the KIP-714 id of the client.
        is_terminating: the client is closing; this is its last push.
        content_type: what `data` is.
        data: the client's own OTLP `MetricsData`, decompressed, validated, without the broker's labels. Empty for a
            heartbeat, by which a receiver tells a client without matching metrics from a silent one.
    """

    client_instance_id: uuid.UUID
    is_terminating: bool
    data: bytes
    content_type: str = CONTENT_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTelemetryContext:
    """What an exporter is told of a push (KIP-1217).

    Attributes:
        push_interval_ms: the interval in force for the client [ms]: how long its series may stay silent.
        authorizable_request_context: who sent it.
    """

    push_interval_ms: int
    authorizable_request_context: RequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsContext:
    """Where the metrics of this process come from (KIP-606).

    Attributes:
        namespace: `kafka.server`.
        labels: `kafka.cluster.id` and `kafka.node.id`.
    """

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class MetricsReporter(Protocol):
    """Kafka's `MetricsReporter`. Derive from it to write only the methods that are wanted."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Called first, with every configured key; unknown keys too, so that a reporter may have its own."""

    def init(self, metrics: Sequence[KafkaMetric]) -> None:
        """`metrics` are there already."""

    def metric_change(self, metric: KafkaMetric) -> None:
        """A metric of this process was added."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """A metric of this process was removed."""

    def context_change(self, context: MetricsContext) -> None:
        """Called before any receiver is asked for."""

    def close(self) -> None:
        """The process stops, or the reporter was removed."""


@runtime_checkable
class ClientTelemetryReceiver(Protocol):
    """Takes pushes (KIP-714, Client telemetry receiver)."""

    def export_metrics(self, context: RequestContext, payload: ClientTelemetryPayload) -> Awaitable[None] | None:
        """Called for every accepted push, in order and one call at a time, on a thread of the reporter's own.

        A coroutine function, and an awaitable that is returned, runs on the listener's loop and must not block it. The
        client's response never waits; after `plugin.export.timeout.ms` an awaitable is cancelled, and a call that has
        not begun is given up. What is raised is counted and logged, and never reaches the client.
        """
        ...


@runtime_checkable
class ClientTelemetry(Protocol):
    """A reporter that also receives client telemetry (KIP-714, Client telemetry receiver)."""

    def client_receiver(self) -> ClientTelemetryReceiver | None:
        """Called once, after `context_change`; None receives nothing."""
        ...


@runtime_checkable
class ClientTelemetryExporter(Protocol):
    """Takes pushes with their interval (KIP-1217)."""

    def export_metrics(
        self, context: ClientTelemetryContext, payload: ClientTelemetryPayload
    ) -> Awaitable[None] | None:
        """See `ClientTelemetryReceiver.export_metrics`."""
        ...


@runtime_checkable
class ClientTelemetryExporterProvider(Protocol):
    """A reporter that exports client telemetry (KIP-1217). One that is also a `ClientTelemetry` is asked for this."""

    def client_telemetry_exporter(self) -> ClientTelemetryExporter | None:
        """Called once, after `context_change`; None exports nothing."""
        ...
