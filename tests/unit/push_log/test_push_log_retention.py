"""The log stays within its bounds; what is lost by that is counted for whom it is lost."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.programs.push_log import RECEIVED_AT_US, numbers, poll, poll_all, push_record, run_retention, small_log

from fleetgauge.push_log.embedded.cursors import Cursors
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.inspect import log_stats
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.log import PushLogError

NOW_MS = RECEIVED_AT_US // 1_000 + 60_000
WEEK_MS = 7 * 24 * 3_600_000


def disk_bytes(path: Path) -> int:
    return sum(file.stat().st_size for file in path.glob("*.sqlite*"))


def upkeep(log: Any, *exporters: str, **changed: Any) -> Retention:
    return Retention(small_log(log.path, **changed), exporters, log.directory)


def test_a_segment_goes_when_every_configured_exporter_has_passed_it(log: Any) -> None:
    writer, fast, slow = log.writer(), log.reader("fast"), log.reader("slow")
    written = log.write(writer, 60)
    retention = upkeep(log, "fast", "slow")
    before = len(log.segments())
    poll_all(fast)
    assert run_retention(retention, log.path, NOW_MS).removed == 0
    assert len(log.segments()) == before
    poll_all(slow)
    assert run_retention(retention, log.path, NOW_MS).removed == before - 1 - unopened(log)
    assert len(list(log.path.glob("*.sqlite*"))) == 3 * (1 + unopened(log))
    assert written + log.write(writer, 1) == [*written, *poll_all(fast)]


def test_an_exporter_that_never_read_holds_everything_back(log: Any) -> None:
    written = log.write(log.writer(), 60)
    poll_all(log.reader("fast"))
    assert run_retention(upkeep(log, "fast", "not started yet"), log.path, NOW_MS).removed == 0
    assert poll_all(log.reader("not started yet")) == written


def test_a_log_without_exporters_is_kept_by_age_and_size_alone(log: Any) -> None:
    log.write(log.writer(), 60)
    before = len(log.segments())
    assert run_retention(upkeep(log), log.path, NOW_MS).removed == 0
    assert len(log.segments()) == before


def test_an_exporter_no_longer_configured_holds_nothing_back_and_is_forgotten_when_it_lost_its_place(log: Any) -> None:
    writer, kept = log.writer(), log.reader("kept")
    poll_all(log.reader("gone"))
    log.write(writer, 4)
    poll_all(log.reader("gone"))
    retention = upkeep(log, "kept")
    retention.run(NOW_MS)
    assert [state.exporter for state in Cursors(log.path).states()] == ["gone", "kept"]
    log.write(writer, 60)
    poll_all(kept)
    retention.run(NOW_MS)
    assert [state.exporter for state in Cursors(log.path).states()] == ["kept"]


def test_what_an_exporter_had_not_delivered_that_was_taken_out_of_the_configuration_is_said_once(log: Any) -> None:
    writer, kept = log.writer(), log.reader("kept")
    poll_all(log.reader("done"))
    with closing(Cursors(log.path)) as cursors:
        cursors.claim("gone")
    log.write(writer, 60)
    poll_all(kept)
    poll_all(log.reader("done"))
    retention = upkeep(log, "kept")
    with capture_logs() as said:
        retention.run(NOW_MS)
        retention.run(NOW_MS)
    warned = [(entry["exporter"], entry["undelivered"]) for entry in said if "undelivered" in entry]
    assert warned == [("gone", 60)]


def test_beyond_its_bytes_the_log_drops_the_oldest_segments_and_counts_for_whom(log: Any) -> None:
    writer, behind, ahead = log.writer(), log.reader("behind"), log.reader("ahead")
    written = log.write(writer, 100)
    done = poll(behind, max_records=3)
    assert done is not None
    behind.commit(done)
    poll_all(ahead)
    with capture_logs() as said:
        result = run_retention(upkeep(log, "behind", "ahead", retention_bytes=70_000), log.path, NOW_MS)
    assert disk_bytes(log.path) <= 70_000
    assert result.removed > 0
    assert {entry["bound"] for entry in said} == {"push.log.retention.bytes"}
    states = {state.exporter: state for state in Cursors(log.path).states()}
    left = poll_all(behind)
    assert left == written[-len(left) :]
    assert result.lost_records == {"behind": 100 - 3 - len(left)}
    assert states["behind"].lost_by_retention == 100 - 3 - len(left)
    assert states["ahead"].lost_by_retention == 0


def test_a_checkpoint_comes_before_a_drop_since_it_makes_segments_smaller(log: Any) -> None:
    reader = log.reader()
    written = log.write(log.writer(), 60)
    bound = disk_bytes(log.path) - 1
    assert run_retention(upkeep(log, "otlp", retention_bytes=bound), log.path, NOW_MS).removed == 0
    assert poll_all(reader) == written


def test_sealed_segments_are_checkpointed_and_stay_readable(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 60)
    first = poll(reader, max_records=5)
    assert first is not None
    size_before = disk_bytes(log.path)
    assert run_retention(upkeep(log, "otlp"), log.path, NOW_MS).checkpointed == len(log.segments()) - 1 - unopened(log)
    assert disk_bytes(log.path) < size_before / 2
    assert numbers(first.records) + poll_all(reader) == written
    assert run_retention(upkeep(log, "otlp"), log.path, NOW_MS).checkpointed == 0


def test_segments_older_than_their_time_go_and_the_head_stays(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 60)
    retention = upkeep(log, "otlp")
    assert run_retention(retention, log.path, NOW_MS).removed == 0
    assert run_retention(retention, log.path, NOW_MS + WEEK_MS - 1).removed == 0
    result = run_retention(retention, log.path, NOW_MS + WEEK_MS)
    assert result.removed > 0
    left = poll_all(reader)
    assert left == written[-len(left) :]
    assert result.lost_records == {"otlp": 60 - len(left)}


@pytest.mark.parametrize("wrong_by_days", [365, -365])
def test_whatever_the_wall_clock_said_what_goes_by_age_is_the_oldest_and_is_counted(
    log: Any, wrong_by_days: int
) -> None:
    """Five segments of ten pushes: the second by the wrong clock, the last two of the ninth and tenth day."""
    day_ms = 24 * 3_600_000
    reader = log.reader()
    retention = upkeep(log, "otlp")
    for number, (day, wrong) in enumerate(((0, 0), (1, wrong_by_days), (2, 0), (9, 0), (10, 0))):
        writer = log.writer()
        for each in range(10):
            received_at = RECEIVED_AT_US + (day + wrong) * day_ms * 1_000
            writer.append(push_record(10 * number + each, received_at=received_at))
        writer.commit()
        writer.close()
        retention.run(NOW_MS + day * day_ms)
    assert lost(log) == 20, "the third was sealed by the fourth, on the ninth day"
    assert poll_all(reader) == list(range(20, 50))


def test_a_log_that_is_found_after_a_long_time_keeps_everything_until_it_has_seen_the_time_pass(log: Any) -> None:
    """Of pushes that are a year old by the wall clock, the log has seen nothing: the clock may be wrong."""
    reader = log.reader()
    written = log.write(log.writer(), 60)
    a_year_on = NOW_MS + 52 * WEEK_MS
    with closing(upkeep(log, "otlp")) as first:
        assert run_retention(first, log.path, a_year_on).removed == 0
    with closing(upkeep(log, "otlp")) as second:
        assert run_retention(second, log.path, a_year_on + WEEK_MS - 1).removed == 0
    assert poll_all(reader) == written


def test_ages_that_cannot_be_noted_keep_no_segment_from_going_for_its_size(log: Any) -> None:
    (log.path / "ages.db").mkdir(parents=True)
    log.write(log.writer(), 60)
    with capture_logs() as said:
        assert run_retention(upkeep(log, "otlp", retention_bytes=70_000), log.path, NOW_MS).removed > 0
    assert any(entry["event"] == "push_log.ages_unavailable" for entry in said)


def test_an_unreadable_segment_ages_too(log: Any) -> None:
    reader = log.reader()
    log.write(log.writer(), 60)
    make_unreadable(log.segments()[1], removable=True)
    assert run_retention(upkeep(log, "otlp"), log.path, NOW_MS).removed == 0
    assert run_retention(upkeep(log, "otlp"), log.path, NOW_MS + WEEK_MS).removed > 2
    assert log_stats(log.path).damaged_segments == 0
    assert poll_all(reader)[-1] == 60


def test_the_last_pushes_of_a_quiet_log_age_too(log: Any) -> None:
    writer = log.writer()
    log.write(writer, 3)
    log.reader()
    log.time.sleep(log.settings.segment_ms)
    writer.roll_if_due()
    retention = upkeep(log, "otlp")
    retention.run(NOW_MS)
    assert run_retention(retention, log.path, NOW_MS + WEEK_MS).lost_records == {"otlp": 3}


def lost(log: Any) -> int:
    with closing(Cursors(log.path)) as cursors:
        return int(cursors.states()[0].lost_by_retention)


def drop_under_way(log: Any, reader: Any) -> tuple[Any, Any, int]:
    """Of a hundred records four are delivered, and twenty and ten are on their way when most segments go."""
    log.write(log.writer(), 100)
    first, second, third = (poll(reader, max_records=count) for count in (4, 20, 10))
    assert first is not None
    reader.commit(first)
    counted = run_retention(upkeep(log, "otlp", retention_bytes=70_000), log.path, NOW_MS).lost_records["otlp"]
    assert counted > 0
    assert lost(log) == counted
    return second, third, counted


def test_what_was_polled_before_its_segment_went_and_is_delivered_after_all_was_never_counted_as_lost(log: Any) -> None:
    reader = log.reader()
    _, third, counted = drop_under_way(log, reader)
    assert run_retention(upkeep(log, "otlp"), log.path, NOW_MS).lost_records == {}, "it is still on its way"
    reader.commit(third)
    left = poll_all(reader)
    upkeep(log, "otlp").run(NOW_MS)
    state = Cursors(log.path).states()[0]
    assert state.delivered_records == 34 + len(left)
    assert state.lost_by_retention == counted == 100 - 34 - len(left)


@pytest.mark.slow
@pytest.mark.parametrize("end", ["killed", "closed", "closed, and on", "delivered in part"])
def test_what_was_polled_before_its_segment_went_and_is_not_delivered_is_counted_as_lost_then(
    log: Any, end: str
) -> None:
    reader = log.reader()
    second, _, counted = drop_under_way(log, reader)
    missing = 30
    with capture_logs() as said:
        if end == "delivered in part":
            reader.commit(second)
            missing = 10
        if end == "killed":
            log.directory = LogDirectory(log.path)  # the next process
        else:
            reader.close()
        reader = log.reader()
        if end == "closed, and on":
            poll_all(reader)
        upkeep(log, "otlp").run(NOW_MS)
    assert lost(log) == counted + missing
    told = [entry for entry in said if entry["event"] == "push_log.in_flight_records_lost"]
    assert sum(entry["records"] for entry in told) == missing
    poll_all(reader)
    state = Cursors(log.path).states()[0]
    assert state.delivered_records + state.lost_by_retention == 100


def test_what_a_closed_reader_leaves_of_a_deleted_segment_is_lost_also_where_nothing_comes_after_it(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    log.write(writer, 60)
    log.write(writer, 1)  # the head, which is never deleted
    first = poll(reader, max_records=10)
    while poll(reader) is not None:  # up to the head's end
        pass
    upkeep(log, "otlp", retention_bytes=1).run(NOW_MS)
    assert first is not None
    reader.commit(first)
    reader.close()
    reader = log.reader()
    upkeep(log, "otlp", retention_bytes=1).run(NOW_MS)
    assert Cursors(log.path).states()[0].delivered_records == 10
    left = poll_all(reader, commit=False)
    assert lost(log) == 61 - 10 - len(left)


def test_no_count_of_what_is_lost_falls_while_a_batch_is_on_its_way_over_many_drops(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    retention = upkeep(log, "otlp", retention_bytes=70_000)
    counts = [0]
    for _ in range(6):
        log.write(writer, 30)
        batch = poll(reader, max_records=20)
        assert batch is not None
        log.write(writer, 40)
        retention.run(NOW_MS)
        counts.append(lost(log))
        reader.commit(batch)
        counts.append(lost(log))
    poll_all(reader)
    counts.append(lost(log))
    assert counts == sorted(counts)
    assert counts[-1] + Cursors(log.path).states()[0].delivered_records == 6 * 70


def test_the_next_reader_after_a_drop_goes_on_with_what_is_left(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 100)
    poll(reader, max_records=10)
    upkeep(log, "otlp", retention_bytes=70_000).run(NOW_MS)
    reader.close()
    left = poll_all(log.reader())
    assert left == written[-len(left) :]
    state = Cursors(log.path).states()[0]
    assert state.delivered_records + state.lost_by_retention == 100


@pytest.mark.parametrize("bound", ["retention_ms", "retention_bytes"])
def test_damaged_segments_are_set_aside_and_their_files_age_and_count_towards_the_size(log: Any, bound: str) -> None:
    writer = log.writer()
    log.write(writer, 3)
    writer.close()
    writer = log.writer()
    written = log.write(writer, 3)
    (log.path / (log.segments()[0].name + "-wal")).unlink()
    log.segments()[0].write_bytes(b"no database " * 10_000)
    with capture_logs():
        assert run_retention(upkeep(log, "otlp"), log.path, NOW_MS).set_aside == 1
    assert len(list(log.path.glob("*.corrupt"))) >= 1
    assert poll_all(log.reader()) == written
    for path in log.path.glob("*.corrupt"):
        os.utime(path, (0, 0))  # which proves nothing
    upkeep(log, "otlp").run(NOW_MS + WEEK_MS - 1)
    assert len(list(log.path.glob("*.corrupt"))) >= 1
    upkeep(log, "otlp", **{bound: 100_000}).run(NOW_MS + WEEK_MS)
    assert list(log.path.glob("*.corrupt")) == []


def make_unreadable(segment: Path, *, removable: bool) -> Path:
    """As on a disk that does not answer; returns where its file is meanwhile."""
    aside = segment.rename(segment.with_suffix(".aside"))
    if removable:
        segment.symlink_to(segment.parent)
    else:
        segment.mkdir()
    return aside


def test_an_unreadable_segment_holds_up_neither_upkeep_nor_status_and_comes_when_it_can_be_read(log: Any) -> None:
    reader = log.reader()
    written = log.write(log.writer(), 60)
    first, second = log.segments()[:2]
    aside = make_unreadable(second, removable=False)
    batch = poll(reader)
    assert batch is not None
    reader.commit(batch)
    result = run_retention(upkeep(log, "otlp"), log.path, NOW_MS)
    assert (result.removed, first.exists()) == (1, False)
    assert result.checkpointed > 1
    stats = log_stats(log.path)
    assert stats.damaged_segments == 1
    assert 0 < stats.cursors[0].lag.records < 60 - len(batch.records)
    with pytest.raises(PushLogError):
        poll(reader)
    second.rmdir()
    aside.rename(second)
    assert numbers(batch.records) + poll_all(reader) == written


@pytest.mark.parametrize("removable", [True, False])
def test_an_unreadable_segment_does_not_keep_the_log_from_staying_within_its_bytes(log: Any, removable: bool) -> None:
    reader = log.reader()
    written = log.write(log.writer(), 60)
    make_unreadable(log.segments()[1], removable=removable)
    with capture_logs() as said:
        assert run_retention(upkeep(log, "otlp", retention_bytes=30_000), log.path, NOW_MS).removed > 2
    assert log_stats(log.path).damaged_segments == (0 if removable else 1)
    left = poll_all(reader)
    assert left == written[-len(left) :]
    stuck = [entry["segment"] for entry in said if entry["event"] == "push_log.segment_not_deleted"]
    assert stuck == ([] if removable else [2])


def unopened(log: Any) -> int:
    """1 if the next segment is already made."""
    directory = LogDirectory(log.path)
    return len(directory.numbers()) - len(directory.live())
