"""Decodes frames to requests and encodes responses. No I/O. See `wire.api_table` for the supported APIs."""

import functools
import io
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kio.index import load_request_schema
from kio.serial import entity_writer

from fleetgauge.base.varint import UnreadableError, read_uvarint
from fleetgauge.wire.api_table import ADMIN_KEYS, ApiKey, ApiTable
from fleetgauge.wire.errors import ApiNotServedError, ProtocolError
from fleetgauge.wire.messages.push_telemetry import encode_push_telemetry_response, read_push_telemetry
from fleetgauge.wire.messages.request_reader import read_body, skip_tagged_fields

__all__ = (
    "Request",
    "encode_push_telemetry_response",
    "encode_response",
    "parse_request",
    "read_admin_request",
    "read_only_resource",
)

# request_api_key, request_api_version, correlation_id, length of client_id
_HEADER: Final = struct.Struct(">hhih")
_SIZE_AND_CORRELATION_ID: Final = struct.Struct(">ii")
_INT8, _INT16, _INT32 = struct.Struct(">b"), struct.Struct(">h"), struct.Struct(">i")
NO_TAGGED_FIELDS: Final = b"\x00"

ReadBody = Callable[[bytes, int], Any]


@dataclass(slots=True, eq=False)
class Request:
    """One request, as passed to handlers.

    Attributes:
        api_key, api_version, correlation_id: as sent; key and version are in the API table, except that the version of
            ApiVersions may be any.
        client_id: as sent; Kafka takes None for an empty one.
        body: `PushTelemetry` for a push, bytes for `ADMIN_KEYS` (`read_admin_request` reads them), `kio`'s request
            class for the other APIs; None for an ApiVersions request of a version outside the table, since its layout
            is unknown.
        slot: index in the order of the connection's responses.
        started_ns: time at which handling of the frame began [ns, monotonic]; 0 if the handler has no `request_clock`.
        throttle_time_ms: throttle time in the response [ms].
    """

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: Any = field(repr=False)
    slot: int = 0
    started_ns: int = field(default=0, repr=False)
    throttle_time_ms: int = field(default=0, repr=False)


def parse_request(frame: bytes, table: ApiTable) -> Request:
    """Reads one frame (without size prefix).

    As in Kafka, bytes after the body are ignored, a client id of negative length is null, and an ApiVersions request of
    an unknown version is read only up to its client id: it is answered, so that the client can fall back (KIP-511).
    Invalid UTF-8 in the client id is replaced.

    Raises:
        ProtocolError: `short_frame`, `unknown_api_key` (an `ApiNotServedError`), `unsupported_version`,
            `malformed_header`, `malformed_body`: Kafka closes the connection on each.
    """
    if len(frame) < _HEADER.size:
        raise ProtocolError("short_frame", f"a frame of {len(frame)} bytes cannot hold a request header")
    api_key, api_version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
    is_served = table.is_supported(api_key, api_version)
    if not is_served and api_key != ApiKey.API_VERSIONS:
        raise _not_served(table, frame)
    client_id, position = _read_client_id(frame, client_id_length)
    if not is_served:
        return Request(api_key, api_version, correlation_id, client_id, None)
    is_flexible, read = _layout(api_key, api_version)
    if is_flexible:
        # Nearly every header has no tagged field: a single zero byte.
        position = position + 1 if frame[position : position + 1] == b"\0" else _skip_header_tags(frame, position)
    return Request(api_key, api_version, correlation_id, client_id, read(frame, position))


def _not_served(table: ApiTable, frame: bytes) -> ProtocolError:
    api_key, api_version, _, client_id_length = _HEADER.unpack_from(frame)
    api = table.find(api_key)
    if api is None:
        client_id = None
        with suppress(ProtocolError):
            client_id, _ = _read_client_id(frame, client_id_length)
        return ApiNotServedError(api_key, api_version, client_id)
    served = f"{api.min_version} to {api.max_version}"
    return ProtocolError("unsupported_version", f"version {api_version} of api key {api_key}; served are {served}")


def _read_client_id(frame: bytes, length: int) -> tuple[str | None, int]:
    start = _HEADER.size
    if length < 0:
        return None, start
    end = start + length
    if end > len(frame):
        raise ProtocolError("malformed_header", f"a client id of {length} bytes in a frame of {len(frame)}")
    return frame[start:end].decode(errors="replace"), end


def _skip_header_tags(frame: bytes, position: int) -> int:
    try:
        return skip_tagged_fields(frame, position)
    except (UnreadableError, IndexError) as error:
        raise ProtocolError("malformed_header", f"tagged fields of the header: {error}") from error


@functools.cache
def _layout(api_key: int, api_version: int) -> tuple[bool, ReadBody]:
    """Returns True if the request header is version 2 (with tagged fields; else 1), and the reader of the body."""
    schema = load_request_schema(api_key, api_version)
    is_flexible = schema.__header_schema__.__flexible__
    if (api_key, api_version) == (ApiKey.PUSH_TELEMETRY, 0):
        return is_flexible, read_push_telemetry
    if api_key in ADMIN_KEYS:
        return is_flexible, _leave_unread
    return is_flexible, functools.partial(read_body, schema)


def _leave_unread(frame: bytes, position: int) -> bytes:
    return frame[position:]


def read_admin_request(request: Request) -> Any:
    """Reads the body of a request of `ADMIN_KEYS`, as `kio`'s request class. May take seconds for a large one.

    Raises:
        ProtocolError: `malformed_body`.
    """
    schema = load_request_schema(request.api_key, request.api_version)
    return read_body(schema, request.body, 0)


def read_only_resource(request: Request) -> tuple[int, str] | None:
    """Reads type and name of the resource of a request for exactly one, in constant time; None for several.

    Args:
        request: DescribeConfigs, AlterConfigs or IncrementalAlterConfigs.

    Raises:
        ProtocolError: `malformed_body`.
    """
    data: bytes = request.body
    is_flexible = load_request_schema(request.api_key, request.api_version).__flexible__
    try:
        count, position = read_uvarint(data, 0) if is_flexible else (_INT32.unpack_from(data)[0] + 1, 4)
        if count != 2:  # the count plus one
            return None
        (kind,) = _INT8.unpack_from(data, position)
        position += 1
        if is_flexible:
            length, position = read_uvarint(data, position)
            length -= 1
        else:
            (length,) = _INT16.unpack_from(data, position)
            position += 2
        if not 0 <= length <= len(data) - position:
            raise UnreadableError(f"a name of {length} bytes")
        return kind, data[position : position + length].decode()
    except (UnreadableError, IndexError, struct.error, UnicodeDecodeError) as error:
        raise ProtocolError("malformed_body", f"resource of api key {request.api_key}: {error}") from error


def encode_response(correlation_id: int, response: Any) -> bytes:
    """Encodes a response of a `kio` class with size prefix and header, ready for `Channel.respond`.

    The message's class determines the header: version 1 (with tagged fields) for flexible versions, but always 0
    for ApiVersions, since a client reads that response before it knows the broker's versions (KIP-511).
    """
    buffer = io.BytesIO()
    buffer.write(_SIZE_AND_CORRELATION_ID.pack(0, correlation_id))
    if response.__header_schema__.__flexible__:
        buffer.write(NO_TAGGED_FIELDS)
    entity_writer(type(response))(buffer, response)
    size = buffer.tell() - 4
    buffer.seek(0)
    buffer.write(_SIZE_AND_CORRELATION_ID.pack(size, correlation_id))
    return buffer.getvalue()
