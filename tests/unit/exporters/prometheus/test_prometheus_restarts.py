"""What a stop, a crash at any moment, a full disk or a damaged file does to the counters: nothing, or one sentence."""

import gzip
from pathlib import Path
from typing import Any

import apsw
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA, Metric
from support.payloads.client_series import (
    CUMULATIVE,
    LATENCY_ON_PAGE,
    REQUESTS_ON_PAGE,
    counter,
    export,
    gauge,
    page_of,
    push,
    samples_of,
    started,
)

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.exporter import Delivered, Retry
from fleetgauge.exporters.prometheus.exporter import PrometheusExporter
from fleetgauge.exporters.prometheus.points import GRID
from fleetgauge.exporters.prometheus.settings import Address, PrometheusSettings
from fleetgauge.exporters.state_file import StateError, StateFile, TakenPushes
from fleetgauge.telemetry.push_record import PushIds

Start = Any


def without_own(page: str) -> list[str]:
    return sorted(line for line in page.splitlines() if "fleetgauge_prometheus" not in line)


def every_kind() -> list[Any]:
    exponential = gauge(0, name="app.size")
    exponential.exponential_histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    exponential.exponential_histogram.data_points.add(scale=0, count=2, sum=5).positive.bucket_counts.extend([0, 2])
    summary = gauge(0, name="app.wait")
    summary.summary.data_points.add(count=1, sum=2).quantile_values.add(quantile=0.5, value=2)
    metrics = [counter(3), counter(4, name="app.c", temporality=CUMULATIVE, start=5, at=9), gauge(5, node_id="node-1")]
    return [*metrics, exponential, summary]


def test_a_restart_shows_the_same_page(start: Start, clock: MockTime) -> None:
    exporter = start()
    metrics = every_kind()
    metrics[0].description = "what the client says"
    export(exporter, push(1, *metrics, resource={"group_id": "g"}), push(2, *metrics, client_instance_id="x" * 22))
    before = without_own(page_of(exporter))
    exporter.close()
    clock.sleep(1_000)
    again = start()
    assert without_own(page_of(again)) == before
    assert len(GRID) == 64, "the state on the disk is of these buckets"


def test_counters_go_on_after_a_restart(start: Start) -> None:
    exporter = start()
    export(exporter, push(1, *every_kind()))
    export(exporter, push(2, *every_kind()))
    exporter.close()
    again = start()
    export(again, push(3, counter(3), counter(9, name="app.c", temporality=CUMULATIVE, start=5, at=9)))
    found = samples_of(again)
    assert (found.one(REQUESTS_ON_PAGE), found.one("app_c_total")) == (9, 9)


def test_a_batch_that_was_saved_and_comes_again_is_counted_once(start: Start) -> None:
    """Killed between the save and the log's commit; the batch after the restart is cut in another way."""
    exporter = start()
    export(exporter, push(1, counter(1)))
    export(exporter, push(2, counter(2)), push(3, counter(4)))
    exporter.close()
    again = start()
    export(again, push(2, counter(2)), push(3, counter(4)), push(4, counter(8)))
    assert samples_of(again).one(REQUESTS_ON_PAGE) == 15


