"""Whatever a disk does to a segment, what is lost with it is counted, kept to be looked at, and stops nobody."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.programs.push_log import RECEIVED_AT_US, poll, poll_all, push_record, run_retention, small_log

from fleetgauge.push_log.embedded.cursors import Cursors, CursorState
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.inspect import log_stats
from fleetgauge.push_log.embedded.retention.retention import Retention

NOW_MS = RECEIVED_AT_US // 1_000 + 60_000
ROWS = 8


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4_096 * 4_096)


def zero_start(path: Path) -> None:
    overwrite(path, 0, b"\0" * 512)


def zero_middle(path: Path) -> None:
    overwrite(path, path.stat().st_size // 2 // 4_096 * 4_096, b"\0" * 8_192)


def flip(path: Path) -> None:
    overwrite(path, path.stat().st_size // 2, b"\xff" * 16)


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def three_segments(log: Any) -> Path:
    """Eight pushes in each, nobody has them open, and a head after them; the second one."""
    for _ in range(3):
        writer = log.writer()
        log.write(writer, ROWS)
        writer.close()
    log.writer()
    for index in log.path.glob("*-shm"):
        index.unlink()
    return Path(log.segments()[1])


def upkeep(log: Any, **changed: Any) -> Any:
    return closing(Retention(small_log(log.path, **changed), ["otlp"], log.directory))


def state_of(log: Any, exporter: str = "otlp") -> CursorState:
    with closing(Cursors(log.path)) as cursors:
        return next(state for state in cursors.states() if state.exporter == exporter)


@pytest.mark.parametrize("damage", [Path.write_bytes, cut, zero_start, zero_middle])
def test_the_pushes_of_a_damaged_segment_are_counted(log: Any, damage: Callable[..., object]) -> None:
    log.reader().close()
    second = three_segments(log)
    with upkeep(log) as retention:
        assert run_retention(retention, log.path, NOW_MS).checkpointed == 3
    damage(second) if damage is not Path.write_bytes else second.write_bytes(b"")
    log.directory = LogDirectory(log.path)  # another process, which has not looked at it yet
    check(log, kept=second.with_name(second.name + ".corrupt"))


@pytest.mark.parametrize("damage", [cut, zero_start, flip, Path.unlink])
def test_the_pushes_that_a_damaged_write_ahead_log_no_longer_holds_are_counted(
    log: Any, damage: Callable[[Path], object]
) -> None:
    log.reader().close()
    second = three_segments(log)
    wal = second.with_name(second.name + "-wal")
    damage(wal)
    left = wal.read_bytes() if wal.exists() else b""
    with upkeep(log) as retention:
        assert run_retention(retention, log.path, NOW_MS).checkpointed == 2
    check(log, kept=second.with_name(second.name + ".corrupt"))
    assert (log.path / (wal.name + ".corrupt")).read_bytes() == left, "no checkpoint takes away what could be saved"


def check(log: Any, kept: Path) -> None:
    """Reads on, and looks at what is counted, said and kept."""
    reader = log.reader()
    with capture_logs() as said:
        delivered = poll_all(reader, max_records=3)
    assert delivered == sorted(delivered)
    assert {*range(1, ROWS + 1), *range(2 * ROWS + 1, 3 * ROWS + 1)} <= set(delivered)
    assert [entry["log_level"] for entry in said] == ["error"]
    assert len(delivered) < 3 * ROWS
    assert state_of(log).lost_by_damage == 3 * ROWS - len(delivered)
    assert state_of(log).delivered_records == len(delivered)
    assert log_stats(log.path).damaged_segments == log_stats(log.directory).damaged_segments == 1
    with upkeep(log) as retention:
        retention.run(NOW_MS)
    assert len(log.segments()) == 1
    assert kept.exists()
    assert log_stats(log.path).damaged_segments == 1
    assert reader.lag().records == 0
    poll_all(log.reader())
    assert state_of(log).lost_by_damage == 3 * ROWS - len(delivered)


def test_what_an_exporter_had_before_the_damage_is_not_lost_to_it(log: Any) -> None:
    ahead, behind = log.reader("ahead"), log.reader("behind")
    second = three_segments(log)
    for reader, count in ((ahead, 2 * ROWS), (behind, ROWS + 3)):
        batch = poll(reader, max_records=count)
        assert batch is not None
        reader.commit(batch)
        reader.close()
    for index in log.path.glob("*-shm"):
        index.unlink()
    cut(second.with_name(second.name + "-wal"))
    log.directory = LogDirectory(log.path)
    with capture_logs():
        last = poll_all(log.reader("ahead"))
        left = poll_all(log.reader("behind"))
    assert last == list(range(2 * ROWS + 1, 3 * ROWS + 1))
    assert state_of(log, "ahead").lost_by_damage == 0
    assert 0 < state_of(log, "behind").lost_by_damage == 3 * ROWS - (ROWS + 3) - len(left)


def test_a_damaged_segment_that_retention_drops_is_counted_by_what_took_each_push(log: Any) -> None:
    log.reader().close()
    second = three_segments(log)
    cut(second.with_name(second.name + "-wal"))
    readable = log.directory.tail(2, sealed=True).row
    with upkeep(log, retention_bytes=1) as retention:
        assert run_retention(retention, log.path, NOW_MS).lost_records == {"otlp": 3 * ROWS}
    assert state_of(log).lost_by_damage == ROWS - readable > 0
    assert state_of(log).lost_by_retention == 2 * ROWS + readable


def test_a_segment_that_has_lost_every_push_is_not_older_than_it_was(log: Any) -> None:
    log.reader().close()
    first = three_segments(log).with_name("00000000000000000001.sqlite")
    zero_start(first.with_name(first.name + "-wal"))
    with upkeep(log) as retention:
        assert run_retention(retention, log.path, NOW_MS).removed == 0
    with capture_logs():
        poll_all(log.reader())
    assert state_of(log).lost_by_damage == ROWS


def test_an_unreadable_segment_that_retention_drops_is_counted_by_what_the_next_one_knows(log: Any) -> None:
    log.reader().close()
    second = three_segments(log)
    second.unlink()
    second.symlink_to(log.path)
    with upkeep(log, retention_bytes=1) as retention:
        assert run_retention(retention, log.path, NOW_MS).lost_records == {"otlp": 3 * ROWS}


def test_the_rows_of_a_head_that_reads_empty_after_a_crash_are_not_forgotten(log: Any) -> None:
    """Its successor was opened and got no push: a start takes that one away, and notes what it knew."""
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, ROWS)
    writer.close()
    log.writer().close()
    first = log.segments()[0]
    first.with_name(first.name + "-shm").unlink()
    zero_start(first.with_name(first.name + "-wal"))
    writer = log.writer()
    written = log.write(writer, 2)
    with capture_logs():
        assert poll_all(reader) == written
    assert state_of(log).lost_by_damage == ROWS


def test_after_a_segment_that_lost_its_end_a_poll_waits_for_the_next_push(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    log.write(writer, ROWS)
    writer.close()
    writer = log.writer()
    first = log.segments()[0]
    first.with_name(first.name + "-shm").unlink()
    cut(first.with_name(first.name + "-wal"))
    with capture_logs():
        delivered = len(poll_all(reader))
    assert not reader.has_batch(max_bytes=1, max_records=1)
    log.write(writer, 1)
    assert reader.has_batch(max_bytes=1, max_records=1)
    assert poll_all(reader) == [ROWS + 1]
    assert state_of(log).lost_by_damage == ROWS - delivered > 0


def test_a_write_ahead_log_that_is_cut_under_a_reader_is_damage_and_no_disk_that_may_answer_later(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    for number in range(1, 4):
        writer.append(push_record(number, b"m" * 9_000))
    writer.commit()
    writer.close()
    log.writer()
    batch = poll(reader, max_records=1)
    assert batch is not None
    reader.commit(batch)
    cut(log.segments()[0].with_name(log.segments()[0].name + "-wal"))
    with capture_logs() as said:
        assert poll_all(reader) == []
    assert [(entry["event"], entry["lost_records"]) for entry in said] == [("push_log.segment_set_aside", {"otlp": 2})]
    assert (state_of(log).delivered_records, state_of(log).lost_by_damage) == (1, 2)


@pytest.mark.parametrize(
    "change",
    ["client_id = CAST(X'FF' AS TEXT)", "client_id = 5", "received_at = 'late'", "metrics_bytes = NULL"],
)
@pytest.mark.parametrize("row", [1, 5])
def test_a_push_with_a_value_that_cannot_be_read_is_passed_over_and_counted_and_the_others_are_delivered(
    log: Any, change: str, row: int
) -> None:
    log.reader().close()
    second = three_segments(log)
    with closing(sqlite3.connect(second)) as file, file:
        file.execute(f"UPDATE pushes SET {change} WHERE row = ?", (row,))
    with capture_logs() as said:
        delivered = poll_all(log.reader(), max_records=3)
    assert delivered == [number for number in range(1, 3 * ROWS + 1) if number != ROWS + row]
    assert state_of(log).lost_by_damage == 1
    assert [entry["event"] for entry in said] == ["push_log.record_skipped"]
    assert said[0]["position"] == f"{2:020d}-{row:010d}"


def test_a_segment_whose_last_push_has_no_number_does_not_stop_its_reader(log: Any) -> None:
    log.reader().close()
    second = three_segments(log)
    with closing(sqlite3.connect(second)) as file, file:
        file.execute("UPDATE pushes SET end_bytes = NULL WHERE row = ?", (ROWS,))
    log.directory = LogDirectory(log.path)
    reader = log.reader()
    assert reader.has_batch(max_bytes=1 << 30, max_records=1_000)
    assert poll_all(reader) == list(range(1, 3 * ROWS + 1))


def test_a_payload_that_is_damaged_takes_no_other_push_with_it(log: Any) -> None:
    log.reader().close()
    second = three_segments(log)
    with closing(sqlite3.connect(second)) as file, file:
        file.execute("UPDATE pushes SET encoding = 'zstd', metrics = X'00' WHERE row = 2")
    with capture_logs():
        delivered = poll_all(log.reader(), max_records=3)
    assert delivered == [number for number in range(1, 3 * ROWS + 1) if number != ROWS + 2]
    assert state_of(log).lost_by_damage == 1
