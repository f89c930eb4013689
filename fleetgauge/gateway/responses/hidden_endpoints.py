"""Addresses of brokers after the records of a response (KIP-951): hidden if clients reach brokers by other addresses.

From Fetch 16 on, and in ShareFetch and ShareAcknowledge, a response ends with the endpoints of the new leaders that it
names. Its size stands before the records, which pass without being collected, so the endpoints cannot be replaced by
others of another length. They become a tagged field that no client knows, of the same length; a client then takes the
address of a leader from its metadata, which has mapped ones. No I/O.
"""

import sys
from typing import Final

from fleetgauge.base.varint import UnreadableError, encode_varint, read_uvarint
from fleetgauge.gateway.apis import FETCH, SHARE_ACKNOWLEDGE, SHARE_FETCH
from fleetgauge.gateway.messages.walk import Walk
from fleetgauge.wire.errors import ProtocolError
from fleetgauge.wire.messages.request_reader import MAX_TAGGED_FIELDS

_SINCE: Final = {FETCH: 16, SHARE_FETCH: 0, SHARE_ACKNOWLEDGE: 0}
"""The first version with such endpoints, by api key."""
_UNKNOWN_TAG: Final = 0x7F
_LENGTH_BYTES: Final = 3
_MAX_BYTES: Final = 1 << 20
"""Most bytes of endpoints [B]: far more than any cluster has brokers. Their length fits in `_LENGTH_BYTES`."""


def has_hidden_endpoints(api_key: int, api_version: int) -> bool:
    """True if a response of this version ends with endpoints."""
    return api_version >= _SINCE.get(api_key, sys.maxsize)


class HiddenEndpoints:
    """One response on its way to a client.

    Args:
        api_key: of the request.
        size: of the response from behind the correlation id on [B].
    """

    __slots__ = ("_api_key", "_end", "_fed", "_size")

    def __init__(self, api_key: int, size: int) -> None:
        self._api_key = api_key
        self._size = size
        self._fed = 0
        self._end = bytearray()

    @property
    def kept_bytes(self) -> int:
        """Size of the bytes that do not pass yet [B]."""
        return len(self._end) if self._fed < self._size else 0

    @property
    def is_done(self) -> bool:
        """True once every byte has passed."""
        return self._fed >= self._size

    def take(self, chunk: bytes, walk: Walk) -> bytes:
        """Takes the next bytes, of any number, which the walk has had; returns the bytes that pass: all except
        endpoints that have not arrived completely.

        Raises:
            ProtocolError: the response does not follow its layout.
        """
        begin, self._fed = self._fed, self._fed + len(chunk)
        at = walk.endpoints_at
        if walk.problem or (self._fed == self._size and at is None):
            raise self._malformed(walk.problem or "the response ends before them")
        if at is None or at >= self._fed:
            return chunk
        if self._size - at > _MAX_BYTES:
            raise self._malformed(f"they have {self._size - at} bytes")
        here = max(at - begin, 0)
        self._end += chunk[here:]
        return chunk[:here] + (self._hidden() if self._fed == self._size else b"")

    def _hidden(self) -> bytes:
        try:
            return (_renamed if self._api_key == FETCH else _emptied)(bytes(self._end))
        except (IndexError, UnreadableError) as error:
            raise self._malformed(str(error)) from None

    def _malformed(self, problem: str) -> ProtocolError:
        return ProtocolError("broker_malformed", f"addresses in a response (api key {self._api_key}): {problem}")


def _renamed(tags: bytes) -> bytes:
    """Tagged fields, in which field 0, the endpoints, is replaced by zeros with a tag that no client knows."""
    renamed = bytearray(tags)
    count, at = read_uvarint(tags, 0)
    if count > MAX_TAGGED_FIELDS:
        raise UnreadableError(f"{count} tagged fields, at most {MAX_TAGGED_FIELDS} are read")
    for _ in range(count):
        tag, after = read_uvarint(tags, at)
        size, value = read_uvarint(tags, after)
        if tag == 0:
            renamed[at] |= _UNKNOWN_TAG
            renamed[value : value + size] = bytes(min(size, len(tags) - value))
        at = value + size
    if at != len(tags):
        raise UnreadableError("the bytes do not end with the tagged fields")
    return bytes(renamed)


def _emptied(endpoints: bytes) -> bytes:
    """An empty array of endpoints, and tagged fields with one that fills the removed length."""
    count, _ = read_uvarint(endpoints, 0)
    if count <= 1:
        return endpoints
    filler = len(endpoints) - 3 - _LENGTH_BYTES
    if filler < 0:
        raise UnreadableError(f"an array of {count - 1} elements in {len(endpoints)} bytes")
    length = bytes(
        filler >> 7 * place & 0x7F | (0x80 if place < _LENGTH_BYTES - 1 else 0) for place in range(_LENGTH_BYTES)
    )
    return encode_varint(1) + encode_varint(1) + bytes([_UNKNOWN_TAG]) + length + bytes(filler)
