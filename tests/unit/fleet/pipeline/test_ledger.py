"""What is new of a landing zone, how it is cut into batches, and that a batch which was planned is planned for good."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fleetgauge.fleet.engines.engine import MAX_BAD_FILES
from fleetgauge.fleet.errors import LandingError, TableError, TopicError
from fleetgauge.fleet.pipeline.folders import KnownFolders
from fleetgauge.fleet.pipeline.ledger import Ledger, Part, Plan
from fleetgauge.fleet.pipeline.source import MAX_BATCH_BYTES, Bounds, LandingSource, source_name
from fleetgauge.fleet.pipeline.topic_source import TopicStretch
from fleetgauge.fleet.source.selection import parse_day
from fleetgauge.fleet.source.topic.offsets import Span
from fleetgauge.fleet.source.topic.source import TopicSource
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Transaction
from fleetgauge.fleet.tables.store import Store

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAY = "date=2026-03-01/hour=12"


def no_spark() -> NoReturn:
    raise AssertionError("Spark is not needed here")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(f"file:{tmp_path}/tables")


@pytest.fixture
def zone(tmp_path: Path) -> Path:
    root = tmp_path / "landing"
    for number in range(5):
        put(root / DAY / f"part-{number}.parquet", 10 + number)
    return root


def put(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


def look(store: Store, zone: Path) -> tuple[Ledger, LandingSource]:
    """As each run does."""
    name = source_name(str(zone))
    ledger = Ledger(store, name)
    return ledger, LandingSource(no_spark, str(zone), ledger, KnownFolders(store, name, NOW, but=ledger.redecoding))


def test_rows_of_other_kinds_beside_the_pushes_are_no_news(store: Store, zone: Path) -> None:
    _, before = look(store, zone)
    put(zone / "traffic" / DAY / "traffic-0.parquet", 10)
    put(zone / "group_offsets" / DAY / "offsets-0.parquet", 10)
    _, after = look(store, zone)
    assert after.new_input() == before.new_input()
    assert [len(after.beside[each]) for each in ("group_offsets", "traffic")] == [1, 1]


def plan_all(store: Store, zone: Path, **bounds: int) -> list[Plan]:
    """Plans what is new, and does it: the transaction of each batch is in `pushes`."""
    ledger, source = look(store, zone)
    plans = []
    for parts in source.cut(Bounds(**bounds)):
        plans.append(ledger.plan(parts))
        done(store, ledger, plans[-1])
    return plans


def done(store: Store, ledger: Ledger, plan: Plan) -> None:
    store.append_rows(catalog.PUSHES, [], Transaction(app_id=ledger.app_id, version=plan.number))


def names(plans: list[Plan]) -> list[list[str]]:
    return [[Path(part.path).stem for part in plan.parts] for plan in plans]


def test_new_files_are_cut_into_batches_by_path_whenever_they_were_written(store: Store, zone: Path) -> None:
    put(zone / DAY / "part-1b.parquet", 1)
    assert names(plan_all(store, zone, max_files=4)) == [
        ["part-0", "part-1", "part-1b", "part-2"],
        ["part-3", "part-4"],
    ]
    put(zone / "date=2026-02-01/hour=00/early.parquet", 7)
    (late,) = plan_all(store, zone)
    assert (late.number, late.parts) == (2, (Part(path="date=2026-02-01/hour=00/early.parquet", begin=0, end=7),))
    assert plan_all(store, zone) == []


def test_without_a_number_of_files_a_batch_goes_by_bytes_and_a_large_file_is_a_batch(store: Store, zone: Path) -> None:
    for number, size in ((1, MAX_BATCH_BYTES), (3, MAX_BATCH_BYTES - 12)):
        with (zone / DAY / f"part-{number}.parquet").open("wb") as file:
            file.truncate(size)
    assert names(plan_all(store, zone)) == [["part-0"], ["part-1"], ["part-2", "part-3"], ["part-4"]]


def test_what_writers_keep_for_themselves_is_no_part_of_the_zone(store: Store, zone: Path) -> None:
    for hidden in ("_tmp/a.parquet", f"{DAY}/.a.parquet", f"{DAY}/_a.parquet"):
        put(zone / hidden, 1)
    _, source = look(store, zone)
    assert source.new_input().amount == 5


def test_a_batch_that_was_cut_off_is_the_same_when_it_runs_again(store: Store, zone: Path) -> None:
    ledger, source = look(store, zone)
    (parts,) = source.cut(Bounds())
    planned = ledger.plan(parts)
    put(zone / DAY / "part-9.parquet", 1)

    again, source = look(store, zone)
    assert again.app_id == ledger.app_id
    assert again.unfinished() == [planned]
    assert source.new_input().amount == 1
    assert list(source.batch(planned).files) == [str(zone / part.path) for part in parts]
    done(store, again, planned)
    assert look(store, zone)[0].unfinished() == []


def test_files_that_changed_or_went_before_they_were_read_are_set_aside_with_the_reason(
    store: Store, zone: Path
) -> None:
    ledger, source = look(store, zone)
    planned = ledger.plan(next(source.cut(Bounds())))
    put(zone / DAY / "part-0.parquet", 99)
    (zone / DAY / "part-1.parquet").unlink()
    batch = look(store, zone)[1].batch(planned)
    assert batch.unfit == {
        str(zone / DAY / "part-0.parquet"): "the file was changed before it was read: its size was 10 B and is 99 B",
        str(zone / DAY / "part-1.parquet"): "the file was removed before it was read",
    }


def test_a_zone_that_is_not_mounted_sets_nothing_aside(store: Store, tmp_path: Path) -> None:
    zone = tmp_path / "landing"
    for number in range(MAX_BAD_FILES + 1):
        put(zone / f"part-{number}.parquet", 1)
    ledger, source = look(store, zone)
    planned = ledger.plan(next(source.cut(Bounds())))
    for path in zone.iterdir():
        path.unlink()
    with pytest.raises(
        LandingError, match=r"101 files of an interrupted batch are missing or changed in .* restore them"
    ):
        look(store, zone)[1].batch(planned)


def test_a_file_that_changed_after_it_was_read_is_named_and_not_read_again(store: Store, zone: Path) -> None:
    plan_all(store, zone)
    put(zone / DAY / "part-3.parquet", 99)
    found = look(store, zone)[1].new_input()
    assert (found.amount, found.changed) == (0, (str(zone / DAY / "part-3.parquet"),))


def test_two_runs_never_plan_the_same_batch(store: Store, zone: Path) -> None:
    plan_all(store, zone, max_files=4)
    put(zone / DAY / "part-9.parquet", 1)
    first, source = look(store, zone)
    second, _ = look(store, zone)
    parts = next(source.cut(Bounds()))
    first.plan(parts)
    with pytest.raises(TableError, match="another run reads the same source"):
        second.plan(parts)


def test_the_numbers_of_a_lost_ledger_are_not_used_again(store: Store, zone: Path) -> None:
    plan_all(store, zone)
    before = look(store, zone)[0].app_id
    shutil.rmtree(catalog.LEDGER.path(store.root).removeprefix("file:"))
    ledger, source = look(Store(store.root), zone)
    assert ledger.app_id != before
    assert source.new_input().amount == 5


def test_tables_that_were_removed_under_the_ledger_are_an_error(store: Store, zone: Path) -> None:
    ledger, source = look(store, zone)
    for parts in source.cut(Bounds(max_files=1)):
        ledger.plan(parts)
    with pytest.raises(TableError, match=r"lists pushes that are not in the tables in .* remove the ledger too"):
        look(store, zone)[0].unfinished()


def test_a_day_to_be_read_again_is_remembered_until_it_is_forgotten_and_its_numbers_never_return(
    store: Store, zone: Path
) -> None:
    other = zone / "date=2026-03-02/hour=00/a.parquet"
    plan_all(store, zone)
    put(other, 1)
    plan_all(store, zone)
    day = parse_day("2026-03-02")
    ledger, source = look(store, zone)
    source.check_day(day)
    ledger.begin_again(day)

    ledger, _ = look(store, zone)
    assert ledger.redecoding == [day]
    ledger.forget(day)
    ledger, source = look(store, zone)
    assert (ledger.redecoding, ledger.unfinished()) == ([], [])
    assert [plan.number for plan in plan_all(store, zone)] == [2]
    assert look(store, zone)[1].new_input().amount == 0


def test_a_day_is_read_again_only_if_all_of_it_is_there(store: Store, zone: Path) -> None:
    plan_all(store, zone)
    _, source = look(store, zone)
    with pytest.raises(LandingError, match="no file of 2026-03-02 was read from"):
        source.check_day(parse_day("2026-03-02"))
    (zone / DAY / "part-1.parquet").unlink()
    with pytest.raises(LandingError, match=r"1 of 5 files of 2026-03-01 are not in .* as they were read"):
        look(store, zone)[1].check_day(parse_day("2026-03-01"))


def topic_of(store: Store, monkeypatch: pytest.MonkeyPatch, **bounds: tuple[int, int]) -> tuple[Ledger, TopicStretch]:
    """A topic whose partitions `p0`, `p1`, ... hold these offsets."""
    spans = {int(name[1:]): Span(start=start, end=end) for name, (start, end) in bounds.items()}
    monkeypatch.setattr("fleetgauge.fleet.pipeline.topic_source.client_options", lambda *_: {})
    monkeypatch.setattr("fleetgauge.fleet.pipeline.topic_source.find_bounds", lambda *_: spans)
    source = TopicSource(bootstrap_servers="a:1", topic="t")
    ledger = Ledger(store, source_name(source))
    return ledger, TopicStretch(cast("SparkSession", None), source, ledger, "the ledger")


def test_batches_of_a_topic_hold_the_same_share_of_every_partition(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, topic = topic_of(store, monkeypatch, p0=(0, 10), p1=(100, 120), p2=(5, 5))
    assert (topic.new_input().amount, topic.new_input().lost) == (30, 0)
    batches = list(topic.cut(Bounds(max_records=15)))
    assert [[(part.path, part.begin, part.end) for part in batch] for batch in batches] == [
        [("0", 0, 5), ("1", 100, 110), ("2", 5, 5)],
        [("0", 5, 10), ("1", 110, 120), ("2", 5, 5)],
    ]
    for batch in batches:
        done(store, ledger, ledger.plan(batch))
    _, topic = topic_of(store, monkeypatch, p0=(0, 12), p1=(100, 120), p2=(5, 5))
    ((part,),) = topic.cut(Bounds())
    assert (part.path, part.begin, part.end) == ("0", 10, 12)


def test_records_that_retention_took_are_counted_once_and_a_topic_made_anew_is_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, topic = topic_of(store, monkeypatch, p0=(0, 10))
    for batch in topic.cut(Bounds()):
        done(store, ledger, ledger.plan(batch))
    ledger, topic = topic_of(store, monkeypatch, p0=(14, 14))
    assert (topic.new_input().amount, topic.new_input().lost) == (0, 4)
    (batch,) = topic.cut(Bounds())
    done(store, ledger, ledger.plan(batch))
    assert topic_of(store, monkeypatch, p0=(14, 14))[1].new_input().lost == 0
    with pytest.raises(TopicError, match="its partition 0 was read up to offset 14, which no longer exists; remove"):
        topic_of(store, monkeypatch, p0=(0, 3))
    with pytest.raises(TopicError, match="a topic has no days"):
        topic.check_day(parse_day("2026-03-01"))


def test_small_rows_are_appended_once_for_a_transaction(store: Store) -> None:
    row = {"app_id": "a", "batch_id": 0, "rejects": {"why": 2}}
    for version in (0, 0, 1):
        store.append_rows(catalog.BATCHES, [row], Transaction(app_id="a", version=version))
    found = store.rows(catalog.BATCHES)
    assert [dict(each["rejects"]) for each in found] == [{"why": 2}] * 2
    assert store.rows_written["batches"] == 2


def test_a_table_of_an_earlier_release_gets_its_columns_and_another_one_is_refused(store: Store) -> None:
    log = store.log(catalog.RUNS)
    fewer = catalog.RUNS.schema.remove(len(catalog.RUNS.schema) - 1)
    log.create(fewer, catalog.RUNS.layout)
    assert store.rows(catalog.RUNS) == []
    store.append_rows(catalog.RUNS, [{"window_s": 300}])
    assert [row["window_s"] for row in store.rows(catalog.RUNS)] == [300]
    odd = store.log(catalog.BATCHES)
    odd.create(catalog.RUNS.schema, catalog.RUNS.layout)
    with pytest.raises(TableError, match=r"has columns that this release does not know \(finished_at, .*begin anew"):
        store.has(catalog.BATCHES)


def test_the_log_counts_files_bytes_rows_and_days_without_spark(store: Store) -> None:
    table = catalog.ACTIVITY
    store.make(table)
    schema = table.schema
    for day in ("2026-03-01", "2026-03-01", "2026-03-02"):
        rows = pa.Table.from_pylist([{"date": parse_day(day)}] * 2, schema=schema)
        store.log(table).append(rows, None)
    size = store.log(table).size()
    assert (size.files, size.rows, size.size_bytes > 0) == (3, 6, True)
    assert store.log(table).days() == {parse_day("2026-03-01"), parse_day("2026-03-02")}
    assert store.log(table).small_files(1_000_000) == {parse_day("2026-03-01"): 2, parse_day("2026-03-02"): 1}


@pytest.mark.parametrize("last_written", [catalog.POINTS, catalog.BATCHES])
def test_no_other_source_comes_between_two_tries_of_a_batch(
    store: Store, zone: Path, tmp_path: Path, last_written: catalog.Table
) -> None:
    """Pushes of the first try would count twice, or be computed without, since `pushes` does not have them yet."""
    ledger, source = look(store, zone)
    plan = ledger.plan(next(source.cut(Bounds())))
    other = Ledger(store, source_name(str(tmp_path / "other")))
    other.check_others()
    row = {"app_id": ledger.app_id, "source": "landing one"} if last_written is catalog.BATCHES else None
    store.append_rows(last_written, [row] if row else [], Transaction(app_id=ledger.app_id, version=plan.number))
    name = "landing one" if row else source_name(str(zone))
    with pytest.raises(TableError, match=f"a run of {name} was interrupted while it wrote to .*: run it again first"):
        other.check_others()
    ledger.check_others()
    done(store, ledger, plan)
    other.check_others()


def test_a_ledger_lost_amid_a_batch_is_an_error_and_else_one_that_begins_anew(store: Store, zone: Path) -> None:
    """Points of the first try would count twice: only `pushes` tells repeats."""
    ledger, source = look(store, zone)
    plan = ledger.plan(next(source.cut(Bounds())))
    path = Path(catalog.LEDGER.path(store.root).removeprefix("file:"))
    shutil.move(path, path.with_name("lost"))
    assert look(Store(store.root), zone)[0].app_id == ledger.app_id, "nothing was written under it"
    store.append_rows(catalog.REJECTS, [], Transaction(app_id=ledger.app_id, version=plan.number))
    with pytest.raises(TableError, match=r"removed after a run was interrupted, whose rows .* remove all tables"):
        look(Store(store.root), zone)
    done(store, ledger, plan)
    again, source = look(Store(store.root), zone)
    assert (again.app_id != ledger.app_id, source.new_input().amount, again.unfinished()) == (True, 5, [])


def test_sources_have_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert source_name("landing") == source_name(f"file://{tmp_path}/landing/") != source_name("other")
    first, second = (TopicSource(bootstrap_servers=servers, topic="t") for servers in ("a:1,b:2", "b:2,a:1"))
    assert source_name(first) == source_name(second)
