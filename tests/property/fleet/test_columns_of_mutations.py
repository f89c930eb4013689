"""Both readers give the same rows of payloads that are changed at random, or whose fields are rearranged."""

import itertools
import os
from collections.abc import Iterator

import pyarrow as pa
import pytest
from fuzz.corpus import read_corpus
from fuzz.payloads import payloads
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.fleet.decoded import senders_of
from support.payloads.mutations import mutated, rearranged

from fleetgauge.fleet.decode import by_bytes, by_protobuf
from fleetgauge.fleet.decode.flat import Reader
from fleetgauge.fleet.decode.payloads import decode_and_count
from fleetgauge.fleet.schemas import DECODED
from fleetgauge.telemetry.otlp.check import is_well_formed
from fleetgauge.telemetry.otlp.schema import METRICS_DATA

INPUTS = int(os.environ.get("FLEETGAUGE_MUTATED_INPUTS", "10000")) // 2
"""`make soak` takes more of them, with compiled modules."""
SEED = int(os.environ.get("FLEETGAUGE_MUTATED_SEED", "1"))
BATCH = 250


def rows(batch: list[bytes], reader: Reader) -> tuple[pa.Table, dict[int, tuple[int, object]], dict[int, str]]:
    """The points in the order of the pushes, what is counted of each push, and the reasons of those set aside."""
    decoded, counts = decode_and_count(batch, reader=reader)
    columns = {name: column.cast(DECODED.field(name).type) for name, column in decoded.columns.items()}
    table = pa.table({"push": pa.array(decoded.push_of), **columns})
    sent = zip(counts.payloads.tolist(), counts.points.tolist(), senders_of(counts), strict=True)
    counted: dict[int, tuple[int, object]] = {push: (points, sender) for push, points, sender in sent}
    return table.sort_by([("push", "ascending"), ("point_index", "ascending")]), counted, decoded.reasons


def batches(found: Iterator[bytes]) -> Iterator[list[bytes]]:
    while batch := list(itertools.islice(found, BATCH)):
        yield batch


def equal_rows(found: Iterator[bytes]) -> tuple[int, int]:
    """How many points and how many payloads set aside were compared."""
    points = set_aside = 0
    for inputs in batches(found):
        batch = decided(inputs)
        fast, slow = rows(batch, by_bytes.read), rows(batch, by_protobuf.read)
        differing = [name for name in slow[0].column_names if not fast[0][name].equals(slow[0][name])]
        assert not differing, [batch[push].hex() for push in differing_pushes(fast[0], slow[0], differing[0])[:1]]
        assert fast[1:] == slow[1:]
        points += len(slow[0])
        set_aside += len(slow[2])
    return points, set_aside


def decided(batch: list[bytes]) -> list[bytes]:
    """Without what is well-formed and left to the slow reader: with one of them it would read the whole batch."""
    left, refused = by_bytes.read(batch)[1].keys(), by_protobuf.read(batch)[1].keys()
    assert refused <= left, [batch[index].hex() for index in refused - left]
    assert len(left - refused) < len(batch) // 2, "hardly anything is left to compare"
    return [payload for index, payload in enumerate(batch) if index not in left - refused]


def differing_pushes(fast: pa.Table, slow: pa.Table, name: str) -> list[int]:
    columns = (fast["push"], fast[name], slow["push"], slow[name])
    return [row[0] for row in zip(*(column.to_pylist() for column in columns), strict=False) if row[:2] != row[2:]]


SEEDS = [data for data in (*payloads(), *read_corpus("decode")) if data]


def test_rows_of_payloads_changed_at_random_are_equal() -> None:
    points, set_aside = equal_rows(mutated(SEEDS, INPUTS, SEED))
    assert min(points, set_aside) > INPUTS // 10, "hardly anything was compared"


def test_rows_of_rearranged_fields_are_equal() -> None:
    """Repeated messages are merged, and of a oneof's members the last one stays."""
    well_formed = [data for data in SEEDS if is_well_formed(data, METRICS_DATA)]
    points, set_aside = equal_rows(rearranged(well_formed, INPUTS, SEED))
    assert points > INPUTS
    assert set_aside < INPUTS // 2


@pytest.mark.parametrize("payload", [pytest.param(b"\x0a\x02\x0a\x00\x0a\x02\x0a\x00", id="two empty resources")])
def test_what_is_taken_as_a_whole_is_not_left_to_the_slow_reader(payload: bytes) -> None:
    assert by_bytes.read([payload])[1] == {}
    assert MetricsData.FromString(payload)
