"""Wide rows made again from points and empty pushes, day by day and a few clients at a time."""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fleet.side_by_side import SideBySide

from fleetgauge.fleet.arrow import Table, pa
from fleetgauge.fleet.engines.engine import InProcess
from fleetgauge.fleet.measures.aggregate import aggregate, presence
from fleetgauge.fleet.pipeline.windows import remake_windows
from fleetgauge.fleet.schemas import POINTS, PUSHES
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows

DAYS = [date(2026, 3, 1), date(2026, 3, 2)]
NODE = "org.apache.kafka.producer.node.request.latency.avg"
CONSUMED = "org.apache.kafka.consumer.fetch.manager.records.consumed.total"
IDS = ["one", "", "-a", "_z", "~", "é", "\U0010ffff", *(f"{letter}{7 * letter}" for letter in "09AMZamz")]


def points(day: date, minutes: Iterable[int]) -> Table:
    """A push of each client in each of these minutes, with a node's latency and what it consumed."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    given = [
        (name, f"{number:08d}{minute:024d}", noon + timedelta(minutes=minute), *point)
        for number, name in enumerate(IDS)
        for minute in minutes
        for point in ((0, NODE, 1, float(number), None), (1, CONSUMED, None, minute + 1.0, 1.0))
    ]
    columns = "client_instance_id push_id received_at point_index metric_name node_id value delta"
    return rows(POINTS, columns, *given)


def pushes(day: date, *, points: int) -> Table:
    """A push of each client, a while after those with points, that has so many."""
    at = datetime(day.year, day.month, day.day, 14, tzinfo=UTC)
    given = [(name, f"{number:032d}", at, points) for number, name in enumerate(IDS)]
    return rows(PUSHES, "client_instance_id push_id received_at points", *given)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two days of points, and their wide rows as three batches wrote them."""
    found = Store(str(tmp_path))
    for day in DAYS:
        for minutes in (range(2), range(2, 4), range(4, 8)):
            append(found, catalog.POINTS, points(day, minutes))
            append(found, catalog.WINDOWS, aggregate(points(day, minutes), 300))
        append(found, catalog.PUSHES, pa.concat_tables([pushes(day, points=0), pushes(day, points=2)]))
        append(found, catalog.WINDOWS, presence(pushes(day, points=0), 300))
    return found


def append(store: Store, table: catalog.Table, given: Table) -> None:
    with store.files_of(table).open() as writer:
        for batch in given.to_batches():
            writer.write(batch)
        writer.finish()
        store.change(table, add=writer.take_finished())


def windows(store: Store, *days: date) -> list[dict[str, Any]]:
    found = store.rows(catalog.WINDOWS)
    return sorted((row for row in found if row["date"] in (days or DAYS)), key=repr)


def listed(table: Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def paths(store: Store) -> set[str]:
    return set(store.log(catalog.WINDOWS).paths())


@pytest.mark.slow
@pytest.mark.parametrize("engine", [InProcess(), SideBySide()])
@pytest.mark.parametrize("window_s", [300, 3600])
def test_windows_are_made_again_from_the_points_of_their_day(store: Store, engine: InProcess, window_s: int) -> None:
    untouched, before = windows(store, DAYS[1]), store.log(catalog.WINDOWS).version()
    remake_windows(store, engine, [DAYS[0]], window_s, rows_at_once=20)
    made = aggregate(points(DAYS[0], range(8)), window_s), presence(pushes(DAYS[0], points=0), window_s)
    assert windows(store, DAYS[0]) == listed(pa.concat_tables(made))
    assert store.log(catalog.WINDOWS).version() == before + 1, "one commit: no reader sees a part of it"
    assert windows(store, DAYS[1]) == untouched


@pytest.mark.slow
def test_a_day_without_pushes_has_no_windows_left(store: Store) -> None:
    for table in (catalog.POINTS, catalog.PUSHES):
        store.log(table).delete("date = '2026-03-01'")
    remake_windows(store, InProcess(), DAYS, 300)
    assert not windows(store, DAYS[0])
    assert windows(store, DAYS[1])


def test_tables_that_are_not_there_yet_have_no_windows(tmp_path: Path) -> None:
    remake_windows(Store(str(tmp_path)), InProcess(), DAYS, 300)
    assert Store(str(tmp_path)).rows(catalog.WINDOWS) == []
