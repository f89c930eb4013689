"""Upkeep of fleet tables, and how few files the usual questions read after it."""

import json
import os
import time
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import CommitFailedError
from support.fleet.full_points import arrow, points
from support.fleet.standing_tables import rows
from support.fleet.written_files import written
from typer.testing import CliRunner

from fleetgauge.cli.fleet.app import app
from fleetgauge.fleet.measures.aggregate import aggregate
from fleetgauge.fleet.measures.merge import merge
from fleetgauge.fleet.pipeline.ledger import OF_QUERIES, Ledger
from fleetgauge.fleet.schemas import SENT_POINTS
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import TableLog
from fleetgauge.fleet.tables.maintain import Upkeep, _needed, maintain
from fleetgauge.fleet.tables.parquet_files import FileLimits, WriteFiles
from fleetgauge.fleet.tables.store import Store
from fleetgauge.testkit.small_tables import rows as table_of_rows

TODAY = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CLIENTS, POINTS_EACH = 64, 20


class SmallFiles(Store):
    """Writes as if some kilobytes were much."""

    def files_of(self, table: catalog.Table) -> WriteFiles:
        limits = FileLimits(row_group_bytes=1 << 16, file_bytes=1, part_bytes=40_000)
        return replace(super().files_of(table), limits=limits)


class SmallParts(Store):
    """Sorts the rows of one client after those of the other."""

    def files_of(self, table: catalog.Table) -> WriteFiles:
        return replace(super().files_of(table), limits=FileLimits(part_bytes=1))


def client(number: int) -> str:
    return f"{number * 7919 % 1000:03}-client-instance-id"


def rows_of(table: catalog.Table, day: datetime, copy: int = 0) -> list[dict[str, Any]]:
    """Rows of many clients in no order; what is not given is null."""
    given = [
        {
            "received_at": day + timedelta(microseconds=each),
            "date": day.date(),
            "client_instance_id": client(number),
            "group_id": f"group-{number % 4}",
            "value": each / 7,
            "push_id": f"{copy}-{day:%d}-{number}-{each}",
            "attributes": [("k", str(each))],
        }
        for each in range(POINTS_EACH)
        for number in range(CLIENTS)
    ]
    return [{name: row[name] for name in row if name in table.schema.names} for row in given]


def add(store: Store, table: catalog.Table, *batches: list[dict[str, Any]]) -> None:
    """One file for each batch and day."""
    to = replace(store.files_of(table), limits=FileLimits())
    for batch in batches:
        store.change(table, list(written(to, [pa.RecordBatch.from_pylist(batch, schema=table.schema)])))


def contents(store: Store, table: catalog.Table) -> list[str]:
    return sorted(repr(row) for batch in store.log(table).snapshot().scan() for row in batch.to_pylist())


def keep_up(store: Store, **given: Any) -> dict[str, Upkeep]:
    return maintain(store, **{"keep_from": None, "vacuum_after_hours": 168, "stage": lambda _: None, **given})


