"""Topic errors of Metadata responses, written directly as bytes: all topics are unknown, and there may be thousands.

`kio`'s writer takes 35 us per topic, which blocks the loop. It still writes the rest of the response; a test compares
both writers in every version.
"""

import functools
import struct
import uuid
from collections.abc import Iterable
from typing import Any, Final

from fleetgauge.base.errors import ErrorCode
from fleetgauge.base.varint import encode_varint

_FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_ID: Final = 10
_FIRST_BY_ID: Final = 12
"""First version of Metadata in which a topic may be requested by its id alone (KIP-516)."""

_AFTER_TOPICS: Final = {8: 4, 9: 5, 10: 5, 11: 1, 12: 1, 13: 3}
"""Size of a response after its topics, by version [B]: cluster_authorized_operations (8 to 10), error_code (13), and
the tagged fields of flexible versions; 0 for all others."""

_NO_ID: Final = bytes(16)
_NOT_ASKED_FOR: Final = -(1 << 31)
"""Kafka's default of `topic_authorized_operations`."""

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


def with_unknown_topics(response: bytes, version: int, asked: Iterable[Any]) -> bytes:
    """Returns a complete Metadata response with size prefix, and an error for each requested topic.

    Args:
        response: result of `encode_response`, without topics.
        version: version of the response.
        asked: topics of the request, objects of `kio`'s class.
    """
    entries = [_entry(version, each.name, getattr(each, "topic_id", None)) for each in asked]
    if not entries:
        return response
    end = len(response) - _AFTER_TOPICS.get(version, 0)
    if version >= _FIRST_FLEXIBLE:
        before, count = response[4 : end - 1], encode_varint(len(entries) + 1)
    else:
        before, count = response[4 : end - 4], _INT32.pack(len(entries))
    body = b"".join((before, count, *entries, response[end:]))
    return _INT32.pack(len(body)) + body


def _entry(version: int, name: str | None, topic_id: uuid.UUID | None) -> bytes:
    """Encodes one MetadataResponseTopic; versions 10 and 11 have the id field, but Kafka refuses its use in them."""
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_id is None else ErrorCode.UNKNOWN_TOPIC_ID
    if version < _FIRST_BY_ID and (name is None or topic_id is not None):
        error, name = ErrorCode.INVALID_REQUEST, name or ""
    encoded_id = b""
    if version >= _FIRST_WITH_ID:
        encoded_id = _NO_ID if topic_id is None else topic_id.bytes
    return _INT16.pack(error) + _text(version, name) + encoded_id + _entry_end(version)


def _text(version: int, text: str | None) -> bytes:
    if version < _FIRST_FLEXIBLE:
        encoded = (text or "").encode()
        return _INT16.pack(len(encoded)) + encoded
    if text is None:
        return b"\0"
    encoded = text.encode()
    return encode_varint(len(encoded) + 1) + encoded


@functools.cache
def _entry_end(version: int) -> bytes:
    """Encodes the fields after name and id: is_internal, partitions (none), authorized operations, tags (none)."""
    is_internal = b"\0" if version >= 1 else b""
    no_partitions = b"\1" if version >= _FIRST_FLEXIBLE else bytes(4)
    operations = _INT32.pack(_NOT_ASKED_FOR) if version >= 8 else b""
    return is_internal + no_partitions + operations + (b"\0" if version >= _FIRST_FLEXIBLE else b"")
