"""Backoff and the log that stays calm."""

import pytest

from base.log_limiter import CalmLog
from exporters.delivery.retry import Backoff
from exporters.exporter import RetrySettings


def test_waits_double_up_to_the_bound() -> None:
    backoff = Backoff(RetrySettings(), lambda: 1.0)
    assert [backoff.next_ms() for _ in range(8)] == [100, 200, 400, 800, 1_600, 3_000, 3_000, 3_000]


def test_jitter_reaches_from_nothing_to_the_bound() -> None:
    assert Backoff(RetrySettings(), lambda: 0.0).next_ms() == 0
    assert Backoff(RetrySettings(), lambda: 0.25).next_ms() == 25


def test_a_servers_delay_is_a_least_with_jitter_on_top() -> None:
    assert Backoff(RetrySettings(), lambda: 0.5).next_ms(2_000) == 2_050


@pytest.mark.parametrize(("first", "most"), [(0, 5), (6, 5)])
def test_bounds_that_contradict_each_other_are_refused(first: int, most: int) -> None:
    with pytest.raises(ValueError, match="not above"):
        RetrySettings(backoff_ms=first, backoff_max_ms=most)


def test_a_fault_is_said_at_once_then_once_a_minute_with_its_count() -> None:
    calm = CalmLog()
    said = [calm.occurrences("x", now_ms=now_ms) for now_ms in range(0, 120_001, 10_000)]
    assert said == [1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 6]


def test_each_kind_of_fault_is_said_for_itself() -> None:
    calm = CalmLog()
    assert [calm.occurrences(kind, now_ms=0) for kind in ("x", "y", "x")] == [1, 1, 0]


def test_more_kinds_of_fault_than_it_holds_do_not_make_it_grow() -> None:
    calm = CalmLog()
    for number in range(10_000):
        calm.occurrences(str(number), now_ms=0)
    assert calm.occurrences("0", now_ms=1) == 1  # forgotten, so said again
    assert calm.occurrences("9999", now_ms=1) == 0