def test_nothing_is_shown_before_it_is_saved(exporter: PrometheusExporter, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that falls back after a crash would look like a reset; a full disk holds the page where it is."""
    export(exporter, push(1, counter(1)))
    save = StateFile.save

    def full(*_: object) -> None:
        raise StateError("no room left on the disk")

    monkeypatch.setattr(StateFile, "save", full)
    for _ in range(3):
        outcome = export(exporter, push(2, counter(2), gauge(7)), push(3, counter(4)))
        assert outcome == Retry(reason="state", detail="no room left on the disk")
        assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 1
        assert samples_of(exporter).all(LATENCY_ON_PAGE) == []
    monkeypatch.setattr(StateFile, "save", save)
    assert export(exporter, push(2, counter(2), gauge(7)), push(3, counter(4)), push(4, counter(8))) == Delivered()
    found = samples_of(exporter)
    assert (found.one(REQUESTS_ON_PAGE), found.one(LATENCY_ON_PAGE)) == (15, 7)
    assert found.one("fleetgauge_prometheus_repeated_pushes_total") == 0


def test_a_save_is_all_or_nothing(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted within the transaction, neither the counters nor the pushes' ids are there."""
    exporter = start()
    export(exporter, push(1, counter(1)))

    def fails(*_: object) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(StateFile, "_remember", fails)
    outcome = export(exporter, push(2, counter(2)))
    assert isinstance(outcome, Retry)
    assert "no space left on the disk of" in outcome.detail
    exporter.close()
    monkeypatch.undo()
    again = start()
    assert samples_of(again).one(REQUESTS_ON_PAGE) == 1
    export(again, push(2, counter(2)))
    assert samples_of(again).one(REQUESTS_ON_PAGE) == 3


def test_a_whole_log_that_is_read_again_counts_nothing_twice(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cursors were lost. The ids of few pushes are kept here; older ones are known by their clients' clocks."""
    monkeypatch.setattr(TakenPushes, "kept_ids", 10)
    exporter = start()
    pushes = [push(number, counter(1, start=number - 1, at=number)) for number in range(1, 51)]
    for record in pushes:
        export(exporter, record)
    for record in pushes:
        export(exporter, record)
    exporter.close()
    again = start()
    export(again, *pushes, push(51, counter(1, start=50, at=51)))
    assert samples_of(again).one(REQUESTS_ON_PAGE) == 51


def logged(number: int, writer: int, *metrics: Any, **fields: Any) -> Any:
    """A push as the process with that number received it, which has a log of its own."""
    push_id = PushIds(writer).next_id(push(number).received_at)
    return push(number, *(metrics or [counter(1, start=number - 1, at=number)]), push_id=push_id, **fields)


def test_a_push_is_counted_though_another_log_was_read_far_ahead_of_its_own(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client's connection moved from one listener process to another, and the first one's log is the longer."""
    monkeypatch.setattr(TakenPushes, "kept_ids", 10)
    exporter = start()
    export(exporter, logged(100, 2, counter(5, start=40, at=100)))
    for number in range(101, 160):
        export(exporter, logged(number, 2, client_instance_id=f"{number:022}"))
    exporter.close()
    again = start()
    export(again, logged(40, 1, counter(7, start=0, at=40)))
    found = samples_of(again)
    assert found.one(REQUESTS_ON_PAGE, client_instance_id=push(1).client_instance_id) == 12
    assert found.one("fleetgauge_prometheus_repeated_pushes_total") == 0


@pytest.mark.parametrize("kept_writers", [1_024, 3])
def test_whole_logs_that_are_read_again_count_nothing_twice(
    start: Start, monkeypatch: pytest.MonkeyPatch, kept_writers: int
) -> None:
    """Of a node whose processes were restarted now and then: in each log are the pushes of several."""
    monkeypatch.setattr(TakenPushes, "kept_ids", 10)
    monkeypatch.setattr(TakenPushes, "kept_writers", kept_writers)
    logs = [[logged(number, 10 * log + number // 20) for number in range(log, 120, 2)] for log in (1, 2)]
    exporter = start()
    for record in sorted([*logs[0], *logs[1]], key=lambda each: each.received_at):
        export(exporter, record)
    for _ in range(2):
        exporter.close()
        exporter = start()
        for record in (*logs[0], *logs[1]):
            export(exporter, record)
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 119
    assert exporter._state is not None
    assert len(exporter._state.taken.forgotten) <= kept_writers


def test_a_file_of_the_form_before_is_taken_up(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the release before wrote it: the ids of the last ten of 30 pushes, half of them of another writer."""
    monkeypatch.setattr(TakenPushes, "kept_ids", 10)
    packed = Path(__file__).with_name("state-form-1.db.gz").read_bytes()
    (tmp_path / "state.db").write_bytes(gzip.decompress(packed))
    exporter = start()
    pushes = [logged(number, 1 if number <= 15 else 2) for number in range(1, 32)]
    for _ in range(2):
        export(exporter, *pushes)
        found = samples_of(exporter)
        assert (found.one(REQUESTS_ON_PAGE), found.one("app_total")) == (31, 60)
        assert found.one("app_latency_milliseconds_bucket", le="+Inf") == 90
        assert found.all("app_latency_milliseconds_sum") == [], "one push did not say it"
        exporter.close()
        exporter = start()
    latency = Metric(name="app.latency", unit="ms")
    latency.histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_DELTA
    latency.histogram.data_points.add(count=2, bucket_counts=[2, 0], explicit_bounds=[10], sum=4)
    export(exporter, logged(32, 2, latency))
    found = samples_of(exporter)
    assert (found.one("app_latency_milliseconds_sum"), found.one("app_latency_milliseconds_count")) == (4, 92)


def test_a_client_that_left_is_not_there_after_a_restart(start: Start, clock: MockTime) -> None:
    exporter = start()
    export(exporter, push(1, counter(1), terminating=True), push(2, counter(1), client_instance_id="x" * 22))
    clock.sleep(60_000)
    samples_of(exporter)
    export(exporter, push(62, counter(1), client_instance_id="x" * 22))
    exporter.close()
    assert len(samples_of(start()).all(REQUESTS_ON_PAGE)) == 1


def test_counters_survive_an_outage_of_the_exporter_that_is_longer_than_they_live(
    start: Start, clock: MockTime
) -> None:
    exporter = start()
    export(exporter, push(0, counter(1)))
    exporter.close()
    clock.sleep(3_600_000)
    again = start()
    export(again, push(60, counter(1)), push(3_600, counter(1)))
    assert samples_of(again).one(REQUESTS_ON_PAGE) == 3


def test_smaller_bounds_hold_for_what_was_saved_as_well(start: Start) -> None:
    exporter = start()
    export(exporter, push(1, *(gauge(n, partition=str(n)) for n in range(9))))
    exporter.close()
    again = start(max_per_client=4)
    assert len(samples_of(again).all(LATENCY_ON_PAGE)) == 3
    export(again, push(2, *(gauge(n, partition=str(n)) for n in range(9))))
    again.close()
    assert len(samples_of(start()).all(LATENCY_ON_PAGE)) == 3


def test_what_was_folded_survives(start: Start) -> None:
    exporter = start(max_per_client=2)
    export(exporter, push(1, counter(1, topic="a"), counter(2, topic="b")))
    exporter.close()
    again = start(max_per_client=2)
    export(again, push(2, counter(1, topic="a"), counter(2, topic="b")))
    assert samples_of(again).one(REQUESTS_ON_PAGE, folded="series.max.per.client") == 4


def test_a_damaged_file_is_set_aside(start: Start, tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"no database" * 1_000)
    exporter = start()
    export(exporter, push(1, counter(1)))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 1
    assert (tmp_path / "state.db.corrupt").exists()


def overwrite_root(path: Path, table: str) -> None:
    """Damages the page of the file at which a table begins, as a failing disk does."""
    database = apsw.Connection(str(path))
    page = database.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    size = database.execute("PRAGMA page_size").get
    database.close()
    overwrite_page(path, page, size)


def overwrite_page(path: Path, page: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xee" * size)


TABLES = ("layouts", "states", "taken")


@pytest.mark.parametrize("table", TABLES)
def test_a_file_is_set_aside_wherever_it_is_damaged(start: Start, tmp_path: Path, table: str) -> None:
    exporter = start()
    export(exporter, *(push(n, counter(5), client_instance_id=f"{n:022}") for n in range(60)))
    exporter.close()
    overwrite_root(tmp_path / "state.db", table)
    again = start()
    assert export(again, push(99, counter(1))) == Delivered()
    assert samples_of(again).one(REQUESTS_ON_PAGE) == 1
    assert (tmp_path / "state.db.corrupt").exists()
    again.close()
    assert samples_of(start()).one(REQUESTS_ON_PAGE) == 1


@pytest.mark.parametrize("damage", ["ids = 7", "ids = x'00'", "newest_received_at = 'x'"])
def test_a_file_that_says_nonsense_of_pushes_is_set_aside(start: Start, tmp_path: Path, damage: str) -> None:
    exporter = start()
    export(exporter, push(1, counter(5)))
    exporter.close()
    database = apsw.Connection(str(tmp_path / "state.db"))
    database.execute(f"UPDATE taken SET {damage}")
    database.close()
    again = start()
    export(again, push(2, counter(1)))
    assert samples_of(again).one(REQUESTS_ON_PAGE) == 1
    assert (tmp_path / "state.db.corrupt").exists()


@pytest.mark.parametrize("table", TABLES)
def test_a_file_that_is_damaged_while_it_is_used_is_written_anew(start: Start, tmp_path: Path, table: str) -> None:
    """All that was in it is in memory still: no counter falls, and no push that comes again is counted twice."""
    exporter = start()
    pushes = [push(n, counter(5), client_instance_id=f"{n:022}") for n in range(60)]
    export(exporter, *pushes)
    page, size = root_of(exporter, table)
    overwrite_page(tmp_path / "state.db", page, size)
    outcome = export(exporter, push(99, counter(1)))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "state"
    assert export(exporter, push(99, counter(1))) == Delivered()
    assert (tmp_path / "state.db.corrupt").exists()
    exporter.close()
    again = start()
    export(again, *pushes, push(99, counter(1)))
    found = samples_of(again)
    assert sum(value for _, value in found.all(REQUESTS_ON_PAGE)) == 301
    assert found.one("fleetgauge_prometheus_repeated_pushes_total") == 61


def root_of(exporter: PrometheusExporter, table: str) -> tuple[int, int]:
    """The page at which a table begins, and the size of pages; SQLite has none of them in memory any more."""
    assert exporter._state is not None
    connection = exporter._state._connection
    assert connection is not None
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    size = connection.execute("PRAGMA page_size").get
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.execute("PRAGMA shrink_memory").fetchall()
    return page, size


def test_a_disk_that_fails_for_a_while_costs_nothing(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when the damaged file cannot be set aside at once."""
    exporter = start()
    pushes = [push(n, counter(5), client_instance_id=f"{n:022}") for n in range(60)]
    export(exporter, *pushes)
    overwrite_page(tmp_path / "state.db", *root_of(exporter, "states"))

    def fails(*_: object) -> None:
        raise OSError("Input/output error")

    monkeypatch.setattr(Path, "rename", fails)
    for _ in range(3):
        outcome = export(exporter, push(99, counter(1)))
        assert isinstance(outcome, Retry)
        assert outcome.detail.endswith(
            "cannot be used: Input/output error; if that lasts, move it away to restart its counters"
        )
    monkeypatch.undo()
    outcomes = [export(exporter, push(99, counter(1))) for _ in range(3)]
    assert outcomes[1:] == [Delivered(), Delivered()], "the first one may find the damaged file still"
    exporter.close()
    assert sum(value for _, value in samples_of(start()).all(REQUESTS_ON_PAGE)) == 301


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE states SET state = x'00'",
        "UPDATE states SET state = 7",
        "UPDATE layouts SET layout = '['",
        "UPDATE layouts SET layout = '{}'",
        "UPDATE layouts SET layout = CAST(x'c3' AS TEXT)",
        "UPDATE layouts SET layout = replace(layout, 'counter', 'c0unter')",
        "UPDATE layouts SET layout = replace(layout, '1, []', '2, [1.0]')",
        "UPDATE layouts SET layout = replace(layout, '\"orders\"', '7')",
    ],
)
def test_damaged_rows_cost_their_client_alone_its_counters(start: Start, tmp_path: Path, damage: str) -> None:
    exporter = start()
    export(exporter, *(push(n, counter(5), client_instance_id=name * 22) for n, name in enumerate("ab")))
    exporter.close()
    database = apsw.Connection(str(tmp_path / "state.db"))
    database.execute(f"{damage} WHERE client LIKE '%aaa%'")
    assert database.total_changes() == 1
    database.close()
    again = start()
    export(again, *(push(9 + n, counter(5), client_instance_id=name * 22) for n, name in enumerate("ab")))
    assert sorted(value for _, value in samples_of(again).all(REQUESTS_ON_PAGE)) == [5, 10]


def test_a_newer_file_is_left_alone(tmp_path: Path) -> None:
    database = apsw.Connection(str(tmp_path / "state.db"))
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(StateError, match=r"newer Fleetgauge \(version 99\); move it away to restart its counters"):
        StateFile(tmp_path / "state.db")


def test_two_exporters_do_not_count_into_one_file(
    start: Start, clock: MockTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StateFile, "busy_ms", 1)
    export(start(), push(1, counter(1)))
    with pytest.raises(StateError, match=r"in use by another exporter; give each a state\.file of its own"):
        start()


def test_without_a_file_counters_live_as_long_as_the_process(clock: MockTime) -> None:
    exporter = started(PrometheusSettings(listen=Address(port=0)), clock)
    export(exporter, push(1, counter(1)), push(2, counter(1)))
    assert samples_of(exporter).one(REQUESTS_ON_PAGE) == 2
    exporter.close()
    assert isinstance(export(exporter, push(3, counter(1))), Retry)
