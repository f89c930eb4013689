"""The age of a backlog follows the wall clock as long as that is possible, and what was seen otherwise."""

from typing import Any

import pytest

from fleetgauge.base.clock import MockTime
from fleetgauge.push_log.embedded.lag_age import LagAge
from fleetgauge.push_log.log import Lag

HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


class Backlog:
    """An exporter's backlog, whose lag is looked at every second."""

    def __init__(self, **options: Any) -> None:
        self.time = MockTime()
        self.age = LagAge(**options)
        self.lag = Lag(records=0, bytes=0, oldest_received_at=None)

    def waits(self, records: int = 1_744) -> None:
        self.lag = Lag(records=records, bytes=records, oldest_received_at=self.time.microseconds())

    def look(self) -> int | None:
        return self.age.of(self.lag, now_us=self.time.microseconds(), now_ms=self.time.hi_res_clock_ms())

    def after(self, seconds: int) -> int | None:
        for _ in range(seconds):
            self.look()
            self.time.sleep(1_000)
        return self.look()


def test_without_a_backlog_the_age_is_zero() -> None:
    assert Backlog().after(3) == 0


def test_a_backlog_ages_with_its_oldest_push_and_one_that_was_found_by_the_wall_clock() -> None:
    backlog = Backlog()
    backlog.waits()
    backlog.time.sleep(WEEK_MS)
    assert backlog.after(10) == WEEK_MS + 10_000


@pytest.mark.parametrize("jump_ms", [-WEEK_MS, -HOUR_MS, HOUR_MS, WEEK_MS])
@pytest.mark.parametrize("when_s", [0, 1, 60])
def test_no_jump_of_the_wall_clock_changes_the_age_of_a_backlog_that_was_seen_to_begin(
    jump_ms: int, when_s: int
) -> None:
    backlog = Backlog()
    backlog.after(3)
    backlog.waits()
    backlog.after(when_s)
    backlog.time.jump_wall_clock(jump_ms)
    assert backlog.after(90) == pytest.approx((when_s + 90) * 1_000, abs=6_000)


def test_a_backlog_that_is_delivered_behind_a_clock_that_was_set_back_keeps_an_age() -> None:
    backlog = Backlog()
    backlog.after(1)
    backlog.waits()
    backlog.after(60)
    backlog.time.jump_wall_clock(-HOUR_MS)
    received = backlog.time.microseconds() + HOUR_MS * 1_000 - 60_000_000
    for second in range(30):
        backlog.lag = Lag(records=100 - second, bytes=1, oldest_received_at=received + second * 1_000_000)
        assert backlog.after(1) == pytest.approx(60_000 + second * 1_000, abs=2_000)


def test_pushes_of_a_partition_that_was_taken_over_are_as_old_as_they_say() -> None:
    backlog = Backlog(sees_all=False)
    backlog.waits()
    old = backlog.lag
    backlog.lag = Lag(records=0, bytes=0, oldest_received_at=None)
    backlog.after(600)
    backlog.lag = old
    assert backlog.after(1) == 601_000


def test_a_backlog_of_pushes_that_cannot_be_read_has_no_age() -> None:
    backlog = Backlog()
    backlog.lag = Lag(records=3, bytes=1, oldest_received_at=None)
    assert backlog.after(3) is None
