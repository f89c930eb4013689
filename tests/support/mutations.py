"""Payloads changed at random: what a faulty or malicious client may send."""

import random
from collections.abc import Iterator, Sequence

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
