"""The landing zone on a real disk, read back as Spark's readers read it."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pytest
from pyarrow import dataset, fs
from pyarrow import parquet as pq
from support.programs.delivery import PATIENCE_MS, Delivery, real_records
from support.programs.push_log import push_record
from support.waiting import PATIENCE_S

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.exporter import Delivered, Refused, Retry
from fleetgauge.exporters.landing.exporter import LandingExporter, LandingSettings, landing_exporter, partition_of
from fleetgauge.exporters.landing.remote_storage import RemoteStorage
from fleetgauge.exporters.landing.schema import LANDING_SCHEMA
from fleetgauge.exporters.landing.storage import WRITING, LocalStorage
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushIds, PushRecord

pytestmark = pytest.mark.integration

HOUR_US = 3_600_000_000
T0 = 1_699_999_200_000_000
"""2023-11-14 22:00:00 UTC [us]."""
RECORD = PushRecord(
    push_id="", received_at=T0, receiver_node_id=7, cluster_id="c", listener="PLAINTEXT",
    client_instance_id="Tm-1TLjmRReIm-FbmcCcIA", client_id="orders", client_software_name="librdkafka",
    client_software_version="2.16.0", client_source_address="10.0.0.1", client_source_port=1, principal="User:ä",
    subscription_id=-5, push_interval_ms=1_000, terminating=True, compression_type="zstd", payload_bytes=9,
    schema_version=1, metrics=b"\x0a\x00",
)  # fmt: skip
PLUGIN_RECORD = RECORD._replace(
    client_source_port=None, subscription_id=None, push_interval_ms=None, compression_type=None, payload_bytes=None,
    metrics=b"",
)  # fmt: skip


def pushes(count: int, *, every_us: int = 1_000_000, start: int = T0) -> tuple[PushRecord, ...]:
    ids = PushIds(writer=1)
    times = [start + number * every_us for number in range(count)]
    return tuple(RECORD._replace(push_id=ids.next_id(at), received_at=at) for at in times)


def batch_of(records: tuple[PushRecord, ...], first: int = 1) -> Batch:
    return Batch(
        exporter="landing", records=records, size_bytes=1,
        first_position=f"{1:020d}-{first:010d}", last_position=f"{1:020d}-{first + len(records) - 1:010d}",
    )  # fmt: skip


def landing(root: Path) -> LandingExporter:
    return landing_exporter("landing", {"path": str(root), "writer.id": "node-7"})


def rows(root: Path) -> list[dict[str, object]]:
    found = dataset.dataset(root, format="parquet", partitioning="hive").to_table().sort_by("push_id")
    return found.to_pylist()


def visible(root: Path) -> list[Path]:
    """Files that Spark would read: nothing below a folder or with a name that begins with `_` or `.`."""
    files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return [path for path in files if not any(part[0] in "_." for part in path.parts)]


def sizes(root: Path) -> list[int]:
    """Rows of each file, in the order of their names."""
    return [pq.ParquetFile(root / path).metadata.num_rows for path in visible(root)]


def test_every_field_comes_back_as_it_was_pushed(tmp_path: Path) -> None:
    records = (RECORD._replace(push_id="0" * 32), PLUGIN_RECORD._replace(push_id="1" * 32))
    assert landing(tmp_path).export(batch_of(records)) == Delivered()
    for row, record in zip(rows(tmp_path), records, strict=True):
        expected = {**record._asdict(), "date": "2023-11-14", "hour": 22}
        received_at = row.pop("received_at")
        assert received_at.timestamp() * 1_000_000 == expected.pop("received_at")  # type: ignore[attr-defined]
        assert row == expected


def test_columns_are_the_push_records_fields_in_their_order() -> None:
    assert tuple(LANDING_SCHEMA.names) == PushRecord._fields


def test_pushes_lie_under_the_hour_in_which_they_were_received(tmp_path: Path) -> None:
    landing(tmp_path).export(batch_of(pushes(4, every_us=HOUR_US)))
    assert [str(path.parent) for path in visible(tmp_path)] == [
        "date=2023-11-14/hour=22", "date=2023-11-14/hour=23", "date=2023-11-15/hour=00", "date=2023-11-15/hour=01",
    ]  # fmt: skip
    assert partition_of(T0 + HOUR_US - 1) == "date=2023-11-14/hour=22"


def test_a_batch_within_an_hour_is_one_file_and_names_sort_as_the_log(tmp_path: Path) -> None:
    exporter = landing(tmp_path)
    for first in (1, 90, 100, 1_000, 20_000):
        exporter.export(batch_of(pushes(3, start=T0 + first), first))
    files = visible(tmp_path)
    assert [int(path.name.split("_")[0].rsplit("-", 1)[1]) for path in files] == [1, 90, 100, 1_000, 20_000]
    assert len(rows(tmp_path)) == 15


def test_a_batch_that_is_delivered_again_gives_no_second_copy(tmp_path: Path) -> None:
    batch = batch_of(pushes(10, every_us=HOUR_US // 4))
    landing(tmp_path).export(batch)
    files = visible(tmp_path)
    landing(tmp_path).export(batch)
    assert visible(tmp_path) == files
    assert len(rows(tmp_path)) == 10


def test_what_was_written_before_a_crash_is_not_written_again_though_the_batch_has_grown(tmp_path: Path) -> None:
    everything = pushes(40, every_us=HOUR_US // 8)
    landing(tmp_path).export(batch_of(everything[:20]))  # and the process dies before the cursor moves
    assert landing(tmp_path).export(batch_of(everything[:33])) == Delivered()
    landing(tmp_path).export(batch_of(everything[33:], first=34))
    assert [row["push_id"] for row in rows(tmp_path)] == [push.push_id for push in everything]


def test_what_was_written_before_a_crash_is_not_written_again_though_batches_are_smaller_now(tmp_path: Path) -> None:
    everything = pushes(40, every_us=HOUR_US // 8)
    landing(tmp_path).export(batch_of(everything[:35]))
    exporter = landing(tmp_path)
    for start in range(0, 40, 3):
        exporter.export(batch_of(everything[start : start + 3], first=start + 1))
    assert [row["push_id"] for row in rows(tmp_path)] == [push.push_id for push in everything]


@pytest.mark.parametrize("log", ["", "worker-1."])
def test_nothing_is_written_again_though_a_second_crash_comes_while_smaller_batches_pass_a_file(
    tmp_path: Path, log: str
) -> None:
    def batch(start: int, stop: int) -> Batch:
        found = batch_of(everything[start:stop], first=start + 1)
        return replace(found, first_position=log + found.first_position, last_position=log + found.last_position)

    everything = pushes(40, every_us=HOUR_US // 8)
    landing(tmp_path).export(batch(0, 35))
    exporter = landing(tmp_path)
    for start in range(0, 12, 3):
        exporter.export(batch(start, start + 3))
    again = landing(tmp_path)
    for start in range(12, 40, 3):
        again.export(batch(start, start + 3))
    assert [row["push_id"] for row in rows(tmp_path)] == [push.push_id for push in everything]


@pytest.mark.parametrize("damaged", [lambda _: b"PAR1 and no more", lambda whole: whole[:4] + bytes(200) + whole[204:]])
def test_a_file_that_cannot_be_read_is_no_reason_to_leave_pushes_out(
    tmp_path: Path, damaged: Callable[[bytes], bytes]
) -> None:
    exporter = landing(tmp_path)
    exporter.export(batch_of(pushes(5)))
    [file] = visible(tmp_path)
    (tmp_path / file).write_bytes(damaged((tmp_path / file).read_bytes()))
    exporter.export(batch_of(pushes(5)))
    assert len(rows(tmp_path)) == 5


def test_a_file_is_closed_when_it_is_full_and_what_fills_none_waits_for_its_time_or_for_a_stop(tmp_path: Path) -> None:
    zone = tmp_path / "zone"
    records = [push_record(number, os.urandom(10_000)) for number in range(25)]
    keys = {"type": "landing", "path": str(zone), "batch.max.bytes": 100_000, "linger.ms": 3_600_000}
    with Delivery(tmp_path, **keys) as delivery:
        delivery.push(*records)
        delivery.wait(lambda stats: stats.delivered_records >= 20, "two full files")
        assert sizes(zone) == [10, 10]
        assert delivery.pipeline.stop(PATIENCE_MS)
    assert sizes(zone) == [10, 10, 5]
    assert [row["push_id"] for row in rows(zone)] == [record.push_id for record in records]


KILLED_BEFORE_COMMIT = """
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from fleetgauge.push_log.embedded.reader import SqlitePushLogReader
from support.programs.delivery import Delivery, real_records
from support.programs.push_log import push_record
SqlitePushLogReader.commit = lambda self, batch: os.kill(os.getpid(), 9)
with Delivery(Path({root!r}), type="landing", path={zone!r}, linger__ms=1) as delivery:
    delivery.push(*real_records(50))
    delivery.wait_delivered()
