"""Client instances in parts: every id is in one of them, and parts have about as many."""

from base64 import urlsafe_b64encode
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from fleetgauge.fleet.shards import by_shard, divided, parts, shards_for, shards_of, together, within

CHANCE = Random(7)
IDS = [urlsafe_b64encode(CHANCE.randbytes(16)).decode().rstrip("=") for _ in range(4_000)]
ODD = ["", "-", "--", "A", "A-", "A--", " ", "~", "é", "\U0010ffff", "\U0010ffff\U0010ffff", "zzzz"]


@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65, 1_000])
def test_every_id_is_in_one_part_whatever_its_characters(count: int) -> None:
    rows = pa.table({"client_instance_id": [*IDS, *ODD]})
    found = [name for part in parts(count) for name in rows.filter(within(part))["client_instance_id"].to_pylist()]
    assert Counter(found) == Counter([*IDS, *ODD])
    assert len(parts(count)) == count


def test_parts_have_about_as_many_ids() -> None:
    rows = pa.table({"client_instance_id": IDS})
    sizes = [rows.filter(within(part)).num_rows for part in parts(16)]
    assert 0.7 * 250 < min(sizes) <= max(sizes) < 1.3 * 250


def test_a_shard_is_a_first_character() -> None:
    for low, high in parts(64)[1:]:
        assert len(low) == 1
        assert high is None or len(high) == 1


def test_tasks_share_all_ranges_in_order() -> None:
    for tasks in (1, 3, 64):
        ranges = divided(1_000, tasks, 100)
        assert len(ranges) == min(tasks, 10)
        assert [each for of_task in ranges for each in of_task] == parts(10)
        assert [together(of_task) for of_task in ranges] == [(low[0][0], low[-1][1]) for low in ranges]


def test_no_rows_are_one_range() -> None:
    assert divided(0, 8) == [[("", None)]]


@pytest.mark.parametrize("count", [64, 256, 4_096])
def test_the_shard_of_an_id_is_the_part_that_has_it(count: int) -> None:
    rows = pa.table({"client_instance_id": IDS})
    found = {shard: of_shard["client_instance_id"].to_pylist() for shard, of_shard in by_shard(rows, count)}
    expected = (rows.filter(within(part))["client_instance_id"].to_pylist() for part in parts(count))
    assert found == {shard: names for shard, names in enumerate(expected) if names}


def test_what_is_no_id_has_some_shard() -> None:
    assert {0 <= shard < 256 for shard in shards_of(pa.array([None, *ODD]), 256).tolist()} == {True}


@pytest.mark.parametrize("tasks", [1, 8, 32, 200, 5_000])
def test_tasks_have_about_as_many_shards_each(tasks: int) -> None:
    count = shards_for(tasks)
    of_task = Counter(shard * tasks // count for shard in range(count))
    assert max(of_task.values()) <= 1.13 * count / tasks or count == 4_096
