"""What a listener counts and how often it writes about malformed peers; the bounds that can be set."""

import json

import pytest

from base.errors import InvalidConfigError
from base.log_limiter import LogLimiter
from wire.listener_counters import ListenerCounters
from wire.listener_settings import ListenerSettings


def test_a_flood_of_one_kind_is_one_line_a_second_with_its_number() -> None:
    limiter = LogLimiter(1_000)
    lines = [limiter.occurrences("short_frame", now_ms=now_ms) for now_ms in range(0, 3_000, 10)]
    assert [count for count in lines if count] == [1, 100, 100]


def test_another_kind_is_written_at_once() -> None:
    limiter = LogLimiter(1_000)
    assert limiter.occurrences("short_frame", now_ms=0) == 1
    assert limiter.occurrences("empty_frame", now_ms=1) == 1


def test_the_end_of_a_flood_is_told_too() -> None:
    limiter = LogLimiter(1_000)
    for now_ms in (0, 1, 2):
        limiter.occurrences("short_frame", now_ms=now_ms)
    limiter.occurrences("empty_frame", now_ms=2)
    assert list(limiter.overdue(999)) == []
    assert list(limiter.overdue(1_000)) == [("short_frame", 2)]
    assert list(limiter.overdue(9_000)) == []


def test_a_snapshot_is_plain_and_names_the_apis() -> None:
    counters = ListenerCounters()
    counters.requests[72] += 3
    counters.requests[999] += 1
    counters.closed["idle"] += 2
    snapshot = json.loads(json.dumps(counters.snapshot()))
    assert snapshot["requests"] == {"PUSH_TELEMETRY": 3, "999": 1}
    assert snapshot["closed"] == {"idle": 2}


@pytest.mark.parametrize("name", ["socket_request_max_bytes", "connections_max_idle_ms", "max_in_flight_requests"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_bound_that_is_none_is_refused_by_name(name: str, value: int) -> None:
    with pytest.raises(InvalidConfigError, match=f"{name} is {value}"):
        ListenerSettings(**{name: value})
