"""Labelling at the wire level means the same as parsing, adding and serialising."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from support.payloads.label_reference import label, read, reference

from fleetgauge.base.varint import encode_varint
from fleetgauge.exporters.protobuf_wire import MalformedPayloadError

names = st.sampled_from(["", "client_id", "node_id", "client_source_port", "group_id", "environment", "x" * 130])
any_values = st.one_of(
    st.builds(AnyValue, string_value=st.text(max_size=4) | st.just("v" * 150)),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue),
)
resources = st.builds(
    Resource,
    attributes=st.lists(st.builds(KeyValue, key=names, value=any_values), max_size=4),
    dropped_attributes_count=st.integers(0, 3),
)


@st.composite
def scope_metrics(draw: st.DrawFn) -> ScopeMetrics:
    scope = ScopeMetrics(schema_url=draw(st.sampled_from(["", "https://scope"])))
    for name in draw(st.lists(st.sampled_from(["a", "b" * 90, "c" * 20_000]), max_size=3)):
        metric = scope.metrics.add(name=name)
        metric.gauge.data_points.add(as_double=draw(st.floats(allow_nan=False)), time_unix_nano=5)
    return scope


resource_metrics = st.builds(
    ResourceMetrics,
    resource=st.none() | resources,
    scope_metrics=st.lists(scope_metrics(), max_size=3),
    schema_url=st.sampled_from(["", "https://one", "https://two"]),
)
payloads = st.lists(resource_metrics, max_size=5).map(lambda found: MetricsData(resource_metrics=found))


@given(payloads)
def test_labelled_bytes_mean_what_parsing_and_adding_would_have_made(payload: MetricsData) -> None:
    assert read(label(payload.SerializeToString())) == reference(payload)


@given(payloads)
def test_labelling_twice_gives_the_same_bytes(payload: MetricsData) -> None:
    once = label(payload.SerializeToString())
    assert label(once) == once


@given(st.lists(payloads, max_size=3))
def test_labelled_pushes_join_into_one_request_that_holds_them_all(pushes: list[MetricsData]) -> None:
    joined = b"".join(label(push.SerializeToString()) for push in pushes)
    assert read(joined) == [found for push in pushes for found in reference(push)]


@given(resources, resources, st.lists(scope_metrics(), max_size=2))
def test_a_resource_in_several_pieces_merges_as_protobuf_says(
    first: Resource, second: Resource, scopes: list[ScopeMetrics]
) -> None:
    pieces = [
        _delimited(10, first.SerializeToString()),
        *(_delimited(18, scope.SerializeToString()) for scope in scopes),
        _delimited(10, second.SerializeToString()),
    ]
    payload = _delimited(10, b"".join(pieces))
    assert read(label(payload)) == reference(MetricsData.FromString(payload))


# An attribute in any of the forms that protobuf reads: keys and values repeated, in any order, missing, or unknown.
odd_attributes = st.lists(
    st.sampled_from(
        [
            b"\x0a\x09client_id",
            b"\x0a\x07node_id",
            b"\x0a\x01k",
            b"\x12\x00",
            b"\x12\x03\x0a\x01v",
            b"\x18\x05",
            b"\x22\x01u",
        ]
    ),
    max_size=4,
).map(b"".join)


@example([b"\x0a\x09client_id\x12\x00\x0a\x01k"], b"")
@example([b"\x0a\x01k\x12\x00\x0a\x09client_id"], b"")
@given(st.lists(odd_attributes, max_size=4), st.sampled_from([b"", b"\x12\x00"]))
def test_attributes_in_every_form_that_protobuf_reads_are_understood(attributes: list[bytes], scope: bytes) -> None:
    resource = b"".join(_delimited(10, attribute) for attribute in attributes)
    payload = _delimited(10, _delimited(10, resource) + scope)
    assert read(label(payload)) == reference(MetricsData.FromString(payload))
    assert label(label(payload)) == label(payload)


@given(payloads, st.data())
def test_no_broken_payload_makes_anything_but_its_own_error(payload: MetricsData, data: st.DataObject) -> None:
    whole = bytearray(payload.SerializeToString())
    for _ in range(data.draw(st.integers(0, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    broken = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        found = label(broken)
    except MalformedPayloadError:
        with pytest.raises(DecodeError):
            MetricsData.FromString(broken)
        return
    if _parses(broken):
        assert read(found) == reference(MetricsData.FromString(broken))


def _parses(payload: bytes) -> bool:
    try:
        MetricsData.FromString(payload)
    except DecodeError:
        return False
    return True


def _delimited(tag: int, content: bytes) -> bytes:
    return bytes((tag,)) + encode_varint(len(content)) + content
