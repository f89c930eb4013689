"""What a listener counts; the bounds that can be set."""

import json

import pytest

from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.wire.context.listener_counters import ListenerCounters
from fleetgauge.wire.context.listener_settings import ListenerSettings


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
