"""Frames to requests and messages to responses, with kio's writers on the other side."""

import dataclasses
import datetime
import io
import struct
import uuid
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.api_versions.v4.response import ApiVersionsResponse as ApiVersionsResponseV4
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.push_telemetry.v0 import PushTelemetryResponse
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i32Timedelta

from fleetgauge.wire.api_table import ApiKey, ApiTable
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response, encode_response, parse_request

TABLE = ApiTable()
NO_TIME = datetime.timedelta(0)


def names_of(schema: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(schema)]


def request_frame(body: Any, *, correlation_id: int = 7, client_id: str | None = "app-1") -> bytes:
    buffer = io.BytesIO()
    header_type = body.__header_schema__
    header = header_type(
        request_api_key=body.__api_key__,
        request_api_version=body.__version__,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    entity_writer(header_type)(buffer, header)
    entity_writer(type(body))(buffer, body)
    return buffer.getvalue()


def api_versions_request(version: int) -> Any:
    named = {"client_software_name": "kgo", "client_software_version": "v1.22.2"} if version >= 3 else {}
    return load_request_schema(18, version)(**named)


def raw_header(api_key: int, api_version: int, client_id: bytes | None = b"app-1", correlation_id: int = 7) -> bytes:
    length = -1 if client_id is None else len(client_id)
    return struct.pack(">hhih", api_key, api_version, correlation_id, length) + (client_id or b"")


def reason_of(frame: bytes) -> str:
    with pytest.raises(ProtocolError) as caught:
        parse_request(frame, TABLE)
    return caught.value.reason


@pytest.mark.parametrize("version", range(5))
def test_api_versions_is_read_in_every_version(version: int) -> None:
    sent = api_versions_request(version)
    request = parse_request(request_frame(sent), TABLE)
    assert (request.api_key, request.api_version, request.correlation_id) == (18, version, 7)
    assert request.client_id == "app-1"
    assert request.body == sent


@pytest.mark.parametrize("version", range(14))
def test_metadata_is_read_in_every_version(version: int) -> None:
    schema: Any = load_request_schema(3, version)
    topic_type = __import__(schema.__module__, fromlist=["MetadataRequestTopic"]).MetadataRequestTopic
    names = names_of(topic_type)
    topic = topic_type(**({"name": "orders"} | ({"topic_id": None} if "topic_id" in names else {})))
    flags = {name: True for name in names_of(schema) if name != "topics"}
    sent = schema(topics=(topic, topic), **flags)
    assert parse_request(request_frame(sent), TABLE).body == sent


@pytest.mark.parametrize("version", range(1, 14))
def test_metadata_for_all_topics_is_read(version: int) -> None:
    schema: Any = load_request_schema(3, version)
    flags = {name: False for name in names_of(schema) if name != "topics"}
    assert parse_request(request_frame(schema(topics=None, **flags)), TABLE).body.topics is None


def test_a_get_with_the_zero_id_reaches_the_handler_as_none() -> None:
    frame = raw_header(71, 0) + b"\x00" + bytes(16) + b"\x00"
    assert parse_request(frame, TABLE).body.client_instance_id is None


def test_a_null_and_an_empty_client_id_are_kept_apart() -> None:
    body = b"\x00" + bytes(16) + b"\x00"
    assert parse_request(raw_header(71, 0, None) + body, TABLE).client_id is None
    assert parse_request(raw_header(71, 0, b"") + body, TABLE).client_id == ""


def test_a_client_id_that_is_no_utf8_is_read_as_kafka_reads_it() -> None:
    frame = raw_header(71, 0, b"a\xffb") + b"\x00" + bytes(16) + b"\x00"
    assert parse_request(frame, TABLE).client_id == "a\ufffdb"


def test_tagged_fields_of_a_newer_client_are_stepped_over() -> None:
    tags = b"\x02\x00\x03abc\x07\x01x"
    frame = raw_header(71, 0) + tags + bytes(16) + tags
    assert parse_request(frame, TABLE).body.client_instance_id is None


@pytest.mark.parametrize("api_key", [ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS])
def test_bytes_after_the_body_are_ignored_as_kafka_ignores_them(api_key: int) -> None:
    schema = load_request_schema(api_key, 0)
    sent = schema(**{name: () if name == "topics" else None for name in names_of(schema)})
    assert parse_request(request_frame(sent) + b"trailing", TABLE).body == sent


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_of_an_unknown_version_reaches_the_handler_without_a_body(version: int) -> None:
    frame = raw_header(18, version) + b"\xffwhatever a later version holds"
    request = parse_request(frame, TABLE)
    assert (request.api_version, request.client_id, request.body) == (version, "app-1", None)


def test_an_unknown_key_is_refused() -> None:
    assert reason_of(raw_header(9999, 0)) == "unknown_api_key"


@pytest.mark.parametrize(("key", "version"), [(3, 14), (60, 3), (71, 1), (72, 1), (72, -1)])
def test_an_unsupported_version_is_refused(key: int, version: int) -> None:
    assert reason_of(raw_header(key, version)) == "unsupported_version"


def test_a_frame_without_a_whole_header_is_refused() -> None:
    header = raw_header(71, 0, None)
    assert {reason_of(header[:length]) for length in range(len(header))} == {"short_frame"}


def test_a_client_id_longer_than_its_frame_is_refused() -> None:
    assert reason_of(struct.pack(">hhih", 71, 0, 1, 32767) + b"abc") == "malformed_header"
    assert reason_of(struct.pack(">hhih", 18, 99, 1, 5) + b"abcd") == "malformed_header"


@pytest.mark.parametrize("tags", [b"", b"\x01", b"\x01\x00\x09a", b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x0f"])
def test_broken_tagged_fields_of_the_header_are_refused(tags: bytes) -> None:
    assert reason_of(raw_header(71, 0) + tags) == "malformed_header"


@pytest.mark.parametrize("version", [0, 8, 9, 13])
def test_a_body_cut_anywhere_is_refused(version: int) -> None:
    schema: Any = load_request_schema(3, version)
    flags = {name: False for name in names_of(schema) if name != "topics"}
    whole = request_frame(schema(topics=(), **flags))
    header = len(raw_header(3, version)) + (1 if version >= 9 else 0)
    assert {reason_of(whole[:cut]) for cut in range(header, len(whole))} == {"malformed_body"}


def test_a_request_shows_what_it_is_without_its_payload() -> None:
    request = Request(72, 0, 5, "app", b"secret payload", slot=3)
    assert repr(request) == "Request(api_key=72, api_version=0, correlation_id=5, client_id='app', slot=3)"


def header_and_body(response: bytes, *, header_bytes: int) -> tuple[int, bytes]:
    size, correlation_id = struct.unpack_from(">ii", response)
    assert size == len(response) - 4
    return correlation_id, response[4 + header_bytes :]


def test_a_flexible_response_has_tagged_fields_in_its_header() -> None:
    schema: Any = load_response_schema(72, 0)
    sent = schema(throttle_time=NO_TIME, error_code=KioErrorCode.invalid_request)
    correlation_id, body = header_and_body(encode_response(-5, sent), header_bytes=5)
    assert correlation_id == -5
    assert entity_reader(schema)(body, 0) == (sent, len(body))


@pytest.mark.parametrize("schema", [ApiVersionsResponseV0, ApiVersionsResponseV4])
def test_an_api_versions_response_never_has_them(schema: Any) -> None:
    values = {"error_code": KioErrorCode.none, "api_keys": (), "throttle_time": NO_TIME}
    sent = schema(**{name: value for name, value in values.items() if name in names_of(schema)})
    correlation_id, body = header_and_body(encode_response(2**31 - 1, sent), header_bytes=4)
    assert correlation_id == 2**31 - 1
    assert entity_reader(schema)(body, 0) == (sent, len(body))


@pytest.mark.parametrize("error", [KioErrorCode.none, KioErrorCode.telemetry_too_large, KioErrorCode.invalid_record])
@pytest.mark.parametrize("throttle_time_ms", [0, 1, 2**31 - 1])
def test_the_packed_push_response_is_the_one_that_kio_writes(error: KioErrorCode, throttle_time_ms: int) -> None:
    sent = PushTelemetryResponse(
        throttle_time=i32Timedelta.parse(datetime.timedelta(milliseconds=throttle_time_ms)),
        error_code=error,
    )
    assert encode_push_telemetry_response(77, throttle_time_ms, error.value) == encode_response(77, sent)


def test_a_push_is_read_with_its_payload() -> None:
    instance_id = uuid.uuid4()
    body = instance_id.bytes + struct.pack(">iBb", -12345, 1, 4) + b"\x08payload\x00"
    push = parse_request(raw_header(72, 0) + b"\x00" + body, TABLE).body
    assert push == (instance_id, -12345, True, 4, b"payload")
