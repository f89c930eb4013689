"""The parts of responses that the gateway replaces: addresses of brokers, and the list of APIs. No I/O.

Each function finds its part in the first bytes of a response body, and leaves everything else as the broker wrote it.
`IndexError`, `struct.error` and `UnreadableError` mean that the bytes end within the part.
"""

import struct
from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from gateway.addresses import NodeAddresses
from gateway.apis import API_VERSIONS, DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, PASSED, PRODUCE
from wire.request_reader import UnreadableError, read_uvarint, skip_tagged_fields

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")
_API: Final = struct.Struct(">hhh")
_UNSUPPORTED_VERSION: Final = 35
_MAX_ELEMENTS: Final = 100_000
"""Of an array in a response [elements]: far more than any cluster has brokers."""


class Splice(NamedTuple):
    """`replacement` stands for the bytes from `start` to `end`."""

    start: int
    end: int
    replacement: bytes


Splicer = Callable[[bytes, int, int], Splice]
"""Called with a response from its size prefix on, the position of the body, and the version."""


def _checked(data: bytes, position: int) -> int:
    if position > len(data):
        raise UnreadableError("the bytes end within a field")
    return position


def uvarint(value: int) -> bytes:
    r"""An unsigned varint.

    >>> uvarint(1), uvarint(300)
    (b'\x01', b'\xac\x02')
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


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
    return (uvarint(len(raw) + 1) if flexible else _INT16.pack(len(raw))) + raw


def _count(data: bytes, position: int, *, flexible: bool) -> tuple[int, int]:
    """Reads the number of elements of an array, 0 for null."""
    if flexible:
        count, position = read_uvarint(data, position)
        count -= 1
    else:
        (count,) = _INT32.unpack_from(data, position)
        position += 4
    if count > _MAX_ELEMENTS:
        raise UnreadableError(f"an array of {count} elements")
    return max(count, 0), position


def _address(addresses: NodeAddresses, data: bytes, position: int, *, flexible: bool) -> tuple[bytes, int]:
    """Reads node id, host and port, and returns them as clients get them."""
    (node_id,) = _INT32.unpack_from(data, position)
    host, after = read_text(data, position + 4, flexible=flexible)
    (port,) = _INT32.unpack_from(data, after)
    mapped, mapped_port = addresses.of(node_id, host.decode(errors="replace"), port)
    return _INT32.pack(node_id) + _text(mapped, flexible=flexible) + _INT32.pack(mapped_port), after + 4


def _brokers(
    addresses: NodeAddresses, data: bytes, position: int, *, flexible: bool, has_rack: bool, more_bytes: int = 0
) -> Splice:
    """An array of brokers: address, rack, and `more_bytes` before the tagged fields."""
    start = position
    count, position = _count(data, position, flexible=flexible)
    parts = [data[start:position]]
    for _ in range(count):
        address, position = _address(addresses, data, position, flexible=flexible)
        rest = position
        if has_rack:
            _, position = read_text(data, position, flexible=flexible)
        position += more_bytes
        if flexible:
            position = skip_tagged_fields(data, position)
        parts += (address, data[rest : _checked(data, position)])
    return Splice(start, position, b"".join(parts))


def _metadata(addresses: NodeAddresses) -> Splicer:
    def splice(data: bytes, body: int, version: int) -> Splice:
        start = body + 4 if version >= 3 else body
        return _brokers(addresses, data, start, flexible=version >= 9, has_rack=version >= 1)

    return splice


def _describe_cluster(addresses: NodeAddresses) -> Splicer:
    def splice(data: bytes, body: int, version: int) -> Splice:
        position = body + 6  # throttle time, error code
        _, position = read_text(data, position, flexible=True)
        if version >= 1:
            position += 1  # endpoint type
        _, position = read_text(data, position, flexible=True)  # cluster id
        return _brokers(addresses, data, position + 4, flexible=True, has_rack=True, more_bytes=int(version >= 2))

    return splice


def _find_coordinator(addresses: NodeAddresses) -> Splicer:
    def splice(data: bytes, body: int, version: int) -> Splice:
        flexible = version >= 3
        position = body + 4 if version >= 1 else body
        if version < 4:
            position += 2  # error code
            if version >= 1:
                _, position = read_text(data, position, flexible=flexible)
            address, end = _address(addresses, data, position, flexible=flexible)
            return Splice(position, end, address)
        start = position
        count, position = _count(data, position, flexible=True)
        parts = [data[start:position]]
        for _ in range(count):
            key = position
            _, position = read_text(data, position, flexible=True)
            parts.append(data[key:position])
            address, position = _address(addresses, data, position, flexible=True)
            rest, position = position, position + 2
            _, position = read_text(data, position, flexible=True)
            position = skip_tagged_fields(data, position)
            parts += (address, data[rest:position])
        return Splice(start, position, b"".join(parts))

    return splice


def _skip_produced_partition(data: bytes, position: int) -> int:
    position += 30  # index, error code, base offset, append time, log start offset
    errors, position = _count(data, position, flexible=True)
    for _ in range(errors):
        _, position = read_text(data, position + 4, flexible=True)
        position = skip_tagged_fields(data, position)
    _, position = read_text(data, position, flexible=True)
    return skip_tagged_fields(data, position)


def _produce(addresses: NodeAddresses) -> Splicer:
    def splice(data: bytes, body: int, version: int) -> Splice:
        if version < 10:
            return Splice(body, body, b"")
        topics, position = _count(data, body, flexible=True)
        for _ in range(topics):
            position = position + 16 if version >= 13 else read_text(data, position, flexible=True)[1]
            partitions, position = _count(data, position, flexible=True)
            for _ in range(partitions):
                position = _skip_produced_partition(data, position)
            position = skip_tagged_fields(data, position)
        return _endpoints(addresses, data, position + 4)  # throttle time

    return splice


def _endpoints(addresses: NodeAddresses, data: bytes, position: int) -> Splice:
    """The tagged field 0 of a response, `NodeEndpoints` (KIP-951), at its place: the first one."""
    start = position
    fields, position = read_uvarint(data, position)
    if fields == 0:
        return Splice(start, start, b"")
    tag, after_tag = read_uvarint(data, position)
    if tag != 0:
        return Splice(start, start, b"")
    size, value = read_uvarint(data, after_tag)
    end = _checked(data, value + size)
    endpoints = _brokers(addresses, data[:end], value, flexible=True, has_rack=True).replacement
    return Splice(start, end, uvarint(fields) + uvarint(0) + uvarint(len(endpoints)) + endpoints)


def address_splicers(addresses: NodeAddresses) -> dict[int, Splicer]:
    """The functions that rewrite addresses, by api key."""
    return {
        PRODUCE: _produce(addresses),
        METADATA: _metadata(addresses),
        FIND_COORDINATOR: _find_coordinator(addresses),
        DESCRIBE_CLUSTER: _describe_cluster(addresses),
    }


def api_versions_splicer(own: Mapping[int, tuple[int, int]], withheld: Collection[int] = ()) -> Splicer:
    """The function that cuts the list of an ApiVersions response to the APIs and versions that pass.

    Args:
        own: lowest and highest version of the APIs that the gateway answers itself, in place of the broker's.
        withheld: APIs that are left out.
    """

    def splice(data: bytes, body: int, version: int) -> Splice:
        (error,) = _INT16.unpack_from(data, body)
        flexible = version >= 3 and error != _UNSUPPORTED_VERSION
        start = body + 2
        count, position = _count(data, start, flexible=flexible)
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
        size = uvarint(len(entries) + 1) if flexible else _INT32.pack(len(entries))
        return Splice(start, position, size + b"".join(entry for _, entry in sorted(entries.items())))

    return splice


def unsupported_api_versions(correlation_id: int) -> bytes:
    """The answer to an ApiVersions request of an unknown version, in the layout of version 0 (KIP-511)."""
    highest = _API.pack(API_VERSIONS, 0, 4)
    body = _INT32.pack(correlation_id) + _INT16.pack(_UNSUPPORTED_VERSION) + _INT32.pack(1) + highest
    return _INT32.pack(len(body)) + body
