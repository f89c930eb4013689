"""The topic's form of a push record, as the broker plugin writes it too, and what a reader will not take for one."""

from typing import Any

import pytest
from support.payloads.payloads import metrics_data
from support.programs.push_log import push_record

from fleetgauge.push_log.kafka_topic.record_codec import MalformedRecordError, decode_record, encode_record

RECORD = push_record(7, metrics_data(), subscription_id=-5, terminating=True)


def encoded(**changed: Any) -> tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]]]:
    """A good record but for one thing: `key`, `value`, or a header, which None leaves out."""
    key, value, headers = encode_record(RECORD)
    kept = [pair for pair in headers if pair[0] not in changed]
    added = [
        (name, content) for name, content in changed.items() if name not in ("key", "value") and content is not None
    ]
    return changed.get("key", key), changed.get("value", value), [*kept, *added]


def test_the_form_is_the_one_that_the_design_gives() -> None:
    key, value, headers = encode_record(RECORD)
    assert key == b"Tm-1TLjmRReIm-FbmcCcIA"
    assert value == RECORD.metrics
    assert headers == [
        ("push_id", b"00000000000000000000000000000007"),
        ("received_at", b"1750000000000007"),
        ("receiver_node_id", b"1"),
        ("cluster_id", b"abcdefghijklmnopqrstuv"),
        ("listener", b"PLAINTEXT"),
        ("client_id", b"client-7"),
        ("client_software_name", b"librdkafka"),
        ("client_software_version", b"2.10.1"),
        ("client_source_address", b"127.0.0.1"),
        ("client_source_port", b"45678"),
        ("principal", b"User:ANONYMOUS"),
        ("subscription_id", b"-5"),
        ("push_interval_ms", b"60000"),
        ("terminating", b"true"),
        ("compression_type", b"zstd"),
        ("payload_bytes", b"100"),
        ("schema_version", b"1"),
    ]


def test_what_the_broker_plugin_cannot_know_is_none() -> None:
    unknown = ("client_source_port", "subscription_id", "push_interval_ms", "compression_type", "payload_bytes")
    nulls: dict[str, Any] = dict.fromkeys(unknown)
    key, value, headers = encoded(**nulls)
    read = decode_record(key, value, headers)
    assert read == RECORD._replace(**nulls)


def test_a_heartbeat_is_an_empty_value_and_not_a_null_one() -> None:
    assert decode_record(*encoded(value=b"")).metrics == b""


def test_headers_of_others_are_nobody_s_business_and_the_last_of_one_name_counts() -> None:
    key, value, headers = encode_record(RECORD)
    strange: list[tuple[str, str | bytes | None]] = [("traceparent", b"\xff"), ("client_id", b"an older one")]
    assert decode_record(key, value, [*strange, *headers]) == RECORD


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"value": None}, "null_value"),
        ({"key": None}, "bad_key"),
        ({"key": b""}, "bad_key"),
        ({"key": b"Tm+1TLjmRReIm+FbmcCcIA"}, "bad_key"),
        ({"key": b"Tm-1TLjmRReIm-FbmcCcIB"}, "bad_key"),
        ({"key": b"4e6fb54cb8e64517889be15b99c09c20"}, "bad_key"),
        ({"key": b"\xff" * 22}, "bad_key"),
        ({"push_id": None}, "missing_header"),
        ({"client_id": None}, "missing_header"),
        ({"schema_version": None}, "missing_header"),
        ({"schema_version": b"2"}, "newer_schema"),
        ({"schema_version": b"0"}, "garbled_header"),
        ({"push_id": b"ABCDEF" * 5 + b"01"}, "garbled_header"),
        ({"received_at": b"-1"}, "garbled_header"),
        ({"received_at": b"9223372036854775808"}, "garbled_header"),
        ({"received_at": b"1e9"}, "garbled_header"),
        ({"terminating": b"yes"}, "garbled_header"),
        ({"compression_type": b"brotli"}, "garbled_header"),
        ({"subscription_id": b"2147483648"}, "garbled_header"),
        ({"principal": b"User:\xff"}, "not_utf8"),
        ({"client_id": b"x" * 32_768}, "header_too_long"),
    ],
)
def test_what_is_no_push_record_is_refused_with_the_reason(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(MalformedRecordError) as raised:
        decode_record(*encoded(**changed))
    assert raised.value.reason == reason


def test_a_payload_of_any_bytes_is_handed_on_as_it_came() -> None:
    for metrics in (b"\x0a\xff", b"text", b"\xff" * 100):
        assert decode_record(*encoded(value=metrics)).metrics == metrics


def test_a_newer_record_is_known_as_such_whatever_else_it_holds() -> None:
    with pytest.raises(MalformedRecordError, match="newer_schema: schema_version is 9"):
        decode_record(b"another kind of key", None, [("schema_version", b"9")])
