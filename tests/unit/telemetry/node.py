"""A node's telemetry room on clocks moved by hand, and clients that talk to it."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.clock import MockTime
from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.principal import ANONYMOUS
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.telemetry.messages import GetTelemetrySubscriptionsResult
from fleetgauge.telemetry.plugin import ClientTelemetryExporterPlugin, RequestContext
from fleetgauge.telemetry.push import Push as AcceptedPush
from fleetgauge.telemetry.push_record import PushIds
from fleetgauge.telemetry.settings import ClientMetricsSettings
from fleetgauge.telemetry.subscriptions.interval_scaling import TelemetryIntervalScaling

INTERVAL_MS = 60_000


def otlp(points: int = 3) -> bytes:
    """A small well-formed payload."""
    data = MetricsData()
    metrics = data.resource_metrics.add().scope_metrics.add().metrics
    for index in range(points):
        metrics.add(name=f"org.apache.kafka.producer.m{index}").gauge.data_points.add(as_double=index)
    return data.SerializeToString()


@dataclass(slots=True, kw_only=True)
class Push:
    client_instance_id: uuid.UUID | None
    subscription_id: int
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes | None = b""


class Node:
    """The manager with its clocks; `settings` and `interval_ms` by keyword. `pace_of` makes its telemetry quotas."""

    def __init__(
        self,
        *,
        interval_ms: int = INTERVAL_MS,
        subscribed: bool = True,
        pace_of: Callable[[MockTime, Metrics], TelemetryIntervalScaling] | None = None,
        **settings: object,
    ) -> None:
        self.time = MockTime()
        self.metrics = Metrics(time=self.time)
        self.plugin = ClientTelemetryExporterPlugin(self.time)
        self.manager = ClientMetricsManager(
            ClientMetricsSettings(**settings),  # type: ignore[arg-type]
            node_id=7,
            cluster_id="cluster-1",
            metrics=self.metrics,
            push_ids=PushIds(writer=1),
            plugin=self.plugin,
            pace=None if pace_of is None else pace_of(self.time, self.metrics),
        )
        if subscribed:
            self.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": str(interval_ms)})

    def sensor(self, name: str) -> float:
        """The value of one of our own metrics."""
        metric = self.metrics.metric(self.metrics.metric_name(name, "client-metrics"))
        assert metric is not None
        value = metric.metric_value()
        assert isinstance(value, float)
        return value

    def expire(self) -> int:
        return self.manager.instances.expire(self.time.hi_res_clock_ms())

    def disconnect(self, connection_id: str) -> int:
        return self.manager.instances.disconnect(connection_id, self.time.hi_res_clock_ms())


class Client:
    """One client; remembers what its last Get told it."""

    def __init__(self, node: Node, connection: str = "c1", **context: object) -> None:
        self.node = node
        self.connection = connection
        self.context: dict[str, object] = {
            "principal": ANONYMOUS,
            "client_id": "app",
            "client_software_name": "apache-kafka-java",
            "client_software_version": "4.4.0",
            "client_address": "10.0.0.9",
            "client_port": 40_001,
            **context,
        }
        self.id: uuid.UUID | None = None
        self.subscription_id = 0

    @property
    def given_id(self) -> uuid.UUID:
        """The id that its latest Get brought."""
        assert self.id is not None
        return self.id

    def request_context(self, connection: str | None = None) -> RequestContext:
        return RequestContext(
            listener_name="PLAINTEXT",
            security_protocol="PLAINTEXT",
            connection_id=connection or self.connection,
            correlation_id=1,
            request_type=72,
            request_version=0,
            **self.context,  # type: ignore[arg-type]
        )

    def get(self, connection: str | None = None) -> GetTelemetrySubscriptionsResult:
        result = self.node.manager.process_get_telemetry_subscriptions(
            self.id, self.request_context(connection), now_ms=self.node.time.hi_res_clock_ms()
        )
        self.id = result.client_instance_id
        if result.error_code is ErrorCode.NONE:
            self.subscription_id = result.subscription_id
        return result

    def push(self, connection: str | None = None, **fields: object) -> AcceptedPush | ErrorCode:
        """What the manager says, before anything is logged."""
        request = Push(
            **{"client_instance_id": self.id, "subscription_id": self.subscription_id, "metrics": otlp(), **fields}  # type: ignore[arg-type]
        )
        return self.node.manager.process_push_telemetry(
            request,
            self.request_context(connection),
            now_ms=self.node.time.hi_res_clock_ms(),
            received_at_us=self.node.time.microseconds(),
        )

    def accepted(self, connection: str | None = None, **fields: object) -> AcceptedPush:
        """The same of a push that the manager takes."""
        outcome = self.push(connection, **fields)
        assert isinstance(outcome, AcceptedPush), outcome
        return outcome

    def answer(self, connection: str | None = None, **fields: object) -> ErrorCode:
        """The error code that the client would see, with a push log that works."""
        outcome = self.push(connection, **fields)
        if isinstance(outcome, AcceptedPush):
            self.node.manager.logged((outcome,), self.node.time.hi_res_clock_ms())
            return ErrorCode.NONE
        return outcome
