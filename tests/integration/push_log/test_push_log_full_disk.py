"""A disk that is really full: pushes are refused with the reason, nothing breaks, and service resumes with room."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.programs.push_log import RecordWriter, at_once, poll_all, push_record, small_log
from support.small_disk import fill_up, small_disk

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.embedded.inspect import log_stats
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.retention import Retention
from fleetgauge.push_log.log import PushLogFullError

pytestmark = pytest.mark.integration

DISK_BYTES = 2 * 1024 * 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", DISK_BYTES) as path:
        yield path


def fill(
    writer: RecordWriter, first: int, metrics_bytes: int = 2_000, clock: MockTime | None = None
) -> tuple[list[int], PushLogFullError]:
    """Commits one record after the other until there is no room; returns those that are in."""
    written: list[int] = []
    for number in range(first, first + 10_000):
        writer.append(push_record(number, b"x" * metrics_bytes))
        try:
            writer.commit()
        except PushLogFullError as error:
            return written, error
        written.append(number)
        if clock is not None:
            clock.sleep(1_000)
    pytest.fail("2 MiB took more than 10,000 records")


def test_pushes_are_refused_on_a_full_disk_and_taken_when_there_is_room_again(disk: Path) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * 1024 * 1024)
    settings = small_log(disk / "log", segment_bytes=300_000)
    # The next segment is made at once and not in a thread, whose failure would give room back at a time of its own.
    writer_opened = closing(RecordWriter(settings, spawn=at_once))
    with writer_opened as writer, closing(SqlitePushLogReader(settings, "otlp")) as reader:
        written, error = fill(writer, 1)
        assert "space" in str(error)
        assert str(disk) in str(error)
        again, _ = fill(writer, 5_000, metrics_bytes=1)
        for number in range(8_000, 8_020):
            writer.append(push_record(number))
            with pytest.raises(PushLogFullError):
                writer.commit()
        ballast.unlink()
        later, _ = fill(writer, 10_000)
        assert len(later) > 50
        assert poll_all(reader, commit=False) == [*written, *again, *later]
    assert log_stats(settings.dir).damaged_segments == 0


def test_what_exporters_have_passed_makes_room_on_a_full_disk(disk: Path) -> None:
    settings = small_log(disk / "log", segment_bytes=300_000)
    writer_opened = closing(RecordWriter(settings, spawn=at_once))
    with writer_opened as writer, closing(SqlitePushLogReader(settings, "otlp")) as reader:
        written, _ = fill(writer, 1)
        with closing(Retention(settings, ["otlp"])) as upkeep:
            assert poll_all(reader) == written
            segments = len(list(settings.dir.glob("*.sqlite")))
            upkeep.run(1_750_000_000_000)
            assert len(list(settings.dir.glob("*.sqlite"))) < segments
            later, _ = fill(writer, 10_000)
            assert poll_all(reader) == later


def test_both_processes_start_on_a_full_disk_and_make_room(disk: Path) -> None:
    settings = small_log(disk / "log", segment_bytes=300_000)
    with closing(RecordWriter(settings)) as writer, closing(SqlitePushLogReader(settings, "otlp")):
        written, _ = fill(writer, 1)
    ballast = fill_up(disk)
    clock = MockTime()
    files_before = len(list(settings.dir.glob("*")))
    with closing(RecordWriter(settings, clock, spawn=at_once)) as writer:
        for _ in range(5):
            clock.sleep(1_000)
            writer.append(push_record(9_000))
            with pytest.raises(PushLogFullError, match=r"free (some )?space"):
                writer.commit()
        assert len(list(settings.dir.glob("*"))) == files_before
        with closing(SqlitePushLogReader(settings, "otlp")) as reader:
            assert poll_all(reader) == written
            ballast.unlink()
            clock.sleep(1_000)
            later, _ = fill(writer, 10_000)
            assert poll_all(reader) == later


def test_free_space_is_left_to_others(disk: Path) -> None:
    clock = MockTime()
    settings = small_log(disk / "log", min_free_bytes=1024 * 1024)
    with closing(RecordWriter(settings, clock)) as writer:
        written, error = fill(writer, 1, clock=clock)
        assert "less than push.log.min.free.bytes (1.0 MiB)" in str(error)
        assert len(written) > 50
        assert shutil.disk_usage(disk).free > 900_000
