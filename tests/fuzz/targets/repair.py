"""`telemetry.otlp.repair`: valid text stays byte for byte, and what was repaired is what protobuf takes."""

from collections.abc import Iterator

from fuzz.payloads import payloads
from fuzz.target import Target
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.payloads.damaged_payloads import READABLE

from fleetgauge.telemetry.otlp.repair import MAX_EXAMPLE_CHARS, TextRepair
from fleetgauge.telemetry.otlp.schema import METRICS_DATA


def run(data: bytes) -> None:
    is_valid = _parses(data)
    try:
        repair = TextRepair(data, METRICS_DATA)
    except ValueError:
        assert not is_valid, "refused, and protobuf reads it"
        return
    assert len(repair.example) <= MAX_EXAMPLE_CHARS
    if not repair.replaced:
        assert repair.metrics is data, "changed, and no text was replaced"
        return
    assert not is_valid, "changed, and protobuf reads it as it was"
    again = TextRepair(repair.metrics, METRICS_DATA)
    assert again.replaced == 0, "text is left that is not UTF-8"
    assert again.metrics is repair.metrics
    assert _parses(repair.metrics), "all text is UTF-8, and protobuf does not read it"


def _parses(metrics: bytes) -> bool:
    try:
        MetricsData.FromString(metrics)
    except DecodeError:
        return False
    return True


def seeds() -> Iterator[bytes]:
    yield from payloads()
    yield from READABLE.values()
    for payload in payloads():
        yield payload.replace(b"client", b"cli\xe4nt")


TARGET = Target(run=run, seeds=seeds, max_bytes=2_048, memory_bytes=1 << 20, steps_per_byte=300)
