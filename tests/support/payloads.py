"""OTLP payloads for tests, made with opentelemetry-proto."""

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData


def metrics_data(points: int = 3, *, name: str = "org.apache.kafka.producer.node.request.latency.avg") -> bytes:
    """A well-formed `MetricsData` with `points` gauges, one for each node, in librdkafka's layout."""
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    for node in range(points):
        metric = scope.metrics.add(name=name)
        point = metric.gauge.data_points.add(as_double=float(node) + 0.5, time_unix_nano=1_750_000_000_000_000_000)
        point.attributes.add(key="node.id").value.int_value = node
    return data.SerializeToString()
