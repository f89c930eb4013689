"""What counts as a well-formed payload."""

import pytest

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.telemetry.validate import PIECE_BYTES, validate_metrics


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field, written by hand: protobuf's own classes do not nest so deeply."""
    varint = bytearray()
    length = len(content)
    while length > 0x7F:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *varint, length]) + content


def nested(depth: int) -> bytes:
    value = field(1, b"x")
    for _ in range(depth):
        value = field(5, field(1, value))  # AnyValue.array_value, ArrayValue.values
    attribute = field(1, b"k") + field(2, value)
    return field(1, field(1, field(1, attribute)))


@pytest.mark.parametrize("metrics", [b"", b"\x0a\x00", nested(10)])
def test_well_formed_payloads_pass(metrics: bytes) -> None:
    validate_metrics(metrics)


@pytest.mark.parametrize(
    "metrics",
    [
        pytest.param(b"\x0a\x05\x12", id="cut off"),
        pytest.param(b"\x0a", id="no length"),
        pytest.param(b"\x0f\x00", id="no such wire type"),
        pytest.param(b"\x00\x00", id="field number 0"),
        pytest.param(b"\x0a\x06\x12\x04\x1a\x02\xff\xfe", id="schema_url that is not UTF-8"),
        pytest.param(nested(60), id="nested too deeply"),
        pytest.param(b"plain text", id="text"),
    ],
)
def test_malformed_payloads_are_invalid_records(metrics: bytes) -> None:
    with pytest.raises(InvalidRecordError, match="the payload is no OTLP MetricsData"):
        validate_metrics(metrics)


POINT = field(1, field(7, field(1, b"k" * 20)) + b"\x21" + bytes(8))
RESOURCE_METRICS = field(1, field(2, field(2, field(1, b"name" * 8) + field(5, POINT * 3))))
LARGE = [
    pytest.param(RESOURCE_METRICS * 12_000, id="many resources"),
    pytest.param(
        field(1, field(2, field(2, field(1, b"name") + field(5, POINT * 40_000)))), id="many points of one metric"
    ),
    pytest.param(field(1, field(3, b"x" * (PIECE_BYTES * 2))), id="one long string"),
]


@pytest.mark.parametrize("metrics", LARGE)
def test_large_well_formed_payloads_pass(metrics: bytes) -> None:
    assert len(metrics) > PIECE_BYTES
    validate_metrics(metrics)


@pytest.mark.parametrize("metrics", LARGE)
def test_a_fault_anywhere_in_a_large_payload_is_found(metrics: bytes) -> None:
    for bad in (metrics[:-1], metrics + b"\x0a", metrics + b"\x0f", metrics + field(1, field(3, b"\xff"))):
        with pytest.raises(InvalidRecordError):
            validate_metrics(bad)


def wrap(numbers: tuple[int, ...], content: bytes) -> bytes:
    for number in reversed(numbers):
        content = field(number, content)
    return content


@pytest.mark.parametrize("path", [(), (1,), (1, 2), (1, 2, 2), (1, 2, 2, 5), (1, 2, 2, 5, 1)])
def test_a_payload_made_to_take_room_when_parsed_is_too_large(path: tuple[int, ...]) -> None:
    last = {(): 1, (1,): 2, (1, 2): 2, (1, 2, 2): 12, (1, 2, 2, 5): 1, (1, 2, 2, 5, 1): 7}[path]
    with pytest.raises(TelemetryTooLargeError):
        validate_metrics(wrap(path, field(last, b"") * (PIECE_BYTES * 4)))


@pytest.mark.slow
def test_a_large_payload_may_be_nested_as_deeply_as_a_small_one_and_no_deeper() -> None:
    filler = RESOURCE_METRICS * 12_000
    for depth in range(30, 60):
        try:
            validate_metrics(nested(depth))
        except InvalidRecordError:
            with pytest.raises(InvalidRecordError):
                validate_metrics(filler + nested(depth))
        else:
            validate_metrics(filler + nested(depth))


def test_a_tower_of_large_messages_ends_where_protobuf_ends() -> None:
    value = field(1, b"x" * (PIECE_BYTES + 1))
    for _ in range(200):
        value = field(5, field(1, value))
    with pytest.raises(InvalidRecordError, match="nested too deeply"):
        validate_metrics(field(1, field(1, field(1, field(2, value)))))
