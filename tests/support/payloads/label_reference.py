"""What labelling means, the slow and obvious way: parse, drop clashing attributes, add ours, merge, serialise."""

from collections.abc import Iterable

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData, ResourceMetrics

from fleetgauge.exporters.labels import LABEL_NAMES, Labeller, LabelSettings
from fleetgauge.telemetry.push_record import PushRecord

SETTINGS = LabelSettings(static=(("environment", "production"),), namespace="orders")
RECORD = PushRecord(
    push_id="0" * 32, received_at=1, receiver_node_id=7, cluster_id="MkU3OEVBNTcwNTJENDM2Qk", listener="PLAINTEXT",
    client_instance_id="Tm-1TLjmRReIm-FbmcCcIA", client_id="", client_software_name="librdkafka",
    client_software_version="2.16.0", client_source_address="::1", client_source_port=None, principal="User:ä",
    subscription_id=1, push_interval_ms=1_000, terminating=False, compression_type="zstd", payload_bytes=1,
    schema_version=1, metrics=b"",
)  # fmt: skip
EXPECTED_LABELS = {
    "client_instance_id": "Tm-1TLjmRReIm-FbmcCcIA", "client_id": "", "client_software_name": "librdkafka",
    "client_software_version": "2.16.0", "client_source_address": "::1", "principal": "User:ä", "node_id": "7",
    "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk", "namespace": "orders", "environment": "production",
}  # fmt: skip
OURS = {*LABEL_NAMES, "environment"}


def reference(payload: MetricsData) -> list[ResourceMetrics]:
    """The obvious way, for whole messages; equal resources merged afterwards."""
    labelled = []
    for original in payload.resource_metrics:
        found = ResourceMetrics()
        found.CopyFrom(original)
        kept = [attribute for attribute in found.resource.attributes if attribute.key not in OURS]
        del found.resource.attributes[:]
        found.resource.attributes.extend(kept)
        for name, value in EXPECTED_LABELS.items():
            found.resource.attributes.add(key=name).value.string_value = value
        labelled.append(found)
    return in_order(merged(labelled))


def merged(found: Iterable[ResourceMetrics]) -> Iterable[ResourceMetrics]:
    """The scopes of equal resources together, in the order of their first occurrence."""
    by_resource: dict[tuple[bytes, str], ResourceMetrics] = {}
    for each in found:
        key = each.resource.SerializeToString(deterministic=True), each.schema_url
        if key in by_resource:
            by_resource[key].scope_metrics.extend(each.scope_metrics)
        else:
            by_resource[key] = each
    return by_resource.values()


def in_order(found: Iterable[ResourceMetrics]) -> list[ResourceMetrics]:
    """Scopes sorted within each: resources that only a label told apart become one, whose scopes have no order."""
    ordered = []
    for original in found:
        copy = ResourceMetrics()
        copy.CopyFrom(original)
        copy.scope_metrics.sort(key=lambda scope: scope.SerializeToString(deterministic=True))
        ordered.append(copy)
    return ordered


def label(payload: bytes) -> bytes:
    return Labeller(SETTINGS).labelled(RECORD._replace(metrics=payload))


def read(payload: bytes) -> list[ResourceMetrics]:
    return in_order(MetricsData.FromString(payload).resource_metrics)
