"""Rounds and deliveries: what each destination gets, and when, as sources and destinations come and go."""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from support.waiting import PATIENCE_S, wait_for
from unit.fleet.watch.verdict_rows import Row, verdict

from fleetgauge.base.clock import MockTime
from fleetgauge.fleet.errors import (
    BusyError,
    FleetError,
    LandingError,
    NotInstalledError,
    TableError,
    UnreadableTableError,
)
from fleetgauge.fleet.pipeline.report import RunReport
from fleetgauge.fleet.pipeline.run import RunRequest
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.store import Store
from fleetgauge.fleet.watch.changes import Change
from fleetgauge.fleet.watch.changes import Row as AnyRow
from fleetgauge.fleet.watch.delivered import Delivered
from fleetgauge.fleet.watch.http import DeliveryError, RefusedError
from fleetgauge.fleet.watch.watch import REPEAT_S, Loop, WatchRequest

SINCE = datetime(2026, 3, 1, 12, tzinfo=UTC)
TRIGGER_S = 60.0


class Recorder:
    """A destination that takes changes, or fails as it is told: once for each error."""

    def __init__(self, name: str = "recorder", *errors: DeliveryError, repeats: bool = False) -> None:
        self.name, self.repeats = name, repeats
        self.errors = list(errors)
        self.tried_at_s: list[float] = []
        self.got: list[tuple[str, str]] = []
        self.repeated: list[list[str]] = []
        self.time: MockTime | None = None

    def _note(self) -> None:
        if self.time is not None:
            self.tried_at_s.append(self.time.hi_res_clock_ms() / 1_000)
        if self.errors:
            raise self.errors.pop(0)

    def deliver(self, changes: Sequence[Change], at: datetime) -> None:
        self._note()
        self.got += [(change.kind.value, str(change.row["subject"])) for change in changes]

    def repeat(self, rows: Mapping[str, AnyRow], at: datetime) -> None:
        self._note()
        self.repeated.append([str(row["subject"]) for row in rows.values()])


class Watched:
    """A watch on a table that the test writes, on a clock that waits at once."""

    def __init__(self, root: Path, *destinations: Recorder, once: bool = False, since: datetime = SINCE) -> None:
        self.store = Store(str(root))
        self.time = MockTime()
        self.destinations = destinations
        self.notes: list[str] = []
        self.steps: list[str] = []
        self.rounds: list[Callable[[], None]] = []
        self.once = once
        self.since = since
        self.waited: list[float] = []
        self.patience_s = PATIENCE_S
        for each in destinations:
            each.time = self.time

    def write(self, *rows: Row) -> None:
        times = ("opened_at", "last_seen_at", "cleared_at")
        found = [
            row | {name: datetime.fromisoformat(row[name]) for name in times if row[name] is not None} for row in rows
        ]
        self.store.replace(catalog.VERDICTS, pa.Table.from_pylist(found, schema=catalog.VERDICTS.schema))

    def run(self, *rounds: Callable[[], None] | Sequence[Row]) -> "Watched":
        """One round after the other, each of which writes rows or does something else; then it is stopped."""
        left = list(rounds)

        def round_() -> RunReport:
            each = left.pop(0)
            if callable(each):
                each()
            else:
                self.write(*each)
            return RunReport(source="s", tables="t", took_s=1.0, batches=())

        def wait(seconds: float) -> bool:
            if seconds == 0 or left:
                self.time.sleep(seconds * 1_000)
                self.waited.append(seconds)
            return not left

        request = WatchRequest(
            run=RunRequest(source="s", tables="t"),
            since=self.since,
            destinations=self.destinations,
            trigger_s=TRIGGER_S,
            once=self.once,
        )
        loop = Loop(
            request,
            self.store,
            round_,
            clock=self.time,
            wait=wait,
            note=self.notes.append,
            step=self.steps.append,
            patience_s=self.patience_s,
            stops_within_s=self.patience_s,
        )
        loop.run()
        return self


def fail(error: Exception) -> Callable[[], None]:
    def raising() -> None:
        raise error

    return raising


