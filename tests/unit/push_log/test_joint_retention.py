"""Several logs within one bound: the oldest of all goes first, and a log that nobody writes goes in the end."""

from contextlib import closing
from pathlib import Path

import pytest
from support.programs.push_log import RECEIVED_AT_US, RecordWriter, at_once, numbers, push_record, small_log

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.embedded.directory import LogDirectory
from fleetgauge.push_log.embedded.inspect import added_stats, all_stats, holds_pushes, records_after
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from fleetgauge.push_log.embedded.retention.joint_retention import JointRetention
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.log import PushLogError

NOW_MS = RECEIVED_AT_US // 1_000
EXPORTERS = ("otlp",)


def write(path: Path, *wanted: int, size: int = 5_000) -> None:
    """Records in a log that is closed again."""
    with closing(RecordWriter(small_log(path), MockTime(), spawn=at_once)) as writer:
        for number in wanted:
            writer.append(push_record(number, b"m" * size))
            writer.commit()


def deliver(path: Path) -> None:
    with closing(SqlitePushLogReader(small_log(path), "otlp", time=MockTime())) as reader:
        while (batch := reader.poll(1 << 30, 1_000, 0)) is not None:
            reader.commit(batch)


def deliver_nothing(path: Path) -> None:
    SqlitePushLogReader(small_log(path), "otlp", time=MockTime()).close()


def left(path: Path) -> list[int]:
    return numbers([record for _, record in records_after(path)])


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Path]:
    return {"one": tmp_path / "one", "other": tmp_path / "other"}


def retention(paths: dict[str, Path], *abandoned: str, **settings: int) -> JointRetention:
    chosen = PushLogSettings(**{"dir": paths["one"], "min_free_bytes": 0, **settings})  # type: ignore[arg-type]
    directories = {name: LogDirectory(path) for name, path in paths.items()}
    return JointRetention(chosen, directories, abandoned, EXPORTERS, time=MockTime())


def test_beyond_the_bound_the_oldest_segments_of_all_logs_go_and_are_counted(paths: dict[str, Path]) -> None:
    for first in (1, 101, 201):
        write(paths["one"], *range(first, first + 5))
        write(paths["other"], *range(first + 50, first + 55))
    for path in paths.values():
        deliver_nothing(path)
    whole = sum(LogDirectory(path).disk_bytes(n) for path in paths.values() for n in LogDirectory(path).numbers())
    with closing(retention(paths, retention_bytes=whole)) as keeper:
        keeper.run(NOW_MS)
    assert len(left(paths["one"])) == len(left(paths["other"])) == 15
    size = added_stats(tuple(all_stats(paths).values())).disk_bytes  # folded in by now
    with closing(retention(paths, retention_bytes=size - 1)) as keeper:
        keeper.run(NOW_MS)
    lost = 15 - len(left(paths["one"]))
    assert 0 < lost <= 5  # the oldest segment of all was this log's
    assert len(left(paths["other"])) == 15
    (entry,) = added_stats(tuple(all_stats(paths).values())).cursors
    assert entry.cursor.lost_by_retention == lost


def test_the_bound_is_for_all_logs_so_that_one_may_use_what_another_leaves(paths: dict[str, Path]) -> None:
    write(paths["one"], *range(1, 40))
    write(paths["other"], 50)
    sizes = {name: stats.disk_bytes for name, stats in all_stats(paths).items()}
    assert sizes["one"] > 2 * sizes["other"]
    with closing(retention(paths, retention_bytes=sum(sizes.values()))) as keeper:
        keeper.run(NOW_MS)
    assert left(paths["one"]) == list(range(1, 40))


def test_an_abandoned_log_is_kept_until_it_is_delivered_and_then_goes_whole(paths: dict[str, Path]) -> None:
    write(paths["one"], 1, 2)
    write(paths["other"], 11)
    with closing(retention(paths, "one")) as keeper:
        keeper.run(NOW_MS)
        assert (left(paths["one"]), left(paths["other"])) == ([1, 2], [11])
        deliver(paths["one"])
        deliver(paths["other"])
        keeper.run(NOW_MS)
    assert not holds_pushes(paths["one"])
    assert left(paths["other"]) == [11]  # the newest segment of a log that is written stays


def test_an_abandoned_log_that_nobody_takes_goes_with_its_age_and_is_counted(paths: dict[str, Path]) -> None:
    write(paths["one"], 1, 2)
    deliver_nothing(paths["one"])
    with closing(retention(paths, "one", retention_ms=1_000)) as keeper:
        keeper.run(NOW_MS + 500)
        assert left(paths["one"]) == [1, 2]
        keeper.run(NOW_MS + 2_000)
    (entry,) = all_stats(paths)["one"].cursors
    assert (left(paths["one"]), entry.cursor.lost_by_retention) == ([], 2)


def test_a_log_whose_writer_is_about_to_end_is_sealed_when_it_has(paths: dict[str, Path]) -> None:
    write(paths["other"], 11)
    with closing(retention(paths, "one")) as keeper:
        with closing(RecordWriter(small_log(paths["one"]), MockTime(), spawn=at_once)) as writer:
            writer.append(push_record(1))
            writer.commit()
            keeper.run(NOW_MS)
            writer.append(push_record(2))
            writer.commit()
        deliver(paths["one"])
        keeper.run(NOW_MS)
    assert not holds_pushes(paths["one"])


def test_a_log_that_cannot_be_kept_does_not_stop_the_upkeep_of_the_others(
    paths: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(paths["one"], 1)
    write(paths["other"], 11)
    deliver(paths["other"])

    def fail(_: int) -> None:
        raise PushLogError("the disk does not answer")

    with closing(retention(paths, "one", "other")) as keeper:
        monkeypatch.setattr(keeper._logs["one"], "run", fail)
        with pytest.raises(PushLogError, match="does not answer"):
            keeper.run(NOW_MS)
    assert not holds_pushes(paths["other"])