"""


def test_every_push_lands_once_though_the_exporter_is_killed_before_its_cursor_moves(tmp_path: Path) -> None:
    zone = tmp_path / "zone"
    script = KILLED_BEFORE_COMMIT.format(path=sys.path, root=str(tmp_path), zone=str(zone))
    assert subprocess.run([sys.executable, "-c", script], timeout=PATIENCE_S, check=False).returncode == -9
    assert len(rows(zone)) == 50
    with Delivery(tmp_path, type="landing", path=str(zone), linger__ms=1) as delivery:
        delivery.push(*real_records(70, start=50))
        delivery.wait_delivered()
        assert delivery.stats().delivered_records == 120
    assert [row["push_id"] for row in rows(zone)] == [record.push_id for record in real_records(120)]


def test_hours_that_ended_longer_ago_than_retention_are_removed_and_counted_and_nothing_else_is(
    tmp_path: Path,
) -> None:
    landing(tmp_path).export(batch_of(pushes(6, every_us=HOUR_US)))
    foreign = tmp_path / "date=2023-11-14" / "hour=22" / "compacted.parquet"
    foreign.write_bytes(b"x")
    (tmp_path / "date=yesterday" / "hour=22").mkdir(parents=True)
    clock = MockTime(wall_ms=(T0 + 5 * HOUR_US) // 1_000)  # the hours 22 to 01 have ended two hours ago and more
    settings = LandingSettings(path=str(tmp_path), writer="node-7", retention_ms=2 * 3_600_000)
    exporter = LandingExporter("landing", settings, time=clock)
    new = pushes(1, start=T0 + 5 * HOUR_US)
    assert exporter.export(batch_of(new, first=7)) == Delivered()
    left = [str(path.parent) for path in visible(tmp_path)]
    assert left == [
        "date=2023-11-14/hour=22",
        "date=2023-11-15/hour=01",
        "date=2023-11-15/hour=02",
        "date=2023-11-15/hour=03",
        "date=2023-11-15/hour=03",
    ]
    assert foreign.exists()
    assert not (tmp_path / "date=2023-11-14" / "hour=23").exists()
    assert (tmp_path / "date=yesterday" / "hour=22").exists()
    assert exporter.counters()["retired_files"] == 3
    assert exporter.counters()["retired_bytes"] > 0
    foreign.unlink()
    clock.sleep(3_600_000)
    exporter.export(batch_of(new, first=8))
    assert exporter.counters()["retired_files"] == 4
    assert not (tmp_path / "date=2023-11-14").exists()


def test_a_wall_clock_that_jumps_ahead_removes_nothing_before_its_time(tmp_path: Path) -> None:
    clock = MockTime(wall_ms=T0 // 1_000 + 60_000)
    settings = LandingSettings(path=str(tmp_path), writer="node-7", retention_ms=2 * 3_600_000)
    exporter = LandingExporter("landing", settings, time=clock)
    exporter.export(batch_of(pushes(1)))
    clock.jump_wall_clock(8 * 24 * 3_600_000)
    clock.sleep(60_000)
    exporter.export(batch_of(pushes(1, start=T0 + 1), first=2))
    assert exporter.counters()["retired_files"] == 0
    clock.sleep(4 * 3_600_000)
    exporter.export(batch_of(pushes(1, start=T0 + 5 * HOUR_US), first=3))
    assert exporter.counters()["retired_files"] == 2


@pytest.mark.parametrize(
    ("root_mode", "file_mode"), [(None, 0o600), (0o755, 0o644), (0o2750, 0o640), (0o2770, 0o660), (0o700, 0o600)]
)
def test_files_and_folders_are_open_to_those_for_whom_the_landing_zone_is(
    tmp_path: Path, root_mode: int | None, file_mode: int
) -> None:
    """One that is there tells by its own mode who may read it; one that is made is this user's alone."""
    root = tmp_path / "landing"
    if root_mode is not None:
        root.mkdir()
        root.chmod(root_mode)
    before = os.umask(0o077)
    try:
        landing(root).export(batch_of(pushes(1)))
    finally:
        os.umask(before)
    (file,) = (root / each for each in visible(root))
    assert stat.S_IMODE(file.stat().st_mode) == file_mode
    for folder in (file.parent, file.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == (root_mode or 0o700)
    assert stat.S_IMODE((root / "_writing").stat().st_mode) & 0o777 == 0o700


def test_a_log_that_was_begun_anew_does_not_overwrite_what_is_there(tmp_path: Path) -> None:
    exporter = landing(tmp_path)
    exporter.export(batch_of(pushes(3)))
    exporter.export(batch_of(pushes(3, start=T0 + 500)))  # the same positions
    assert len(rows(tmp_path)) == 6


def test_files_of_another_node_from_the_same_place_in_its_log_are_not_even_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    really_open = LocalStorage.open

    def open_one(storage: LocalStorage, partition: str, name: str) -> BinaryIO:
        opened.append(name)
        return really_open(storage, partition, name)

    monkeypatch.setattr(LocalStorage, "open", open_one)
    theirs = tuple(push._replace(push_id=push.push_id.replace("00000001", "00000002", 1)) for push in pushes(9))
    landing(tmp_path).export(batch_of(theirs))
    landing(tmp_path).export(batch_of(pushes(5, start=T0 + 1), first=3))
    assert (len(rows(tmp_path)), opened) == (14, [])


def test_metrics_are_zstd_without_a_dictionary_and_times_have_statistics(tmp_path: Path) -> None:
    landing(tmp_path).export(batch_of(pushes(5)))
    group = pq.ParquetFile(tmp_path / visible(tmp_path)[0]).metadata.row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert "RLE_DICTIONARY" not in columns["metrics"].encodings
    assert "RLE_DICTIONARY" in columns["client_id"].encodings
    statistics = columns["received_at"].statistics
    assert statistics is not None
    assert statistics.has_min_max
    assert not columns["metrics"].is_stats_set


def test_a_large_batch_is_several_row_groups_of_one_file(tmp_path: Path) -> None:
    large = tuple(record._replace(metrics=os.urandom(6 << 20)) for record in pushes(7))
    landing(tmp_path).export(batch_of(large))
    [file] = visible(tmp_path)
    assert pq.ParquetFile(tmp_path / file).metadata.num_row_groups == 3
    assert [row["metrics"] for row in rows(tmp_path)] == [record.metrics for record in large]


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = {path!r}
from fleetgauge.exporters.landing.exporter import landing_exporter
from fleetgauge.push_log.log import Batch
from fleetgauge.telemetry.push_record import PushRecord
Path.replace = lambda self, target: os.kill(os.getpid(), 9)
record = PushRecord(*{record!r})
exporter = landing_exporter("landing", {{"path": {root!r}, "writer.id": "node-7"}})
exporter.export(Batch(exporter="landing", records=(record,), first_position="1", last_position="1", size_bytes=1))
"""


def test_a_kill_between_write_and_rename_leaves_nothing_visible_and_the_next_start_cleans_up(tmp_path: Path) -> None:
    record = tuple(RECORD._replace(push_id="0" * 32))
    script = KILLED.format(path=sys.path, record=record, root=str(tmp_path))
    assert subprocess.run([sys.executable, "-c", script], timeout=PATIENCE_S, check=False).returncode == -9
    leftovers = [path for path in (tmp_path / WRITING).rglob("*") if path.is_file()]
    assert len(leftovers) == 1
    assert visible(tmp_path) == []
    assert dataset.dataset(tmp_path, format="parquet").files == []
    landing(tmp_path).export(batch_of(pushes(1)))
    assert [path for path in (tmp_path / WRITING).rglob("*") if path.is_file()] == []
    assert len(rows(tmp_path)) == 1


def test_unfinished_files_of_another_writer_are_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / WRITING / "node-8" / "pushes.parquet"
    theirs.parent.mkdir(parents=True)
    theirs.write_bytes(b"x")
    landing(tmp_path).export(batch_of(pushes(1)))
    assert theirs.exists()
    assert len(rows(tmp_path)) == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.ENOSPC, "no_space"), (errno.EDQUOT, "no_space"), (errno.EROFS, "permission"), (errno.EIO, "io")],
)
def test_a_disk_that_fails_is_tried_again_with_its_reason_and_nothing_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    exporter = landing(tmp_path)
    exporter.export(batch_of(pushes(1)))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        outcome = exporter.export(batch_of(pushes(2, start=T0 + 5), first=2))
    assert isinstance(outcome, Retry)
    assert outcome.reason == reason
    assert str(tmp_path) in outcome.detail
    assert list((tmp_path / WRITING / "node-7").iterdir()) == []
    assert len(visible(tmp_path)) == 1
    assert exporter.export(batch_of(pushes(2, start=T0 + 5), first=2)) == Delivered()
    assert len(rows(tmp_path)) == 3


def test_file_and_folders_are_on_the_disk_before_the_batch_counts_as_delivered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    really_sync = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        really_sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    landing(tmp_path).export(batch_of(pushes(1)))
    [file] = visible(tmp_path)
    unfinished = str(tmp_path / WRITING / "node-7" / file.name)
    date, hour = tmp_path / file.parts[0], tmp_path / file.parts[0] / file.parts[1]
    assert synced[-4:] == [unfinished, str(tmp_path), str(date), str(hour)]


def test_a_full_file_system_is_tried_again_until_there_is_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(900_000))
        exporter = landing(disk)
        batch = batch_of((pushes(1)[0]._replace(metrics=os.urandom(300_000)),))
        outcome = exporter.export(batch)
        assert isinstance(outcome, Retry)
        assert outcome.reason == "no_space"
        assert "No space left" in outcome.detail
        assert visible(disk) == [Path("ballast")]
        assert [path for path in (disk / WRITING).rglob("*") if path.is_file()] == []
        ballast.unlink()
        assert exporter.export(batch) == Delivered()
    finally:
        subprocess.run(["umount", str(disk)], check=True, timeout=PATIENCE_S)


def test_a_root_that_is_no_folder_is_tried_again_with_a_clear_reason(tmp_path: Path) -> None:
    (tmp_path / "landing").write_text("a file")
    outcome = landing(tmp_path / "landing").export(batch_of(pushes(1)))
    assert isinstance(outcome, Retry)
    assert "landing" in outcome.detail


def test_a_root_that_was_removed_meanwhile_is_made_again(tmp_path: Path) -> None:
    exporter = landing(tmp_path / "landing")
    exporter.export(batch_of(pushes(1)))
    (tmp_path / "landing").rename(tmp_path / "moved")
    assert exporter.export(batch_of(pushes(1))) == Delivered()
    assert len(rows(tmp_path / "landing")) == 1


def test_a_push_received_at_no_possible_time_is_left_out_and_the_rest_lands(tmp_path: Path) -> None:
    good, bad = pushes(2)
    outcome = landing(tmp_path).export(batch_of((good, bad._replace(received_at=2**62))))
    assert isinstance(outcome, Delivered)
    assert [(record.push_id, record.reason) for record in outcome.refused] == [(bad.push_id, "bad_received_at")]
    assert len(rows(tmp_path)) == 1


@pytest.mark.parametrize(
    "change", [{"payload_bytes": 2**31}, {"client_id": None}, {"client_id": "\ud800"}, {"principal": 5}]
)
def test_a_record_that_no_schema_fits_is_refused_before_anything_is_written(
    tmp_path: Path, change: dict[str, object]
) -> None:
    good, bad = pushes(2)
    outcome = landing(tmp_path).export(batch_of((good, bad._replace(**change))))  # type: ignore[arg-type]
    assert isinstance(outcome, Refused)
    assert visible(tmp_path) == []


@pytest.mark.parametrize("scheme", ["file://", "file:"])
def test_a_file_uri_is_a_local_path(tmp_path: Path, scheme: str) -> None:
    exporter = landing_exporter("landing", {"path": f"{scheme}{tmp_path}/zone"})
    assert isinstance(exporter._storage, LocalStorage)
    exporter.export(batch_of(pushes(2)))
    assert len(rows(tmp_path / "zone")) == 2


def remote(root: Path, name: str) -> LandingExporter:
    """A landing zone on a file system that pyarrow takes for one of another kind."""
    storage = RemoteStorage(fs.SubTreeFileSystem(str(root), fs.LocalFileSystem()), "zone", name)
    return LandingExporter("landing", LandingSettings(path="remote://zone"), storage=storage)


def test_any_file_system_of_pyarrow_gets_whole_files_under_the_same_names(tmp_path: Path) -> None:
    batch = batch_of(pushes(4, every_us=HOUR_US))
    assert remote(tmp_path, "node-7").export(batch) == Delivered()
    landing(tmp_path / "local").export(batch)
    assert visible(tmp_path / "zone") == visible(tmp_path / "local")
    assert len(rows(tmp_path / "zone")) == 4
    leftover = tmp_path / "zone" / WRITING / "node-7" / "left.parquet"
    leftover.write_bytes(b"x")
    remote(tmp_path, "node-7").export(batch)
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("error", "reason"),
    [(pa.ArrowNotImplementedError("Move() is not implemented"), "storage"), (pa.ArrowMemoryError("no room"), "memory")],
)
def test_a_storage_that_cannot_do_its_part_holds_the_pushes_back_and_refuses_none(
    tmp_path: Path, error: Exception, reason: str
) -> None:
    class Incapable(fs.SubTreeFileSystem):
        """As an Azure account without hierarchical namespace."""

        def move(self, *_: object) -> None:
            raise error

    storage = RemoteStorage(Incapable(str(tmp_path), fs.LocalFileSystem()), "zone", "node-7")
    exporter = LandingExporter("landing", LandingSettings(path="abfs://key@zone"), storage=storage)
    outcome = exporter.export(batch_of(pushes(2)))
    assert outcome == Retry(reason=reason, detail=f"cannot write to abfs://zone: {error}")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_system_that_misses_something_on_this_machine_is_told_in_one_line_with_each_batch() -> None:
    exporter = landing_exporter("landing", {"path": "hdfs://127.0.0.1:1/zone"})
    outcome = exporter.export(batch_of(pushes(1)))
    assert isinstance(outcome, Retry)
    assert outcome.detail.startswith("cannot write to hdfs://127.0.0.1:1/zone: ")
    assert len(outcome.detail.splitlines()) == 1


def test_spark_ignored_folders_are_ignored_by_pyarrow_too(tmp_path: Path) -> None:
    landing(tmp_path).export(batch_of(pushes(1)))
    table = pa.table({"push_id": ["unfinished"]})
    pq.write_table(table, tmp_path / WRITING / "node-7" / "pushes.parquet")
    assert len(rows(tmp_path)) == 1
