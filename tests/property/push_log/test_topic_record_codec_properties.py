"""Any push record survives the topic, and any bytes on the topic are a push record or a counted reason."""

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from support.payloads.payloads import metrics_data
from support.programs.push_log import push_record

from fleetgauge.push_log.kafka_topic.record_codec import (
    HEADER_FIELDS,
    MalformedRecordError,
    decode_record,
    encode_record,
)
from fleetgauge.telemetry.push_record import PushRecord, format_instance_id

REASONS = {
    "bad_key", "garbled_header", "header_too_long", "missing_header", "newer_schema",
    "not_utf8", "null_value",
}  # fmt: skip
int32 = st.integers(-(2**31), 2**31 - 1)
label = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
push_records = st.builds(
    PushRecord,
    push_id=st.integers(0, 16**32 - 1).map(lambda number: f"{number:032x}"),
    received_at=st.integers(0, 2**63 - 1),
    receiver_node_id=st.integers(-1, 2**31 - 1),
    cluster_id=label,
    listener=label,
    client_instance_id=st.uuids().map(format_instance_id),
    client_id=label,
    client_software_name=label,
    client_software_version=label,
    client_source_address=label,
    client_source_port=st.none() | st.integers(0, 65_535),
    principal=label,
    subscription_id=st.none() | int32,
    push_interval_ms=st.none() | st.integers(0, 2**31 - 1),
    terminating=st.booleans(),
    compression_type=st.none() | st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]),
    payload_bytes=st.none() | st.integers(0, 2**31 - 1),
    schema_version=st.just(1),
    metrics=st.integers(0, 3).map(lambda points: metrics_data(points) if points else b""),
)
GOOD = encode_record(push_record(1, metrics_data()))


@given(push_records)
def test_every_push_record_comes_back_as_it_was(record: PushRecord) -> None:
    assert decode_record(*encode_record(record)) == record


@given(push_records)
def test_a_field_has_a_header_exactly_when_it_is_known(record: PushRecord) -> None:
    headers = dict(encode_record(record).headers)
    assert set(headers) == {name for name in HEADER_FIELDS if getattr(record, name) is not None}
    assert all(isinstance(content, bytes) for content in headers.values())


@given(
    key=st.none() | st.binary(max_size=40) | st.just(GOOD.key),
    value=st.none() | st.binary(max_size=200) | st.just(GOOD.value),
    headers=st.none()
    | st.lists(
        st.tuples(st.sampled_from(HEADER_FIELDS) | st.text(max_size=10), st.none() | st.binary(max_size=40)),
        max_size=30,
    ),
)
def test_arbitrary_records_are_read_or_refused_with_a_reason_and_nothing_else(
    key: bytes | None, value: bytes | None, headers: Any
) -> None:
    _read_or_refuse(key, value, headers)


@given(
    name=st.sampled_from(HEADER_FIELDS),
    content=st.none() | st.binary(max_size=60) | st.text(max_size=30) | st.integers().map(lambda n: str(n).encode()),
)
@example(name="received_at", content=b"1" * 5_000)
@example(name="receiver_node_id", content="٣".encode())
@example(name="terminating", content=b"TRUE")
@example(name="client_source_port", content=b"65536")
def test_one_strange_header_among_good_ones_is_read_or_refused_with_a_reason(
    name: str, content: bytes | str | None
) -> None:
    headers = [pair for pair in GOOD.headers if pair[0] != name]
    record = _read_or_refuse(GOOD.key, GOOD.value, [*headers, (name, content)])
    if record is not None and content is not None:
        text = content if isinstance(content, str) else content.decode()
        value = getattr(record, name)
        assert (str(value).lower() if isinstance(value, bool) else str(value)) == text or int(text) == value


def _read_or_refuse(key: bytes | None, value: bytes | None, headers: Any) -> PushRecord | None:
    try:
        return decode_record(key, value, headers)
    except MalformedRecordError as error:
        if error.reason not in REASONS:
            raise
        return None
