"""The throttle time in responses that are encoded already, read back with kio's own readers in every version."""

import dataclasses
import datetime
import uuid
from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from fleetgauge.node.listener.apis.api_versions import handle_api_versions
from fleetgauge.node.listener.apis.messages import new_response
from fleetgauge.wire.api_table import SERVED, ApiKey, ApiTable
from fleetgauge.wire.messages.codec import Request, encode_push_telemetry_response, encode_response
from fleetgauge.wire.messages.throttled_response import with_throttle_time

VERSIONS = [(api.key, version) for api in SERVED for version in range(api.min_version, api.max_version + 1)]
NAMED: dict[str, Any] = {
    "accepted_compression_types": (4, 3),
    "endpoint_type": 1,
    "error_message": None,
    "mechanisms": ("PLAIN",),
}
SOME: dict[str | None, Any] = {
    **dict.fromkeys(("int16", "int32"), 7),
    **dict.fromkeys(("timedelta_i32", "timedelta_i64"), datetime.timedelta(0)),
    "error_code": ErrorCode.none,
    "uuid": uuid.UUID(int=9),
    "bool": True,
    "bytes": b"",
    "string": "text",
}


def read(response: bytes, api_key: int, version: int) -> Any:
    """The response's message; every byte has to be used."""
    schema: Any = load_response_schema(api_key, version)
    header, size = entity_reader(schema.__header_schema__)(response, 4)
    assert header.correlation_id == 5
    message, body = entity_reader(schema)(response, 4 + size)
    assert 4 + size + body == len(response) == 4 + int.from_bytes(response[:4], "big")
    return message


def made(api_key: int, version: int) -> bytes:
    """A response of that layout with whatever values."""
    if api_key == ApiKey.API_VERSIONS:
        request = Request(api_key, version, 5, "test", None)
        return handle_api_versions(ApiTable(), None, request)  # type: ignore[arg-type]
    if api_key == ApiKey.PUSH_TELEMETRY:
        return encode_push_telemetry_response(5, 0, 0)
    fields = dataclasses.fields(load_response_schema(api_key, version))
    return encode_response(5, new_response(api_key, version, **{field.name: value_of(field) for field in fields}))


def value_of(field: Any) -> Any:
    """Some value that a field may have."""
    if field.name in NAMED:
        return NAMED[field.name]
    return SOME.get(field.metadata.get("kafka_type"), ())


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_only_the_throttle_time_changes_and_only_where_there_is_one(api_key: int, version: int) -> None:
    response = made(api_key, version)
    before = read(response, api_key, version)
    throttled = with_throttle_time(response, api_key, version, 2**31 - 1)
    after = read(throttled, api_key, version)
    if not hasattr(before, "throttle_time"):
        assert throttled == response
        return
    assert after.throttle_time == datetime.timedelta(milliseconds=2**31 - 1)
    assert dataclasses.replace(after, throttle_time=before.throttle_time) == before


def test_the_answer_to_an_unknown_version_of_api_versions_has_no_throttle_time() -> None:
    response = handle_api_versions(ApiTable(), None, Request(18, 99, 5, "test", None))  # type: ignore[arg-type]
    assert with_throttle_time(response, 18, 0, 100) == response
