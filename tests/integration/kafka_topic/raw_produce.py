"""A Produce request made of `struct` and a socket: brokers take what no client library would send."""

import socket
import struct
import time
from collections.abc import Sequence

import crc32c
from support.waiting import PATIENCE_S, wait_for

RawRecord = tuple[bytes, bytes | None, Sequence[tuple[bytes, bytes | None]]]
"""Key, value, headers."""
NOT_LEADER_OR_FOLLOWER = 6


def raw_produce(bootstrap: str, topic: str, records: Sequence[RawRecord]) -> None:
    """Puts the records into partition 0 as they are (Produce version 3, record batch version 2)."""
    batch = _batch([_record(at, *record) for at, record in enumerate(records)])
    name = topic.encode()
    request = (
        struct.pack(">hhih", 0, 3, 1, -1)  # api key, version, correlation id, no client id
        + struct.pack(">hhi", -1, -1, 10_000)  # no transaction, acks=all, timeout
        + struct.pack(">ih", 1, len(name))
        + name
        + struct.pack(">iii", 1, 0, len(batch))
        + batch
    )
    error_code = wait_for(
        lambda: _send(bootstrap, request, 4 + 4 + 2 + len(name) + 4 + 4),
        "a leader of a topic that was just made",
        until=lambda code: code != NOT_LEADER_OR_FOLLOWER,
    )
    assert error_code == 0, f"the broker refused the records: error {error_code}"


def _send(bootstrap: str, request: bytes, error_code_at: int) -> int:
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        with connection.makefile("rb") as answer:
            (size,) = struct.unpack(">i", answer.read(4))
            response = answer.read(size)
    return int(struct.unpack_from(">h", response, error_code_at)[0])


def _varint(number: int) -> bytes:
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _record(at: int, key: bytes, value: bytes | None, headers: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    body = b"\0" + _varint(0) + _varint(at) + _sized(key) + _sized(value) + _varint(len(headers))
    body += b"".join(_sized(name) + _sized(content) for name, content in headers)
    return _sized(body)


def _batch(records: Sequence[bytes]) -> bytes:
    now_ms = int(time.time() * 1_000)
    tail = struct.pack(">hiqqqhii", 0, len(records) - 1, now_ms, now_ms, -1, -1, -1, len(records)) + b"".join(records)
    head = struct.pack(">ibI", 0, 2, crc32c.crc32c(tail))  # leader epoch, magic, checksum
    return struct.pack(">qi", 0, len(head) + len(tail)) + head + tail
