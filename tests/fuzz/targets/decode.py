"""`fleet.decode`: both readers of payloads, which must never fail a batch for one payload, and must agree."""

from collections.abc import Iterator

from fuzz.payloads import payloads
from fuzz.target import Target
from support.payloads.payloads import metrics_data

from fleetgauge.fleet.decode import by_bytes, by_protobuf
from fleetgauge.fleet.decode.payloads import decode

_GOOD = metrics_data(2)


def run(data: bytes) -> None:
    found = [decode([_GOOD, data, _GOOD], reader=reader.read) for reader in (by_bytes, by_protobuf)]
    for decoded in found:
        pushes = decoded.push_of.tolist()
        assert pushes.count(0) == pushes.count(2) == 2, "one payload spoiled its neighbours"
    refused = [1 in decoded.reasons for decoded in found]
    assert refused[0] == refused[1], "the readers disagree on whether it is well-formed"
    points = [decoded.push_of.tolist().count(1) for decoded in found]
    assert points[0] == points[1], "the readers disagree on the points"


def seeds() -> Iterator[bytes]:
    yield from payloads()


TARGET = Target(run=run, seeds=seeds, max_bytes=2_048, memory_bytes=8 << 20, steps_per_byte=300)
