"""Connections that have much to handle, and what others wait for them."""

import pytest
from unit.wire.later import Later

from fleetgauge.base.clock import MockTime
from fleetgauge.wire.context.turns import TURN_MS, Turns


class Busy:
    """A connection with `turns_left` turns of `turn_ms` to take."""

    def __init__(self, bench: "Bench", turns_left: int, turn_ms: int) -> None:
        self.bench = bench
        self.turns_left = turns_left
        self.turn_ms = turn_ms
        self.allowed_ms: list[int] = []

    def take_turn(self) -> None:
        self.allowed_ms.append(self.bench.turns.turn_ms)
        self.bench.time.sleep(self.turn_ms)
        self.turns_left -= 1
        if self.turns_left:
            self.bench.turns.wait_for(self)  # type: ignore[arg-type]


class Bench:
    def __init__(self) -> None:
        self.loop = Later()
        self.time = MockTime()
        self.turns = Turns(self.loop, self.time)  # type: ignore[arg-type]

    def add(self, count: int, *, turns: int, turn_ms: int) -> list[Busy]:
        made = [Busy(self, turns, turn_ms) for _ in range(count)]
        for each in made:
            self.turns.wait_for(each)  # type: ignore[arg-type]
        return made

    def iterate(self) -> int:
        """One iteration of the loop; how long it took [ms]."""
        started_ms = self.time.hi_res_clock_ms()
        self.loop.run()
        return self.time.hi_res_clock_ms() - started_ms


@pytest.mark.parametrize("turn_ms", [1, 4, 6])
def test_hundreds_that_wait_take_no_more_of_an_iteration_than_their_time_and_a_turn(turn_ms: int) -> None:
    bench = Bench()
    busy = bench.add(500, turns=2, turn_ms=turn_ms)
    while bench.loop.calls:
        assert bench.iterate() < TURN_MS + turn_ms
    assert not any(each.turns_left for each in busy), "all come to their end"


def test_each_has_its_turn_before_another_has_a_second_one() -> None:
    bench = Bench()
    busy = bench.add(30, turns=3, turn_ms=2)
    while bench.loop.calls:
        bench.iterate()
        left = [each.turns_left for each in busy]
        assert max(left) - min(left) <= 1


def test_one_that_waits_alone_has_one_turn_in_an_iteration() -> None:
    """The loop writes in between."""
    bench = Bench()
    (alone,) = bench.add(1, turns=3, turn_ms=0)
    bench.iterate()
    assert alone.turns_left == 2


def test_while_others_wait_a_turn_outside_the_queue_is_short() -> None:
    bench = Bench()
    assert bench.turns.turn_ms == TURN_MS
    busy = bench.add(2, turns=2, turn_ms=TURN_MS)
    assert bench.turns.turn_ms == 0
    while bench.loop.calls:
        bench.iterate()
    assert [each.allowed_ms for each in busy] == [[TURN_MS] * 2] * 2
    assert bench.turns.turn_ms == TURN_MS


def test_a_fault_in_one_turn_takes_no_turn_from_others() -> None:
    bench = Bench()
    first, second = bench.add(2, turns=1, turn_ms=1)
    first.take_turn = lambda: 1 / 0  # type: ignore[assignment, method-assign]
    with pytest.raises(ZeroDivisionError):
        bench.iterate()
    bench.iterate()
    assert second.turns_left == 0
    assert bench.turns.turn_ms == TURN_MS
