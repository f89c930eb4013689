"""Points and series are the same in whatever order, split and repetition pushes are read; without Spark."""

import random
from functools import partial
from typing import Any

import pytest
from support.fleet_in_disorder import CONSUMED, INTERVAL_US, NOON_US, SECOND_US, fleet_pushes, shuffled_batches, sums
from support.plain_tables import PlainTables

from fleet.decode.stage import regroup
from tests.spark.landing_zone import push

MARKS = ("delta", "reset", "gap", "covers_gap", "before_subscription")


def in_order(pushes: list[dict[str, Any]]) -> PlainTables:
    tables = PlainTables()
    tables.read(pushes)
    assert tables.late == tables.corrected == 0
    return tables


@pytest.mark.parametrize("seed", range(20))
def test_any_order_split_and_repetition_of_pushes_gives_the_same_points_and_series(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    pushes = fleet_pushes(chance)
    expected = in_order(pushes).tables()
    rows_at_once = 25 if seed % 5 == 0 else 1024
    monkeypatch.setattr("fleet.silver.batch.regroup", partial(regroup, max_rows=rows_at_once))
    found = PlainTables(rows_at_once)
    for batch in shuffled_batches(chance, pushes, batches=chance.choice([2, 5, 20])):
        for stood, before, after in found.read(batch):
            assert repr(stood) == repr(before)
            assert [before[name] for name in MARKS] != [after[name] for name in MARKS]
    assert found.late
    assert found.corrected
    assert found.tables() == expected


def made(corrections: list[tuple[Any, ...]]) -> list[str]:
    """What a batch changes, whatever an earlier try of it has changed already."""
    return sorted(repr(rest) for _, *rest in corrections)


@pytest.mark.parametrize("cut_off_before", ["series", "pushes"])
def test_a_batch_that_is_cut_off_makes_the_same_corrections_when_it_runs_again(cut_off_before: str) -> None:
    chance = random.Random(7)
    pushes = fleet_pushes(chance)
    found = PlainTables()
    for batch in shuffled_batches(chance, pushes, batches=4):
        first = found.read(batch, cut_off_before=cut_off_before)
        assert made(found.read(batch)) == made(first)
    assert found.corrected
    assert found.tables() == in_order(pushes).tables()


def test_the_pushes_hold_everything_that_neighbours_matter_for() -> None:
    """Else the tests above would show nothing."""
    pushes = fleet_pushes(random.Random(1))
    points = in_order(pushes).points
    for mark in MARKS[1:]:
        assert {point[mark] for point in points} == {True, False, None}, mark
    assert {point["temporality"] for point in points} == {"delta", "cumulative", None}


def of_client(at_s: int, records: float) -> dict[str, Any]:
    """A delta of the minute that ends `at_s` after noon."""
    at_us = NOON_US + at_s * SECOND_US
    payload = sums({CONSUMED: records}, "delta", at_us - INTERVAL_US, at_us).SerializeToString()
    return push(payload, received_at=at_us, push_id=f"{at_us:032x}", push_interval_ms=60_000)


def test_a_late_delta_counts_and_ends_the_gap_of_the_next_one() -> None:
    tables = PlainTables()
    tables.read([of_client(180, 20.0), of_client(300, 20.0)])
    assert [(point["delta"], point["gap"]) for point in tables.points] == [(20.0, False), (20.0, True)]
    ((_, before, after),) = tables.read([of_client(240, 1_000.0)])
    assert (before["gap"], after["gap"]) == (True, False)
    assert [(point["delta"], point["gap"]) for point in tables.points] == [
        (20.0, False),
        (20.0, False),
        (1_000.0, False),
    ]