def on_disk(store: Store, table: catalog.Table) -> set[str]:
    path = Path(table.path(store.root))
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two tables in many small files."""
    found = Store(str(tmp_path / "tables"))
    for table in (catalog.POINTS, catalog.PUSHES):
        add(found, table, *(rows_of(table, day, copy) for day in (TODAY, TODAY - DAY) for copy in range(3)))
    return found


def test_upkeep_leaves_every_row_in_one_file_a_day_in_order_of_clients(store: Store) -> None:
    before = {table: contents(store, table) for table in (catalog.POINTS, catalog.PUSHES)}
    done = keep_up(store)
    assert {name: (each.files_before, each.files, each.deleted) for name, each in done.items()} == {
        "points": (6, 2, 0),
        "pushes": (6, 2, 0),
    }
    for table, wanted in before.items():
        assert contents(store, table) == wanted
        for file in store.log(table).files().to_pylist():
            assert (file["min.client_instance_id"], file["max.client_instance_id"]) == (
                min(map(client, range(CLIENTS))),
                max(map(client, range(CLIENTS))),
            )
            assert file["min.received_at"].date() == file["partition.date"]
            found = pa.Table.from_batches(store.log(table).snapshot().scan(paths=[file["path"]]))
            assert found["client_instance_id"].to_pylist() == sorted(map(str, found["client_instance_id"].to_pylist()))
    assert contents(store, catalog.POINTS) == before[catalog.POINTS]
    versions = [store.log(table).version() for table in before]
    assert {name: each.files for name, each in keep_up(store).items()} == {"points": 2, "pushes": 2}
    assert [store.log(table).version() for table in before] == versions, "a day that was compacted is left alone"


def test_a_day_without_small_files_is_left_alone(store: Store) -> None:
    keep_up(store)
    old = set(store.log(catalog.POINTS).paths())
    add(store, catalog.POINTS, rows_of(catalog.POINTS, TODAY, 7))
    assert keep_up(store)["points"].files == 2
    new = set(store.log(catalog.POINTS).paths())
    assert {path.split("/")[0] for path in old & new} == {"date=2026-03-01"}
    assert {path.split("/")[0] for path in new - old} == {"date=2026-03-02"}


def test_questions_about_one_client_read_few_of_the_files(store: Store, tmp_path: Path) -> None:
    before = contents(store, catalog.POINTS)
    keep_up(SmallFiles(store.root))
    assert contents(store, catalog.POINTS) == before
    table = store.log(catalog.POINTS).open()
    everything = len(table.file_uris())
    assert everything >= 16, "there have to be files to be passed over"
    of_one = (pc.field("date") == TODAY.date()) & (pc.field("client_instance_id") == client(5))
    found = list(table.to_pyarrow_dataset().get_fragments(of_one))
    assert len(found) <= everything / 8
    last_moment = TODAY + timedelta(microseconds=POINTS_EACH - 1)
    engine = QueryBuilder().register("t", table)
    asked = f"client_instance_id = '{client(5)}' AND received_at = TIMESTAMP '{last_moment:%Y-%m-%dT%H:%M:%S.%f}Z'"
    answer = pa.table(engine.execute(f"SELECT push_id FROM t WHERE {asked}").read_all())
    assert sorted(map(str, answer["push_id"].to_pylist())) == [f"{copy}-02-5-{POINTS_EACH - 1}" for copy in range(3)]


def test_rows_without_a_client_or_a_day_are_kept(tmp_path: Path) -> None:
    store = SmallParts(str(tmp_path))
    at = {"received_at": TODAY, "date": TODAY.date()}
    for number in range(2):
        add(
            store,
            catalog.REJECTS,
            [{**at, "reason": f"r{number}"}, {**at, "client_instance_id": "b"}, {**at, "client_instance_id": "a"}],
            [{"reason": f"s{number}"}, {"client_instance_id": "c"}],
        )
    before = contents(store, catalog.REJECTS)
    assert keep_up(store)["rejects"].files == 2
    assert contents(store, catalog.REJECTS) == before
    assert len(before) == 10


def test_tables_that_no_client_is_asked_of_are_compacted_too(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for number in range(4):
        store.append_rows(catalog.BATCHES, [{"batch_id": number, "rejects": [("r", number)], "dates": [TODAY.date()]}])
        add(store, catalog.ACTIVITY, [{"date": TODAY.date()}], [{"date": (TODAY - DAY).date()}])
    before = contents(store, catalog.BATCHES), contents(store, catalog.ACTIVITY)
    done = keep_up(store)
    assert (done["batches"].files_before, done["batches"].files) == (4, 1)
    assert (done["activity"].files_before, done["activity"].files) == (8, 2)
    assert (contents(store, catalog.BATCHES), contents(store, catalog.ACTIVITY)) == before


def test_tables_without_days_are_put_in_order_of_clients(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for number in (3, 1, 2):
        add(store, catalog.CLIENTS, [{"client_instance_id": str(number), "last_seen": TODAY}])
    assert keep_up(store)["clients"].files == 1
    (file,) = store.log(catalog.CLIENTS).files().to_pylist()
    found = pa.Table.from_batches(store.log(catalog.CLIENTS).snapshot().scan(paths=[file["path"]]))
    assert found["client_instance_id"].to_pylist() == ["1", "2", "3"]


def test_days_and_clients_that_are_too_old_are_deleted(store: Store) -> None:
    for times in ([TODAY, TODAY - DAY], [TODAY - 40 * DAY]):
        add(store, catalog.CLIENTS, [{"client_instance_id": f"{seen:%d%m}", "last_seen": seen} for seen in times])
    add(store, catalog.METRICS, [{"metric_name": "m"}])
    midnight = TODAY.replace(hour=0)
    done = keep_up(store, keep_from=midnight + timedelta(hours=5))
    each = 3 * CLIENTS * POINTS_EACH
    assert {name: one.deleted for name, one in done.items()} == {
        "points": each,
        "pushes": each,
        "clients": 2,
        "metrics": 0,
    }
    assert {row["date"] for row in rows(Path(store.root), "points")} == {date(2026, 3, 2)}
    assert [row["client_instance_id"] for row in rows(Path(store.root), "clients")] == ["0203"]


def test_the_files_of_series_stay_those_of_a_shard_each(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for shard in "ab":
        rows = [{"client_instance_id": f"{shard}{day}", "received_at": TODAY - day * DAY} for day in (0, 3)]
        add(store, catalog.SERIES, rows)
    done = keep_up(store, keep_from=TODAY - DAY)["series"]
    assert (done.files_before, done.files, done.deleted) == (2, 2, 2)
    files = store.log(catalog.SERIES).files().to_pylist()
    assert sorted((file["min.client_instance_id"], file["max.client_instance_id"]) for file in files) == [
        ("a0", "a0"),
        ("b0", "b0"),
    ]


def test_what_upkeep_wrote_is_found_by_a_filter_of_any_reader(store: Store) -> None:
    """What delta-rs deletes from or compacts it writes as Arrow's views, which filters of pyarrow do not know."""
    add(store, catalog.CLIENTS, *([{"client_instance_id": f"{n}", "last_seen": TODAY - n * DAY}] for n in range(3)))
    add(
        store,
        catalog.RUNS,
        [{"source": "old", "finished_at": TODAY - 9 * DAY}, {"source": "new", "finished_at": TODAY}],
    )
    for number in range(2):
        store.append_rows(catalog.LEDGER, [{"source": f"s{number}", "path": "p"}])
    store.log(catalog.LEDGER).delete("path = 'q'")
    keep_up(store, keep_from=TODAY - DAY)
    assert [row["source"] for row in store.rows(catalog.LEDGER, [("source", "=", "s1")])] == ["s1"]
    for table, where, count in (
        (catalog.POINTS, pc.field("client_instance_id") == client(5), 2 * 3 * POINTS_EACH),
        (catalog.CLIENTS, pc.field("client_instance_id") == "1", 1),
        (catalog.RUNS, pc.field("source") == "new", 1),
        (catalog.RUNS, pc.field("source") == "old", 0),
        (catalog.LEDGER, pc.field("source") == "s1", 1),
    ):
        dataset = DeltaTable(table.path(store.root)).to_pyarrow_dataset()
        assert dataset.to_table(filter=where).num_rows == count, table.name


