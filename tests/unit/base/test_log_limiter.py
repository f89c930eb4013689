"""How often a fault that repeats is logged."""

from fleetgauge.base.log_limiter import LogLimiter


def test_a_fault_is_logged_at_once_then_once_a_minute_with_its_count() -> None:
    limiter = LogLimiter()
    counts = [limiter.admit("x", now_ms) for now_ms in range(0, 120_001, 10_000)]
    assert counts == [1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 6]


def test_a_flood_of_one_key_is_one_line_per_interval_with_its_number() -> None:
    limiter = LogLimiter(1_000)
    counts = [limiter.admit("short_frame", now_ms) for now_ms in range(0, 3_000, 10)]
    assert [count for count in counts if count] == [1, 100, 100]


def test_each_key_has_its_own_lines() -> None:
    limiter = LogLimiter()
    assert [limiter.admit(key, 0) for key in ("x", "y", "x")] == [1, 1, 0]


def test_what_was_left_out_at_the_end_of_a_flood_is_overdue_after_an_interval() -> None:
    limiter = LogLimiter(1_000)
    for now_ms in (0, 1, 2):
        limiter.admit("short_frame", now_ms)
    limiter.admit("empty_frame", 2)
    assert list(limiter.overdue(999)) == []
    assert list(limiter.overdue(1_000)) == [("short_frame", 2)]
    assert list(limiter.overdue(9_000)) == []


def test_an_overdue_line_starts_an_interval() -> None:
    limiter = LogLimiter(1_000)
    limiter.admit("x", 0)
    limiter.admit("x", 1)
    assert list(limiter.overdue(5_000)) == [("x", 1)]
    assert limiter.admit("x", 5_999) == 0
    assert limiter.admit("x", 6_000) == 2


def test_more_keys_than_it_holds_do_not_make_it_grow() -> None:
    limiter = LogLimiter()
    for number in range(10_000):
        limiter.admit(number, 0)
    assert limiter.admit(0, 1) == 1  # forgotten, so logged again
    assert limiter.admit(9_999, 1) == 0


def test_a_key_that_repeats_is_not_the_one_that_is_forgotten() -> None:
    limiter = LogLimiter(max_keys=2)
    for key in ("often", "x", "often", "y"):
        limiter.admit(key, 0)
    assert limiter.admit("often", 1) == 0
    assert limiter.admit("x", 1) == 1


def test_all_keys_together_have_a_bounded_number_of_lines_per_interval() -> None:
    limiter = LogLimiter(max_lines=10)
    assert sum(limiter.admit(number, number) for number in range(100)) == 10
    assert limiter.admit(99, 59_999) == 0
    assert limiter.take_left_out() == 90  # keys, however often each occurred
    assert limiter.take_left_out() == 0
    assert [limiter.admit(number, 60_000) for number in (98, 99)] == [2, 3]
    assert limiter.admit(1, 60_000) == 0  # its own interval began at 1 ms
