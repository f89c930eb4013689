"""What is acknowledged is in the log, whole and in order; what fails is not."""

import gzip
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import lz4.frame
import pytest
from support.programs.push_log import at_once, poll, poll_all, push_record, small_log, zstd

from fleetgauge.push_log.embedded import free_space
from fleetgauge.push_log.embedded.segment import SegmentCorruptError
from fleetgauge.push_log.embedded.settings import PushLogSettings
from fleetgauge.push_log.embedded.supply import in_thread
from fleetgauge.push_log.log import PushLogError, PushLogFullError, PushLogLockedError


def test_a_record_comes_back_as_it_was_appended(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    sent = [
        push_record(1, terminating=True),
        push_record(2, subscription_id=None, push_interval_ms=None, client_source_port=None, compression_type=None),
        push_record(3, b"", payload_bytes=0),
        push_record(4, client_id="m\u00fcller \U0001f680 \x00 '", client_software_name=""),
    ]
    for record in sent:
        writer.append(record)
    assert writer.commit() == 4
    batch = poll(reader)
    assert batch is not None
    assert list(batch.records) == sent
    assert type(batch.records[0].terminating) is bool


@pytest.mark.parametrize(
    ("codec", "encode"),
    [("zstd", zstd), ("gzip", gzip.compress), ("lz4", lz4.frame.compress)],
)
def test_a_payload_is_kept_compressed_and_comes_back_plain(
    log: Any, codec: str, encode: Callable[[bytes], bytes]
) -> None:
    writer, reader = log.writer(), log.reader()
    metrics = b"the same again, " * 1_000
    writer.append(push_record(1, metrics, compression_type=codec), encode(metrics))
    writer.commit()
    [stored] = apsw.Connection(str(log.segments()[0])).execute("SELECT length(metrics) FROM pushes").fetchall()
    assert int(str(stored[0])) < 1_000
    batch = poll(reader)
    assert batch is not None
    assert batch.records[0].metrics == metrics
    assert batch.size_bytes == 16_000


def test_a_payload_that_compression_made_longer_is_kept_plainly(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    writer.append(push_record(1, b"short", compression_type="gzip"), b"never a gzip, and longer than the metrics")
    writer.commit()
    batch = poll(reader)
    assert batch is not None
    assert batch.records[0].metrics == b"short"


def test_nothing_is_in_the_log_before_its_commit(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    writer.append(push_record(1))
    assert writer.pending == 1
    assert poll(reader) is None
    assert writer.commit() == 1
    assert writer.pending == 0
    assert poll_all(reader) == [1]
    assert writer.commit() == 0


def test_a_failed_commit_leaves_none_of_its_records_and_the_next_one_works(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    writer.append(push_record(1))
    writer.append(push_record(2, client_id="\ud800 is not UTF-8"))
    with pytest.raises(PushLogError, match="cannot be stored"):
        writer.commit()
    assert writer.pending == 0
    writer.append(push_record(3))
    assert writer.commit() == 1
    assert poll_all(reader) == [3]


def test_a_second_writer_is_refused_with_the_first_ones_process_named(log: Any) -> None:
    first = log.writer()
    with pytest.raises(PushLogLockedError, match=f"process {os.getpid()}"):
        log.writer()
    first.close()
    log.writer()


def test_a_directory_that_cannot_be_made_is_named(log: Any) -> None:
    log.path.write_text("a file is in the way")
    with pytest.raises(PushLogError, match=str(log.path)):
        log.writer()


def test_a_full_head_is_followed_by_the_next_segment_and_order_stays(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 60)
    assert len(log.segments()) > 3
    assert poll_all(reader) == written


def test_the_head_grows_on_while_the_next_segment_is_not_ready(log: Any) -> None:
    waiting: list[Callable[[], None]] = []

    def later(work: Callable[[], None]) -> Callable[[], None]:
        waiting.append(work)
        return lambda: None

    writer, reader = log.writer(spawn=later), log.reader()
    written = log.write(writer, 60)
    assert len(log.segments()) == 1
    assert len(waiting) == 1
    waiting.pop()()
    written += log.write(writer, 1)
    assert len(log.segments()) == 2
    assert poll_all(reader) == written


def test_a_thread_that_the_system_refuses_is_asked_for_again_and_the_log_goes_on(log: Any) -> None:
    refusals = [RuntimeError("can't start new thread")]

    def spawn(work: Callable[[], None]) -> Callable[[], None]:
        if refusals:
            raise refusals.pop()
        return at_once(work)

    writer, reader = log.writer(spawn=spawn), log.reader()
    written = log.write(writer, 60)
    log.time.sleep(60_000)
    written += log.write(writer, 60)
    assert refusals == []
    assert writer.counters()["segments_begun"] > 1
    assert poll_all(reader) == written


def test_an_hour_old_head_is_sealed_even_when_nothing_more_comes(log: Any) -> None:
    writer = log.writer()
    log.write(writer, 1)
    log.time.sleep(log.settings.segment_ms - 1)
    writer.roll_if_due()
    assert writer.counters()["segments_begun"] == 1
    log.time.sleep(1)
    writer.roll_if_due()
    assert writer.counters()["segments_begun"] == 2


def test_a_head_without_records_does_not_age(log: Any) -> None:
    writer = log.writer()
    log.time.sleep(10 * log.settings.segment_ms)
    writer.roll_if_due()
    assert writer.counters()["segments_begun"] == 1


def test_a_start_clears_what_belongs_to_no_segment_and_nothing_else(log: Any) -> None:
    writer = log.writer()
    written = log.write(writer, 2)
    writer.close()
    kept = {path.name for path in log.path.iterdir()}
    assert any(name.endswith("-wal") for name in kept)
    for end in ("7.sqlite-wal", "7.sqlite-shm", "8.sqlite.new", "8.sqlite.new-journal"):
        (log.path / end.zfill(20 + len(end) - 1)).touch()
    log.writer()
    found = {path.name for path in log.path.iterdir()}
    assert kept <= found
    assert all("00007." not in name and "00008." not in name for name in found)
    assert poll_all(log.reader()) == written


def test_restarts_without_pushes_leave_no_files_behind(log: Any) -> None:
    for _ in range(5):
        log.writer().close()
    assert len(log.segments()) == 1


def test_numbers_are_never_used_again(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    log.write(writer, 60)
    poll_all(reader)
    writer.close()
    last = log.segments()[-1].name
    for path in log.path.glob("*.sqlite*"):
        path.unlink()
    writer = log.writer()
    assert log.segments()[0].name > last
    assert log.write(writer, 1) == poll_all(reader)


def test_damaged_cursors_do_not_keep_the_node_from_starting(log: Any) -> None:
    writer, reader = log.writer(), log.reader()
    written = log.write(writer, 2)
    poll_all(reader)
    reader.close()
    writer.close()
    (log.path / "cursors.db").write_bytes(b"no database at all " * 500)
    log.writer()
    assert poll_all(log.reader()) == written


def test_pushes_are_refused_below_the_free_space_and_taken_again_above_it(
    log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [99]
    looks = []

    def look(_path: object) -> int:
        looks.append(free[0])
        return free[0]

    monkeypatch.setattr(free_space, "free_bytes", look)
    writer, reader = log.writer(small_log(log.path, min_free_bytes=100)), log.reader()
    for _ in range(3):
        writer.append(push_record(1))
        with pytest.raises(PushLogFullError, match=r"push\.log\.min\.free\.bytes"):
            writer.commit()
    assert len(looks) == 1
    free[0] = 100
    log.time.sleep(1_000)
    assert log.write(writer, 1) == poll_all(reader)
    assert len(looks) == 2


@pytest.mark.parametrize("comes_back", [False, True])
def test_after_the_logs_directory_was_removed_no_push_is_acknowledged_into_files_that_nobody_can_read(
    log: Any, comes_back: bool
) -> None:
    writer = log.writer()
    log.write(writer, 1)
    shutil.rmtree(log.path)
    log.time.sleep(1_000)
    for _ in range(5):
        writer.append(push_record(2))
        with pytest.raises(PushLogError, match="removed or replaced while the node runs; start the node again"):
            writer.commit()
        if comes_back:
            log.path.mkdir(exist_ok=True)


@pytest.mark.replaces
def test_a_damaged_head_is_left_and_pushes_go_on_in_a_new_segment(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = log.writer()
    log.write(writer, 3)

    def fail(*_: object) -> None:
        raise SegmentCorruptError("the database disk image is damaged")

    monkeypatch.setattr(writer.log._head, "write", fail)
    writer.append(push_record(99))
    with pytest.raises(PushLogError, match="damaged"):
        writer.commit()
    reader = log.reader()
    written = log.write(writer, 1)
    assert poll_all(reader) == [1, 2, 3, *written]


@pytest.mark.parametrize(
    "wrong", [{"segment_bytes": 0}, {"retention_ms": -1}, {"min_free_bytes": -1}, {"flush": "sometimes"}]
)
def test_senseless_settings_are_refused_by_name(log: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PushLogSettings(dir=log.path, **wrong)


def test_flush_fsync_writes_and_reads_the_same(log: Any) -> None:
    writer, reader = log.writer(small_log(log.path, flush="fsync")), log.reader()
    assert log.write(writer, 30, per_commit=3) == poll_all(reader)


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_a_segment_is_on_the_disk_before_it_has_its_name_and_the_loop_does_not_wait_for_it(
    log: Any, flush: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name without the bytes, as a loss of power may leave it, would be a damaged segment."""
    synced: list[tuple[str, str]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        real(descriptor)
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, threading.current_thread().name))

    monkeypatch.setattr(os, "fsync", fsync)
    writer = log.writer(small_log(log.path, flush=flush), spawn=in_thread)
    first = threading.current_thread().name
    assert synced == [("00000000000000000001.sqlite.new", first), ("push-log", first)]
    for _ in range(9):
        log.write(writer, 1)
        writer.log._supply._wait and writer.log._supply._wait()
    assert synced[2:] == [("00000000000000000002.sqlite.new", "push-log-prepare"), ("push-log", "push-log-prepare")]


class SyncedFile(apsw.VFSFile):
    """A file of SQLite's that says when it was synced."""

    def __init__(self, synced: list[str], name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._synced = synced
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else str(name)).name

    def xSync(self, flags: int) -> None:  # noqa: N802  SQLite's name
        super().xSync(flags)
        self._synced.append(self._name)


class SyncedFiles(apsw.VFS):
    """The file system as SQLite sees it, which says what was synced."""

    def __init__(self) -> None:
        super().__init__("synced files", "unix", makedefault=True)
        self.synced: list[str] = []

    def xOpen(self, name: Any, flags: list[int]) -> SyncedFile:  # noqa: N802  SQLite's name
        return SyncedFile(self.synced, name, flags)


@pytest.mark.parametrize("flush", ["os", "fsync"])
def test_flush_fsync_syncs_every_commit_and_flush_os_none(log: Any, flush: str) -> None:
    files = SyncedFiles()
    try:
        writer = log.writer(small_log(log.path, flush=flush))
        files.synced.clear()
        log.write(writer, 5)
        assert files.synced == (["00000000000000000001.sqlite-wal"] * 5 if flush == "fsync" else [])
        writer.close()
    finally:
        files.unregister()
