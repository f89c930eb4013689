"""What counts as a well-formed payload."""

import pytest

from telemetry.validate import validate_metrics
from wire.errors import InvalidRecordError


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field, written by hand: protobuf's own classes do not nest so deeply."""
    length = len(content)
    varint = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
    return bytes([number << 3 | 2]) + varint + content


def nested(depth: int) -> bytes:
    value = field(1, b"x")
    for _ in range(depth):
        value = field(5, field(1, value))  # AnyValue.array_value, ArrayValue.values
    attribute = field(1, b"k") + field(2, value)
    return field(1, field(1, field(1, attribute)))


@pytest.mark.parametrize("metrics", [b"", b"\x0a\x00", nested(10)])
def test_well_formed_payloads_pass(metrics):
    validate_metrics(metrics)


@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param(b"\x0a\x05\x12", id="cut off"),
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0f\x00", id="no such wire type"),
        pytest.param(b"\x00\x00", id="field number 0"),
        pytest.param(b"\x0a\x06\x12\x04\x1a\x02\xff\xfe", id="schema_url that is no UTF-8"),
        pytest.param(nested(60), id="nested too deeply"),
        pytest.param(b"plain text", id="text"),
    ],
)
def test_malformed_payloads_are_invalid_records(metrics):
    with pytest.raises(InvalidRecordError, match="the payload is no OTLP MetricsData"):
        validate_metrics(metrics)
