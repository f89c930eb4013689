"""Replays by hand."""

import numpy as np
import pytest

from fleetgauge.fleet.whatif.replay import replay


def test_two_bursts_are_two_times_of_waiting() -> None:
    rates = np.array([0.5, 2.0, *[0.5] * 10, 2.0, *[0.5] * 10]) * 1e6
    held = replay(rates, 60_000, 1e6)
    assert held.episodes == 2
    # A minute at twice the limit leaves 60 s of it but for some that are free; half of the limit sends the rest.
    assert held.longest_ms == pytest.approx(held.held_ms / 2, rel=0.01)
    assert held.waiting_max_bytes == pytest.approx(55e6, rel=0.05)


def test_a_rate_above_the_limit_is_held_once_what_is_free_at_the_start_is_used_up() -> None:
    held = replay(np.full(60, 2e6), 1_000, 1e6)
    assert held.held_ms == pytest.approx(55_000, abs=1_500), "ten times the limit is free, which is 5 s of the rate"
    assert replay(np.full(60, 1e6), 1_000, 1e6).held_ms == 0
