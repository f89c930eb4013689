"""Silver tables are the same in whatever order, split and repetition pushes are read, and however runs are cut off."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from property.fleet.silver_in_disorder import WRITES, read_cut_off, read_in_disorder, read_in_order, same
from spark.landing_zone import push
from support.fleet.fleet_in_disorder import (
    CONSUMED,
    INTERVAL_US,
    NOON_US,
    SECOND_US,
    fleet_pushes,
    shuffled_batches,
    sums,
)
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.measures.aggregate import DEFAULT_WINDOW_S, aggregate, presence
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.schemas import POINTS, PUSHES
from fleetgauge.fleet.tables import catalog

MARKS = ("delta", "reset", "gap", "covers_gap", "before_subscription")


@pytest.mark.parametrize("seed", range(20))
def test_any_order_split_and_repetition_of_pushes_gives_the_same_tables(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = read_in_disorder(
        tmp_path / "found",
        seed,
        monkeypatch,
        batches=20 if seed == 2 else (2, 4, 8)[seed % 3],
        rows_at_once=25 if seed % 5 == 0 else 1024,
    )
    same(found, read_in_order(tmp_path / "expected", seed))


@pytest.mark.parametrize("before", WRITES)
def test_batches_that_are_cut_off_before_any_write_are_whole_when_they_ran_again(before: str, tmp_path: Path) -> None:
    found = read_cut_off(tmp_path / "found", 8, [before] * 3)
    same(found, read_in_order(tmp_path / "expected", 8))


def test_wide_rows_kept_by_batch_are_those_of_all_pushes_at_once(tmp_path: Path) -> None:
    chance = random.Random(5)
    found = SilverTables(tmp_path)
    for batch in shuffled_batches(chance, fleet_pushes(chance), batches=4):
        found.read(batch)
    in_order = read_in_order(tmp_path / "in-order", 5)
    points = pa.Table.from_pylist(in_order.points, schema=POINTS)
    empty = pa.Table.from_pylist([row for row in in_order.rows(catalog.PUSHES) if not row["points"]], schema=PUSHES)
    assert empty.num_rows
    rows = merge([aggregate(points, DEFAULT_WINDOW_S), presence(empty, DEFAULT_WINDOW_S)])
    assert found.rows(catalog.WINDOWS) == sorted(rows.to_pylist(), key=repr)


def test_batches_that_are_cut_off_each_before_another_write_are_whole_when_they_ran_again(tmp_path: Path) -> None:
    found = read_cut_off(tmp_path / "found", 7, WRITES)
    same(found, read_in_order(tmp_path / "expected", 7))


def test_the_pushes_hold_everything_that_neighbours_matter_for(tmp_path: Path) -> None:
    """Else the tests above would show nothing."""
    points = read_in_order(tmp_path, 1).points
    for mark in MARKS[1:]:
        assert {point[mark] for point in points} == {True, False, None}, mark
    assert {point["temporality"] for point in points} == {"delta", "cumulative", None}


def of_client(at_s: int, records: float) -> dict[str, Any]:
    """A delta of the minute that ends `at_s` after noon."""
    at_us = NOON_US + at_s * SECOND_US
    payload = sums({CONSUMED: records}, "delta", at_us - INTERVAL_US, at_us).SerializeToString()
    return push(payload, received_at=at_us, push_id=f"{at_us:032x}", push_interval_ms=60_000)


def test_a_late_delta_counts_and_ends_the_gap_of_the_next_one(tmp_path: Path) -> None:
    tables = SilverTables(tmp_path)
    tables.read([of_client(180, 20.0), of_client(300, 20.0)])
    assert [(point["delta"], point["gap"]) for point in tables.points] == [(20.0, False), (20.0, True)]
    tables.read([of_client(240, 1_000.0)])
    assert [(point["delta"], point["gap"]) for point in tables.points] == [
        (20.0, False),
        (1_000.0, False),
        (20.0, False),
    ]


def test_a_point_whose_predecessor_was_deleted_keeps_its_marks(tmp_path: Path) -> None:
    """Retention, or a day that is read again, takes points away; a late push corrects the point after it alone."""
    tables = SilverTables(tmp_path)
    tables.read([of_client(60, 20.0), of_client(120, 20.0), of_client(300, 20.0)])
    first = of_client(60, 20.0)["push_id"]
    tables.store.log(catalog.POINTS).delete(f"push_id = '{first}'")
    before = {point["push_id"]: point["before_subscription"] for point in tables.points}
    tables.read([of_client(240, 30.0)])
    after = {point["push_id"]: point["before_subscription"] for point in tables.points}
    assert {push_id: after[push_id] for push_id in before} == before
