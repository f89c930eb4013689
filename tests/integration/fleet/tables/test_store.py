"""Fleet tables by delta-rs: files of tasks that become part of a table, corrections, reading of few files."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import CommitFailedError
from support.fleet.full_points import LAST, LONG_GROUP, arrow, points
from support.fleet.written_files import written

from fleetgauge.fleet.arrow import to_list
from fleetgauge.fleet.schemas import POINTS, TIME
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Layout, Transaction
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.tables.written_file import WrittenFile

FIRST = Transaction(app_id="checkpoint", version=0)
HOUR = timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path / "tables"))


def files(store: Store, *batches: list[dict[str, Any]], table: catalog.Table = catalog.POINTS) -> list[WrittenFile]:
    """One file for each batch and day."""
    to = store.files_of(table)
    rows = [pa.RecordBatch.from_pylist(batch, schema=table.schema) for batch in batches]
    return [file for each in rows for file in written(to, [each])]


def read(store: Store, table: catalog.Table = catalog.POINTS, **asked: Any) -> list[dict[str, Any]]:
    rows = [row for batch in store.log(table).snapshot().scan(**asked) for row in batch.to_pylist()]
    return sorted(rows, key=repr)


def ids(store: Store, where: pc.Expression | None = None) -> list[str]:
    return sorted(row["push_id"] for row in read(store, columns=["push_id"], where=where))


def in_types(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(arrow(rows).to_pylist(), key=repr)


def on_disk(store: Store, table: catalog.Table = catalog.POINTS) -> set[str]:
    path = Path(table.path(store.root))
    return {str(file.relative_to(path)) for file in path.rglob("*.parquet") if "_delta_log" not in file.parts}


def opened(store: Store, where: pc.Expression) -> set[str]:
    """The files that readers open for such rows."""
    found = store.log(catalog.POINTS).open().to_pyarrow_dataset().get_fragments(where)
    return {fragment.path for fragment in found}


def test_the_tables_that_have_days_are_those_that_are_partitioned_by_them() -> None:
    """`FileWriter` goes by the columns."""
    for table in catalog.TABLES.values():
        assert table.dated == (catalog.DATE in table.schema.names), table.name


def test_files_that_were_written_are_rows_of_the_table_with_every_value(store: Store) -> None:
    rows = points()
    new = files(store, rows)
    assert read(store) == [], "they are no part of it yet"
    store.change(catalog.POINTS, new, transaction=FIRST)
    assert read(store) == in_types(rows)
    log = store.log(catalog.POINTS)
    assert log.size() == (2, sum(file.size_bytes for file in new), len(rows))
    assert (store.rows_written["points"], store.last_version(catalog.POINTS, "checkpoint")) == (len(rows), 0)
    assert set(log.paths()) == {file.path for file in new}


def test_another_engine_reads_the_same_of_the_same_files(store: Store) -> None:
    """DataFusion has its own reader of Parquet and its own eyes for statistics."""
    rows = points()
    store.change(catalog.POINTS, files(store, rows))
    engine = QueryBuilder().register("t", store.log(catalog.POINTS).open())
    found = pa.table(engine.execute("SELECT * FROM t").read_all()).cast(POINTS)
    assert sorted(found.to_pylist(), key=repr) == in_types(rows)
    for condition, wanted in (
        (f"received_at = TIMESTAMP '{LAST:%Y-%m-%dT%H:%M:%S.%f}Z'", ["02-0"]),
        (f"group_id = '{LONG_GROUP}' AND date = DATE '2026-03-01'", ["01-1", "01-2"]),
        ("group_id IS NULL", ["01-0", "02-0"]),
        ("client_instance_id >= 'client-02-1'", ["02-1", "02-2"]),
    ):
        answer = engine.execute(f"SELECT push_id FROM t WHERE {condition}").read_all()
        assert sorted(map(str, pa.table(answer)["push_id"].to_pylist())) == wanted, condition


@pytest.mark.parametrize(
    ("where", "files_opened", "rows"),
    [
        (pc.field("received_at") == LAST, 1, ["02-0"]),
        (pc.field("received_at") <= LAST - timedelta(days=1, microseconds=2), 1, ["01-2"]),
        (pc.field("received_at") > LAST + timedelta(milliseconds=3), 0, []),
        (pc.field("client_instance_id") == "client-02-2", 1, ["02-2"]),
        ((pc.field("client_instance_id") >= "client-02") & (pc.field("client_instance_id") < "client-03"), 1, 3),
        (pc.field("group_id") == LONG_GROUP, 2, ["01-1", "01-2", "02-1", "02-2"]),
        (pc.field("group_id").is_null(), 2, ["01-0", "02-0"]),
        (pc.field("group_id") == "a", 2, []),  # pyarrow opens what has nulls, too
        (pc.field("date") == date(2026, 3, 1), 1, 3),
    ],
)
def test_a_scan_passes_over_files_but_never_over_rows(
    store: Store, where: pc.Expression, files_opened: int, rows: list[str] | int
) -> None:
    store.change(catalog.POINTS, files(store, points()))
    found = ids(store, where)
    assert (len(found) if isinstance(rows, int) else found) == rows
    needed = opened(store, where)
    assert len(needed) == files_opened
    for unneeded in on_disk(store) - needed:
        Path(catalog.POINTS.path(store.root), unneeded).unlink()
    assert ids(store, where) == found, "files out of range are not opened"


def test_a_snapshot_is_the_table_as_a_commit_left_it(store: Store) -> None:
    old, new = points(), points(before=HOUR)
    store.change(catalog.POINTS, files(store, old))
    log = store.log(catalog.POINTS)
    sent = pickle.dumps(log.snapshot())
    store.change(catalog.POINTS, files(store, new), remove=log.paths())
    found = [row for batch in pickle.loads(sent).scan() for row in batch.to_pylist()]
    assert sorted(found, key=repr) == in_types(old)
    assert read(store) == in_types(new)


def test_files_are_read_by_their_names(store: Store) -> None:
    store.change(catalog.POINTS, files(store, points()))
    log = store.log(catalog.POINTS)
    day = [path for path in log.paths() if path.startswith("date=2026-03-01/")]
    found = [row for rows in log.snapshot().scan(paths=day) for row in rows.to_pylist()]
    assert sorted(row["push_id"] for row in found) == ["01-0", "01-1", "01-2"]
    assert {row["date"] for row in found} == {date(2026, 3, 1)}


def test_a_scan_that_began_reads_on_what_was_there_when_it_began(store: Store) -> None:
    old = points()
    store.change(catalog.POINTS, files(store, old[:3], old[3:]))
    log = store.log(catalog.POINTS)
    scan = log.snapshot().scan(["push_id"])
    first = next(scan)
    store.change(catalog.POINTS, files(store, points(before=HOUR)), remove=log.paths())
    rest = [row["push_id"] for batch in scan for row in batch.to_pylist()]
    assert sorted([*first["push_id"].to_pylist(), *rest]) == sorted(row["push_id"] for row in old)


def test_files_come_and_go_in_one_commit(store: Store) -> None:
    log = store.log(catalog.POINTS)
    store.change(catalog.POINTS, files(store, points()))
    before = log.version()
    day = [path for path in log.paths() if path.startswith("date=2026-03-01/")]
    store.change(catalog.POINTS, files(store, points(before=HOUR)[3:]), remove=day, transaction=FIRST)
    assert log.version() == before + 1
    assert log.size().rows == 6
    assert {row["received_at"] for row in read(store) if row["date"] == date(2026, 3, 1)} == {
        row["received_at"] for row in points(before=HOUR)[3:]
    }
    DeltaTable(catalog.POINTS.path(store.root)).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert on_disk(store) == set(log.paths()), "what was removed is what VACUUM takes away"


def test_a_table_without_days_changes_likewise(store: Store) -> None:
    def run(number: int) -> list[dict[str, Any]]:
        return [{"source": f"s{number}", "covered": [("s", number)], "finished_at": LAST + number * HOUR}]

    store.change(catalog.RUNS, files(store, run(1), run(2), table=catalog.RUNS))
    log = store.log(catalog.RUNS)
    first = to_list(log.files().filter(pc.field("max.finished_at") < LAST + 2 * HOUR)["path"])
    assert len(first) == 1
    store.change(catalog.RUNS, files(store, run(3), table=catalog.RUNS), remove=first)
    assert [row["source"] for row in read(store, catalog.RUNS)] == ["s2", "s3"]
    assert dict(read(store, catalog.RUNS, where=pc.field("finished_at") > LAST + 2 * HOUR)[0]["covered"]) == {"s": 3}


def test_only_the_files_of_the_table_are_added(store: Store) -> None:
    """A task hands out those of several tables."""
    pushes = [{"push_id": "p", "received_at": LAST, "date": LAST.date(), "client_instance_id": "c"}]
    both = files(store, points()) + files(store, pushes, table=catalog.PUSHES)
    for table in (catalog.POINTS, catalog.PUSHES):
        store.change(table, both)
    assert (len(read(store)), len(read(store, catalog.PUSHES))) == (6, 1)
    assert store.rows_written == {"points": 6, "pushes": 1}


@pytest.mark.parametrize("again", [FIRST, replace(FIRST, version=-1)])
def test_a_transaction_is_done_once(store: Store, again: Transaction) -> None:
    store.change(catalog.POINTS, files(store, points()), transaction=FIRST)
    log = store.log(catalog.POINTS)
    before = log.version(), read(store)
    store.change(catalog.POINTS, files(store, points()), remove=log.paths(), transaction=again)
    assert not store.append_rows(catalog.POINTS, points(), again)
    assert (log.version(), read(store)) == before
    assert store.rows_written["points"] == 6


def test_a_transaction_is_kept_of_a_batch_that_changes_nothing(store: Store) -> None:
    store.change(catalog.POINTS, [], transaction=replace(FIRST, version=4))
    assert store.last_version(catalog.POINTS, FIRST.app_id) == 4
    log = store.log(catalog.POINTS)
    version = log.version()
    store.change(catalog.POINTS, [])
    assert log.version() == version, "and without a transaction there is nothing to commit"


def test_files_that_another_engine_compacted_are_read_with_a_filter(store: Store) -> None:
    """delta-rs writes texts as views, which a filter of pyarrow does not know."""
    store.change(catalog.POINTS, files(store, points()[::2], points()[1::2]))
    store.log(catalog.POINTS).open().optimize.compact()
    for where, rows in (
        (pc.field("received_at") == LAST, ["02-0"]),
        (pc.field("client_instance_id") == "client-01-1", ["01-1"]),
        (pc.field("group_id") == LONG_GROUP, ["01-1", "01-2", "02-1", "02-2"]),
    ):
        assert ids(store, where) == rows
    assert read(store) == in_types(points())


def test_rows_are_found_in_files_that_delta_rs_wrote_anew(store: Store) -> None:
    """It writes texts as Arrow's views, which filters of pyarrow do not know."""
    for source in ("a", "b", "c"):
        store.append_rows(catalog.LEDGER, [{"source": source, "path": path} for path in ("p", "q")])
    store.log(catalog.LEDGER).delete("path = 'q'")
    assert [row["path"] for row in store.rows(catalog.LEDGER, [("source", "=", "b")])] == ["p"]
    assert sorted(row["source"] for row in store.rows(catalog.LEDGER, [("source", "!=", "b")])) == ["a", "c"]
    assert store.rows(catalog.LEDGER, [("source", "=", "d")]) == []


