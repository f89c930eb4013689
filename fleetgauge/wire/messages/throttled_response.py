"""Writes a throttle time into an encoded response, so that only throttled responses need the extra work."""

import struct
from typing import Final

from kio.index import load_response_schema

from fleetgauge.wire.api_table import ApiKey

_INT32: Final = struct.Struct(">i")
_BODY: Final = 8
"""Offset of the body after size and correlation id, in a header without tagged fields."""
_ERROR_CODE: Final = 2


def with_throttle_time(response: bytes, api_key: int, api_version: int, throttle_time_ms: int) -> bytes:
    """The response with `throttle_time_ms` [ms] set; unchanged if its version has no such field.

    Args:
        response: with size prefix, as the encoders make it.
        api_key: Kafka's.
        api_version: the version of its layout.
        throttle_time_ms: an int32.

    Clients of versions without the field are throttled too, and notice it by their latency (KIP-124).
    """
    schema = load_response_schema(api_key, api_version)
    if "throttle_time" not in schema.__dataclass_fields__:
        return response
    if api_key == ApiKey.API_VERSIONS:
        position = _behind_api_keys(response, flexible=schema.__flexible__)
    else:
        # In all other responses it is the first field of the body (KIP-124).
        position = _BODY + (1 if schema.__header_schema__.__flexible__ else 0)
    patched = bytearray(response)
    _INT32.pack_into(patched, position, throttle_time_ms)
    return bytes(patched)


def _behind_api_keys(response: bytes, *, flexible: bool) -> int:
    """Offset after the API list of an ApiVersions response, which precedes the throttle time (KIP-511)."""
    start = _BODY + _ERROR_CODE
    if not flexible:
        count: int = _INT32.unpack_from(response, start)[0]
        return start + _INT32.size + count * 6
    count = response[start] - 1  # a varint of one byte: there are far fewer than 126 APIs
    return start + 1 + count * 7  # key, two versions, no tagged fields
