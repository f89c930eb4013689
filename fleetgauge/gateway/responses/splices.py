"""Parts of responses that the gateway replaces: addresses of brokers, and the list of APIs. No I/O.

Everything else stays as the broker wrote it.
"""

import struct
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from fleetgauge.base.varint import UnreadableError, encode_varint, read_uvarint
from fleetgauge.gateway.addresses import NodeAddresses
from fleetgauge.gateway.apis import API_VERSIONS, DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, NEVER, PASSED, PRODUCE
from fleetgauge.gateway.messages.walk import Walk
from fleetgauge.wire.messages.request_reader import skip_tagged_fields

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_API: Final = struct.Struct(">hhh")
_UNSUPPORTED_VERSION: Final = 35
_SINCE: Final = {PRODUCE: 10, METADATA: 0, FIND_COORDINATOR: 0, DESCRIBE_CLUSTER: 0}
"""The first version with addresses that are replaced, by api key."""


class Splice(NamedTuple):
    """`replacement` replaces the bytes from `start` to `end`."""

    start: int
    end: int
    replacement: bytes


Splicer = Callable[[bytes, int], Splice]
"""Called with the whole body of a response, and its version."""


def _checked(data: bytes, position: int) -> int:
    if position > len(data):
        raise UnreadableError("the bytes end within a field")
    return position


def read_text(data: bytes, position: int, *, flexible: bool) -> tuple[bytes, int]:
    """Reads a string, which may be null: its bytes (empty for null), and the position after it."""
    if flexible:
        length, position = read_uvarint(data, position)
        length -= 1
    else:
        (length,) = _INT16.unpack_from(data, position)
        position += 2
    end = _checked(data, position + max(length, 0))
    return data[position:end], end


def _text(value: str, *, flexible: bool) -> bytes:
    raw = value.encode()
    return (encode_varint(len(raw) + 1) if flexible else _INT16.pack(len(raw))) + raw


def has_addresses(api_key: int, api_version: int) -> bool:
    """True if addresses in a response of this version are replaced."""
    return api_version >= _SINCE.get(api_key, NEVER)


class AddressSplice:
    """The addresses of one response, replaced as its bytes arrive.

    Until the last one is replaced nothing passes, since the size of the response stands first.

    Args:
        addresses: under which clients reach the brokers.
        walk: over the response, from behind the correlation id on; its addresses are taken here.
        flexible: True if the version has tagged fields.
    """

    __slots__ = ("_addresses", "_flexible", "_growth", "_out", "_raw", "_raw_at", "_size_at", "is_done")

    def __init__(self, addresses: NodeAddresses, walk: Walk, *, flexible: bool) -> None:
        walk.addresses = []
        self._addresses = addresses
        self._flexible = flexible
        self._raw = bytearray()  # what the walk has not passed over
        self._raw_at = 0  # its offset in the response
        self._out = bytearray()
        self._size_at = 0  # in `_out`, where the size of a tagged field is missing
        self._growth = 0
        self.is_done = False

    @property
    def kept_bytes(self) -> int:
        """Size of the bytes that do not pass yet [B]."""
        return len(self._out) + len(self._raw)

    def take(self, chunk: bytes, walk: Walk) -> bytes:
        """Takes the next bytes, which the walk has had; returns those that pass: none, or all so far.

        Raises:
            UnreadableError: the response does not follow its layout.
        """
        assert walk.addresses is not None
        self._raw += chunk
        if walk.endpoints_size is not None and not self._size_at:
            self._replace(*walk.endpoints_size[:2], b"")
            self._size_at, self._growth = len(self._out), 0
        for start, end, node_id, host, port in walk.addresses:
            mapped = self._addresses.of(node_id, host, port)
            if mapped != (host, port):
                text = _text(mapped[0], flexible=self._flexible)
                self._replace(start, end, _INT32.pack(node_id) + text + _INT32.pack(mapped[1]))
        walk.addresses.clear()
        if walk.problem and not walk.addresses_end:  # what is behind them passes, and is the client's to judge
            raise UnreadableError(walk.problem)
        self._copy(walk.position)
        self.is_done = walk.addresses_end or walk.is_done
        return self._all(walk) if self.is_done else b""

    def _copy(self, until: int) -> None:
        """Copies the bytes before the offset `until`, as far as they are at hand."""
        count = until - self._raw_at
        self._out += self._raw[:count]
        self._raw_at += min(count, len(self._raw))
        del self._raw[:count]

    def _replace(self, start: int, end: int, replacement: bytes) -> None:
        self._copy(start)
        self._out += replacement
        del self._raw[: end - start]
        self._raw_at = end
        self._growth += len(replacement) - (end - start)

    def _all(self, walk: Walk) -> bytes:
        walk.addresses = None
        if walk.endpoints_size is not None:
            self._out[self._size_at : self._size_at] = encode_varint(walk.endpoints_size[2] + self._growth)
        return b"".join((self._out, self._raw))


def api_versions_splicer(own: Mapping[int, tuple[int, int]], withheld: Collection[int] = ()) -> Splicer:
    """The function that reduces the list in an ApiVersions response to the APIs and versions that pass.

    Args:
        own: lowest and highest version of the APIs that the gateway answers itself, in place of the broker's.
        withheld: APIs that are left out.

    It raises `IndexError`, `struct.error` or `UnreadableError` if the bytes do not follow the schema.
    """

    def splice(data: bytes, version: int) -> Splice:
        (error,) = _INT16.unpack_from(data)
        flexible = version >= 3 and error != _UNSUPPORTED_VERSION
        start = 2
        if flexible:
            count, position = read_uvarint(data, start)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(data, start)
            position = start + 4
        entries: dict[int, bytes] = {}
        for _ in range(count):
            key, lowest, highest = _API.unpack_from(data, position)
            tags = position = position + _API.size
            if flexible:
                position = skip_tagged_fields(data, position)
            if (api := PASSED.get(key)) is None or key in withheld:
                continue
            lowest, highest = max(lowest, api.min_version), min(highest, api.max_version)
            if lowest <= highest:
                entries[key] = _API.pack(key, lowest, highest) + data[tags:position]
        if error == 0:
            entries |= {key: _API.pack(key, *versions) + b"\0" * flexible for key, versions in own.items()}
        size = encode_varint(len(entries) + 1) if flexible else _INT32.pack(len(entries))
        return Splice(start, position, size + b"".join(entry for _, entry in sorted(entries.items())))

    return splice


def unsupported_api_versions(correlation_id: int) -> bytes:
    """The answer to an ApiVersions request of an unknown version, in the layout of version 0 (KIP-511)."""
    highest = _API.pack(API_VERSIONS, 0, 4)
    body = _INT32.pack(correlation_id) + _INT16.pack(_UNSUPPORTED_VERSION) + _INT32.pack(1) + highest
    return _INT32.pack(len(body)) + body
