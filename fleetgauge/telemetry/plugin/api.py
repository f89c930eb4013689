"""Kafka's interfaces for plugins that receive client telemetry: reporters, receivers, exporters, and their arguments.

Names and order of calls are Kafka's: `configure`, `context_change`, `init`, then `client_receiver` or
`client_telemetry_exporter` once, then `export_metrics` for every push (KIP-714, Client telemetry receiver; KIP-1217).
"""

import hashlib
import struct
import uuid
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric

CONTENT_TYPE: Final = "application/x-protobuf;type=otlp+metrics0.19"

_SENDER_BYTES: Final = 16
_LENGTH: Final = struct.Struct(">I")


def _digest(parts: Iterable[str]) -> bytes:
    """Returns BLAKE2b of the length-prefixed parts, so that different lists have different input."""
    hashed = hashlib.blake2b(digest_size=_SENDER_BYTES)
    for part in parts:
        content = part.encode(errors="surrogatepass")
        hashed.update(_LENGTH.pack(len(content)) + content)
    return hashed.digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Sender of a request (Kafka's `AuthorizableRequestContext` and the fields of its implementation).

    Attributes:
        listener_name: the receiving listener, for example `PLAINTEXT`.
        security_protocol: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`.
        principal: authenticated principal of the connection.
        client_id: from the request's header; empty if the client sent none.
        client_software_name: from ApiVersions v3 and later, for example `apache-kafka-java`.
        client_software_version: from ApiVersions v3 and later.
        client_address: the connection's source address.
        client_port: the connection's source port.
        connection_id: unique among the open connections of this node.
        correlation_id: from the request's header.
        request_type: api key of the request; a reporter gets those of pushes, 72.
        request_version: api version of the request.
        sender: digest [16 B] of principal, client id and source address, which distinguish senders with the same
            instance id across connections; so does the software, if the connection has announced it.
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
    request_type: int
    request_version: int
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
    """One push, as passed to a receiver.

    Attributes:
        client_instance_id: the KIP-714 id of the client.
        is_terminating: the client is closing; this is its last push.
        content_type: of `data`.
        data: the client's own OTLP `MetricsData`, decompressed, validated, without the broker's labels. Empty for a
            heartbeat, which distinguishes a client without matching metrics from a silent one.
    """

    client_instance_id: uuid.UUID
    is_terminating: bool
    data: bytes
    content_type: str = CONTENT_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTelemetryContext:
    """Context of a push for an exporter (KIP-1217).

    Attributes:
        push_interval_ms: the client's push interval in force [ms], the expected gap between its data points.
        authorizable_request_context: the sender.
    """

    push_interval_ms: int
    authorizable_request_context: RequestContext


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsContext:
    """Identity of this process for its metrics (KIP-606).

    Attributes:
        namespace: `kafka.server`.
        labels: `_namespace`, `kafka.cluster.id`, `kafka.node.id`, and the operator's own (`metrics.context.<label>`).
    """

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class MetricsReporter(Protocol):
    """Kafka's `MetricsReporter`. Derive from it to implement only some of the methods."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Called first, with every key of the process's configuration but secrets."""

    def init(self, metrics: Sequence[KafkaMetric]) -> None:
        """`metrics` exist already."""

    def metric_change(self, metric: KafkaMetric) -> None:
        """A metric of this process was added."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """A metric of this process was removed."""

    def context_change(self, context: MetricsContext) -> None:
        """Called before `client_receiver` and `client_telemetry_exporter`."""

    def close(self) -> None:
        """The process is stopping, or the reporter was removed."""


@runtime_checkable
class ClientTelemetryReceiver(Protocol):
    """Receives pushes (KIP-714, Client telemetry receiver)."""

    def export_metrics(self, context: RequestContext, payload: ClientTelemetryPayload) -> Awaitable[None] | None:
        """Called for every accepted push, in order and one call at a time, on the reporter's own thread.

        A coroutine function, and an awaitable that is returned, runs on the listener's loop and must not block it. The
        client's response never waits for it. After `plugin.export.timeout.ms` an awaitable is cancelled, and a call
        that has not begun is dropped. Exceptions are counted and logged, and never reach the client.
        """


@runtime_checkable
class ClientTelemetry(Protocol):
    """A reporter that also receives client telemetry (KIP-714, Client telemetry receiver)."""

    def client_receiver(self) -> ClientTelemetryReceiver | None:
        """Called once, after `context_change`; None for no pushes."""


@runtime_checkable
class ClientTelemetryExporter(Protocol):
    """Receives pushes with their interval (KIP-1217)."""

    def export_metrics(
        self, context: ClientTelemetryContext, payload: ClientTelemetryPayload
    ) -> Awaitable[None] | None:
        """See `ClientTelemetryReceiver.export_metrics`."""


@runtime_checkable
class ClientTelemetryExporterProvider(Protocol):
    """A reporter that exports client telemetry (KIP-1217). If it is also a `ClientTelemetry`, this one is used."""

    def client_telemetry_exporter(self) -> ClientTelemetryExporter | None:
        """Called once, after `context_change`; None exports nothing."""
