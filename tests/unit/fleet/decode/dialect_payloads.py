"""Payloads as real clients send them, made with opentelemetry-proto: Java, librdkafka, franz-go."""

import math
from collections.abc import Mapping, Sequence

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

PRODUCER_AVG = "org.apache.kafka.producer.node.request.latency.avg"
PRODUCER_MAX = "org.apache.kafka.producer.node.request.latency.max"
CONSUMER_AVG = "org.apache.kafka.consumer.node.request.latency.avg"
CONSUMER_MAX = "org.apache.kafka.consumer.node.request.latency.max"
LAG = "org.apache.kafka.consumer.fetch.manager.records.lag"
CONNECTIONS = "org.apache.kafka.producer.connection.creation.total"

START_NANO = 1_750_000_000_000_000_000
TIME_NANO = START_NANO + 60_000_000_000

Attributes = Mapping[str, str | int]


def attribute(key: str, value: str | int) -> KeyValue:
    pair = KeyValue(key=key)
    if isinstance(value, int):
        pair.value.int_value = value
    else:
        pair.value.string_value = value
    return pair


def java_metric(data: MetricsData, name: str, value: float, attributes: Attributes, *, resource: Attributes) -> Metric:
    """One ResourceMetrics a point, the resource always there, no scope, no unit."""
    resource_metrics = data.resource_metrics.add()
    resource_metrics.resource.SetInParent()
    resource_metrics.resource.attributes.extend(attribute(*pair) for pair in resource.items())
    metric = resource_metrics.scope_metrics.add().metrics.add(name=name)
    point = metric.gauge.data_points.add(as_double=value, time_unix_nano=TIME_NANO)
    point.attributes.extend(attribute(*pair) for pair in attributes.items())
    return metric


def java_producer(latencies: Mapping[str, float]) -> bytes:
    """Latencies by Java's name of the link (`node-1`), and a delta of opened connections."""
    data = MetricsData()
    for link, value in latencies.items():
        java_metric(data, PRODUCER_AVG, value, {"node_id": link}, resource={})
        java_metric(data, PRODUCER_MAX, value * 2, {"node_id": link}, resource={})
    metrics = data.resource_metrics.add()
    metrics.resource.SetInParent()
    total = metrics.scope_metrics.add().metrics.add(name=CONNECTIONS).sum
    total.is_monotonic = True
    total.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    total.data_points.add(as_double=3.0, start_time_unix_nano=START_NANO, time_unix_nano=TIME_NANO)
    return data.SerializeToString()


def java_consumer(topics: Sequence[str], *, group: str = "billing", member: str = "m-1") -> bytes:
    """From 4.x: every dotted topic twice, beside a total without a topic, under one name."""
    data = MetricsData()
    resource = {"group_id": group, "group_member_id": member, "client_rack": "eu-1a"}
    java_metric(data, LAG, 30.0, {}, resource=resource)
    for topic in topics:
        for name in dict.fromkeys((topic, topic.replace(".", "_"))):
            java_metric(data, LAG, 10.0, {"topic": name, "partition": "0"}, resource=resource)
    java_metric(data, CONSUMER_AVG, math.nan, {"node_id": "node-2147483646"}, resource=resource)
    return data.SerializeToString()


def librdkafka_producer(latencies: Sequence[tuple[int, float]], *, client_id: str = "rd") -> bytes:
    """One ResourceMetrics without a resource, one Metric a node with the name repeated, averages double, maxima int."""
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    scope.scope.name = f"{client_id}#producer-1"
    for node, value in latencies:
        for name in (PRODUCER_AVG, PRODUCER_MAX):
            metric = scope.metrics.add(name=name, description="request latency")
            point = metric.gauge.data_points.add(start_time_unix_nano=START_NANO, time_unix_nano=TIME_NANO)
            point.attributes.append(attribute("node.id", node))
            if name == PRODUCER_AVG:
                point.as_double = value
            else:
                point.as_int = math.ceil(value)
    return data.SerializeToString()


def librdkafka_consumer(*, member: str = "rdkafka-1") -> bytes:
    """The group member is `member_id`, on the points."""
    data = MetricsData()
    scope = data.resource_metrics.add().scope_metrics.add()
    metric = scope.metrics.add(name="org.apache.kafka.consumer.coordinator.assigned.partitions")
    point = metric.gauge.data_points.add(as_int=4, start_time_unix_nano=START_NANO, time_unix_nano=TIME_NANO)
    point.attributes.append(attribute("member_id", member))
    return data.SerializeToString()


def franz_go(latencies: Mapping[int, float]) -> bytes:
    """One ResourceMetrics, scope `kgo`, `node_id` an int, no start time in the first push."""
    data = MetricsData()
    resource_metrics = data.resource_metrics.add()
    resource_metrics.resource.SetInParent()
    scope = resource_metrics.scope_metrics.add()
    scope.scope.name = "kgo"
    gauge = scope.metrics.add(name=CONSUMER_AVG).gauge
    for node, value in latencies.items():
        gauge.data_points.add(as_double=value, time_unix_nano=TIME_NANO).attributes.append(attribute("node_id", node))
    return data.SerializeToString()


MALFORMED = b"\x0a\xff\x01"
"""A length that reaches beyond the end."""
