"""Evidence: how long and how far something was so, whatever the windows are."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from unit.verdicts.fleets import NOON_US, Judged, Row, client

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


def sending(window_s: int, rates: Sequence[float]) -> Judged:
    """What is judged of about a producer that sends 300 B each, so many per second in these minutes and then anew."""

    def rows(number: int) -> list[Row]:
        minute, minutes = number * window_s // 60, window_s // 60
        rate = sum(rates[at % len(rates)] for at in range(minute, minute + minutes)) / minutes
        return [client("tiny", request_rate_per_s=rate, records_per_request_avg=20.0, request_size_avg_bytes=300.0)]

    return Judged(window_s=window_s).windows(6000 // window_s, rows)


@pytest.mark.parametrize("window_s", [60, 300])
@pytest.mark.parametrize(
    ("rates", "is_found"),
    [
        ((46.0, 58.0), True),
        ((42.0, 54.0), False),
        ((*[46.0] * 15, *[58.0] * 15), True),
        ((*[42.0] * 15, *[54.0] * 15), False),
        ((*[20.0] * 15, *[80.0] * 5), False),
    ],
)
def test_a_client_near_the_limit_is_busy_by_the_mean_of_half_an_hour(
    window_s: int, rates: tuple[float, ...], is_found: bool
) -> None:
    """From 50 requests per second on: 52 of a minute's, or of 15 minutes', 46 and 58 are, and 48 are not. Nor is one
    that is clearly busy for 5 minutes now and then.
    """
    assert sending(window_s, rates).found == ([("small-batches", "tiny", "open")] if is_found else [])


@pytest.mark.parametrize(("first", "minutes"), [(96.0, 31), (48.5, 32)])
def test_a_client_that_sends_many_requests_from_now_on_is_busy_after_two_minutes(first: float, minutes: int) -> None:
    """From 1 request per second to 96, at the beginning of a minute or within it, by windows of 60 s: the mean of five
    minutes passes the limit of 50 in the second whole one.
    """
    rates = [*[1.0] * 30, first, *[96.0] * 69]
    (row,) = sending(60, rates).rows
    assert row["opened_at"] == datetime.fromtimestamp(NOON_US / 1_000_000, UTC) + timedelta(minutes=minutes)


def test_a_row_says_the_rate_by_which_a_client_is_busy() -> None:
    """That of the last minutes, 46 requests per second where the limit is 50, and the mean of half an hour."""
    (row,) = sending(300, [*[58.0] * 95, *[46.0] * 5]).rows
    said = re.match(r"tiny sends 46 requests per second \((\d+) in the mean of half an hour\) of 300 bytes", row["why"])
    assert said
    assert 55 <= int(said[1]) <= 57


def test_a_moment_near_the_bound_does_not_begin_a_recovery_anew() -> None:
    """An idle ratio of 0.02 for 30 minutes, and 0.5 from then on, but for five minutes near the bound; 0.02 is bad."""

    def lasts(*after: float) -> int:
        row = polled(*[0.02] * 6, 0.5, *after, *[0.5] * 4).rows[0]
        assert (row["state"], row["last_seen_at"]) == ("cleared", row["cleared_at"])
        return int((row["last_seen_at"] - row["opened_at"]).total_seconds()) // 60

    assert (lasts(), lasts(IDLE / 1.01), lasts(0.02)) == (30, 30, 40)


def test_lag_that_goes_up_and_down_does_not_grow() -> None:
    """By 500, -600, 500, -600 records in windows of 60 s; by 100 each it does."""

    def lagging(*steps: float) -> str:
        def rows(number: int) -> list[Row]:
            lag = 10_000.0 + sum(steps[at % len(steps)] for at in range(number))
            return [client("bill", lag_records=lag, records_consumed=900.0, group_id="billing")]

        return state(Judged(window_s=60).windows(30, rows))

    assert lagging(500.0, -600.0) == "none"
    assert lagging(300.0, -100.0) == "open"


def pushing(every_s: int, window_s: int, ratios: tuple[float, ...] = (0.02,)) -> Judged:
    """Instances of a client, each with this idle ratio from 20 minutes on, that push at such times, one after the other
    in turn, for 45 minutes; beside another client that is in each window.
    """
    step, judged = every_s // len(ratios), Judged(window_s=window_s)

    def rows(number: int) -> list[Row]:
        found = [client("other")]
        for at in range(number * window_s, (number + 1) * window_s):
            if at % step == 0:
                which = at // step % len(ratios)
                ratio = ratios[which] if at >= 1200 else 0.4
                found.append(client("bill", f"bill-{which}", poll_idle_ratio_avg=ratio, pushes=1))
        return found

    return judged.windows(2700 // window_s, rows)


@pytest.mark.parametrize("window_s", [30, 60, 300])
@pytest.mark.parametrize("every_s", [60, 300, 330])
def test_a_push_counts_for_the_time_since_the_one_before(every_s: int, window_s: int) -> None:
    """It covers that time, however many windows it has: pushes every 330 s in windows of 30 s are not one bad one of
    eleven.
    """
    judged = pushing(every_s, window_s)
    assert state(judged) == "open"
    case = judged.memory.all_cases()[0]
    assert case.opened_us is not None
    assert 600 < (case.opened_us - case.first_bad_us) / 1_000_000 <= 900


@pytest.mark.parametrize("window_s", [30, 60, 300])
def test_pushes_of_a_good_instance_say_nothing_of_a_bad_one_that_pushes_in_other_windows(window_s: int) -> None:
    assert state(pushing(60, window_s, (0.02, 0.4))) == "open"
