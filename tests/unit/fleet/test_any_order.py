"""Silver tables are the same in whatever order, split and repetition pushes are read, and however runs are cut off."""

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.fleet_in_disorder import CONSUMED, INTERVAL_US, NOON_US, SECOND_US, fleet_pushes, shuffled_batches, sums
from support.silver_tables import SilverTables

from fleet.decode.stage import regroup
from fleet.measures.aggregate import DEFAULT_WINDOW_S, aggregate
from fleet.pipeline.batch import BatchWriter
from fleet.schemas import POINTS
from fleet.tables import catalog
from fleet.tables.store import Store
from tests.spark.landing_zone import push

MARKS = ("delta", "reset", "gap", "covers_gap", "before_subscription")


class CutOffError(Exception):
    """In place of a power cut."""


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tables of all pushes of a seed, read at once in their order."""
    known: dict[int, SilverTables] = {}

    def tables_of(seed: int) -> SilverTables:
        if seed not in known:
            known[seed] = SilverTables(tmp_path_factory.mktemp("in-order"))
            known[seed].read(fleet_pushes(random.Random(seed)))
        return known[seed]

    return tables_of


@pytest.fixture
def corrected(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many standing points are corrected."""
    found: Counter[str] = Counter()
    correct = BatchWriter._correct

    def counted(writer: BatchWriter, rows: pa.Table) -> None:
        found["points"] += rows.num_rows
        correct(writer, rows)

    monkeypatch.setattr(BatchWriter, "_correct", counted)
    return found


def same(found: SilverTables, expected: SilverTables) -> None:
    for name, rows in expected.tables().items():
        assert rows, f"{name} is empty: nothing would be compared"
        assert found.tables()[name] == rows, name


@pytest.mark.parametrize("seed", range(20))
def test_any_order_split_and_repetition_of_pushes_gives_the_same_tables(
    seed: int, in_order: Any, corrected: Counter[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = in_order(seed)
    chance = random.Random(seed)
    pushes = fleet_pushes(chance)
    if seed % 5 == 0:
        monkeypatch.setattr("fleet.engine._ROWS_AT_ONCE", 25)
        monkeypatch.setattr("fleet.silver.batch.regroup", partial(regroup, max_rows=25))
        monkeypatch.setattr("fleet.silver.late._FIRST_INSTANCES", 1)
    found = SilverTables(tmp_path)
    for batch in shuffled_batches(chance, pushes, batches=chance.choice([2, 5, 20])):
        found.read(batch)
    assert corrected["points"]
    same(found, expected)


def test_wide_rows_kept_by_batch_are_those_of_all_points_at_once(in_order: Any, tmp_path: Path) -> None:
    chance = random.Random(5)
    found = SilverTables(tmp_path)
    for batch in shuffled_batches(chance, fleet_pushes(chance), batches=7):
        found.read(batch)
    points = pa.Table.from_pylist(in_order(5).points, schema=POINTS)
    assert found.rows(catalog.WINDOWS) == sorted(aggregate(points, DEFAULT_WINDOW_S).to_pylist(), key=repr)


WRITES = ("rejects", "points", "windows", "batches", "points corrected", "series", "pushes")


@pytest.mark.parametrize("cut_off_before", WRITES)
def test_a_batch_that_is_cut_off_before_any_write_is_whole_when_it_ran_again(
    cut_off_before: str, in_order: Any, tmp_path: Path
) -> None:
    chance = random.Random(7)
    found = SilverTables(tmp_path)
    reports = []
    for batch in shuffled_batches(chance, fleet_pushes(chance), batches=4):
        with pytest.MonkeyPatch.context() as patched:
            if found.store.has(catalog.PUSHES):  # the first batch corrects nothing
                cut_off(patched, cut_off_before)
                with pytest.raises(CutOffError):
                    found.read(batch)
                patched.undo()
                reports.append(found.read_again())
            else:
                found.read(batch)
    assert len(reports) == 3
    same(found, in_order(7))
    windows = {row["batch_id"]: row["windows"] for row in found.rows(catalog.BATCHES)}
    assert len(windows) == 4


def cut_off(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    def cutting(write: Any) -> Any:
        def cut(store: Store, table: catalog.Table, add: Any, *more: Any, **named: Any) -> Any:
            corrects = table is catalog.POINTS and "transaction" not in named
            if before == table.name + (" corrected" if corrects else ""):
                raise CutOffError
            return write(store, table, add, *more, **named)

        return cut

    for name in ("change", "append_rows"):
        monkeypatch.setattr(Store, name, cutting(getattr(Store, name)))


def test_the_pushes_hold_everything_that_neighbours_matter_for(in_order: Any) -> None:
    """Else the tests above would show nothing."""
    points = in_order(1).points
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
