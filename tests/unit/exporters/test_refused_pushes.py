"""A push that its destination refuses for good, on its way through the pipeline to the dead letters, and back."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.programs.pipelines import Destination, Log, Rig, answers, records, refuses

from fleetgauge.base.clock import MockTime
from fleetgauge.exporters.dead_letters.letter import DeadLetter, DeadLetterSettings
from fleetgauge.exporters.dead_letters.store import DeadLetters
from fleetgauge.exporters.dead_letters.writer import FULL_FOR_MS
from fleetgauge.exporters.exporter import Delivered, Refused, RefusedRecord, Retry, TooLarge
from fleetgauge.push_log.log import Batch, PushLogError, PushLogFullError

UNACCEPTABLE = Refused(reason="invalid_argument", detail="no name")


@pytest.fixture
def clock() -> MockTime:
    """The table's, which is not the pipeline's."""
    return MockTime()


@pytest.fixture
def letters(tmp_path: Path, clock: MockTime) -> Iterator[DeadLetters]:
    with closing(DeadLetters(DeadLetterSettings(path=tmp_path / "dead-letters.db"), clock)) as opened:
        yield opened


def kept(letters: DeadLetters) -> list[str]:
    return sorted(letter.record.push_id for letter in whole(letters, limit=1_000))


def whole(letters: DeadLetters, *, limit: int = 10) -> list[DeadLetter]:
    """The letters, all of which can be read."""
    found = letters.letters(limit=limit)
    readable = [letter for letter in found if isinstance(letter, DeadLetter)]
    assert len(readable) == len(found)
    return readable


def test_it_is_kept_whole_before_the_cursor_passes_it(letters: DeadLetters) -> None:
    pushes = records(64)
    bad = pushes[41]
    log = Log(pushes)
    log.before_commit = lambda: seen.extend(kept(letters))
    seen: list[str] = []
    rig = Rig(log, Destination(refuses({bad.push_id}, UNACCEPTABLE)), dead_letters=letters).run()
    [letter] = whole(letters)
    assert seen == [bad.push_id], "the cursor passed it before it was kept"
    assert (letter.record, letter.exporter, letter.reason, letter.detail) == (
        bad, "test", "invalid_argument", "no name",
    )  # fmt: skip
    assert rig.pipeline.stats().refused == {"invalid_argument": 1}
    assert log.committed == [pushes[-1].push_id]


def test_so_is_what_is_too_large_and_what_an_exporter_leaves_out_itself(letters: DeadLetters) -> None:
    pushes = records(6)
    giant, malformed = pushes[1].push_id, pushes[4].push_id

    def decide(batch: Batch) -> Delivered | TooLarge:
        ids = {record.push_id for record in batch.records}
        if giant in ids:
            return TooLarge(reason="limit")
        left_out = RefusedRecord(push_id=malformed, reason="malformed_payload", detail="cut short")
        return Delivered(refused=(left_out,) if malformed in ids else ())

    rig = Rig(Log(pushes), Destination(decide), dead_letters=letters).run()
    assert kept(letters) == [giant, malformed]
    assert rig.pipeline.stats().refused == {"limit": 1, "malformed_payload": 1}
    assert rig.pipeline.stats().delivered_records == 4


def test_the_cursor_waits_while_it_cannot_be_kept(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    put, faults = letters.put, [PushLogError("locked")] * 3

    def fail(*arguments: object) -> None:
        if faults:
            raise faults.pop()
        put(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(letters, "put", fail)
    log = Log(records(1))
    rig = Rig(log, Destination(answers(UNACCEPTABLE)), dead_letters=letters).run()
    assert rig.pauses == [50, 100, 200]
    assert rig.pipeline.stats().retried == {"dead_letters": 3}
    assert rig.destination.exports == 1
    assert (kept(letters), len(log.committed)) == ([records(1)[0].push_id], 1)


def test_a_full_disk_holds_the_exporter_up_for_some_seconds_and_then_it_is_left_out_and_counted(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise PushLogFullError("no room")

    monkeypatch.setattr(letters, "put", full)
    pushes = records(3)
    log = Log(pushes[:1], pushes[1:2], pushes[2:])
    rig = Rig(log, Destination(answers(UNACCEPTABLE, UNACCEPTABLE)), dead_letters=letters)
    with capture_logs() as logs:
        rig.run()
    assert 15_000 <= sum(rig.pauses) < 16_000, "a second push does not wait anew"
    assert rig.pipeline.stats().letters_without_room == 2
    assert rig.pipeline.stats().refused == {"invalid_argument": 2}
    assert len(log.committed) == 3
    assert [entry["pushes"] for entry in logs if entry["event"] == "dead_letters.disk_full"] == [
        [pushes[0].push_id],
        [pushes[1].push_id],
    ]


def test_a_disk_that_is_full_again_much_later_is_given_time_again(
    letters: DeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise PushLogFullError("no room")

    monkeypatch.setattr(letters, "put", full)
    log = Log(records(1), records(1))
    rig = Rig(log, Destination(answers(UNACCEPTABLE, UNACCEPTABLE)), dead_letters=letters)
    log.before_commit = lambda: rig.time.sleep(FULL_FOR_MS + 1)
    rig.run()
    assert 30_000 <= sum(rig.pauses) < 32_000
    assert rig.pipeline.stats().letters_without_room == 2


def test_without_a_table_it_is_counted_as_ever() -> None:
    rig = Rig(Log(records(2)), Destination(answers(TooLarge(reason="limit"), UNACCEPTABLE))).run()
    assert rig.pipeline.stats().refused == {"invalid_argument": 1}


def test_a_stop_before_it_is_kept_leaves_the_cursor(letters: DeadLetters, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(records(1))
    rig = Rig(log, Destination(answers(UNACCEPTABLE)), dead_letters=letters)

    def locked(*_: object) -> None:
        if not rig.pauses:
            rig.pipeline.request_stop(100)
        raise PushLogError("locked")

    monkeypatch.setattr(letters, "put", locked)
    rig.run()
    assert log.committed == []
    assert rig.pipeline.stats().refused == {}


def replayed(letters: DeadLetters, destination: Destination, rounds: int = 1) -> Rig:
    """Runs a pipeline over an empty log until it has turned so often after the replay was asked for."""
    log = Log()
    rig = Rig(log, destination, dead_letters=letters)
    turns = iter(range(rounds))

    def idle() -> None:
        if next(turns, None) is None:
            rig.pipeline.request_stop(0)

    log.idle = idle
    letters.ask_replay("test")
    rig.pipeline.request_replay()
    return rig.run()


def refused_before(letters: DeadLetters, count: int) -> list[str]:
    Rig(Log(records(count)), Destination(lambda batch: UNACCEPTABLE), dead_letters=letters).run()
    return kept(letters)


def test_a_replay_delivers_it_in_order_and_then_it_is_gone(letters: DeadLetters) -> None:
    before = refused_before(letters, 5)
    destination = Destination()
    rig = replayed(letters, destination)
    assert destination.got == before
    assert kept(letters) == []
    assert rig.pipeline.stats().replayed_records == 5
    assert rig.pipeline.stats().delivered_records == 0, "they are counted on their own"
    assert rig.log.committed == []


def test_what_is_refused_again_in_a_replay_stays_with_what_is_said_now(letters: DeadLetters) -> None:
    before = refused_before(letters, 8)
    destination = Destination(refuses({before[5]}, Refused(reason="internal")))
    rig = replayed(letters, destination)
    assert destination.got == before[:5] + before[6:]
    [letter] = whole(letters)
    assert (letter.record.push_id, letter.reason, letter.times) == (before[5], "internal", 2)
    assert not letter.replay_asked
    assert rig.pipeline.stats().replayed_records == 7


def test_a_replay_to_a_destination_that_is_away_stays_asked_for_and_holds_back_no_new_push(
    letters: DeadLetters, clock: MockTime
) -> None:
    before = refused_before(letters, 3)
    rig = replayed(letters, Destination(answers(Retry(reason="unavailable"))))
    assert rig.pipeline.stats().retried == {"unavailable": 1}
    assert rig.pauses == []
    assert kept(letters) == before
    assert all(letter.replay_asked for letter in letters.letters(limit=10))
    assert letters.asked() == frozenset()
    clock.sleep(rig.destination.retry.backoff_max_ms)
    assert letters.asked() == {"test"}


def test_a_replay_whose_export_returns_no_outcome_stays_asked_for(letters: DeadLetters) -> None:
    before = refused_before(letters, 3)
    rig = replayed(letters, Destination(lambda batch: None))  # type: ignore[arg-type,return-value]
    assert (rig.destination.exports, rig.pipeline.stats().retried) == (1, {"error": 1})
    assert "export returned NoneType" in (rig.pipeline.stats().last_error or "")
    assert kept(letters) == before
    assert all(letter.replay_asked for letter in letters.letters(limit=10))


def test_a_replay_larger_than_a_batch_goes_on_between_the_batches(letters: DeadLetters) -> None:
    before = refused_before(letters, 7)
    destination = Destination()
    destination.batch = type(destination.batch)(max_bytes=10, max_records=100, linger_ms=0)
    replayed(letters, destination, rounds=5)
    assert destination.got == before
    assert destination.exports == 4, "two pushes of 5 B each a batch"
