"""Pushes are packed and unpacked: each comes to one task once, with all others of its instance, in their order."""

import random
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from spark.landing_zone import NOON_US, push

from fleetgauge.fleet.arrow import pa, pc
from fleetgauge.fleet.engines import parcels
from fleetgauge.fleet.engines.parcels import PARCELS, ROWS_AT_ONCE, Pack, Unpack
from fleetgauge.fleet.schemas import BRONZE
from fleetgauge.fleet.shards import shards_for
from fleetgauge.fleet.silver.repeats import ORDER

CHANCE = random.Random(7)
IDS = [urlsafe_b64encode(CHANCE.randbytes(16)).decode().rstrip("=") for _ in range(120)]
ODD = ["", "-", "A", "A-", ".z", " ", "~", "\u00e9\u00e9", "zzzz", None]


def rows(ids: Sequence[str | None], each: int) -> list[dict[str, Any]]:
    found = [
        push(received_at=NOON_US + second) | {"client_instance_id": instance, "cluster_id": None, "source_row": second}
        for instance in ids
        for second in range(each)
    ]
    CHANCE.shuffle(found)
    return found


def unpacked(bronze: list[dict[str, Any]], pack: Pack) -> list[list[pa.RecordBatch]]:
    """What each task has."""
    batches = [pa.RecordBatch.from_pylist(bronze[begin : begin + 100], BRONZE) for begin in range(0, len(bronze), 100)]
    packed = pa.Table.from_batches(pack(batches), PARCELS)
    of_tasks = (packed.filter(pc.equal(packed["task"], task)).to_batches() for task in range(pack.tasks))
    return [list(Unpack(shards=pack.shards)(of_task)) for of_task in of_tasks]


@pytest.mark.parametrize("tasks", [1, 8, 200])
@pytest.mark.parametrize("packed_bytes", [1, 200_000, 2**40])
def test_instances_come_whole_to_one_task_in_order_and_shard_by_shard(
    tasks: int, packed_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parcels, "_PACKED_BYTES", packed_bytes)
    bronze = rows([*IDS, *ODD], each=5)
    of_tasks = unpacked(bronze, Pack(shards=shards_for(tasks), tasks=tasks))
    seen: Counter[Any] = Counter()
    for batches in of_tasks:
        assert all(batch.schema == BRONZE and len(batch) <= ROWS_AT_ONCE for batch in batches)
        keys = [tuple(row[name] for name in ORDER) for batch in batches for row in batch.to_pylist()]
        assert all(key[1] == "" for key in keys)
        for begin in range(0, len(keys), 5):  # an instance's pushes follow one another, in the order of receipt
            assert len({key[0] for key in keys[begin : begin + 5]}) == 1
            assert keys[begin : begin + 5] == sorted(keys[begin : begin + 5], key=lambda key: key[3])
        seen.update(keys[begin][0] for begin in range(0, len(keys), 5))
    assert seen == Counter([*IDS, *ODD])


def test_tasks_have_about_as_many_rows() -> None:
    of_tasks = unpacked(rows([*IDS], each=5), Pack(shards=shards_for(4), tasks=4))
    sizes = [sum(map(len, batches)) for batches in of_tasks]
    assert sum(sizes) == 600
    assert max(sizes) < 1.5 * 150


def test_all_of_one_instance_is_handed_over_a_thousand_at_a_time() -> None:
    (batches,) = unpacked(rows(IDS[:1], each=3_000), Pack(shards=64, tasks=1))
    assert [len(batch) for batch in batches] == [1024, 1024, 952]


def test_nothing_is_packed_of_nothing() -> None:
    assert unpacked([], Pack(shards=64, tasks=2)) == [[], []]
