"""PushTelemetry (72) version 0, by far the most frequent request: reader and writer for its fixed layout.

All other requests use `wire.messages.request_reader` and `kio`'s writers. A property test compares this reader with
`kio`'s. One difference: a NULL payload, which librdkafka before 2.10.1 sends, is read as an empty one, since the
field is not nullable and the client means a heartbeat.
"""

import functools
import struct
import uuid
from typing import Final, NamedTuple

from fleetgauge.base.varint import UnreadableError, read_uvarint
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.request_reader import skip_tagged_fields

FIXED_FIELDS: Final = struct.Struct(">16siBb")
"""client_instance_id, subscription_id, terminating, compression_type: the body up to the length of `metrics`."""
PUSH: Final = struct.pack(">hh", 72, 0)
"""The first bytes of a push: API key and version."""

_ZERO_ID: Final = bytes(16)
_IDS_KEPT: Final = 16_384

# size, correlation_id, tagged fields of the header, throttle_time_ms, error_code, tagged fields of the body
_RESPONSE: Final = struct.Struct(">iiBihB")
_RESPONSE_SIZE: Final = _RESPONSE.size - 4


class PushTelemetry(NamedTuple):
    """The body of a push; the fields are those of `kio`'s `PushTelemetryRequest`."""

    client_instance_id: uuid.UUID | None
    """None for the zero id."""
    subscription_id: int
    """Signed int32."""
    terminating: bool
    compression_type: int
    """Kafka's id of the codec: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; unchecked."""
    metrics: bytes
    """The payload, compressed; empty for a heartbeat."""


def read_push_telemetry(data: bytes, position: int) -> PushTelemetry:
    """Reads the body of a push from `position` on; bytes after the body are ignored, as in Kafka.

    Raises:
        ProtocolError: `malformed_body`.
    """
    try:
        instance_id, subscription_id, terminating, compression_type = FIXED_FIELDS.unpack_from(data, position)
        length, start = read_uvarint(data, position + FIXED_FIELDS.size)
        end = start + length - 1 if length else start
        if end > len(data):
            raise UnreadableError(f"{length - 1} bytes of metrics are announced, {len(data) - start} are left")
        skip_tagged_fields(data, end)
    except (UnreadableError, IndexError, struct.error) as error:
        raise ProtocolError("malformed_body", f"PushTelemetryRequest v0: {error}") from error
    fields = _instance_id(instance_id), subscription_id, terminating != 0, compression_type, data[start:end]
    return tuple.__new__(PushTelemetry, fields)  # same as PushTelemetry(*fields), without a Python call


def read_payload(data: bytes, position: int) -> bytes | None:
    """Reads the last field of the body of a push, `metrics`, of less than 2 MiB. None if it must be read by
    `read_push_telemetry`: it is NULL, larger, cut off, or has tagged fields after it.
    """
    try:
        size = data[position]
        position += 1
        if size > 0x7F:
            more = data[position]
            position += 1
            size = size & 0x7F | (more & 0x7F) << 7
            if more > 0x7F:
                more = data[position]
                position += 1
                size |= more << 14
                if more > 0x7F:
                    return None
        end = position + size - 1
        return None if size == 0 or data[end] else data[position:end]
    except IndexError:
        return None


@functools.lru_cache(_IDS_KEPT)
def _instance_id(content: bytes) -> uuid.UUID | None:
    """UUID of the id's bytes, cached: clients push repeatedly, and a UUID costs as much as the rest of the reading."""
    return None if content == _ZERO_ID else uuid.UUID(bytes=content)


def encode_push_telemetry_response(correlation_id: int, throttle_time_ms: int, error_code: int) -> bytes:
    """Encodes the complete response to a push with size prefix and header, ready for `Channel.respond`."""
    return _RESPONSE.pack(_RESPONSE_SIZE, correlation_id, 0, throttle_time_ms, error_code, 0)