def test_replacing_leaves_the_new_rows_alone(store: Store) -> None:
    schema = catalog.VERSIONS.schema
    for count in (3, 2, 0):
        rows = pa.Table.from_pylist([{"client_software_version": str(number)} for number in range(count)], schema)
        store.replace(catalog.VERSIONS, rows)
        found = [row["client_software_version"] for row in read(store, catalog.VERSIONS)]
        assert found == [str(number) for number in range(count)]
    assert store.rows_written["versions"] == 5


def test_what_another_wrote_meanwhile_stays(store: Store) -> None:
    log, new = store.log(catalog.POINTS), files(store, points())

    def while_another_writes() -> Iterator[WrittenFile]:
        other = Store(store.root)
        other.change(catalog.POINTS, files(other, points(before=HOUR)), transaction=replace(FIRST, app_id="another"))
        yield from new

    store.change(catalog.POINTS, while_another_writes(), transaction=FIRST)
    assert read(store) == in_types(points() + points(before=HOUR))
    assert log.size().files == 4
    assert store.rows_written["points"] == 6, "of its own"


def test_of_two_writers_of_the_same_batch_the_second_loses(store: Store) -> None:
    new = files(store, points())

    def while_another_writes() -> Iterator[WrittenFile]:
        other = Store(store.root)
        other.change(catalog.POINTS, files(other, points(before=HOUR)), transaction=FIRST)
        yield from new

    with pytest.raises(CommitFailedError):
        store.log(catalog.POINTS).change(while_another_writes(), transaction=FIRST)
    assert read(store) == in_types(points(before=HOUR)), "nothing of the loser"


