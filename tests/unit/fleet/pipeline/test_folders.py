"""Which folders of a landing zone are listed again, on this machine and in what is reached as S3 is, and that no file
is lost by that.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pyarrow import fs

from fleetgauge.fleet.pipeline.folders import KnownFolders
from fleetgauge.fleet.pipeline.ledger import Ledger
from fleetgauge.fleet.pipeline.source import Bounds, LandingSource, source_name
from fleetgauge.fleet.source.selection import parse_day
from fleetgauge.fleet.source.zone_files import LOCAL
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Transaction
from fleetgauge.fleet.tables.store import Store

NOON = datetime(2026, 3, 20, 12, tzinfo=UTC)
OLD, NEW, BESIDE = "date=2026-03-01/hour=11", "date=2026-03-20/hour=11", "traffic/date=2026-03-01/hour=11"


class WithoutTimes:
    """A directory whose folders say nothing of their changes, as a bucket's."""

    def __init__(self, listed: list[str]) -> None:
        self.listed = listed

    def get_type_name(self) -> str:
        return "bucket"

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        return [self._info(each) for each in LOCAL.get_file_info(paths)]

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        self.listed.append(selector.base_dir)
        return [self._info(each) for each in LOCAL.get_file_info(selector)]

    @staticmethod
    def _info(info: fs.FileInfo) -> fs.FileInfo:
        return fs.FileInfo(info.path, info.type, size=info.size)

    def normalize_path(self, path: str) -> str:
        return path

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not needed to list")


fs.FileSystemHandler.register(WithoutTimes)


class Zone:
    """A zone and tables, and runs that read it at some time."""

    def __init__(self, root: Path, *, has_times: bool) -> None:
        self.root = root / "landing"
        self.store = Store(f"file:{root}/tables")
        self.listed: list[str] = []
        self._system = LOCAL if has_times else fs.PyFileSystem(cast("fs.FileSystemHandler", WithoutTimes(self.listed)))
        self.put(OLD, "a", at=NOON - timedelta(days=19))
        self.put(NEW, "a", at=NOON - timedelta(minutes=5))

    def put(self, folder: str, name: str, *, at: datetime, size: int = 1) -> None:
        path = self.root / folder / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
        os.utime(path.parent, (at.timestamp(), at.timestamp()))

    def open(self, now: datetime) -> LandingSource:
        name = source_name(str(self.root))
        ledger = Ledger(self.store, name)
        known = KnownFolders(self.store, name, now, but=ledger.redecoding)
        self.listed.clear()
        return LandingSource(lambda: pytest.fail("no Spark"), str(self.root), ledger, known, self._system)

    def run(self, now: datetime) -> list[str]:
        """The paths that a run reads then."""
        source = self.open(now)
        ledger = source._ledger
        found = []
        for parts in source.cut(Bounds()):
            plan = ledger.plan(parts)
            self.store.append_rows(catalog.PUSHES, [], Transaction(app_id=ledger.app_id, version=plan.number))
            found += [part.path for part in parts]
        source.known.save()
        return found


@pytest.fixture(params=[True, False], ids=["with-times", "without"])
def zone(tmp_path: Path, request: pytest.FixtureRequest) -> Zone:
    zone = Zone(tmp_path, has_times=request.param)
    assert zone.run(NOON) == [f"{OLD}/a.parquet", f"{NEW}/a.parquet"]
    return zone


def test_what_comes_into_an_open_hour_is_read_by_the_next_run(zone: Zone) -> None:
    zone.put(NEW, "b", at=NOON)
    assert zone.run(NOON + timedelta(minutes=1)) == [f"{NEW}/b.parquet"]
    assert zone.run(NOON + timedelta(minutes=2)) == []


def test_what_comes_into_a_closed_hour_is_read_at_once_or_by_the_first_run_of_the_next_day(tmp_path: Path) -> None:
    late = f"{OLD}/late.parquet"
    for has_times, then in ((True, [late]), (False, [])):
        zone = Zone(tmp_path / str(has_times), has_times=has_times)
        zone.run(NOON)
        zone.put(OLD, "late", at=NOON + timedelta(hours=1))
        assert zone.run(NOON + timedelta(hours=2)) == then
        assert zone.run(NOON + timedelta(hours=12)) == ([] if then else [late])


def test_a_file_that_its_folder_does_not_tell_of_is_read_by_the_first_run_of_the_next_day(zone: Zone) -> None:
    zone.put(OLD, "hidden", at=NOON - timedelta(days=19))
    assert zone.run(NOON + timedelta(hours=1)) == []
    assert zone.run(NOON + timedelta(hours=12)) == [f"{OLD}/hidden.parquet"]


def test_closed_days_of_a_bucket_are_not_listed(tmp_path: Path) -> None:
    zone = Zone(tmp_path, has_times=False)
    zone.run(NOON)
    assert str(zone.root / "date=2026-03-01") in zone.listed
    zone.run(NOON + timedelta(minutes=1))
    assert sorted(zone.listed) == [str(zone.root), str(zone.root / "date=2026-03-20")]


def test_a_folder_that_changed_shortly_before_it_was_listed_is_listed_again(tmp_path: Path) -> None:
    """A file system that tells times in seconds may have two changes at one time."""
    zone = Zone(tmp_path, has_times=True)
    zone.run(NOON)
    zone.put(NEW, "b", at=NOON - timedelta(minutes=5))
    assert zone.run(NOON + timedelta(minutes=1)) == [f"{NEW}/b.parquet"]


def test_a_file_that_changed_is_named_by_every_run(zone: Zone) -> None:
    zone.put(NEW, "a", at=NOON, size=2)
    for minutes in (1, 2):
        assert zone.open(NOON + timedelta(minutes=minutes)).new_input().changed == (f"{zone.root}/{NEW}/a.parquet",)
        assert zone.run(NOON + timedelta(minutes=minutes)) == []


def test_a_day_that_was_forgotten_is_listed_by_a_later_run_too(zone: Zone) -> None:
    day = parse_day("2026-03-01")
    source = zone.open(NOON + timedelta(minutes=1))
    source._ledger.begin_again(day)
    zone.open(NOON + timedelta(minutes=2)).read_again(day)
    assert zone.run(NOON + timedelta(minutes=3)) == [f"{OLD}/a.parquet"]


def test_rows_beside_the_pushes_are_new_until_all_is_read(zone: Zone) -> None:
    zone.put(BESIDE, "t", at=NOON)
    for _ in range(2):
        source = zone.open(NOON + timedelta(minutes=1))
        assert source.beside["traffic"] == {f"{BESIDE}/t.parquet": 1}
    source.known.save()
    assert zone.open(NOON + timedelta(hours=2)).beside["traffic"] == {}


def test_folders_that_went_are_forgotten_and_other_zones_are_not(zone: Zone, tmp_path: Path) -> None:
    other = Zone(tmp_path / "other", has_times=True)
    other.store = zone.store
    other.run(NOON)
    (zone.root / OLD / "a.parquet").unlink()
    (zone.root / OLD).rmdir()
    zone.run(NOON + timedelta(hours=12))
    found = {(row["source"] == source_name(str(zone.root)), row["folder"]) for row in zone.store.rows(catalog.FOLDERS)}
    assert (True, NEW) in found
    assert (False, OLD) in found
    assert (True, OLD) not in found
