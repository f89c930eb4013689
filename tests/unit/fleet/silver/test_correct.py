"""Standing points get other marks by new files in place of those that have them, and of no others."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark.landing_zone import NOON_US, push
from support.fleet.fleet_in_disorder import CONSUMED, sums
from support.fleet.silver_tables import SilverTables

from fleetgauge.fleet.silver.correct import CORRECTED, MARKS, Correct, files_with
from fleetgauge.fleet.tables import catalog

DAY_US = 86_400_000_000
MINUTE_US = 60_000_000


@pytest.fixture
def tables(tmp_path: Path) -> SilverTables:
    return SilverTables(tmp_path)


def of(instance: str, at_us: int, value: float) -> dict[str, Any]:
    """A push of two points."""
    payload = sums({CONSUMED: value, "n": value}, "cumulative", None, NOON_US + at_us).SerializeToString()
    return push(payload, received_at=NOON_US + at_us, client_instance_id=f"{instance:A<22}", push_interval_ms=60_000)


def paths(tables: SilverTables) -> set[str]:
    return set(tables.store.log(catalog.POINTS).snapshot().paths())


def rows_of(tables: SilverTables, path: str) -> list[dict[str, Any]]:
    found = tables.store.log(catalog.POINTS).snapshot().scan(paths=[path])
    return [row for batch in found for row in batch.to_pylist()]


def corrected(rows: list[dict[str, Any]], **marks: Any) -> pa.Table:
    """CORRECTED of points, with other marks."""
    return pa.Table.from_pylist([{name: (row | marks)[name] for name in CORRECTED.names} for row in rows], CORRECTED)


def correct(tables: SilverTables, rows: pa.Table) -> dict[str, Any]:
    """The files in place of each that may have the points."""
    points = tables.store.log(catalog.POINTS).snapshot()
    task = Correct(points, tables.store.files_of(catalog.POINTS), rows)
    return {path: task(path) for path in files_with(points, rows)}


def test_a_file_is_written_anew_with_other_marks_of_the_points_and_all_else_as_it_was(tables: SilverTables) -> None:
    tables.read([of("a", minute * MINUTE_US, 10.0 + minute) for minute in range(3)])
    (path,) = paths(tables)
    before = rows_of(tables, path)
    marks = {
        "delta": None,
        "delta_sum": 0.5,
        "reset": True,
        "gap": None,
        "covers_gap": True,
        "before_subscription": True,
    }
    assert set(marks) == set(MARKS)
    ((old, (new,)),) = correct(tables, corrected([before[3]], **marks)).items()
    tables.store.change(catalog.POINTS, [new], [old])
    assert paths(tables) == {new.path} != {path}
    assert rows_of(tables, new.path) == [*before[:3], before[3] | marks, *before[4:]]
    assert {row["push_id"] for row in before[2:4]} == {before[3]["push_id"]}, "the other point of its push is as it was"
    assert (new.rows, new.date, new.table) == (6, before[0]["date"], "points")


@pytest.mark.slow
def test_only_files_that_may_have_such_points_are_looked_at_and_only_those_that_have_are_written(
    tables: SilverTables, tmp_path: Path
) -> None:
    """By day, time and instance; the last one has no such point between those that it has."""
    batches = {
        "own": [of("b", 5 * MINUTE_US, 1.0)],
        "other time": [of("b", 60 * MINUTE_US, 1.0)],
        "other day": [of("b", DAY_US, 1.0)],
        "other instance": [of("c", 5 * MINUTE_US, 1.0)],
        "between": [of("a", 0, 1.0), of("c", 6 * MINUTE_US, 1.0)],
    }
    path_of: dict[str, str] = {}
    for name, batch in batches.items():
        tables.read(batch)
        (path_of[name],) = paths(tables) - set(path_of.values())
    files = sorted(tmp_path.rglob("*.parquet"))
    found = correct(tables, corrected(rows_of(tables, path_of["own"]), delta=7.0))
    assert set(found) == {path_of["own"], path_of["between"]}
    assert found[path_of["between"]] == []
    assert len(found[path_of["own"]]) == 1
    assert len(sorted(tmp_path.rglob("*.parquet"))) == len(files) + 1


@pytest.mark.slow
def test_points_in_several_files_are_corrected_in_each(tables: SilverTables) -> None:
    for instance in "abc":
        tables.read([of(instance, 0, 1.0), of(instance, DAY_US, 2.0)])
    everything = tables.points
    chosen = [row for row in everything if row["client_instance_id"][0] in "ac" and row["point_index"] == 0]
    found = correct(tables, corrected(chosen, delta=7.0))
    assert len([path for path, files in found.items() if files]) == 4
    tables.store.change(
        catalog.POINTS, [file for files in found.values() for file in files], [path for path in found if found[path]]
    )
    keys = {(row["push_id"], row["point_index"]) for row in chosen}
    expected = [row | ({"delta": 7.0} if (row["push_id"], row["point_index"]) in keys else {}) for row in everything]
    assert tables.points == sorted(expected, key=lambda row: (row["received_at"], row["push_id"], row["point_index"]))


@pytest.mark.slow
def test_a_late_push_has_files_replaced_that_have_points_it_changes_and_no_others(tables: SilverTables) -> None:
    """Of three batches of one instance the one after the late push; and it is found changed, not twice."""
    path_of: dict[int, str] = {}
    for minute in (1, 5, 6):
        tables.read([of("a", minute * MINUTE_US, 10.0 * minute)])
        (path_of[minute],) = paths(tables) - set(path_of.values())
    tables.read([of("a", 3 * MINUTE_US, 30.0)])
    assert set(path_of.values()) - paths(tables) == {path_of[5]}
    grown = [(row["received_at"].minute, row["delta"], row["covers_gap"]) for row in tables.points]
    assert grown == [
        *((minute, delta, covers) for minute, delta, covers in ((1, 10.0, False), (3, 20.0, True)) for _ in range(2)),
        *((minute, delta, covers) for minute, delta, covers in ((5, 20.0, True), (6, 10.0, False)) for _ in range(2)),
    ]
    commits = tables.store.log(catalog.POINTS).version()
    tables.read([of("a", 7 * MINUTE_US, 70.0)])
    assert tables.store.log(catalog.POINTS).version() == commits + 1, "nothing was corrected"
