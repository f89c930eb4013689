"""`exporters.labels` on `exporters.protobuf_wire`: what parsing, adding and serialising would have made."""

from collections.abc import Iterator

from fuzz.payloads import payloads
from fuzz.target import Target
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.payloads.label_reference import in_order, label, merged, reference

from fleetgauge.exporters.protobuf_wire import MalformedPayloadError


def run(data: bytes) -> None:
    try:
        parsed = MetricsData.FromString(data)
    except DecodeError:
        parsed = None
    try:
        found = label(data)
    except MalformedPayloadError:
        assert parsed is None or _has_unknown_fields(parsed), "refused, and protobuf reads it"
        return
    assert label(found) == found, "labelling twice changed it"
    if parsed is None:
        return
    if _has_unknown_fields(parsed):
        MetricsData.FromString(found)  # the reference knows nothing of them, and merges what they tell apart
    else:
        # Resources are equal for the labeller if their bytes are: a default that is written out tells two apart.
        assert in_order(merged(MetricsData.FromString(found).resource_metrics)) == reference(parsed)


def _has_unknown_fields(parsed: MetricsData) -> bool:
    """Within a group that it does not know, protobuf's parser takes field number 0, which its guide forbids."""
    before = parsed.ByteSize()
    parsed.DiscardUnknownFields()
    return parsed.ByteSize() < before


def seeds() -> Iterator[bytes]:
    yield from payloads()
    for payload in list(payloads())[:3]:
        yield label(payload)


TARGET = Target(run=run, seeds=seeds, max_bytes=2_048, memory_bytes=2 << 20, steps_per_byte=300)
