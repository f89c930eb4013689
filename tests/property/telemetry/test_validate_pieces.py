"""A payload that is validated in pieces is judged as protobuf judges the whole."""

from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.errors import InvalidRecordError, TelemetryTooLargeError
from fleetgauge.telemetry.validate import validate_metrics


def payload(resources: int, points: int, text: str) -> bytes:
    data = MetricsData()
    for _ in range(resources):
        resource = data.resource_metrics.add(schema_url=text)
        resource.resource.attributes.add(key="client_rack").value.string_value = text
        metric = resource.scope_metrics.add().metrics.add(name="org.apache.kafka.consumer.poll.idle.ratio.avg")
        for index in range(points):
            metric.sum.data_points.add(as_double=index, time_unix_nano=index << 40).attributes.add(key=text)
    return data.SerializeToString()


payloads = st.builds(payload, st.integers(0, 4), st.integers(0, 6), st.text(max_size=60))


def protobuf_takes(metrics: bytes) -> bool:
    try:
        MetricsData.FromString(metrics)
    except DecodeError:
        return False
    return True


def pieces_take(metrics: bytes, piece_bytes: int) -> bool | None:
    try:
        validate_metrics(metrics, piece_bytes)
    except InvalidRecordError:
        return False
    except TelemetryTooLargeError:
        return None
    return True


@given(metrics=payloads, piece_bytes=st.integers(40, 2_000))
def test_what_is_well_formed_passes_in_pieces_of_any_size(metrics: bytes, piece_bytes: int) -> None:
    assert pieces_take(metrics, piece_bytes) is not False


@given(metrics=payloads, piece_bytes=st.integers(40, 2_000), damage=st.data())
def test_damage_is_judged_alike_whole_and_in_pieces(metrics: bytes, piece_bytes: int, damage: st.DataObject) -> None:
    spoiled = bytearray(metrics)
    for _ in range(damage.draw(st.integers(1, 3))):
        if spoiled:
            spoiled[damage.draw(st.integers(0, len(spoiled) - 1))] = damage.draw(st.integers(0, 255))
    verdict = pieces_take(bytes(spoiled), piece_bytes)
    if verdict is True:
        assert protobuf_takes(bytes(spoiled))
    elif verdict is False and protobuf_takes(bytes(spoiled)):
        # Groups, which OTLP never had, are the one thing that the pieces refuse and protobuf skips.
        assert "wire type" in refusal(bytes(spoiled), piece_bytes)


def refusal(metrics: bytes, piece_bytes: int) -> str:
    try:
        validate_metrics(metrics, piece_bytes)
    except InvalidRecordError as error:
        return str(error)
    return ""
