"""What exporters keep on a disk that is full: nothing is half there, nothing is lost in silence, and it goes on."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from support.fleet.landing import landed
from support.small_disk import fill_up, small_disk

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.dead_letters.letter import DeadLetter, DeadLetterSettings
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.exporter import Delivered, Refusal, Retry
from fleetgauge.exporters.registry import build_exporter
from fleetgauge.push_log.embedded.settings import MIB
from fleetgauge.push_log.log import PushLogFullError
from fleetgauge.testkit.conformance import a_push, batch_of, started

pytestmark = pytest.mark.integration


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 4 * MIB) as path:
        yield path


def refused(number: int, size_bytes: int = 20_000) -> Refusal:
    record = a_push(number)._replace(metrics=Random(number).randbytes(size_bytes))
    return Refusal(record=record, reason="invalid_argument", detail="no name")


def fill(letters: DeadLetters, count: int) -> list[str]:
    """Keeps so many letters; returns the push ids of those that are there."""
    ids = []
    for number in range(count):
        refusal = refused(number)
        letters.put("collector", [refusal])
        ids.append(refusal.record.push_id)
    return ids


def kept(letters: DeadLetters, limit: int) -> list[str]:
    """The push ids of the newest letters, all of which can be read."""
    found = list(letters.letters(limit=limit))
    readable = [letter for letter in found if isinstance(letter, DeadLetter)]
    assert readable == found
    return [letter.record.push_id for letter in readable]


def test_a_letter_that_has_no_room_is_refused_whole_and_kept_once_there_is(disk: Path) -> None:
    with closing(DeadLetters(DeadLetterSettings(path=disk / "dead-letters.db"), MockTime())) as letters:
        ids = fill(letters, 5)
        ballast = fill_up(disk)
        too_much = [refused(number) for number in range(100, 140)]
        with pytest.raises(PushLogFullError, match="no space left on the disk"):
            letters.put("collector", too_much)
        assert set(kept(letters, limit=100)) == set(ids)
        ballast.unlink()
        letters.put("collector", too_much)
        assert letters.stats()["collector"].letters == 45


def test_a_table_that_has_no_room_to_begin_says_so_and_begins_once_there_is(disk: Path) -> None:
    ballast = fill_up(disk)
    with closing(DeadLetters(DeadLetterSettings(path=disk / "dead-letters.db"), MockTime())) as letters:
        for _ in range(3):
            with pytest.raises(PushLogFullError):
                letters.put("collector", [refused(1)])
        ballast.unlink()
        letters.put("collector", [refused(1)])
        assert letters.stats()["collector"].letters == 1


def test_a_table_that_has_its_size_goes_on_upon_a_full_disk(disk: Path) -> None:
    settings = DeadLetterSettings(path=disk / "dead-letters.db", retention_bytes=MIB)
    with closing(DeadLetters(settings, MockTime())) as letters:
        fill(letters, 80)
        fill_up(disk)
        newest = fill(letters, 20)
        assert kept(letters, limit=20) == newest[::-1]
        assert letters.ask_replay("collector")
        stats = letters.stats()["collector"]
        assert stats.letters + stats.lost_by_bytes == 100


def test_a_landing_zone_shows_nothing_of_a_file_that_has_no_room_and_all_of_it_once(disk: Path) -> None:
    root = disk / "landing"
    pushes = [a_push(number)._replace(metrics=Random(number).randbytes(100_000)) for number in range(20)]
    with started(build_exporter("landing", {"type": "landing", "path": str(root)})) as exporter:
        assert exporter.export(batch_of(pushes[:2])) == Delivered()
        ballast = fill_up(disk)
        for _ in range(3):
            outcome = exporter.export(batch_of(pushes[2:]))
            assert isinstance(outcome, Retry)
            assert outcome.reason == "no_space"
            assert str(root) in outcome.detail
        assert len(landed(root)) == 2
        ballast.unlink()
        assert exporter.export(batch_of(pushes[2:])) == Delivered()
    assert [row["push_id"] for row in landed(root)] == [push.push_id for push in pushes]
    assert not [path for path in root.rglob("_writing/**/*") if path.is_file()], "left-overs take room"
    assert shutil.disk_usage(disk).free > MIB
