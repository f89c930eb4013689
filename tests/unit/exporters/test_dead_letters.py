"""What a destination refused is kept, bounded, listed, replayed and dropped; never in silence, never twice."""

import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.programs.push_log import push_record

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.dead_letters.letter import DeadLetter, DeadLetterSettings, UnreadableLetter
from fleetgauge.exporters.dead_letters.store import UNREADABLE, DeadLetters, existing
from fleetgauge.exporters.exporter import MAX_DETAIL_CHARS, Refusal
from fleetgauge.push_log.embedded.segment import NewerFormError
from fleetgauge.push_log.embedded.settings import MIB
from fleetgauge.push_log.log import PushLogError
from fleetgauge.telemetry.push_record import PushRecord

DAY_MS = 24 * 3_600_000


@pytest.fixture
def clock() -> MockTime:
    return MockTime()


@pytest.fixture
def settings(tmp_path: Path) -> DeadLetterSettings:
    return DeadLetterSettings(path=tmp_path / "dead-letters.db", retention_bytes=MIB, retention_ms=DAY_MS)


@pytest.fixture
def letters(settings: DeadLetterSettings, clock: MockTime) -> Iterator[DeadLetters]:
    with closing(DeadLetters(settings, clock)) as opened:
        yield opened


def refused(number: int, reason: str = "invalid_argument", detail: str = "no name", **fields: Any) -> Refusal:
    return Refusal(record=push_record(number, **fields), reason=reason, detail=detail)


def pushes(letters: DeadLetters, **chosen: Any) -> list[PushRecord]:
    return [whole(letter).record for letter in letters.letters(**{"limit": 10_000, **chosen})]


def whole(letter: DeadLetter | UnreadableLetter) -> DeadLetter:
    assert isinstance(letter, DeadLetter)
    return letter


def test_a_letter_holds_the_push_whole_with_who_refused_it_why_and_when(letters: DeadLetters, clock: MockTime) -> None:
    odd = refused(
        1,
        metrics=b"",
        client_source_port=None,
        push_interval_ms=None,
        client_id="k\udc80\x00\N{SNOWMAN}",
        detail="\udc80",
    )
    letters.put("collector", [odd, refused(2)])
    newest, oldest = map(whole, letters.letters(limit=10))
    assert (newest.record, oldest.record) == (refused(2).record, odd.record)
    assert (newest.exporter, newest.reason, newest.detail) == ("collector", "invalid_argument", "no name")
    assert (newest.refused_at, newest.times, newest.replay_asked) == (clock.microseconds(), 1, False)
    assert isinstance(newest.record.terminating, bool)


def test_a_push_that_comes_again_and_is_refused_again_stays_one_letter(letters: DeadLetters, clock: MockTime) -> None:
    letters.put("collector", [refused(1)])
    clock.sleep(5_000)
    letters.put("collector", [refused(1, reason="internal", detail="again")])
    letters.put("landing", [refused(1)])
    [letter] = letters.letters(exporter="collector", limit=10)
    assert (letter.times, letter.reason, letter.refused_at) == (2, "internal", clock.microseconds())
    assert {name: each.letters for name, each in letters.stats().items()} == {"collector": 1, "landing": 1}


def test_letters_are_chosen_by_exporter_reason_id_and_page(letters: DeadLetters) -> None:
    letters.put("collector", [refused(1), refused(2, reason="internal")])
    letters.put("landing", [refused(3, reason="internal")])
    first, second, third = (letter.id for letter in reversed(letters.letters(limit=10)))
    assert pushes(letters, exporter="collector", reason="internal") == [refused(2).record]
    assert pushes(letters, ids=[first, third]) == [refused(3).record, refused(1).record]
    assert pushes(letters, limit=2) == [refused(3).record, refused(2).record]
    assert pushes(letters, before=second, limit=2) == [refused(1).record]


def test_beyond_the_bytes_the_oldest_goes_and_is_counted_for_its_exporter(
    letters: DeadLetters, settings: DeadLetterSettings, clock: MockTime
) -> None:
    for number in range(200):
        clock.sleep(1)
        exporter = "collector" if number < 100 else "landing"
        letters.put(exporter, [refused(number, metrics=random_bytes(16_000))])
    stats = letters.stats()
    kept = [int(record.push_id, 16) for record in pushes(letters)]
    assert kept == list(range(199, 199 - len(kept), -1)), "not the newest"
    assert stats["collector"].lost_by_bytes == 100
    assert stats["landing"].lost_by_bytes == 100 - len(kept) > 0
    assert MIB * 0.9 < settings.path.stat().st_size <= MIB


