"""Evidence: how long and how far something was so, whatever the windows are."""

import pytest
from unit.verdicts.fleets import Judged, Row, client

IDLE = 0.1
"""The ratio of time in poll() below which an application is slow."""


def polled(*ratios: float | None, window_s: int = 300) -> Judged:
    """A Java consumer whose idle ratio is each of these in a window."""
    judged = Judged(window_s=window_s).windows(1 + 600 // window_s, lambda _: [client("bill", poll_idle_ratio_avg=0.4)])
    start = judged.number

    def rows(number: int) -> list[Row]:
        return [client("bill", poll_idle_ratio_avg=ratios[number - start], time_between_poll_max_ms=100.0)]

    return judged.windows(len(ratios), rows)


def state(judged: Judged) -> str:
    return judged.rows[0]["state"] if judged.rows else "none"


def test_noise_about_a_mean_beyond_the_bound_is_seen_in_windows_of_any_length() -> None:
    """0.05, 0.12, 0.04, 0.11 and 0.04 have a mean of 0.072: windows of 60 s are good twice of five times."""
    noisy = (0.05, 0.12, 0.04, 0.11, 0.04)
    assert state(polled(*noisy * 4, window_s=60)) == "open"
    assert state(polled(*[sum(noisy) / 5] * 4, window_s=300)) == "open"
    fine = tuple(0.25 - each for each in noisy)
    assert state(polled(*fine * 4, window_s=60)) == "none"


def test_a_window_in_which_the_measure_is_unknown_neither_opens_nor_clears() -> None:
    """Another measure is known, and fine, throughout."""
    assert state(polled(*[0.02, None] * 2)) == "none"
    assert state(polled(*[0.02, None] * 3)) == "open"
    assert state(polled(*[0.02] * 3, *[None] * 8)) == "open"
    assert state(polled(*[0.02] * 3, *[None] * 8, *[0.4] * 4)) == "cleared"


@pytest.mark.parametrize(("ratio", "windows"), [(0.02, 3), (IDLE / 1.1, 4), (IDLE / 1.02, 19)])
def test_what_is_near_its_bound_takes_longer(ratio: float, windows: int) -> None:
    """A weight of 1, 0.52 and 0.11: more than 600 s in windows of 300 s."""
    assert state(polled(*[ratio] * (windows - 1))) == "none"
    assert state(polled(*[ratio] * windows)) == "open"


def test_lag_that_goes_up_and_down_does_not_grow() -> None:
    """By 500, -600, 500, -600 records in windows of 60 s; by 100 each it does."""

    def lagging(*steps: float) -> str:
        def rows(number: int) -> list[Row]:
            lag = 10_000.0 + sum(steps[at % len(steps)] for at in range(number))
            return [client("bill", lag_records=lag, records_consumed=900.0, group_id="billing")]

        return state(Judged(window_s=60).windows(30, rows))

    assert lagging(500.0, -600.0) == "none"
    assert lagging(300.0, -100.0) == "open"
