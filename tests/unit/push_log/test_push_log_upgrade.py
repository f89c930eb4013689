"""A log that an earlier release wrote is read by this one, and one of a later release is left alone.

`tests/data/push_log_form_0.tgz` was written before forms had numbers: thirty pushes in fifteen segments, of which none
was checkpointed, and two cursors, of which `collector` had passed the first seven pushes. `push_log_form_1.tgz` is the
same, from when segments began to note their predecessors. They are never written anew.
"""

import sqlite3
import tarfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from support.programs.push_log import RecordWriter, numbers, poll_all, push_record, run_retention, small_log, zstd

from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.inspect import log_stats
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.embedded.segment import FORM, FORMS, SegmentReader, select_rows
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.push_record import PushRecord

DATA = Path(__file__).parents[2] / "data"
WALL_MS = 1_750_000_000_000
UNKNOWN = {
    "compression_type": None,
    "payload_bytes": None,
    "subscription_id": None,
    "push_interval_ms": None,
    "client_source_port": None,
}


@pytest.fixture(params=[0, 1])
def form(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def old_log(tmp_path: Path, form: int) -> PushLogSettings:
    with tarfile.open(DATA / f"push_log_form_{form}.tgz") as archive:
        archive.extractall(tmp_path, filter="data")
    return small_log(tmp_path / "push-log")


def as_written(number: int) -> PushRecord:
    """What the release of that time was given."""
    if number % 5 == 0:
        return push_record(number, b"")
    return push_record(number, **UNKNOWN) if number % 7 == 0 else push_record(number)


def test_every_push_of_it_is_read_as_it_was_written(old_log: PushLogSettings) -> None:
    with closing(SqlitePushLogReader(old_log, "landing")) as reader:
        batch = reader.poll(1 << 30, 1_000, 0)
    assert batch is not None
    assert batch.records == tuple(as_written(number) for number in range(1, 31))


def test_exporters_go_on_where_they_were_and_new_pushes_follow(old_log: PushLogSettings) -> None:
    with closing(RecordWriter(old_log)) as writer, closing(SqlitePushLogReader(old_log, "collector")) as reader:
        for number in (31, 32):
            writer.append(push_record(number), zstd(push_record(number).metrics))
        writer.commit()
        assert poll_all(reader) == list(range(8, 33))
    states = {entry.cursor.exporter: entry.cursor for entry in log_stats(old_log.dir).cursors}
    assert states["collector"].delivered_records == 32
    assert states["landing"].delivered_records == 0


def test_its_upkeep_lets_segments_go_that_everybody_has(old_log: PushLogSettings) -> None:
    with closing(SqlitePushLogReader(old_log, "collector")) as reader:
        poll_all(reader)
    with closing(Retention(old_log, ["collector"])) as upkeep:
        assert run_retention(upkeep, old_log.dir, WALL_MS).removed == 14
    assert log_stats(old_log.dir).damaged_segments == 0


def test_what_is_on_its_way_when_its_segment_goes_is_kept_beside_cursors_of_an_earlier_form(
    old_log: PushLogSettings,
) -> None:
    directory = LogDirectory(old_log.dir)
    least = replace(old_log, retention_bytes=1)
    with (
        closing(SqlitePushLogReader(old_log, "collector", directory=directory)) as reader,
        closing(Retention(least, ["collector"], directory)) as upkeep,
    ):
        batch = reader.poll(1 << 30, 10, 0)
        assert batch is not None
        lost = run_retention(upkeep, old_log.dir, WALL_MS).lost_records["collector"]
        reader.commit(batch)
        assert 7 + 10 + lost + len(poll_all(reader)) == 30


def test_what_its_segments_lose_to_damage_is_counted_if_they_note_their_predecessors(
    old_log: PushLogSettings, form: int
) -> None:
    with closing(SqlitePushLogReader(old_log, "collector")) as reader:
        for number in (5, 15):
            (old_log.dir / f"{number:020d}.sqlite-wal").write_bytes(b"")
        with closing(RecordWriter(old_log)) as writer:
            writer.append(push_record(31))
            writer.commit()
        lost = {9, 10, 29, 30}
        assert poll_all(reader) == [number for number in range(8, 32) if number not in lost]
    states = {entry.cursor.exporter: entry.cursor for entry in log_stats(old_log.dir).cursors}
    assert states["collector"].lost_by_damage == (2 if form == 1 else 0)


def test_the_form_that_is_written_is_the_newest_and_holds_the_whole_push_record() -> None:
    assert max(FORMS) == FORM
    assert FORMS[FORM] == ("row", *PushRecord._fields, "encoding", "metrics_bytes", "end_bytes"), (
        "another form of the log: give it a number in FORMS, and keep the earlier ones"
    )


def test_a_segment_of_an_earlier_form_lacks_columns_which_are_null(tmp_path: Path) -> None:
    """A form that never was, without two of today's columns: what a next form makes of today's."""
    earlier = [name for name in FORMS[0] if name not in ("listener", "push_interval_ms")]
    record = push_record(1)
    values = dict(
        zip(FORMS[0], (1, *record[:-1], record.metrics, None, len(record.metrics), len(record.metrics)), strict=True)
    )
    with closing(sqlite3.connect(tmp_path / "earlier.sqlite")) as connection:
        connection.execute(f"CREATE TABLE pushes ({', '.join(earlier)})")
        connection.execute(
            f"INSERT INTO pushes VALUES ({', '.join('?' * len(earlier))})", [values[name] for name in earlier]
        )
        connection.commit()
        [row] = connection.execute(select_rows(earlier), (0, 10)).fetchall()
    found = dict(zip(FORMS[0], row, strict=True))
    assert found == {**values, "listener": None, "push_interval_ms": None}


def test_a_segment_of_a_later_release_stops_its_exporters_with_a_sentence_and_is_neither_passed_nor_set_aside(
    old_log: PushLogSettings,
) -> None:
    newest = max(old_log.dir.glob("*.sqlite"))
    with closing(RecordWriter(old_log)) as writer:
        writer.append(push_record(31))
        writer.commit()
    with closing(sqlite3.connect(newest)) as connection:
        connection.execute(f"PRAGMA user_version = {FORM + 1}")
    with closing(SqlitePushLogReader(old_log, "collector")) as reader:
        before = reader.poll(1 << 30, 1_000, 0)
        assert before is not None
        assert numbers(before.records) == list(range(8, 29))
        for _ in range(2):
            with pytest.raises(PushLogError, match=r"newer Fleetgauge .form 2.: run that release again"):
                reader.poll(1 << 30, 1_000, 0)
    with closing(Retention(old_log, ["collector"])) as upkeep:
        assert run_retention(upkeep, old_log.dir, WALL_MS).set_aside == 0
    assert newest.exists()


def test_cursors_of_a_later_release_are_left_alone(old_log: PushLogSettings) -> None:
    with closing(sqlite3.connect(old_log.dir / "cursors.db")) as connection:
        connection.execute("PRAGMA user_version = 7")
    with pytest.raises(PushLogError, match=r"cursors\.db was written by a newer Fleetgauge .form 7."):
        SqlitePushLogReader(old_log, "collector")
    assert not list(old_log.dir.glob("*.corrupt"))


def test_a_reader_says_nothing_of_a_form_until_it_is_asked_for_rows(old_log: PushLogSettings) -> None:
    """How many there are is told of any form, so that the status and the upkeep go on."""
    newest = max(old_log.dir.glob("*.sqlite"))
    with closing(sqlite3.connect(newest)) as connection:
        connection.execute("PRAGMA user_version = 9")
    with closing(SegmentReader(newest)) as reader:
        assert reader.tail().row == 2
    assert log_stats(old_log.dir).records == 30
