"""The check of bytes alone: what it takes protobuf's parser takes, and what OTLP's clients send it takes."""

import pytest
from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.payloads.real_pushes import real_pushes
from unit.telemetry.test_validate_metrics import field, nested

from fleetgauge.telemetry.otlp.check import is_well_formed
from fleetgauge.telemetry.otlp.schema import METRICS_DATA

AT_METRIC = (1, 2, 2)
OVERLONG_LENGTH = b"\x0a\x80\x80\x80\x80\x00"
MAX_VARINT = b"\x10" + b"\xff" * 9 + b"\x7f"


def inside(path: tuple[int, ...], content: bytes) -> bytes:
    for number in reversed(path):
        content = field(number, content)
    return content


def protobuf_takes(data: bytes) -> bool:
    try:
        MetricsData.FromString(data)
    except DecodeError:
        return False
    return True


@pytest.mark.parametrize("number", range(len(real_pushes())))
def test_what_real_clients_push_is_well_formed_and_not_if_it_is_cut(number: int) -> None:
    payload = real_pushes()[number]
    assert is_well_formed(payload, METRICS_DATA)
    assert not is_well_formed(payload[:-1], METRICS_DATA)


DECIDED = [
    pytest.param(b"", id="nothing"),
    pytest.param(nested(10), id="nested"),
    pytest.param(nested(47), id="nested as deeply as may be"),
    pytest.param(nested(48), id="nested too deeply"),
    pytest.param(OVERLONG_LENGTH, id="length of five bytes"),
    pytest.param(b"\x0a\x80\x80\x80\x80\x80\x00", id="length of six bytes"),
    pytest.param(b"\x0a\xff\xff\xff\xff\x07", id="length of 2 GiB"),
    pytest.param(b"\x0a\x80\x80\x80\x80\x08", id="length of over 2 GiB"),
    pytest.param(b"\x0a", id="no length"),
    pytest.param(b"\x00\x00", id="field number 0"),
    pytest.param(b"\x0e", id="wire type 6"),
    pytest.param(b"\x0f", id="wire type 7"),
    pytest.param(b"\x0c", id="end of no group"),
    pytest.param(b"\x08\x01", id="another wire type than the field's"),
    pytest.param(b"\x7a\x01\xff", id="unknown bytes"),
    pytest.param(b"\x7d\x01\x02\x03\x04", id="unknown fixed32"),
    pytest.param(b"\x7d\x01\x02\x03", id="fixed32 cut off"),
    pytest.param(MAX_VARINT, id="number of ten bytes"),
    pytest.param(b"\x10" + b"\xff" * 10 + b"\x01", id="number of eleven bytes"),
    pytest.param(inside(AT_METRIC, b"\x0a\x02\xc3\xa9"), id="name in two bytes a letter"),
    pytest.param(inside(AT_METRIC, b"\x0a\x09consumer\xc3"), id="name cut in a letter"),
    pytest.param(inside(AT_METRIC, b"\x0a\x03\xed\xa0\x80"), id="half of a surrogate pair"),
    pytest.param(inside(AT_METRIC, b"\x0a\x02\xc0\x80"), id="overlong NUL"),
    pytest.param(inside((1, 2), b"\x0a\x02\x0a\x01\x12\x00"), id="message longer than the one it is in"),
    pytest.param(inside((*AT_METRIC, 5, 1), b"\x21" + bytes(8)), id="value"),
    pytest.param(inside((*AT_METRIC, 5, 1), b"\x21" + bytes(7)), id="value cut off"),
    pytest.param(inside((*AT_METRIC, 5, 1), field(4, bytes(7))), id="one number as packed ones, which is unknown"),
    pytest.param(inside((*AT_METRIC, 9, 1), field(6, bytes(16))), id="packed fixed64"),
    pytest.param(inside((*AT_METRIC, 9, 1), field(6, bytes(15))), id="packed fixed64 cut off"),
    pytest.param(inside((*AT_METRIC, 9, 1), (b"\x31" + bytes(8)) * 2), id="the same unpacked"),
    pytest.param(inside((*AT_METRIC, 10, 1, 8), field(2, b"\x01\xff\x01")), id="packed varints"),
    pytest.param(inside((*AT_METRIC, 10, 1, 8), field(2, b"\x01\xff")), id="packed varints cut off"),
]


@pytest.mark.parametrize("data", DECIDED)
def test_protobuf_agrees_on_what_is_decided(data: bytes) -> None:
    assert is_well_formed(data, METRICS_DATA) is protobuf_takes(data)


def test_both_verdicts_are_among_what_is_compared() -> None:
    verdicts = [protobuf_takes(parameters.values[0]) for parameters in DECIDED]  # type: ignore[arg-type]
    assert min(verdicts.count(True), verdicts.count(False)) >= 12


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0b\x08\x01\x0c", id="group"),
        pytest.param(b"\x82\x01\x01x", id="field number 16"),
        pytest.param(b"\x8a\x00\x00", id="tag of more bytes than it needs"),
    ],
)
def test_what_no_client_sends_is_left_to_protobuf(data: bytes) -> None:
    assert protobuf_takes(data)
    assert not is_well_formed(data, METRICS_DATA)
