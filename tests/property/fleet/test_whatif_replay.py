"""Replays that leave time out: against replays of every hundredth of a second, and by what limits promise."""

import math

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fleetgauge.fleet.whatif.replay import SPAN_MS, Held, is_held, peak_rate, replay

LIMIT = 1_000_000.0
CELLS_MS = (2_000, 5_000, 10_000, 30_000, 60_000)

relative = st.one_of(st.just(0.0), st.floats(0.05, 4.0), st.sampled_from([0.5, 0.99, 1.0, 1.01, 2.0]))


@st.composite
def loads(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    cell_ms = draw(st.sampled_from(CELLS_MS))
    count = draw(st.integers(1, max(2, 180_000 // cell_ms)))
    rates = draw(st.lists(st.one_of(relative, st.just(math.nan)), min_size=count, max_size=count))
    return np.array(rates) * LIMIT, cell_ms


def runs(rates: np.ndarray) -> int:
    return int(np.isnan(rates).sum()) + 1


@given(loads())
@settings(max_examples=60)
def test_a_replay_that_leaves_time_out_agrees_with_one_of_every_hundredth_of_a_second(
    load: tuple[np.ndarray, int],
) -> None:
    rates, cell_ms = load
    assume(not (rates == LIMIT).any())  # exactly at the limit, rounding decides whether Kafka holds
    quick, fine = replay(rates, cell_ms, LIMIT), replay(rates, cell_ms, LIMIT, step_ms=10)
    # Each begin and end of a hold is found to some seconds of what Kafka remembers.
    about_ms = SPAN_MS * (1 + max(quick.episodes, fine.episodes))
    assert abs(quick.held_ms - fine.held_ms) <= min(about_ms, 0.1 * fine.held_ms + SPAN_MS * runs(rates))
    # A hold begins up to a second of the rate, and ends up to two of the limit, apart.
    about_bytes = np.nanmax(rates, initial=0.0) + 2 * LIMIT + 0.1 * fine.waiting_max_bytes
    assert abs(quick.waiting_max_bytes - fine.waiting_max_bytes) <= about_bytes


@given(loads(), st.floats(1.0, 4.0))
def test_a_larger_limit_holds_nobody_more(load: tuple[np.ndarray, int], factor: float) -> None:
    rates, cell_ms = load
    less, more = replay(rates, cell_ms, LIMIT), replay(rates, cell_ms, LIMIT * factor)
    assert more.held_ms == 0 or less.held_ms > 0
    assert more.held_ms <= less.held_ms + SPAN_MS * runs(rates)


@given(loads())
def test_the_peak_is_the_least_limit_that_holds_never(load: tuple[np.ndarray, int]) -> None:
    rates, cell_ms = load
    peak = peak_rate(rates, cell_ms)
    assert peak <= np.nanmax(rates, initial=0.0)
    assert replay(rates, cell_ms, max(peak, 1.0)) == Held()
    if peak > 0 and cell_ms * len(rates) >= SPAN_MS:
        assert is_held(rates, cell_ms, 0.999 * peak) == (replay(rates, cell_ms, 0.999 * peak) != Held())
        assert is_held(rates, cell_ms, 0.999 * peak)


@given(loads())
def test_what_is_sent_and_what_waits_is_what_came(load: tuple[np.ndarray, int]) -> None:
    rates, cell_ms = load
    held = replay(rates, cell_ms, LIMIT)
    came = np.nansum(rates) * cell_ms / 1_000
    assert held.sent_held_bytes <= came + LIMIT
    assert held.longest_ms <= held.held_ms <= len(rates) * cell_ms
