"""`telemetry.validate` and `telemetry.otlp.check`: verdicts, whole and in pieces of any size, are protobuf's."""

from collections.abc import Iterator

from fuzz.payloads import payloads
from fuzz.target import Target
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.telemetry.otlp.check import is_well_formed
from fleetgauge.telemetry.otlp.schema import METRICS_DATA
from fleetgauge.telemetry.validate import validate_metrics


def protobuf_takes(metrics: bytes) -> bool:
    try:
        MetricsData.FromString(metrics)
    except DecodeError:
        return False
    return True


def run(data: bytes) -> None:
    if not data:
        return
    piece_bytes, metrics = 16 + 4 * data[0], data[1:]
    expected = protobuf_takes(metrics)
    assert expected or not is_well_formed(metrics, METRICS_DATA), "the check takes what protobuf refuses"
    assert _verdict(metrics, 1 << 20) == ("" if expected else "malformed")
    verdict = _verdict(metrics, piece_bytes)
    if verdict == "":
        assert expected, "well-formed in pieces, and not as a whole"
    elif verdict == "malformed":
        assert not expected, "malformed in pieces, and well-formed as a whole"


def _verdict(metrics: bytes, piece_bytes: int) -> str:
    try:
        validate_metrics(metrics, piece_bytes)
    except InvalidRecordError as error:
        # Groups, which OTLP never had, are the one thing that the pieces refuse and protobuf skips.
        return "a group" if "wire type" in str(error) else "malformed"
    except TelemetryTooLargeError:
        return "too dense"
    return ""


def seeds() -> Iterator[bytes]:
    for payload in payloads():
        for size in (0, 20, 255):
            yield bytes((size,)) + payload


TARGET = Target(run=run, seeds=seeds, max_bytes=2_048, memory_bytes=1 << 20, steps_per_byte=200)
