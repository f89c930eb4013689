"""Writes a throttle time into a response that is encoded already. Only who is throttled pays for it."""

import struct
from typing import Final

from kio.index import load_response_schema

from wire.api_table import ApiKey

_INT32: Final = struct.Struct(">i")
_BODY: Final = 8
"""Where the body begins behind size and correlation id, in a header without tagged fields."""
_ERROR_CODE: Final = 2


def with_throttle_time(response: bytes, api_key: int, api_version: int, throttle_time_ms: int) -> bytes:
    """The response with `throttle_time_ms` [ms] in its place; unchanged where its version has none.

    Args:
        response: with size prefix, as the encoders make it.
        api_key: Kafka's.
        api_version: in whose layout it is.
        throttle_time_ms: an int32.

    Clients of versions without the field are held all the same, and learn it from their latency (KIP-124).
    """
    schema = load_response_schema(api_key, api_version)
    if "throttle_time" not in schema.__dataclass_fields__:
        return response
    if api_key == ApiKey.API_VERSIONS:
        position = _behind_api_keys(response, flexible=schema.__flexible__)
    else:
        # In all others it is the body's first field, since KIP-124 put it there.
        position = _BODY + (1 if schema.__header_schema__.__flexible__ else 0)
    patched = bytearray(response)
    _INT32.pack_into(patched, position, throttle_time_ms)
    return bytes(patched)


def _behind_api_keys(response: bytes, *, flexible: bool) -> int:
    """Where the list of an ApiVersions response ends: it may be of any length, and comes first (KIP-511)."""
    start = _BODY + _ERROR_CODE
    if not flexible:
        count: int = _INT32.unpack_from(response, start)[0]
        return start + _INT32.size + count * 6
    count = response[start] - 1  # a varint of one byte: there are far fewer than 126 APIs
    return start + 1 + count * 7  # key, two versions, no tagged fields
