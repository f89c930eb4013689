"""Waits between retries."""

import pytest

from fleetgauge.exporters.delivery.retry import Backoff
from fleetgauge.exporters.exporter import RetrySettings


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
    with pytest.raises(ValueError, match=r"at most retry.backoff.max.ms"):
        RetrySettings(backoff_ms=first, backoff_max_ms=most)
