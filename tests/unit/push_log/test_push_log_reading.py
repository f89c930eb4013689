"""Every exporter reads everything, in order, at its own pace, and goes on where its cursor stands."""

import os
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest
from structlog.testing import capture_logs
from support.programs.push_log import numbers, poll, poll_all, push_record, zstd
from support.waiting import PATIENCE_S

from fleetgauge.base.clock import SystemTime
from fleetgauge.push_log.embedded.cursors import Cursors
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.inspect import log_stats
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.segment import SegmentGoneError, SegmentReader
from fleetgauge.push_log.log import CursorRevokedError, Lag, PushLogError


def test_two_exporters_read_independently(log: Any) -> None:
    writer, fast, slow = log.writer(), log.reader("fast"), log.reader("slow")
    written = log.write(writer, 20)
    assert poll_all(fast) == written
    assert poll_all(slow, max_records=3) == written


def test_a_batch_ends_at_the_number_of_records_asked_for(log: Any) -> None:
    log.write(log.writer(), 10)
    assert poll_all(log.reader(), max_records=4, commit=False) == list(range(1, 11))
    first = poll(log.reader(), max_records=4)
    assert first is not None
    assert numbers(first.records) == [1, 2, 3, 4]


def test_a_batch_stays_within_its_bytes_and_a_larger_record_comes_alone(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    for number, size in enumerate([40, 60, 1, 500, 99, 2], start=1):
        writer.append(push_record(number, b"x" * size))
    writer.commit()
    batches = []
    while (batch := poll(reader, max_bytes=100)) is not None:
        batches.append((numbers(batch.records), batch.size_bytes))
    assert batches == [([1, 2], 100), ([3], 1), ([4], 500), ([5], 99), ([6], 2)]


def test_a_batch_may_span_segments_and_its_positions_sort(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 60)
    positions = []
    batch = poll(reader)
    assert batch is not None
    assert numbers(batch.records) == written
    assert batch.first_position[:20] < batch.last_position[:20]
    log.write(writer, 1)
    later = poll(reader)
    assert later is not None
    positions = [batch.first_position, batch.last_position, later.first_position]
    assert positions == sorted(positions)


def test_what_was_not_committed_comes_again_to_the_next_reader(log: Any) -> None:
    written = log.write(log.writer(), 10)
    reader = log.reader()
    done = poll(reader, max_records=4)
    assert done is not None
    reader.commit(done)
    poll(reader)
    reader.close()
    assert poll_all(log.reader()) == written[4:]


def test_a_commit_takes_earlier_batches_with_it(log: Any) -> None:
    log.write(log.writer(), 10)
    reader = log.reader()
    first, second = poll(reader, max_records=4), poll(reader, max_records=4)
    assert first is not None
    assert second is not None
    reader.commit(second)
    reader.commit(second)
    reader.commit(first)
    state = Cursors(log.path).states()[0]
    assert str(state.position) == second.last_position
    assert state.delivered_records == 8
    assert state.lost_by_retention == 0


def test_the_later_reader_of_a_name_takes_the_cursor_over(log: Any) -> None:
    written = log.write(log.writer(), 4)
    old = log.reader()
    batch = poll(old)
    new = log.reader()
    assert batch is not None
    with pytest.raises(CursorRevokedError, match="otlp"):
        old.commit(batch)
    assert poll_all(new) == written


def test_a_forgotten_exporter_is_revoked(log: Any) -> None:
    log.write(log.writer(), 4)
    reader = log.reader()
    batch = poll(reader)
    assert Cursors(log.path).forget("otlp")
    assert not Cursors(log.path).forget("otlp")
    assert batch is not None
    with pytest.raises(CursorRevokedError):
        reader.commit(batch)


def test_a_new_exporter_may_start_at_the_end(log: Any) -> None:
    writer = log.writer()
    log.write(writer, 4)
    reader = log.reader("late", start="latest")
    assert poll_all(reader) == []
    assert log.write(writer, 2) == poll_all(reader)
    assert poll_all(log.reader("late", start="latest")) == []


def test_a_reader_may_come_before_the_log(log: Any) -> None:
    reader = log.reader()
    assert poll_all(reader) == []
    assert reader.lag() == Lag(records=0, bytes=0, oldest_received_at=None)
    assert log.write(log.writer(), 3) == poll_all(reader)


def test_reading_goes_on_over_restarts_of_the_writer(log: Any) -> None:
    reader = log.reader()
    for _ in range(4):
        writer = log.writer()
        assert log.write(writer, 3) == poll_all(reader)
        writer.close()
        assert poll_all(reader) == []


def test_a_poll_waits_until_as_much_is_there_as_it_asked_for(log: Any) -> None:
    writer = log.writer()
    reader = SqlitePushLogReader(log.settings, "otlp", time=SystemTime())
    found: list[Any] = []
    poller = threading.Thread(target=lambda: found.append(reader.poll(1 << 30, 3, round(PATIENCE_S * 1_000))))
    poller.start()
    log.write(writer, 1)
    poller.join(0.2)
    assert poller.is_alive()
    log.write(writer, 2)
    poller.join(PATIENCE_S)
    assert numbers(found[0].records) == [1, 2, 3]
    reader.close()


def test_a_poll_returns_what_is_there_when_its_time_is_over(log: Any) -> None:
    log.write(log.writer(), 1)
    reader = SqlitePushLogReader(log.settings, "otlp", time=SystemTime())
    batch = reader.poll(1 << 30, 3, 20)
    assert batch is not None
    assert len(batch.records) == 1
    assert reader.poll(1 << 30, 3, 20) is None
    reader.close()


def test_a_wakeup_ends_the_wait_of_the_running_or_the_next_poll(log: Any) -> None:
    log.write(log.writer(), 1)
    reader = SqlitePushLogReader(log.settings, "otlp", time=SystemTime())
    found: list[Any] = []
    poller = threading.Thread(target=lambda: found.append(reader.poll(1 << 30, 3, 60_000)))
    poller.start()
    reader.wakeup()
    poller.join(PATIENCE_S)
    assert not poller.is_alive()
    assert numbers(found[0].records) == [1]
    reader.wakeup()
    assert reader.poll(1 << 30, 3, 60_000) is None
    reader.close()


def test_a_wakeup_ends_one_wait_alone(log: Any) -> None:
    log.write(log.writer(), 1)
    reader = SqlitePushLogReader(log.settings, "otlp", time=SystemTime())
    reader.wakeup()
    assert reader.poll(1 << 30, 3, 60_000) is not None
    poller = threading.Thread(target=lambda: reader.poll(1 << 30, 3, 60_000))
    poller.start()
    poller.join(0.1)
    assert poller.is_alive()
    reader.wakeup()
    poller.join(PATIENCE_S)
    assert not poller.is_alive()
    reader.close()


def test_lag_counts_from_the_cursor_over_all_segments(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    for number in range(1, 41):
        writer.append(push_record(number, b"x" * number))
        writer.commit()
    batch = poll(reader, max_records=15)
    assert batch is not None
    assert reader.lag().records == 40
    reader.commit(batch)
    lag = reader.lag()
    assert lag == Lag(records=25, bytes=sum(range(16, 41)), oldest_received_at=push_record(16).received_at)
    poll_all(reader)
    assert reader.lag() == Lag(records=0, bytes=0, oldest_received_at=None)


def test_lag_may_be_asked_from_another_thread_while_a_poll_waits(log: Any) -> None:
    log.write(log.writer(), 5)
    reader = SqlitePushLogReader(log.settings, "otlp", time=SystemTime())
    poller = threading.Thread(target=lambda: reader.poll(1 << 30, 100, 60_000))
    poller.start()
    lags = {reader.lag().records for _ in range(50)}
    reader.wakeup()
    poller.join(PATIENCE_S)
    assert lags == {5}
    reader.close()


def test_a_damaged_sealed_segment_is_set_aside_counted_and_passed(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    log.reader("another")
    first = log.write(writer, 6)
    writer.close()
    writer = log.writer()
    second = log.write(writer, 3)
    begun = poll(reader, max_records=2)
    assert begun is not None
    reader.commit(begun)
    reader.close()
    damage(log.segments()[0])
    with capture_logs() as said:
        assert poll_all(log.reader()) == second
    [entry] = said
    assert entry["event"] == "push_log.segment_set_aside"
    assert entry["lost_records"] == {"otlp": len(first) - 2, "another": len(first)}
    assert len(list(log.path.glob("*.sqlite.corrupt"))) == 1
    assert poll_all(log.reader("another")) == poll_all(log.reader("a new one")) == second
    lost = {state.exporter: (state.lost_by_damage, state.delivered_records) for state in Cursors(log.path).states()}
    assert lost == {"otlp": (4, 2 + 3), "another": (6, 3), "a new one": (0, 3)}


def test_a_damaged_record_is_left_out_and_counted(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    metrics = b"compressible " * 50
    for number in (1, 2, 3):
        writer.append(push_record(number, metrics), zstd(metrics))
    writer.commit()
    with apsw.Connection(str(log.segments()[0])) as connection:
        connection.execute("UPDATE pushes SET metrics = x'00112233' WHERE row = 2")
    with capture_logs() as said:
        assert poll_all(reader) == [1, 3]
    assert [entry["event"] for entry in said] == ["push_log.record_skipped"]
    state = Cursors(log.path).states()[0]
    assert (state.delivered_records, state.lost_by_damage) == (2, 1)
    assert reader.lag().records == 0


def damage(path: Path) -> None:
    """Overwrites a segment that nobody has open, as a failing disk would."""
    for file in (path, path.with_name(path.name + "-wal")):
        if file.exists():
            size = file.stat().st_size
            with file.open("r+b") as handle:
                handle.write(b"\x5a" * min(size, 8_192))


def test_what_was_read_before_a_segment_that_cannot_be_opened_goes_out_at_once_and_none_is_passed_over(
    log: Any,
) -> None:
    written = log.write(log.writer(), 60)
    reader = log.reader()
    second = log.segments()[1]
    aside = second.rename(second.with_suffix(".aside"))
    second.mkdir()
    first = reader.poll(1 << 30, 1_000, 3_600_000)
    assert first is not None
    found = numbers(first.records)
    assert 0 < len(found) < len(written)
    reader.commit(first)
    for _ in range(2):
        with pytest.raises(PushLogError, match=second.name):
            reader.poll(1 << 30, 1_000, 3_600_000)
    second.rmdir()
    aside.rename(second)
    assert found + poll_all(reader) == written


@pytest.mark.parametrize(("size", "rows_left"), [(0, True), (0, False), (1, False)])
def test_a_segment_of_which_power_loss_left_little_more_than_the_name_stops_nobody(
    log: Any, size: int, rows_left: bool
) -> None:
    reader, written = log.reader(), []
    for _ in range(3):
        writer = log.writer()
        written.append(log.write(writer, 6))
        writer.close()
    bad = log.segments()[1]
    wal = bad.with_name(bad.name + "-wal")
    os.truncate(bad, size)
    if not rows_left:
        wal.unlink()
    log.writer()
    with capture_logs() as said:
        assert poll_all(reader) == written[0] + written[2]
    assert [entry["event"] for entry in said] == ["push_log.segment_set_aside"]
    stats = log_stats(log.path)
    assert (stats.damaged_segments, stats.records) == (1, 12)
    kept = wal.with_name(wal.name + ".corrupt")
    assert rows_left == (kept.exists() and kept.stat().st_size > 1_000), "with them the pushes can be saved by hand"


def test_a_newest_segment_that_cannot_be_opened_is_told_when_all_before_it_is_delivered(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    (log.path / "00000000000000000009.sqlite").mkdir()
    for count in (3, 2):
        written = log.write(writer, count)
        batch = poll(reader)
        assert batch is not None
        assert numbers(batch.records) == written, "the head is not sealed, and grows"
        with pytest.raises(PushLogError, match=r"0009\.sqlite"):
            poll(reader)
        assert log_stats(log.path).damaged_segments == 1


def test_a_segment_taken_away_while_a_reader_opens_it_is_gone_and_no_disk_error(log: Any) -> None:
    log.write(log.writer(), 2)
    directory = LogDirectory(log.path)
    number = directory.live()[-1]
    opening = SegmentReader(directory.segment(number))  # SQLite looks for the write-ahead log with the first query
    try:
        directory.remove(number)
        with pytest.raises(SegmentGoneError, match="is gone"):
            opening.is_opened()
    finally:
        opening.close()
