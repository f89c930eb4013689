"""Judged rows one window at a time, some clients after others, beside all of them at once."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetgauge.fleet import shards
from fleetgauge.fleet.arrow import Table, pc
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.pipeline import by_window as module
from fleetgauge.fleet.pipeline.by_window import by_window, judged_rows
from fleetgauge.fleet.schemas import POINTS
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows
from fleetgauge.verdicts.window import COLUMNS

NODE = "org.apache.kafka.producer.node.request.latency.avg"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
IDS = [f"{letter}{number:021d}" for letter in "-09AMZ_amz" for number in range(3)]
EVERY = pc.field("date") == pc.scalar(date(2026, 3, 1))
HOUR = (NOON, NOON + timedelta(hours=1))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Four windows of thirty clients; batches cut them, so that some rows have to be merged."""
    store = Store(str(tmp_path / "tables"))
    for minutes in (range(7), range(7, 20)):
        given = [
            (name, f"{number:08d}{minute:024d}", NOON + timedelta(minutes=minute), 0, NODE, node, float(minute), None)
            for number, name in enumerate(IDS)
            for minute in minutes
            for node in (1, 2)
        ]
        columns = "client_instance_id push_id received_at point_index metric_name node_id value delta"
        with store.files_of(catalog.WINDOWS).open() as writer:
            for batch in aggregate(rows(POINTS, columns, *given), 300).to_batches():
                writer.write(batch)
            writer.finish()
            store.change(catalog.WINDOWS, add=writer.take_finished())
    return store


def listed(table: Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=repr)


def tables_of(store: Store, most_times: int = 3) -> AbstractContextManager[Iterator[Table]]:
    files = store.files(catalog.WINDOWS)
    return by_window(
        store.snapshot(catalog.WINDOWS), files, HOUR, 300, pc.scalar(True), most_times=most_times, row_group=1
    )


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where rows are put that are more than 40."""
    (tmp_path / "disk").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))
    monkeypatch.setattr(module, "ROWS_IN_MEMORY", 40)
    monkeypatch.setattr(shards, "ROWS_AT_ONCE", 40)
    return tmp_path / "disk"


@pytest.mark.slow
@pytest.mark.parametrize("most_times", [0, 12])
def test_windows_one_by_one_are_all_rows_read_at_once(store: Store, disk: Path, most_times: int) -> None:
    """By way of the disk, and by reading the files for each window."""
    every = judged_rows(store.snapshot(catalog.WINDOWS), EVERY)
    with tables_of(store, most_times) as tables:
        assert bool(list(disk.iterdir())) == (not most_times)
        found = [table for table in tables if table.num_rows]
    assert [set(table["window_start"].to_pylist()) for table in found] == [
        {NOON + timedelta(minutes=minute)} for minute in (0, 5, 10, 15)
    ]
    assert [each for table in found for each in listed(table)] == sorted(
        every.to_pylist(), key=lambda row: (row["window_start"], repr(row))
    )
    assert found[0].schema.names == list(COLUMNS)
    assert found[0].num_rows == 3 * len(IDS)


@pytest.mark.slow
def test_nothing_is_left_on_disk_by_whoever_stops_halfway(store: Store, disk: Path) -> None:
    with tables_of(store, 0) as tables:
        next(tables)
        (directory,) = disk.iterdir()
        assert len(list(directory.iterdir())) == 3
    assert list(disk.iterdir()) == []


def test_few_rows_are_one_table_and_never_on_disk(store: Store, disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_IN_MEMORY", 1000)
    with tables_of(store) as tables:
        (table,) = tables
        assert list(disk.iterdir()) == []
    assert listed(table) == listed(judged_rows(store.snapshot(catalog.WINDOWS), EVERY))