def test_partial_wide_rows_of_a_window_become_one(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "tables"))
    columns = "client_instance_id received_at metric_name node_id value"
    latency = "org.apache.kafka.producer.node.request.latency.avg"
    parts = [
        aggregate(table_of_rows(SENT_POINTS, columns, (client, at, latency, 1, value)), 300)
        for client, at, value in (("one", "12:00:00", 3.0), ("one", "12:01:00", 5.0), ("two", "12:01:00", 7.0))
    ]
    for part in parts:
        store.change(catalog.WINDOWS, list(written(store.files_of(catalog.WINDOWS), part.to_batches())))
    keep_up(store)
    found = rows(tmp_path / "tables", "windows")
    assert sorted(map(repr, found)) == sorted(map(repr, merge(parts).to_pylist()))
    assert len(found) == 4 < sum(part.num_rows for part in parts)


def test_files_that_were_replaced_stay_for_as_long_as_they_are_asked_for(store: Store) -> None:
    old = on_disk(store, catalog.POINTS)
    version = store.log(catalog.POINTS).version()
    before = contents(store, catalog.POINTS)
    keep_up(store, vacuum_after_hours=1)
    assert on_disk(store, catalog.POINTS) > old, "readers may have them open"
    earlier = DeltaTable(catalog.POINTS.path(store.root), version=version).to_pyarrow_table()
    assert sorted(map(repr, earlier.to_pylist())) == before
    keep_up(store, vacuum_after_hours=0)
    assert on_disk(store, catalog.POINTS) == set(store.log(catalog.POINTS).paths())
    assert contents(store, catalog.POINTS) == before