def test_of_two_writers_that_remove_the_same_file_the_second_loses(store: Store) -> None:
    """Else the rows of both would stand for those of the file."""
    store.change(catalog.POINTS, files(store, points()))
    new = files(store, points(before=2 * HOUR))
    old = store.log(catalog.POINTS).paths()

    def while_another_writes() -> Iterator[WrittenFile]:
        other = Store(store.root)
        other.change(catalog.POINTS, files(other, points(before=HOUR)), remove=old)
        yield from new

    log = store.log(catalog.POINTS)
    with pytest.raises(CommitFailedError):
        store.make(catalog.PUSHES).change(remove=old)
    with pytest.raises(CommitFailedError):
        log.change(while_another_writes(), remove=old)
    with pytest.raises(CommitFailedError):
        log.change(new, remove=old)
    assert read(store) == in_types(points(before=HOUR))


def test_what_compaction_wrote_anew_is_not_removed_by_the_old_name(store: Store) -> None:
    store.change(catalog.POINTS, files(store, points()[:3], points(before=HOUR)[:3]))
    new = files(store, points(before=2 * HOUR)[:3])
    log = store.log(catalog.POINTS)
    old = log.paths()

    def while_another_compacts() -> Iterator[WrittenFile]:
        log.open().optimize.compact()
        yield from new

    with pytest.raises(CommitFailedError):
        log.change(while_another_compacts(), remove=old)
    assert read(store) == in_types(points()[:3] + points(before=HOUR)[:3])


