"""The cursor over embedded logs."""

from pathlib import Path

import pytest
from support.programs.push_log import RECEIVED_AT_US, RecordWriter, at_once, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.console.state.source import LOOKBACK_US, EmbeddedSource
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.push_log.embedded.directory import LogDirectory

SECOND_US = 1_000_000
NOW_US = RECEIVED_AT_US + 2 * LOOKBACK_US


@pytest.fixture
def clock() -> MockTime:
    return MockTime(wall_ms=NOW_US // 1_000)


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return DataDirectory(tmp_path)


def fill(path: Path, numbers: range, *, at_us: int = NOW_US, step_us: int = 0) -> RecordWriter:
    """A log of one commit a record, in segments of some."""
    writer = RecordWriter(small_log(path), spawn=at_once)
    for place, number in enumerate(numbers):
        writer.append(push_record(number, b"m" * 2_000, received_at=at_us + place * step_us))
        writer.commit()
        writer.roll_if_due()
    return writer


def read(source: EmbeddedSource, polls: int = 100, size: int = 7) -> list[int]:
    found = []
    for _ in range(polls):
        found += [int(push.record.push_id, 16) for push in source.poll(size).pushes]
    return found


def test_every_push_of_all_segments_is_read_once_in_order(data: DataDirectory, clock: MockTime) -> None:
    writer = fill(data.push_log, range(120))
    source = EmbeddedSource(data, clock)
    assert len(LogDirectory(data.push_log).live()) > 2
    assert read(source) == list(range(120))
    writer.append(push_record(120, received_at=NOW_US))
    writer.commit()
    polled = source.poll(10)
    assert [push.record.client_id for push in polled.pushes] == ["client-120"]
    assert polled.at_end == {0: clock.microseconds()}
    assert source.skipped == 0
    source.close()


@pytest.mark.parametrize("step_s", [1, 60, 300])
def test_it_begins_an_hour_back(data: DataDirectory, clock: MockTime, step_s: int) -> None:
    fill(data.push_log, range(100), at_us=NOW_US - 100 * step_s * SECOND_US, step_us=step_s * SECOND_US)
    first = max(0, 100 - 3_600 // step_s)
    assert read(EmbeddedSource(data, clock)) == list(range(first, 100))


def test_what_retention_deletes_under_the_cursor_is_passed_over(data: DataDirectory, clock: MockTime) -> None:
    fill(data.push_log, range(120))
    source = EmbeddedSource(data, clock)
    first = read(source, polls=1, size=3)
    directory = LogDirectory(data.push_log)
    for number in directory.live()[:-2]:
        directory.remove(number)
    rest = read(source)
    assert first == [0, 1, 2]
    assert rest == list(range(120 - len(rest), 120))
    assert source.skipped > 0
    assert not source.notices


def test_a_damaged_segment_is_passed_over(data: DataDirectory, clock: MockTime) -> None:
    fill(data.push_log, range(120)).close()
    directory = LogDirectory(data.push_log)
    damaged = directory.live()[1]
    directory.segment(damaged).write_bytes(b"no database " * 1_000)
    Path(f"{directory.segment(damaged)}-wal").unlink(missing_ok=True)
    found = read(EmbeddedSource(data, clock))
    assert found[0] == 0
    assert found[-1] == 119
    assert 0 < len(found) < 120


def test_the_logs_of_workers_are_read_also_those_that_appear_later(data: DataDirectory, clock: MockTime) -> None:
    fill(data.worker(1).push_log, range(5))
    source = EmbeddedSource(data, clock)
    assert read(source) == [0, 1, 2, 3, 4]
    fill(data.worker(2).push_log, range(5, 8))
    clock.sleep(10_000)
    assert read(source) == [5, 6, 7]
    assert set(source.poll(1).at_end) == {1, 2}


def test_without_a_log_it_says_so_and_goes_on(data: DataDirectory, clock: MockTime) -> None:
    source = EmbeddedSource(data, clock)
    assert source.poll(10).pushes == []
    assert source.notices == [f"There is no push log in {data.root} yet: no node has run with this log.dirs."]
    fill(data.push_log, range(2))
    clock.sleep(10_000)
    assert read(source) == [0, 1]
    assert source.notices == []


def test_it_leaves_no_trace_in_the_log(data: DataDirectory, clock: MockTime) -> None:
    writer = fill(data.push_log, range(20))
    writer.close()
    before = sorted((path.name, path.stat().st_size) for path in data.push_log.iterdir() if path.suffix == ".sqlite")
    source = EmbeddedSource(data, clock)
    read(source)
    source.close()
    after = sorted((path.name, path.stat().st_size) for path in data.push_log.iterdir() if path.suffix == ".sqlite")
    assert before == after
    assert not (data.push_log / "cursors.sqlite").exists()
