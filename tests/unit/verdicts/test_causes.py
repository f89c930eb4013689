"""Causes by the load, the time and the figures of what they explain."""

from collections.abc import Callable
from typing import Any

import pytest
from unit.verdicts.fleets import Judged, Row, client
from unit.verdicts.test_latency import fleet, of_client, of_node


def causes_of(rows: Callable[[int], list[Row]], count: int) -> dict[str, Any]:
    """Cause of each verdict after some windows."""
    return {row["verdict"]: row["caused_by"] for row in Judged().windows(count, rows).rows}


@pytest.mark.parametrize(
    ("full", "own", "is_explained"),
    [
        (range(8, 15), {}, True),
        (range(9, 16), {}, True),
        (range(11, 15), {}, False),
        (range(8, 18), {}, False),
        (range(8, 15), {"records_sent": 300.0}, False),
    ],
)
def test_where_no_load_is_sent_a_full_buffer_is_a_slow_broker_s_if_it_begins_and_ends_with_it(
    full: range, own: Row, is_explained: bool
) -> None:
    """Queues of 9,369 ms in place of 0.3, of one producer of six; a load that is sent is compared with the others'."""

    def rows(number: int) -> list[Row]:
        others: Row = {"records_sent": 300.0, "record_queue_time_avg_ms": 0.3}
        alone: Row = {"dialect": "librdkafka", "record_queue_time_avg_ms": 9_369.0 if number in full else 0.3} | own
        found = fleet(number, of_node(3, 6.0) if number in range(8, 15) else {})
        return [row | {"app-2": alone}.get(row["client_id"], others) if "client_id" in row else row for row in found]

    cause = "slow-node:node:3" if is_explained else None
    assert causes_of(rows, 24) == {"slow-node": None, "buffer-full": cause}


@pytest.mark.parametrize(("per_s", "is_explained"), [(8.0, False), (60.0, True), (None, True)])
def test_a_slow_broker_fills_no_buffer_of_a_producer_that_hardly_has_a_request_in_flight(
    per_s: float | None, is_explained: bool
) -> None:
    """26 ms in place of 10 at broker 3: of 8 requests a second, if all are to it, a fifth is in flight."""

    def rows(number: int) -> list[Row]:
        found = fleet(number, of_node(3, 2.6) if number >= 6 else {})
        sent: Row = {"request_rate_per_s": per_s, "records_sent": 3000.0}
        sent["buffer_wait_ratio_avg"] = 0.4 if number >= 6 else 0.0
        return [row | sent if "client_id" in row else row for row in found]

    cause = "slow-node:node:3" if is_explained else None
    assert causes_of(rows, 12) == {"slow-node": None, "buffer-full": cause}


@pytest.mark.parametrize(("longest_ms", "is_explained"), [(20.0, False), (70.0, True)])
def test_one_path_may_have_all_of_the_throttle_time(longest_ms: float, is_explained: bool) -> None:
    """Requests on one of three paths take 60 ms in place of 10, and all are throttled by 12 ms on average."""

    def rows(number: int) -> list[Row]:
        held: Row = {"produce_throttle_avg_ms": 12.0, "produce_throttle_max_ms": longest_ms, "request_rate_per_s": 60.0}
        found = fleet(number, {("app-2", 3): 6.0} if number >= 6 else {})
        return [row | held if row.get("client_id") == "app-2" and number >= 6 else row for row in found]

    cause = "throttled:client:app-2" if is_explained else None
    assert causes_of(rows, 12) == {"throttled": None, "slow-path": cause}


def test_a_quota_that_is_over_in_its_last_window_explains_what_it_added_before() -> None:
    """213 ms, and 22 ms in the window in which it ends."""

    def rows(number: int) -> list[Row]:
        throttle_ms = 22.0 if number == 11 else 213.0
        held: Row = {"produce_throttle_avg_ms": throttle_ms, "request_rate_per_s": 60.0}
        found = fleet(number, of_client("app-2", 6.0) if number >= 6 else {})
        return [row | held if row.get("client_id") == "app-2" and number >= 6 else row for row in found]

    assert causes_of(rows, 12) == {"throttled": None, "slow-client": "throttled:client:app-2"}


def test_franz_go_s_longest_latency_is_compared_with_its_longest_throttle_time() -> None:
    """280 ms in place of 112; its mean of the throttle times, 2.4, is a share of the push interval."""

    def rows(number: int) -> list[Row]:
        is_slow = number >= 6
        held: Row = {"produce_throttle_avg_ms": 2.4, "produce_throttle_max_ms": 190.0, "produce_throttled": 5.0}
        found = []
        for row in fleet(number, of_client("app-2", 10.0) if is_slow else {}):
            own: Row = {"dialect": "franz-go"} | (held if is_slow and row.get("client_id") == "app-2" else {})
            if row.get("role"):
                busy = row["request_latency_avg_ms"] / 1_000
                longest_ms = 280.0 if busy > 0.05 else 112.0
                own = {"request_latency_avg_ms": busy, "request_latency_max_ms": longest_ms}
            found.append(row | own)
        return found

    assert causes_of(rows, 12) == {"throttled": None, "slow-client": "throttled:client:app-2"}


@pytest.mark.parametrize(
    ("waits", "causes"),
    [
        ({"record_queue_time_avg_ms": 0.3}, {"throttled": None, "record-errors": None}),
        (
            {"buffer_wait_ratio_avg": 0.5},
            {
                "throttled": None,
                "buffer-full": "throttled:client:orders",
                "record-errors": "buffer-full:client:orders",
            },
        ),
    ],
)
def test_a_quota_makes_records_fail_by_waits_alone(waits: Row, causes: dict[str, Any]) -> None:
    """They fail after `delivery.timeout.ms`, 120 s: records that wait for 0.3 ms do so for another reason."""
    held = client("orders", produce_throttle_avg_ms=98.0, request_rate_per_s=20.0, record_errors=800.0, **waits)
    assert causes_of(lambda number: [held if number >= 3 else client("orders")], 9) == causes
