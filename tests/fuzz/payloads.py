"""Payloads to start from: the three clients' own ways of writing OTLP, and the corners of its wire form."""

from collections.abc import Iterator

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.payloads.payloads import metrics_data
from support.payloads.real_pushes import real_pushes

LONGEST = 2_000


def payloads() -> Iterator[bytes]:
    """Each shorter than `LONGEST` [B]."""
    yield b""
    yield metrics_data(3)
    yield _every_kind()
    yield b"\x0a\x00\x0a\x04\x0a\x00\x12\x00"
    yield b"\x0b\x08\x01\x0c"  # a group
    yield b"\x82\x01\x01x"  # a field that nobody knows
    for push in real_pushes():
        yield _beginning(push)


def _beginning(push: bytes) -> bytes:
    """As many of a push's ResourceMetrics as fit: the Java client writes one for each metric; at least one."""
    data = MetricsData.FromString(push)
    while data.ByteSize() > LONGEST and len(data.resource_metrics) > 1:
        del data.resource_metrics[len(data.resource_metrics) // 2 :]
    metrics = data.resource_metrics[0].scope_metrics[0].metrics
    while data.ByteSize() > LONGEST:
        del metrics[len(metrics) // 2 :]
    return data.SerializeToString()


def _every_kind() -> bytes:
    data = MetricsData()
    found = data.resource_metrics.add(schema_url="https://one")
    found.resource.attributes.add(key="client_id").value.string_value = "theirs"
    found.resource.attributes.add(key="client_rack").value.string_value = "eu-1a"
    metrics = found.scope_metrics.add(schema_url="https://scope").metrics
    metrics.add(name="a").gauge.data_points.add(as_int=-1)
    metrics.add(name="b").sum.data_points.add(as_double=0.5).attributes.add(key="n").value.int_value = 1
    metrics.add(name="c").histogram.data_points.add(count=2, bucket_counts=[1, 1], explicit_bounds=[0.5])
    metrics.add(name="d").exponential_histogram.data_points.add(scale=1, count=1)
    metrics.add(name="e").summary.data_points.add(count=1).quantile_values.add(quantile=0.5, value=2)
    nested = metrics.add(name="f").gauge.data_points.add().attributes.add(key="list").value.array_value
    nested.values.add().kvlist_value.values.add(key="k").value.bytes_value = b"\xff"
    return data.SerializeToString()
