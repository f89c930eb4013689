"""OTLP payloads for tests, made with opentelemetry-proto."""

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from fleetgauge.base.varint import encode_varint


def metrics_data(points: int = 3, *, name: str = "org.apache.kafka.producer.node.request.latency.avg") -> bytes:
    """A well-formed `MetricsData` with `points` gauges, one for each node, in librdkafka's layout."""
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    for node in range(points):
        metric = scope.metrics.add(name=name)
        point = metric.gauge.data_points.add(as_double=float(node) + 0.5, time_unix_nano=1_750_000_000_000_000_000)
        point.attributes.add(key="node.id").value.int_value = node
    return data.SerializeToString()


def metrics_of(payload: bytes) -> list[Metric]:
    """Every metric of a payload."""
    data = MetricsData.FromString(payload)
    return [
        metric
        for resource_metrics in data.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    ]


def metric_names(payload: bytes) -> set[str]:
    """The telemetry names in a payload."""
    return {metric.name for metric in metrics_of(payload)}


def with_library_metrics(payload: bytes) -> bytes:
    """The same metrics in the form of OTLP before 0.15: field 1000 of `ResourceMetrics` in place of `scope_metrics`."""
    pieces = []
    for each in MetricsData.FromString(payload).resource_metrics:
        body = _delimited(1, each.resource.SerializeToString()) if each.HasField("resource") else b""
        body += b"".join(_delimited(1000, scope.SerializeToString()) for scope in each.scope_metrics)
        pieces.append(_delimited(1, body))
    return b"".join(pieces)


def _delimited(number: int, content: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(content)) + content