def test_files_that_no_commit_named_are_removed_once_they_are_old(store: Store) -> None:
    """A run that was cut off left them; of one that is at work they are young."""
    to = store.files_of(catalog.POINTS)
    left, young = (file.path for _ in range(2) for file in written(to, [arrow(points()[:3])]))
    hours_ago = time.time() - 3 * 3600
    os.utime(Path(catalog.POINTS.path(store.root), left), (hours_ago, hours_ago))
    keep_up(store, vacuum_after_hours=2)
    there = on_disk(store, catalog.POINTS)
    assert left not in there
    assert young in there


def test_whoever_reads_meanwhile_sees_the_table_as_it_was(store: Store) -> None:
    before = contents(store, catalog.POINTS)
    scan = store.log(catalog.POINTS).snapshot().scan()
    dataset = store.log(catalog.POINTS).open().to_pyarrow_dataset()
    engine = QueryBuilder().register("t", store.log(catalog.POINTS).open())
    first = next(scan)
    keep_up(store, keep_from=TODAY)
    rest = [row for batch in scan for row in batch.to_pylist()]
    assert sorted(map(repr, [*first.to_pylist(), *rest])) == before
    assert sorted(map(repr, dataset.to_table().to_pylist())) == before
    count = pa.table(engine.execute("SELECT count(*) AS n FROM t").read_all())["n"].to_pylist()
    assert count == [len(before)]


