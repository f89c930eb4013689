"""An operator may look at the log at any time, and disturbs nobody."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.programs.push_log import RECEIVED_AT_US, poll, poll_all, run_retention, small_log

from fleetgauge.push_log.embedded.inspect import log_stats, records_after, tail
from fleetgauge.push_log.embedded.position import Position
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.embedded.segment import SegmentReader
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.push_record import PushRecord


def ids(found: tuple[tuple[str, PushRecord], ...] | list[tuple[str, PushRecord]]) -> list[int]:
    return [int(record.push_id, 16) for _, record in found]


@pytest.mark.parametrize("running", [True, False])
def test_stats_tell_what_the_log_holds(log: Any, running: bool) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 60)
    batch = poll(reader, max_records=20)
    assert batch is not None
    reader.commit(batch)
    if not running:
        writer.close()
    stats = log_stats(log.path)
    assert stats.records == 60
    assert (stats.oldest_received_at, stats.newest_received_at) == (RECEIVED_AT_US + 1, RECEIVED_AT_US + written[-1])
    assert stats.disk_bytes == sum(file.stat().st_size for file in log.path.glob("*.sqlite*"))
    [cursor] = stats.cursors
    assert cursor.cursor.exporter == "otlp"
    assert cursor.lag.records == 40
    assert cursor.lag.bytes is not None
    assert cursor.lag.bytes + batch.size_bytes == stats.metrics_bytes


def test_a_second_look_opens_no_more_segments_than_it_must(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The status asks every second, and a log that no destination takes has hundreds of segments."""
    for name in ("behind", "further behind"):
        log.reader(name)
    log.write(log.writer(), 200)
    before = log_stats(log.directory)
    assert before.segments > 20
    looked_at = []
    real = SegmentReader.__init__

    def look(reader: SegmentReader, path: Path) -> None:
        looked_at.append(path)
        real(reader, path)

    monkeypatch.setattr(SegmentReader, "__init__", look)
    assert log_stats(log.directory) == before == log_stats(log.path)
    looked_at.clear()
    log_stats(log.directory)
    # A prepared segment, the head for all and for each exporter, and the oldest for its first push, likewise.
    assert len(looked_at) <= 1 + 3 + 3
    assert len(set(looked_at)) <= 3


def test_an_empty_log_has_no_oldest_record(log: Any) -> None:
    log.writer()
    stats = log_stats(log.path)
    assert (stats.records, stats.segments) == (0, 1)
    assert (stats.oldest_received_at, stats.newest_received_at) == (None, None)
    assert tail(log.path, 5) == ()


@pytest.mark.parametrize("count", [1, 7, 25, 60, 1_000])
def test_the_tail_is_the_newest_records_oldest_first(log: Any, count: int) -> None:
    written = log.write(log.writer(), 60)
    found = tail(log.path, count)
    assert ids(found) == written[-count:]
    positions = [position for position, _ in found]
    assert positions == sorted(positions)


def test_following_goes_on_after_the_last_position_seen(log: Any) -> None:
    writer = log.writer()
    written = log.write(writer, 30)
    seen = list(records_after(log.path))
    assert ids(seen) == written
    assert list(records_after(log.path, seen[-1][0])) == []
    assert ids(list(records_after(log.path, seen[11][0]))) == written[12:]
    later = log.write(writer, 2)
    assert ids(list(records_after(log.path, seen[-1][0]))) == later


def test_looking_moves_no_cursor_and_keeps_no_segment_from_going(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 60)
    looking: Any = records_after(log.path)  # a generator, which has a close
    with closing(looking):
        next(looking)
        assert poll_all(reader) == written
        with closing(Retention(small_log(log.path), ["otlp"])) as upkeep:
            assert run_retention(upkeep, log.path, RECEIVED_AT_US // 1_000).removed > 0
        assert log.write(writer, 3) == poll_all(reader)


def test_damaged_segments_are_counted_and_left_out(log: Any) -> None:
    writer = log.writer()
    log.write(writer, 3)
    writer.close()
    written = log.write(log.writer(), 3)
    (log.path / (log.segments()[0].name + "-wal")).unlink()
    log.segments()[0].write_bytes(b"no database " * 1_000)
    assert log_stats(log.path).damaged_segments == 1
    assert ids(tail(log.path, 10)) == written
    with capture_logs():
        poll_all(log.reader())
    assert log_stats(log.path).damaged_segments == 1


@pytest.mark.parametrize("look", [log_stats, lambda path: tail(path, 1), records_after])
def test_a_missing_log_is_said_so(tmp_path: Path, look: Any) -> None:
    with pytest.raises(PushLogError, match=r"there is no push log in .*nowhere"):
        look(tmp_path / "nowhere")


@pytest.mark.parametrize("text", ["", "1-2", "00000000000000000001-000000004x", "-00000000000000001-0000000042"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a position"):
        Position.parse(text)


def test_positions_sort_as_text_as_they_do_in_the_log() -> None:
    positions = [Position(1, 9), Position(1, 10), Position(2, 1), Position(10, 1)]
    assert sorted(map(str, positions)) == list(map(str, positions))
    assert [Position.parse(str(position)) for position in positions] == positions
