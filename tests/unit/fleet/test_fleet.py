"""`Fleet`: fleet tables as Arrow, without changing them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from support.fleet.full_points import LAST, arrow, points
from support.fleet.written_files import written

from fleetgauge.fleet.errors import TableError
from fleetgauge.fleet.fleet import Fleet
from fleetgauge.fleet.source.selection import Selection
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store

HOUR = timedelta(hours=1)
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def root(tmp_path: Path) -> str:
    """Points of two days and two hours of each, in files of their own."""
    store = Store(str(tmp_path))
    for rows in (points(), points(before=HOUR)):
        store.change(catalog.POINTS, list(written(store.files_of(catalog.POINTS), [arrow(rows)])))
    return str(tmp_path)


def ids(found: pa.Table) -> list[str]:
    return sorted(str(each) for each in found["push_id"].to_pylist())


def test_points_are_selected_by_time_and_client(root: str) -> None:
    fleet = Fleet(root)
    assert len(ids(fleet.points())) == 12
    assert ids(fleet.points(since=LAST - timedelta(microseconds=1))) == ["02-0", "02-1"]
    assert ids(fleet.points(since=LAST - HOUR, until=LAST, instance_ids=["client-02-0", "client-02-1"])) == [
        "02-0",
        "02-1",
    ]


def test_a_selection_reads_the_files_of_its_times_alone(root: str) -> None:
    chosen = Fleet(root).chosen("points", Selection(since=LAST - HOUR / 2))
    every = Fleet(root).chosen("points")
    assert (len(every.rows.paths()), len(chosen.rows.paths(chosen.where))) == (4, 1)


@pytest.mark.parametrize("count", [1, 3, 4, 9, 12])
def test_the_latest_rows_are_among_those_that_are_left(root: str, count: int) -> None:
    latest = Fleet(root).chosen("points").latest(count).read()
    every = [row["received_at"] for rows in (points(), points(before=HOUR)) for row in rows]
    wanted = sorted(every, reverse=True)[:count]
    assert set(wanted) <= set(latest["received_at"].to_pylist())
    assert latest.num_rows == count


def test_a_table_of_an_earlier_release_has_null_in_new_columns_and_is_left_as_it_is(tmp_path: Path) -> None:
    table = catalog.CONSUMERS
    old = table.schema.remove(table.schema.get_field_index("unknown"))
    row: dict[str, Any] = {"client_id": "orders", "window_start": NOON, "date": NOON.date()}
    write_deltalake(table.path(str(tmp_path)), pa.Table.from_pylist([row], schema=old), partition_by=["date"])
    found = Fleet(str(tmp_path)).windows("consumers", since=NOON)
    assert found.schema == table.schema
    assert found.select(["client_id", "unknown"]).to_pylist() == [{"client_id": "orders", "unknown": None}]
    assert DeltaTable(table.path(str(tmp_path))).version() == 0


def test_what_cannot_be_asked_for_is_one_sentence(root: str) -> None:
    fleet = Fleet(root)
    with pytest.raises(TableError, match="there is no table colours: tables are points, "):
        fleet.table("colours")
    with pytest.raises(TableError, match="there is no table points by window: give one of latency, "):
        fleet.windows("points")
    with pytest.raises(TableError, match=r"there is no table inventory in .*: fleet run creates it"):
        fleet.inventory()
    Store(root).make(catalog.METRICS)
    with pytest.raises(TableError, match="the table metrics has no times to select by"):
        fleet.table("metrics", Selection(since=NOON))
