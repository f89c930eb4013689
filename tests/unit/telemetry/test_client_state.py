"""The one judgement of a client's state."""

from typing import Any

import pytest

from fleetgauge.base.errors import ErrorCode
from fleetgauge.telemetry.instances.client_state import ClientState, judged

MINUTE = 60_000


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({}, "live"),
        ({"has_pushed": False}, "new"),
        ({"silence_ms": 91_000}, "live"),
        ({"silence_ms": 91_001}, "late"),
        ({"silence_ms": 180_000}, "vanished"),
        ({"silence_ms": 59_999, "push_interval_ms": 1_000}, "late"),
        ({"silence_ms": 60_000, "push_interval_ms": 1_000}, "vanished"),
        ({"lost_connection": True}, "vanished"),
        ({"lost_connection": True, "error": ErrorCode.INVALID_RECORD}, "vanished"),
        ({"ended": True, "lost_connection": True, "silence_ms": 10**9}, "ended"),
        ({"error": ErrorCode.INVALID_RECORD}, "refused"),
        ({"error": ErrorCode.THROTTLING_QUOTA_EXCEEDED}, "throttled"),
        ({"is_subscribed": False, "silence_ms": 10**9}, "unsubscribed"),
        ({"silence_ms": -5_000}, "live"),
    ],
)
def test_a_state_follows_from_what_is_known(facts: dict[str, Any], state: str) -> None:
    assert judged(**{"ended": False, "silence_ms": 0, "push_interval_ms": MINUTE, **facts}) is ClientState(state)