def test_what_is_over_and_no_more_in_the_table_is_forgotten(tmp_path: Path) -> None:
    receiver = Recorder()
    Watched(tmp_path, receiver).run([verdict(cleared=15), verdict("4")], [verdict("4"), verdict("5")])
    assert receiver.got == [("cleared", "3"), ("opened", "4"), ("opened", "5")]
    kept = {row["subject"] for row in Delivered(Store(str(tmp_path)), receiver.name, SINCE).rows.values()}
    assert kept == {"4", "5"}


def test_changes_are_delivered_once_and_the_next_start_goes_on_from_there(tmp_path: Path) -> None:
    first = Recorder()
    watched = Watched(tmp_path, first).run([verdict()], [verdict()], [verdict(), verdict("4")])
    assert first.got == [("opened", "3"), ("opened", "4")]
    assert watched.notes == ["stopped: 2 verdicts are open; the next start continues from here"]
    assert len(watched.steps) == 2, "a round without news is none"
    assert "; 1 verdicts opened, 0 cleared, 1 open; " in watched.steps[0]
    second = Recorder()
    Watched(tmp_path, second).run([verdict(cleared=15), verdict("4")])
    assert second.got == [("cleared", "3")]


def test_a_destination_gets_what_happened_since_its_first_start_however_long_the_next_is_away(tmp_path: Path) -> None:
    Watched(tmp_path, Recorder()).run([])
    again = Recorder()
    Watched(tmp_path, again, since=SINCE + timedelta(hours=1)).run([verdict(seen=10, cleared=15)])
    assert again.got == [("cleared", "3")]
    other = Recorder("other")
    Watched(tmp_path, other, since=SINCE + timedelta(hours=1)).run([verdict(seen=10, cleared=15)])
    assert other.got == []


def test_what_was_not_written_down_is_delivered_again_under_the_same_id(tmp_path: Path) -> None:
    ids: list[str] = []

    class Killed(Recorder):
        def deliver(self, changes: Sequence[Change], at: datetime) -> None:
            ids.extend(change.id for change in changes)
            if len(ids) == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Watched(tmp_path, Killed()).run([verdict()])
    Watched(tmp_path, Killed()).run([verdict()])
    assert len(ids) == 2
    assert len(set(ids)) == 1


def test_a_destination_that_is_away_holds_up_no_other_and_gets_everything_later(tmp_path: Path) -> None:
    away, other = Recorder("away", *[DeliveryError("no answer")] * 7), Recorder("other")
    later = [verdict(cleared=15), verdict("4")]
    watched = Watched(tmp_path, other, away).run([verdict()], [verdict()], later, later, later)
    assert other.got == [("opened", "3"), ("cleared", "3"), ("opened", "4")]
    assert away.got == [("cleared", "3"), ("opened", "4")]
    assert [round(b - a) for a, b in zip(away.tried_at_s, away.tried_at_s[1:], strict=False)] == [
        *(1, 2, 4, 8, 16, 32, 64)
    ]
    assert watched.notes[0] == "away did not accept verdicts (no answer): retrying in 1 s"


def test_a_destination_that_does_not_come_back_holds_up_neither_another_nor_the_end(tmp_path: Path) -> None:
    released, begun = threading.Event(), threading.Event()

    class Hanging(Recorder):
        def deliver(self, changes: Sequence[Change], at: datetime) -> None:
            begun.set()
            released.wait()
            super().deliver(changes, at)

    hanging, other = Hanging("hanging"), Recorder("other")
    watched = Watched(tmp_path, hanging, other)
    watched.patience_s = 0.0

    def other_has(*subjects: str) -> Callable[[], None]:
        def wait() -> None:
            wait_for(lambda: [subject for _, subject in other.got] == [*subjects], "the other's verdicts")

        return wait

    try:
        rows = [verdict()]
        watched.run(lambda: watched.write(*rows), other_has("3"), [*rows, verdict("4")], other_has("3", "4"))
    finally:
        released.set()
    assert begun.is_set()
    assert "hanging has not confirmed its latest delivery: the next start repeats it" in watched.notes