def test_a_run_that_adds_files_meanwhile_loses_none_and_one_that_removes_some_is_in_the_way(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = TableLog.change
    more = rows_of(catalog.POINTS, TODAY, 9)

    def after_another(log: TableLog, *given: Any, **named: Any) -> int:
        monkeypatch.setattr(TableLog, "change", change)
        other = Store(store.root)
        if meanwhile == "adds":
            add(other, catalog.POINTS, more)
        else:
            other.log(catalog.POINTS).delete("push_id = '0-02-3-3'")
        return change(log, *given, **named)

    before = len(contents(store, catalog.POINTS))
    for meanwhile in ("adds", "removes"):
        monkeypatch.setattr(TableLog, "change", after_another)
        if meanwhile == "adds":
            keep_up(store)
            assert len(contents(store, catalog.POINTS)) == before + len(more)
            add(store, catalog.POINTS, rows_of(catalog.POINTS, TODAY, 10))
        else:
            with pytest.raises(CommitFailedError):
                keep_up(store)
    assert len(contents(store, catalog.POINTS)) == before + 2 * len(more) - 1


def test_the_command_needs_no_java(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    arguments = ["maintain", "--tables", store.root, "--keep", "2026-03-02", "--vacuum-after", "0s"]
    result = CliRunner().invoke(app, [*arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    done = json.loads(result.stdout)
    each = 3 * CLIENTS * POINTS_EACH
    assert {name: (one["files"], one["deleted"]) for name, one in done.items()} == {
        "points": (1, each),
        "pushes": (1, each),
    }
    assert len(on_disk(store, catalog.POINTS)) == 1, "what was replaced is gone"
    again = CliRunner().invoke(app, ["maintain", "--tables", store.root, "--format", "json"])
    done = json.loads(again.stdout)
    assert (done["points"]["files_before"], done["points"]["files"], done["points"]["deleted"]) == (1, 1, 0)


def test_the_command_says_that_there_are_no_tables(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["maintain", "--tables", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert "there is no table pushes" in " ".join(result.output.split())
    assert not (tmp_path / "none").exists()


def test_the_ledger_keeps_what_a_zone_has_and_where_a_topic_was_read_to(tmp_path: Path) -> None:
    store = Store(f"file:{tmp_path}")
    row = {"app_id": "zone-0", "begin": 0, "end": 1}
    paths = ("date=2026-02-28/hour=01/a", "date=2026-03-01/hour=00/a", "2026-02-01", "loose")
    for number, path in enumerate(paths):
        batch = None if number == 2 else number
        store.append_rows(catalog.LEDGER, [row | {"source": "zone", "batch_id": batch, "path": path}])
    topic = {"source": "topic", "app_id": "topic-0"}
    for number in range(3):
        own = topic | {"batch_id": number, "begin": 10 * number, "end": 10 * (number + 1)}
        store.append_rows(catalog.LEDGER, [own | {"path": path} for path in ("0", "1")])
    store.append_rows(catalog.FOLDERS, [{"source": "zone", "folder": "date=2026-03-01/hour=00"}])
    maintain(store, keep_from=None, vacuum_after_hours=0, stage=lambda _: None)
    found = {(each["source"], each["path"], each["batch_id"], each["end"]) for each in store.rows(catalog.LEDGER)}
    kept = {("zone", path, None if number == 1 else number + 1, 1) for number, path in enumerate(paths[1:])}
    assert found == kept | {("topic", "0", 2, 30), ("topic", "1", 2, 30)}


def test_the_ledger_keeps_how_far_a_streaming_query_has_read_whatever_the_order_of_its_rows(tmp_path: Path) -> None:
    store = Store(f"file:{tmp_path}")
    ledger = Ledger(store, "topic")
    for ends in ({}, {"0": 10, "1": 1_000}, {"0": 2_000}, {"1": 1_100}):
        ledger.note_query("query", ends)
    late = {"source": OF_QUERIES + "topic", "app_id": "query", "batch_id": 0, "begin": 0}
    store.append_rows(catalog.LEDGER, [late | {"path": "0", "end": 30}])
    for _ in range(2):
        maintain(store, keep_from=None, vacuum_after_hours=0, stage=lambda _: None)
        assert len(store.rows(catalog.LEDGER)) == 3
        assert Ledger(Store(store.root), "topic").read_to() == {"0": 2_000, "1": 1_100}
        store.append_rows(catalog.LEDGER, [late | {"path": "1", "end": 7}])


def test_a_ledger_is_compacted_in_parts_that_have_all_rows_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows one source has: what is in memory at a time is bounded."""
    store = SmallFiles(f"file:{tmp_path}")
    row = {"source": "zone", "app_id": "zone-0", "begin": 0, "end": 1}
    paths = [f"date=2026-03-01/hour={hour:02}/pushes-{number:04}" for hour in range(24) for number in range(100)]
    for batch in range(3):
        store.append_rows(catalog.LEDGER, [row | {"batch_id": batch, "path": path} for path in paths])
    sizes: list[int] = []

    def noted(store: Store, part: pa.Table) -> pa.Table:
        sizes.append(part.nbytes)
        return _needed(store, part)

    monkeypatch.setattr("fleetgauge.fleet.tables.maintain._needed", noted)
    maintain(store, keep_from=None, vacuum_after_hours=0, stage=lambda _: None)
    assert sorted((each["path"], each["batch_id"]) for each in store.rows(catalog.LEDGER)) == [
        (path, 2) for path in paths
    ]
    assert len(sizes) > 5
    assert max(sizes) < 80_000
