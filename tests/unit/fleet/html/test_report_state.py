"""The report's state before a verdict."""

from unit.verdicts.fleets import Judged, Row, client

from fleetgauge.fleet.html.report import before_verdicts


def polling(number: int) -> list[Row]:
    """Five consumers that hardly poll from the fourth window on."""
    return [client(f"bill-{at}", poll_idle_ratio_avg=0.4 if number < 3 else 0.02) for at in range(5)]


def test_a_fleet_that_was_judged_for_a_minute_says_when_verdicts_can_come() -> None:
    judged = Judged(window_s=60).windows(1, lambda _: [client("bill")])
    assert before_verdicts(judged.memory, judged.rules) == "Judging since 12:00; first verdicts from 12:05 UTC."
    judged.windows(4, lambda _: [client("bill")])
    assert before_verdicts(judged.memory, judged.rules) == ""


def test_what_is_suspected_is_named() -> None:
    judged = Judged().windows(4, polling)
    assert judged.rows == []
    assert before_verdicts(judged.memory, judged.rules) == (
        "5 suspected: bill-0 processes its records too slowly; bill-1 processes its records too slowly; bill-2 "
        "processes its records too slowly; and 2 more."
    )
