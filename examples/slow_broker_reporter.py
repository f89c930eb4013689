"""A custom reporter on Kafka's interface: warns of clients whose last request to a broker took long.

Register it with `metric.reporters = "slow_broker_reporter.SlowBrokerReporter"` (the module must be importable, for
example by PYTHONPATH) and choose the limit with `SLOW_BROKER_LIMIT_MS` in the environment.

`export_metrics` runs on a thread of the reporter's own: it delays no client. While 1,000 exports wait for that thread
in a node, further pushes are not shown to it and counted (docs/develop/write-a-reporter.md). Destinations belong into
`[exporters.<name>]`, which read the push log instead.
"""

import os
from collections.abc import Iterator

import structlog
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.telemetry import (
    ClientTelemetryPayload,
    MetricsContext,
    MetricsReporter,
    RequestContext,
    format_instance_id,
)

log = structlog.get_logger(__name__)

LATENCY = ".node.request.latency.max"


class SlowBrokerReporter(MetricsReporter):
    """Logs a warning for each broker node that a client found slow; keeps count in `warnings`."""

    def __init__(self) -> None:
        self.limit_ms = float(os.environ.get("SLOW_BROKER_LIMIT_MS", "5000"))
        self.node_id = "?"
        self.warnings = 0

    def context_change(self, context: MetricsContext) -> None:
        """Receives the labels of the node."""
        self.node_id = context.labels["kafka.node.id"]

    def client_receiver(self) -> "SlowBrokerReporter":
        """Makes this reporter a receiver of client telemetry (KIP-714, ClientTelemetry)."""
        return self

    def export_metrics(self, context: RequestContext, payload: ClientTelemetryPayload) -> None:
        """Handles every accepted push, with its decompressed OTLP payload."""
        for node, latency_ms in slow_nodes(MetricsData.FromString(payload.data), self.limit_ms):
            self.warnings += 1
            log.warning(
                "a client waits long for a broker",
                client_id=context.client_id,
                client_instance_id=format_instance_id(payload.client_instance_id),
                principal=str(context.principal),
                broker=node,
                latency_ms=latency_ms,
                reported_to=self.node_id,
            )


def slow_nodes(data: MetricsData, limit_ms: float) -> Iterator[tuple[str, float]]:
    """Node and latency [ms] of every request latency in `data` that is above `limit_ms`."""
    for resource_metrics in data.resource_metrics:
        for scope in resource_metrics.scope_metrics:
            for metric in scope.metrics:
                if not metric.name.endswith(LATENCY):
                    continue
                for point in metric.gauge.data_points:
                    latency_ms = point.as_double or float(point.as_int)
                    if latency_ms > limit_ms:
                        labels = {item.key: item.value for item in point.attributes}
                        node = labels.get("node_id") or labels.get("node.id")
                        yield (str(node.int_value or node.string_value) if node else "?"), latency_ms