def test_a_table_of_an_earlier_release_gets_the_columns_that_it_lacks(store: Store) -> None:
    fewer = pa.schema([field for field in POINTS if field.name not in ("covers_gap", "distribution")])
    earlier = replace(catalog.POINTS, schema=fewer)
    old = [{name: row[name] for name in fewer.names} for row in points()]
    first = Store(store.root)
    first.change(earlier, files(first, old, table=earlier))
    store.change(catalog.POINTS, files(store, points(before=HOUR)))
    found = read(store)
    assert [*found[0]] == [*fewer.names, "distribution", "covers_gap"], "it has them last"
    assert len(found) == 12
    assert sum(row["covers_gap"] is not None and row["distribution"] is not None for row in found) == 2


def test_every_table_has_files_that_filters_of_any_reader_find_rows_in(store: Store) -> None:
    """Of a column that a file should say bounds of and does not, delta-rs thinks that it has no values."""
    for table in catalog.TABLES.values():
        kinds = {
            pa.string(): "x" * 5_000_000,
            pa.int32(): 7,
            pa.int64(): 7,
            pa.float64(): 0.5,
            pa.date32(): LAST.date(),
        }
        row = {field.name: kinds.get(field.type, LAST) for field in table.schema if field.type in (*kinds, TIME)}
        store.change(table, files(store, [row], table=table))
        dataset = store.log(table).open().to_pyarrow_dataset()
        for name, value in row.items():
            assert dataset.to_table(columns=[name], filter=pc.field(name) == value).num_rows == 1, (table.name, name)


def test_rows_are_found_in_files_that_do_not_say_bounds_of_a_column_which_others_do(store: Store) -> None:
    """As after a release that has files say bounds of one more column."""
    later = replace(catalog.POINTS, statistics_of=(*catalog.POINTS.statistics_of, "push_id", "node_id"))
    assert "push_id" not in catalog.POINTS.indexed
    first = Store(store.root)
    first.change(catalog.POINTS, files(first, points()))
    store.change(later, files(store, points(before=2 * HOUR), table=later))
    everything = read(store)
    assert len(everything) == 12
    days = {row["date"] for row in everything}
    for name in ("push_id", "node_id"):
        for value in {row[name] for row in everything}:
            wanted = [row for row in everything if row[name] == value]
            condition = pc.field(name).is_null() if value is None else pc.field(name) == value
            assert read(store, where=condition) == wanted, (name, value)
            for day in days:
                of_day = [row for row in wanted if row["date"] == day]
                assert read(store, where=condition & (pc.field("date") == day)) == of_day


def test_rows_without_a_column_that_a_later_release_adds_are_found_by_its_absence(store: Store) -> None:
    fewer = pa.schema([field for field in catalog.LEDGER.schema if field.name != "path"])
    earlier = replace(catalog.LEDGER, schema=fewer)
    later = replace(catalog.LEDGER, statistics_of=("path",))
    first = Store(store.root)
    first.change(earlier, files(first, [{"source": "old"}], table=earlier))
    store.change(later, files(store, [{"source": "new", "path": "p"}], table=later))
    conditions = (pc.field("path").is_null(), pc.field("path").is_null() | (pc.field("path") > "z"))
    for where in conditions:
        assert [row["source"] for row in read(store, catalog.LEDGER, where=where)] == ["old"]


def test_a_table_of_an_earlier_release_is_told_which_columns_files_say_bounds_of(store: Store) -> None:
    log = store.log(catalog.LEDGER)
    log.create(catalog.LEDGER.schema, Layout())
    store.change(catalog.LEDGER, files(store, [{"source": "s", "path": "p"}], table=catalog.LEDGER))
    found = log.open().to_pyarrow_dataset().to_table(filter=pc.field("path") == "p")
    assert found["source"].to_pylist() == ["s"]
    version = log.version()
    assert Store(store.root).has(catalog.LEDGER)
    assert log.version() == version
