"""Which days' wide rows a run makes again from points."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import NoReturn

import pytest

from fleet.measures.aggregate import aggregate
from fleet.pipeline.pending import Pending, clear_day, pending
from fleet.schemas import POINTS
from fleet.selection import parse_days
from fleet.small_tables import rows
from fleet.tables import catalog
from fleet.tables.store import Store

NOW = datetime(2026, 3, 9, tzinfo=UTC)
DAYS = [date(2026, 3, day) for day in (1, 2, 4)]


def no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed here")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Points and wide rows of three days, of which no more are to be computed."""
    found = Store(no_spark, f"file:{tmp_path}/tables")
    for day in DAYS:
        at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        points = rows(POINTS, "received_at metric_name value", (at, "m", 1.0))
        found.append_rows(catalog.POINTS, points.to_pylist())
        found.append_rows(catalog.WINDOWS, aggregate(points, 300).to_pylist())
        found.append_rows(catalog.PUSHES, [{"date": day, "received_at": at}])
    return found


def look(store: Store, days: str | None = None) -> Pending:
    return pending(store, window_s=300, now=NOW, days=None if days is None else parse_days(days))


def test_nothing_is_made_again_where_nothing_waits(store: Store) -> None:
    assert (look(store).spans, look(store).remade) == ({}, frozenset())


def test_days_that_are_rebuilt_are_made_again(store: Store) -> None:
    assert look(store, "2026-03-02..").remade == {date(2026, 3, 2), date(2026, 3, 4)}
    assert look(store, "2026-03-02..").spans.keys() == {date(2026, 3, 2), date(2026, 3, 4)}


def test_a_day_that_is_read_again_is_made_again_with_the_day_after_it(store: Store) -> None:
    """What corrects the next day's windows is said of points that were taken away."""
    clear_day(store, "landing", DAYS[0])
    assert {row["date"] for row in store.rows(catalog.WINDOWS)} == set(DAYS[1:])
    assert look(store).remade == set(DAYS[:2])
    assert look(store).spans.keys() == set(DAYS[:2])


def test_of_days_without_points_nothing_is_computed(store: Store) -> None:
    clear_day(store, "landing", DAYS[2])
    assert look(store).spans.keys() == {DAYS[2]}, "the day itself, whose gold is to go"