@pytest.mark.slow
def test_one_that_stays_away_is_tried_every_five_minutes_at_last(tmp_path: Path) -> None:
    away = Recorder("away", *[DeliveryError("no answer")] * 100)
    Watched(tmp_path, away).run(*[[verdict()]] * 30)
    waits = [round(b - a) for a, b in zip(away.tried_at_s, away.tried_at_s[1:], strict=False)]
    assert waits[:8] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert set(waits[9:]) <= {300}


def test_verdicts_that_a_destination_forgets_are_repeated_at_the_start_and_while_they_are_open(tmp_path: Path) -> None:
    first = Recorder(repeats=True)
    rounds = [[verdict()]] * 6
    Watched(tmp_path, first).run(*rounds)
    assert first.repeated[0] == ["3"]
    assert len(first.repeated) == 1 + int(5 * TRIGGER_S // REPEAT_S)
    second = Recorder(repeats=True)
    Watched(tmp_path, second).run([verdict(cleared=15)])
    assert second.repeated == [["3"]], "before the first round, which may take long"
    assert second.got == [("cleared", "3")]


def test_a_source_that_is_away_is_one_line_a_round_with_longer_and_longer_waits(tmp_path: Path) -> None:
    away = fail(LandingError("there is no landing zone at s"))
    recorder = Recorder()
    watched = Watched(tmp_path, recorder).run(*[away] * 10, [verdict()])
    assert recorder.got == [("opened", "3")]
    assert watched.notes[:2] == ["there is no landing zone at s: retrying"] * 2
    waits = [seconds for seconds in watched.waited if seconds]
    assert waits[:6] == [TRIGGER_S] * 6, "no more often than there is a round"
    assert waits[6:] == [64, 128, 256, 300]
    for error in (BusyError("another run"), UnreadableTableError("no answer")):
        assert Watched(tmp_path, Recorder()).run(fail(error), []).notes[0] == f"{error}: retrying"


@pytest.mark.parametrize("error", [NotInstalledError("no pyspark"), TableError("of another release")])
def test_what_waiting_does_not_mend_ends_it(tmp_path: Path, error: FleetError) -> None:
    with pytest.raises(type(error)):
        Watched(tmp_path, Recorder()).run(fail(error))


def test_once_is_one_round_whose_error_is_its_own(tmp_path: Path) -> None:
    recorder = Recorder()
    watched = Watched(tmp_path, recorder, once=True).run([verdict()], [verdict("4")])
    assert (recorder.got, watched.notes) == ([("opened", "3")], [])
    with pytest.raises(LandingError):
        Watched(tmp_path, recorder, once=True).run(fail(LandingError("away")))


def test_once_tries_a_destination_again_for_a_while_and_ends_with_its_error(tmp_path: Path) -> None:
    recorder = Recorder("hook", *[DeliveryError("no answer")] * 3)
    Watched(tmp_path, recorder, once=True).run([verdict()], [])
    assert recorder.got == [("opened", "3")]
    away, other = Recorder("away", *[DeliveryError("no answer")] * 100), Recorder("other")
    watched = Watched(tmp_path, away, other, once=True)
    with pytest.raises(FleetError, match=r"away did not accept verdicts \(no answer\): the next watch delivers them"):
        watched.run([verdict()], [])
    assert other.got == [("opened", "3")]
    assert 300 <= sum(watched.waited) <= 900
    refusing, other = Recorder("refusing", *[RefusedError("it answers 401")] * 9), Recorder("another")
    watched = Watched(tmp_path, refusing, other, once=True)
    with pytest.raises(FleetError, match="refusing did not accept verdicts"):
        watched.run([verdict()], [])
    assert (len(refusing.tried_at_s), other.got, watched.waited) == (1, [("opened", "3")], [])


def test_without_the_table_nothing_clears(tmp_path: Path) -> None:
    recorder = Recorder()
    Watched(tmp_path, recorder).run([verdict()])
    (tmp_path / "gold" / "verdicts").rename(tmp_path / "elsewhere")
    again = Recorder()
    Watched(tmp_path, again).run(lambda: None)
    assert (recorder.got, again.got) == ([("opened", "3")], [])
