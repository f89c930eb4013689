"""What a run computes: the windows that batches have something new in, and days that are made again from points."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.pipeline.pending import Pending, clear_day, close, pending
from fleetgauge.fleet.pipeline.spans import days, joined, whole
from fleetgauge.fleet.schemas import POINTS
from fleetgauge.fleet.source.selection import parse_days
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows

NOW = datetime(2026, 3, 9, tzinfo=UTC)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR, MINUTES = timedelta(hours=1), timedelta(minutes=5)
DAYS = [date(2026, 3, day) for day in (1, 2, 4)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Points and wide rows of three days, of which no more are to be computed."""
    found = Store(f"file:{tmp_path}/tables")
    for day in DAYS:
        at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        points = rows(POINTS, "received_at metric_name value", (at, "m", 1.0))
        found.append_rows(catalog.POINTS, points.to_pylist())
        found.append_rows(catalog.WINDOWS, aggregate(points, 300).to_pylist())
        found.append_rows(catalog.PUSHES, [{"date": day, "received_at": at}])
    return found


def look(store: Store, rebuilt: str | None = None) -> Pending:
    return pending(store, window_s=300, now=NOW, days=None if rebuilt is None else parse_days(rebuilt))


def add_batch(store: Store, number: int, *windows: datetime, window_s: int = 300) -> None:
    row: dict[str, Any] = {"app_id": "app", "source": "landing", "batch_id": number, "points": 1}
    dates = sorted({window.date() for window in windows})
    store.append_rows(catalog.BATCHES, [row | {"dates": dates, "windows": windows, "window_s": window_s}])


def end_run(store: Store, covered: int, window_s: int = 300, read_up_to: datetime = NOON) -> None:
    row = {"finished_at": NOW, "covered": {"app": covered}, "window_s": window_s, "read_up_to": read_up_to}
    close(store, row)


def test_nothing_is_made_again_where_nothing_waits(store: Store) -> None:
    assert (look(store).spans, look(store).remade) == ([], frozenset())


def test_of_batches_that_no_run_covers_exactly_the_windows_are_computed(store: Store) -> None:
    add_batch(store, 0, NOON)
    end_run(store, covered=0)
    add_batch(store, 1, NOON + 2 * HOUR, NOON)
    add_batch(store, 2, NOON + 2 * HOUR, NOON + 2 * HOUR + MINUTES)
    found = look(store)
    assert found.spans == [(NOON, NOON + MINUTES), (NOON + 2 * HOUR, NOON + 2 * HOUR + 2 * MINUTES)]
    assert (found.covered, found.points, found.remade) == ({"app": 2}, 2, frozenset())


@pytest.mark.slow
@pytest.mark.parametrize(("of_batch", "of_run_before"), [(60, 300), (300, 60), (60, 60)])
def test_days_that_have_windows_of_another_length_are_computed_as_a_whole(
    store: Store, of_batch: int, of_run_before: int
) -> None:
    end_run(store, covered=0, window_s=of_run_before)
    add_batch(store, 1, NOON, window_s=of_batch)
    assert look(store).spans == [whole(DAYS[0])]


def test_the_time_up_to_which_pushes_were_read_is_that_of_the_latest_and_never_to_come(store: Store) -> None:
    latest = datetime(2026, 3, 4, 12, tzinfo=UTC)
    assert look(store).read_up_to == latest
    exact = latest + timedelta(microseconds=1_234)
    store.append_rows(catalog.PUSHES, [{"date": DAYS[2], "received_at": exact}])
    assert look(store).read_up_to == exact, "to the microsecond, though files say it to the millisecond"
    end_run(store, covered=0, read_up_to=exact + HOUR)
    assert look(store).read_up_to == exact + HOUR, "also when its push was removed since"
    store.append_rows(catalog.PUSHES, [{"date": NOW.date(), "received_at": NOW + HOUR}])
    assert look(store).read_up_to == NOW


def test_samples_of_groups_are_known_up_to_a_time_of_their_own(store: Store) -> None:
    assert look(store).sampled_up_to.year == 1970
    store.append_rows(catalog.GROUP_OFFSETS, [{"date": DAYS[2], "sampled_at": NOON + 90 * HOUR}])
    found = look(store)
    assert (found.sampled_up_to, found.read_up_to) == (NOON + 90 * HOUR, datetime(2026, 3, 4, 12, tzinfo=UTC))


def test_where_nothing_was_read_yet_nothing_waits(tmp_path: Path) -> None:
    found = look(Store(str(tmp_path)))
    assert (found.spans, found.covered, found.read_up_to.year) == ([], {}, 1970)


def test_days_that_are_rebuilt_are_made_again(store: Store) -> None:
    assert look(store, "2026-03-02..").remade == {date(2026, 3, 2), date(2026, 3, 4)}
    assert days(look(store, "2026-03-02..").spans) == [date(2026, 3, 2), date(2026, 3, 4)]


def test_a_day_that_is_read_again_is_made_again_with_the_day_after_it(store: Store) -> None:
    """What corrects the next day's windows is said of points that were taken away."""
    clear_day(store, "landing", DAYS[0])
    assert {row["date"] for row in store.rows(catalog.WINDOWS)} == set(DAYS[1:])
    assert look(store).remade == set(DAYS[:2])
    assert look(store).spans == joined(map(whole, DAYS[:2]))


def test_of_days_without_points_nothing_is_computed(store: Store) -> None:
    clear_day(store, "landing", DAYS[2])
    assert look(store).spans == [whole(DAYS[2])], "the day itself, whose gold is to go"