def test_a_letter_that_is_larger_than_half_the_table_is_counted_and_costs_no_other(letters: DeadLetters) -> None:
    letters.put("collector", [refused(1)])
    with capture_logs() as logs:
        letters.put("collector", [refused(2, metrics=random_bytes(MIB))])
    assert pushes(letters) == [refused(1).record]
    assert letters.stats()["collector"].lost_by_bytes == 1
    assert logs[0]["push_id"] == refused(2).record.push_id


def test_a_letter_that_is_too_old_goes_and_is_counted(letters: DeadLetters, clock: MockTime) -> None:
    letters.put("collector", [refused(1)])
    letters.drop_aged()
    clock.sleep(DAY_MS // 2)
    letters.put("collector", [refused(2)])
    letters.drop_aged()
    clock.sleep(DAY_MS // 2 + 1)
    letters.drop_aged()
    assert pushes(letters) == [refused(2).record]
    assert letters.stats()["collector"].lost_by_age == 1


def test_a_wall_clock_that_jumps_ahead_drops_no_letter_and_one_that_is_set_back_drops_none_early(
    letters: DeadLetters, clock: MockTime
) -> None:
    letters.put("collector", [refused(1)])
    letters.drop_aged()
    clock.jump_wall_clock(8 * DAY_MS)
    letters.drop_aged()
    assert pushes(letters) == [refused(1).record]
    clock.sleep(DAY_MS)
    clock.jump_wall_clock(-9 * DAY_MS)
    letters.drop_aged()
    assert pushes(letters) == [refused(1).record]
    clock.jump_wall_clock(8 * DAY_MS + 1)
    letters.drop_aged()
    assert pushes(letters) == []


def test_what_is_replayed_is_taken_once_and_goes_when_it_was_delivered(letters: DeadLetters, clock: MockTime) -> None:
    letters.put("collector", [refused(number) for number in range(5)])
    letters.put("landing", [refused(9)])
    assert letters.asked() == frozenset()
    assert len(letters.ask_replay("collector")) == 5
    assert letters.asked() == {"collector"}
    taken = letters.replayable("collector", 1 << 20, 3)
    assert [letter.record for letter in taken] == [refused(number).record for number in range(3)]
    assert all(letter.replay_asked for letter in taken)
    assert [letter.record for letter in letters.replayable("collector", 1, 10)] == [refused(3).record]
    assert letters.delivered("collector", [letter.record.push_id for letter in taken]) == 3
    assert letters.delivered("collector", [taken[0].record.push_id]) == 0
    assert (letters.stats()["collector"].letters, letters.stats()["collector"].replayed) == (2, 3)
    assert letters.stats()["landing"].letters == 1


def test_a_replay_that_a_process_began_and_did_not_end_is_begun_again(letters: DeadLetters, clock: MockTime) -> None:
    letters.put("collector", [refused(1)])
    letters.ask_replay("collector")
    assert len(letters.replayable("collector", 1, 1)) == 1
    assert letters.asked() == frozenset()
    clock.sleep(30_000)
    assert letters.asked() == {"collector"}
    assert len(letters.replayable("collector", 1, 1)) == 1


def test_a_replay_that_the_destination_cannot_take_now_is_put_off(letters: DeadLetters, clock: MockTime) -> None:
    letters.put("collector", [refused(1)])
    letters.ask_replay("collector")
    letters.put_off(letters.replayable("collector", 1, 1), 3_000)
    assert letters.asked() == frozenset()
    clock.sleep(3_000)
    assert letters.asked() == {"collector"}


@pytest.mark.parametrize("put_off", [False, True])
def test_a_clock_that_is_set_back_holds_up_no_replay(
    letters: DeadLetters, settings: DeadLetterSettings, clock: MockTime, put_off: bool
) -> None:
    letters.put("collector", [refused(1)])
    letters.ask_replay("collector")
    begun = letters.replayable("collector", 1, 1)
    if put_off:
        letters.put_off(begun, 24 * 3_600_000)
        assert letters.asked() == frozenset()
    clock.jump_wall_clock(-3_600_000)
    with closing(DeadLetters(settings, clock)) as other:
        assert other.asked() == {"collector"}
        assert len(other.replayable("collector", 1, 1)) == 1
        assert other.asked() == frozenset(), "it is begun once, on this clock too"


def test_a_push_that_is_refused_again_in_a_replay_waits_for_the_next_one(letters: DeadLetters, clock: MockTime) -> None:
    letters.put("collector", [refused(1)])
    letters.ask_replay("collector")
    letters.put("collector", [refused(1, reason="internal")])
    clock.sleep(60_000)
    assert letters.asked() == frozenset()
    [letter] = letters.letters(limit=1)
    assert (letter.replay_asked, letter.times, letter.reason) == (False, 2, "internal")


@pytest.mark.parametrize(
    "damage", ["metrics = zeroblob(length(metrics))", "context = '{'", "context = '[]'", "metrics_bytes = 1"]
)
def test_a_damaged_letter_is_listed_as_unreadable_and_holds_up_no_replay(
    letters: DeadLetters, settings: DeadLetterSettings, damage: str
) -> None:
    letters.put("collector", [refused(number) for number in range(3)])
    with closing(sqlite3.connect(settings.path)) as connection, connection:
        connection.execute(f"UPDATE letters SET {damage} WHERE id = 1")
    [newest, _, oldest] = letters.letters(limit=10)
    assert isinstance(oldest, UnreadableLetter)
    assert (oldest.id, oldest.exporter, oldest.reason) == (1, "collector", "invalid_argument")
    assert oldest.problem.startswith("the push cannot be read: ")
    assert isinstance(newest, DeadLetter)
    letters.ask_replay("collector")
    with capture_logs() as logs:
        taken = letters.replayable("collector", 1 << 20, 100)
    assert [letter.record for letter in taken] == [refused(1).record, refused(2).record]
    assert [entry["id"] for entry in logs] == [1]
    assert letters.ids("collector", replaying=True) == {2, 3}, "it would be begun again for ever"
    assert letters.ids("collector", reason=UNREADABLE) == {1}
    [marked] = letters.letters(ids=[1], limit=1)
    assert marked.detail.endswith("it was refused for invalid_argument: no name")
    assert letters.drop("collector", reason=UNREADABLE) == 1


def test_an_operator_drops_letters_by_exporter_reason_and_id(letters: DeadLetters) -> None:
    letters.put("collector", [refused(1), refused(2, reason="internal"), refused(3)])
    last = letters.letters(limit=1)[0].id
    assert letters.drop("collector", reason="internal") == 1
    assert letters.drop("collector", ids=[last]) == 1
    assert letters.drop("landing") == 0
    assert pushes(letters) == [refused(1).record]
    assert letters.stats()["collector"].dropped == 2


def test_of_what_a_destination_says_a_bounded_part_is_kept(letters: DeadLetters) -> None:
    letters.put("collector", [refused(1, detail="x" * 1_000_000)])
    assert len(letters.letters(limit=1)[0].detail) == MAX_DETAIL_CHARS


def test_letters_outlive_the_process(letters: DeadLetters, settings: DeadLetterSettings, clock: MockTime) -> None:
    letters.put("collector", [refused(1)])
    with closing(existing(settings, clock)) as other:
        assert pushes(other) == [refused(1).record]
        other.ask_replay("collector")
    assert letters.asked() == {"collector"}


def test_a_table_that_was_never_made_is_said_to_be_missing(settings: DeadLetterSettings, clock: MockTime) -> None:
    with pytest.raises(PushLogError, match="no destination has rejected a push yet"):
        existing(settings, clock)
    assert not settings.path.exists()


def test_a_damaged_table_is_set_aside_and_the_next_letter_is_kept(
    letters: DeadLetters, settings: DeadLetterSettings, clock: MockTime
) -> None:
    letters.put("collector", [refused(number, metrics=random_bytes(5_000)) for number in range(20)])
    letters.close()
    with settings.path.open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 60_000)
    with closing(DeadLetters(settings, clock)) as again:
        for _ in range(3):  # what is damaged may show at the opening, or at any use after
            try:
                again.stats()
                again.put("collector", [refused(1)])
                break
            except PushLogError:
                continue
        assert pushes(again) == [refused(1).record]
    assert list(settings.path.parent.glob("*.corrupt"))


def test_a_table_of_a_newer_release_is_left_alone(
    letters: DeadLetters, settings: DeadLetterSettings, clock: MockTime
) -> None:
    letters.put("collector", [refused(1)])
    letters.close()
    with closing(sqlite3.connect(settings.path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with closing(DeadLetters(settings, clock)) as older, pytest.raises(NewerFormError, match=r"newer .* \(form 99\)"):
        older.put("collector", [refused(2)])
    assert not list(settings.path.parent.glob("*.corrupt"))


def test_all_threads_of_a_process_may_use_one_table(letters: DeadLetters) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 30):
            letters.put("collector", [refused(number)])
            letters.letters(limit=5)
            letters.stats()

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert letters.stats()["collector"].letters == 90


def test_what_is_refused_together_is_kept_whole_or_not_at_all(letters: DeadLetters) -> None:
    with pytest.raises(TypeError):
        letters.put("collector", [refused(1), refused(2, client_id=object())])
    assert pushes(letters) == []


def random_bytes(size: int) -> bytes:
    return random.Random(size).randbytes(size)
