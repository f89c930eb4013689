"""Several logs read as one: nothing is missed or comes twice, no log keeps another waiting, cursors are exact."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from support.programs.push_log import RecordWriter, at_once, numbers, poll_all, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.embedded.inspect import added_stats, all_stats, holds_pushes
from fleetgauge.push_log.embedded.merged_reader import MergedPushLogReader
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.log import Batch, CursorRevokedError, PushLogError

MANY = 1 << 30


class Logs:
    """Two logs with a writer each, and who reads them as one."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.time = MockTime()
        self.paths = {name: path / name for name in ("one", "other")}
        self._stack = stack
        self.writers = {
            name: stack.enter_context(closing(RecordWriter(small_log(each), self.time, spawn=at_once)))
            for name, each in self.paths.items()
        }

    def write(self, name: str, *wanted: int) -> None:
        for number in wanted:
            self.writers[name].append(push_record(number))
        self.writers[name].commit()

    def reader(self, exporter: str = "otlp") -> MergedPushLogReader:
        readers = {
            name: SqlitePushLogReader(small_log(path), exporter, time=self.time) for name, path in self.paths.items()
        }
        return self._stack.enter_context(closing(MergedPushLogReader(readers, time=self.time)))


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    with ExitStack() as stack:
        yield Logs(tmp_path, stack)


def taken(batch: Batch | None) -> list[int]:
    return [] if batch is None else numbers(batch.records)


def test_everything_comes_once_and_in_the_order_of_each_log(logs: Logs) -> None:
    logs.write("one", 1, 2, 3)
    logs.write("other", 11, 12)
    logs.write("one", 4)
    found = poll_all(logs.reader(), max_records=2)
    assert sorted(found) == [1, 2, 3, 4, 11, 12]
    assert [number for number in found if number < 10] == [1, 2, 3, 4]
    assert [number for number in found if number > 10] == [11, 12]


def test_a_batch_is_of_one_log_and_its_positions_say_of_which(logs: Logs) -> None:
    logs.write("one", 1, 2)
    logs.write("other", 11)
    reader = logs.reader()
    batches = [reader.poll(MANY, 100, 0) for _ in range(2)]
    assert [taken(batch) for batch in batches] == [[1, 2], [11]]
    assert [batch.first_position.split(".")[0] for batch in batches if batch] == ["one", "other"]
    assert reader.poll(MANY, 100, 0) is None


def test_a_committed_batch_moves_the_cursor_of_its_own_log_alone(logs: Logs) -> None:
    logs.write("one", 1, 2)
    logs.write("other", 11)
    reader = logs.reader()
    first = reader.poll(MANY, 100, 0)
    assert first is not None
    assert reader.lag().records == 3
    reader.commit(first)
    assert (reader.lag().records, reader.lag().bytes) == (1, len(push_record(11).metrics))
    assert poll_all(logs.reader()) == [11]


def test_what_was_polled_and_not_committed_comes_again_to_the_next_reader(logs: Logs) -> None:
    logs.write("one", 1)
    logs.write("other", 11)
    reader = logs.reader()
    assert sorted(taken(reader.poll(MANY, 9, 0)) + taken(reader.poll(MANY, 9, 0))) == [1, 11]
    assert sorted(poll_all(logs.reader())) == [1, 11]


def test_a_busy_log_does_not_keep_a_quiet_one_waiting_beyond_the_linger(logs: Logs) -> None:
    logs.write("one", *range(1, 10))
    logs.write("other", 11)
    reader = logs.reader()
    assert taken(reader.poll(MANY, 2, 5_000)) == [
        1,
        2,
    ]  # a whole batch; the other log's push may wait for more
    logs.time.sleep(4_999)
    assert taken(reader.poll(MANY, 2, 5_000)) == [3, 4]
    logs.time.sleep(1)
    assert taken(reader.poll(MANY, 2, 5_000)) == [11]
    assert taken(reader.poll(MANY, 2, 5_000)) == [5, 6]


def test_whole_batches_of_several_logs_come_in_turn(logs: Logs) -> None:
    logs.write("one", 1, 2, 3, 4)
    logs.write("other", 11, 12, 13, 14)
    reader = logs.reader()
    assert [taken(reader.poll(MANY, 2, 60_000)) for _ in range(4)] == [[1, 2], [11, 12], [3, 4], [13, 14]]


def test_a_wakeup_has_all_that_is_there_delivered_without_waiting(logs: Logs) -> None:
    logs.write("other", 11)
    reader = logs.reader()
    reader.wakeup()
    assert taken(reader.poll(MANY, 100, 3_600_000)) == [11]


def test_a_log_that_cannot_be_read_is_told_and_does_not_stop_the_others(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs.write("one", 1)
    logs.write("other", 11)
    reader = logs.reader()

    def fail(*_: object) -> None:
        raise PushLogError("the disk does not answer")

    monkeypatch.setattr(reader._readers["one"], "poll", fail)
    with pytest.raises(PushLogError, match="does not answer"):
        reader.poll(MANY, 100, 0)
    assert taken(reader.poll(MANY, 100, 0)) == [11]
    with pytest.raises(PushLogError, match="does not answer"):
        reader.poll(MANY, 100, 0)


def test_a_later_reader_of_the_same_exporter_takes_every_log_over(logs: Logs) -> None:
    logs.write("one", 1)
    logs.write("other", 11)
    reader = logs.reader()
    polled = [reader.poll(MANY, 100, 0), reader.poll(MANY, 100, 0)]
    logs.reader()
    for batch in polled:
        assert batch is not None
        with pytest.raises(CursorRevokedError):
            reader.commit(batch)


def test_a_log_that_is_not_there_yet_is_read_from_the_moment_it_is(tmp_path: Path) -> None:
    time = MockTime()
    readers = {"worker-1": SqlitePushLogReader(small_log(tmp_path / "later"), "otlp", time=time)}
    with closing(MergedPushLogReader(readers, time=time)) as reader:
        assert reader.poll(MANY, 100, 0) is None
        with closing(RecordWriter(small_log(tmp_path / "later"), time, spawn=at_once)) as writer:
            writer.append(push_record(1))
            writer.commit()
            assert taken(reader.poll(MANY, 100, 0)) == [1]


def test_a_name_that_positions_could_not_be_told_apart_by_is_refused(logs: Logs) -> None:
    for names in ((), ("worker.1",)):
        with pytest.raises(ValueError, match="needs a name"):
            MergedPushLogReader(dict.fromkeys(names), time=logs.time)  # type: ignore[arg-type]


def test_what_the_logs_hold_is_added_up(logs: Logs) -> None:
    logs.write("one", 1, 2, 3)
    logs.write("other", 11)
    poll_all(logs.reader(), max_records=3)
    logs.write("other", 12)
    each = all_stats(logs.paths)
    both = added_stats(tuple(each.values()))
    assert (both.records, both.segments) == (5, 2)
    assert both.disk_bytes == sum(stats.disk_bytes for stats in each.values())
    assert (both.oldest_received_at, both.newest_received_at) == (
        push_record(1).received_at,
        push_record(12).received_at,
    )
    (entry,) = both.cursors
    assert (entry.cursor.exporter, entry.cursor.delivered_records, entry.lag.records) == ("otlp", 4, 1)
    assert entry.lag.oldest_received_at == push_record(12).received_at


def test_an_empty_log_and_none_hold_no_pushes(logs: Logs, tmp_path: Path) -> None:
    assert not holds_pushes(logs.paths["one"])
    assert not holds_pushes(tmp_path / "nowhere")
    logs.write("one", 1)
    assert holds_pushes(logs.paths["one"])
