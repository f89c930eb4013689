"""Payloads changed at random: what a faulty or malicious client may send."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from fleetgauge.base.varint import encode_varint, read_varint

_BYTES = (0x00, 0x01, 0x07, 0x08, 0x0A, 0x0B, 0x0C, 0x12, 0x7F, 0x80, 0xFF)
_PIECES = (
    b"\xff" * 9 + b"\x01",
    b"\x80" * 4 + b"\x00",
    b"\x0a\x80\x80\x80\x80\x08",
    b"\x0b\x0c",
    b"\xc3\xa9",
    b"\x00\x00",
)


def mutated(seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """`count` payloads, each one of `seeds` with one to four changes; the same ones for the same `seed`."""
    chosen = random.Random(seed)
    for _ in range(count):
        data = bytearray(chosen.choice(seeds))
        for _ in range(chosen.choice((1, 1, 1, 2, 4))):
            _change(data, seeds, chosen)
        yield bytes(data)


def _change(data: bytearray, seeds: Sequence[bytes], chosen: random.Random) -> None:
    at = chosen.randrange(len(data) + 1)
    upto = min(len(data), at + chosen.choice((1, 1, 2, 9, 40)))
    match chosen.randrange(7):
        case 0:
            data[at:upto] = bytes(chosen.choice(_BYTES) for _ in range(upto - at))
        case 1 if at < len(data):
            data[at] ^= 1 << chosen.randrange(8)
        case 2:
            del data[at:upto]
        case 3:
            data[at:at] = chosen.choice(_PIECES)
        case 4:
            data[at:at] = data[at:upto]
        case 5:
            other = chosen.choice(seeds)
            start = chosen.randrange(len(other) + 1)
            data[at:upto] = other[start : start + upto - at]
        case _ if at < len(data):
            data[at] = (data[at] + chosen.choice((-1, 1))) % 256


def rearranged(seeds: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """`count` payloads of the fields of `seeds`: some repeated, moved, left out, or put into other messages."""
    chosen = random.Random(seed)
    pool = [field for data in seeds for field in _fields(data)[:20]]
    for _ in range(count):
        yield _rearranged(chosen.choice(seeds), MetricsData.DESCRIPTOR, pool, chosen)


def _rearranged(data: bytes, message: Any, pool: list[bytes], chosen: random.Random) -> bytes:
    fields = []
    for field in _fields(data):
        inner = message.fields_by_number.get(field[0] >> 3) if field[0] < 0x80 else None
        if inner is not None and inner.message_type is not None and field[0] & 7 == 2:
            _, start = _varint(field, 1)
            content = _rearranged(field[start:], inner.message_type, pool, chosen)
            pool[chosen.randrange(len(pool))] = field
            field = field[:1] + encode_varint(len(content)) + content
        fields.append(field)
    match chosen.randrange(24):
        case 0:
            chosen.shuffle(fields)
        case 1 if fields:
            fields.insert(chosen.randrange(len(fields)), chosen.choice(fields))
        case 2 if fields:
            del fields[chosen.randrange(len(fields))]
        case 3:
            fields.insert(chosen.randrange(len(fields) + 1), chosen.choice(pool))
        case 4 if fields:  # the same content under another number
            at = chosen.randrange(len(fields))
            fields[at] = bytes([chosen.randrange(1, 16) << 3 | fields[at][0] & 7]) + fields[at][1:]
    return b"".join(fields)


def _fields(data: bytes) -> list[bytes]:
    """The fields of a well-formed message, as far as they are not groups."""
    found: list[bytes] = []
    start = 0
    while start < len(data):
        tag, at = _varint(data, start)
        length, after = _varint(data, at) if tag & 7 in (0, 2) else ({1: 8, 5: 4}.get(tag & 7, 0), at)
        end = after if tag & 7 == 0 else after + length
        if tag & 7 in (3, 4):
            return found
        found.append(data[start:end])
        start = end
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    return read_varint(data, at, len(data))
