"""Verdicts about clients: quotas, producers, consumers."""

import math
from typing import Any

import pytest
from unit.verdicts.fleets import Judged, Row, client, with_links

from fleetgauge.verdicts.rules import parse_rules

BUSY = {"request_rate_per_s": 80.0}


def of(**columns: Any) -> list[Row]:
    return with_links(client("orders", **columns), {1: 10.0, 2: 10.0})


BAD_AND_NEAR: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "throttled": (
        {"produce_throttle_avg_ms": 30.0, "request_rate_per_s": 20.0},
        {"produce_throttle_avg_ms": 5.0, "request_rate_per_s": 20.0},
        "(produce quota) 30 % of the time, 30 ms per throttled request",
    ),
    "slow-processing": (
        {"poll_idle_ratio_avg": 0.04, "group_id": "billing"},
        {"poll_idle_ratio_avg": 0.12, "time_between_poll_max_ms": 230_000.0, "group_id": "billing"},
        "spends 4 % of its time idle in poll() (limit 10 %)",
    ),
    "tiny-fetches": (
        {"fetch_rate_per_s": 120.0, "fetch_size_avg_bytes": 200.0},
        {"fetch_rate_per_s": 40.0, "fetch_size_avg_bytes": 200.0},
        "sends 120 fetches per second that return 200 bytes each",
    ),
    "small-batches": (
        BUSY | {"records_per_request_avg": 1.1, "request_size_avg_bytes": 4000.0},
        {"request_rate_per_s": 30.0, "records_per_request_avg": 1.1, "request_size_avg_bytes": 300.0},
        "sends 80 requests per second of 1.1 records each (limit 2 records)",
    ),
    "uncompressed": (
        {"compression_rate_avg": 1.0, "bytes_sent_per_s": 3e6},
        {"compression_rate_avg": 0.7, "bytes_sent_per_s": 3e6},
        "sends 3,000,000 bytes per s (limit 1,000,000 bytes per s) without compression",
    ),
    "buffer-full": (
        {"buffer_wait_ratio_avg": 0.4},
        {"buffer_wait_ratio_avg": 0.03, "buffer_exhausted_records": 0.0},
        "spends 40 % of its time waiting for buffer memory",
    ),
    "record-errors": (
        {"records_sent": 1000.0, "record_errors": 12.0},
        {"records_sent": 1000.0, "record_errors": 0.0, "record_retries": 30.0},
        "12 records of orders failed",
    ),
    "connection-churn": (
        {"connections_created": 200.0},
        {"connections_created": 20.0},
        "opens new connections at 40 per minute",
    ),
}


@pytest.mark.parametrize("verdict", BAD_AND_NEAR)
def test_a_client_with_it_is_found_and_one_near_it_is_not(verdict: str) -> None:
    bad, near, why = BAD_AND_NEAR[verdict]
    row = Judged().windows(3, lambda _: of()).windows(5, lambda _: of(**bad)).only()
    assert (row["verdict"], row["subject_kind"], row["subject"], row["state"]) == (verdict, "client", "orders", "open")
    assert why in row["why"]
    assert row["instances"] == ["orders-1"]
    assert row["action"].endswith(".")
    assert Judged().windows(3, lambda _: of()).windows(8, lambda _: of(**near)).found == []


@pytest.mark.parametrize("verdict", BAD_AND_NEAR)
def test_one_bad_window_is_nothing_and_a_lasting_one_is_cleared(verdict: str) -> None:
    bad, near, _ = BAD_AND_NEAR[verdict]
    judged = Judged().windows(3, lambda _: of())
    for _ in range(3):
        judged.windows(1, lambda _: of(**bad)).windows(2, lambda _: of(**near))
    assert judged.found == []
    judged.windows(5, lambda _: of(**bad)).windows(5, lambda _: of(**near))
    assert judged.found == [(verdict, "orders", "cleared")]


@pytest.mark.parametrize("verdict", BAD_AND_NEAR)
@pytest.mark.parametrize("value", [None, math.nan, math.inf, -1.0])
def test_what_is_not_known_is_not_judged(verdict: str, value: float | None) -> None:
    columns = dict.fromkeys(BAD_AND_NEAR[verdict][0], value) | {"group_id": None}
    assert Judged().windows(3, lambda _: of()).windows(8, lambda _: of(**columns)).found == []


def test_a_client_that_sends_no_rate_is_throttled_by_its_part_of_a_request_s_time() -> None:
    throttled = {"dialect": "librdkafka", "produce_throttle_avg_ms": 90.0}
    judged = Judged().windows(5, lambda _: of(**throttled, produce_throttled=5.0))
    assert "90 % of the time" in judged.only()["why"]
    assert Judged().windows(5, lambda _: of(**throttled, produce_throttled=1.0)).found == []


def test_rules_know_the_poll_interval_of_a_client() -> None:
    slow = of(time_between_poll_max_ms=400_000.0)
    assert Judged().windows(5, lambda _: slow).only()["verdict"] == "slow-processing"
    rules = parse_rules("[slow-processing.max_poll_interval_ms_of]\norders = 600000")
    assert Judged(rules).windows(5, lambda _: slow).found == []


def test_a_queue_ten_times_as_long_as_before_is_a_full_buffer() -> None:
    judged = Judged().windows(6, lambda _: of(record_queue_time_avg_ms=20.0, dialect="librdkafka"))
    judged.windows(4, lambda _: of(record_queue_time_avg_ms=400.0, dialect="librdkafka"))
    assert "wait 400 ms in its queue (usually 20 ms," in judged.only()["why"]


def test_a_verdict_that_is_off_is_not_given() -> None:
    rules = parse_rules("[record-errors]\nenabled = false")
    assert Judged(rules).windows(6, lambda _: of(records_sent=9.0, record_errors=9.0)).found == []


def test_only_the_bad_instances_of_a_client_are_named() -> None:
    def rows(_: int) -> list[Row]:
        return [client("orders", "orders-1"), client("orders", "orders-2", record_errors=3.0, records_sent=9.0)]

    row = Judged().windows(4, rows).only()
    assert (row["instances"], row["instance_count"]) == (["orders-2"], 1)


def test_franz_go_that_leaves_zeros_out_is_throttled_by_its_pushes() -> None:
    throttled = {"dialect": "franz-go", "produce_throttle_avg_ms": 90.0}
    assert Judged().windows(5, lambda _: of(**throttled, produce_throttled=1.0)).found == []


def test_a_consumer_that_reads_down_what_has_gathered_is_not_slow() -> None:
    busy = {"poll_idle_ratio_avg": 0.0, "group_id": "billing", "records_consumed": 9e4}
    judged = Judged().windows(3, lambda _: of(poll_idle_ratio_avg=0.6, group_id="billing", lag_records=1e6))
    judged.windows(6, lambda number: of(**busy, lag_records=1e6 - 1e5 * number))
    assert judged.found == []
    judged.windows(6, lambda number: of(**busy, lag_records=1e6))
    assert judged.found == [("slow-processing", "orders", "open")]


def polled(*ratios: float, **columns: Any) -> Judged:
    """librdkafka's ratios, one a window, of an application that takes one message a call."""
    own = {"dialect": "librdkafka", "group_id": "billing"} | columns
    return Judged().windows(len(ratios), lambda number: of(poll_idle_ratio_avg=ratios[number], **own))


def test_calls_of_poll_that_find_a_message_do_not_make_an_application_slow() -> None:
    """Real librdkafka 2.16.0, at work for a third of the time: 0.046 to 0.097; then more load, in longer bursts."""
    assert (
        polled(0.3245, *[0.0406, 0.0707, 0.071, 0.0776, 0.062, 0.0624, 0.0712, 0.0838, 0.0461, 0.0965] * 2).found == []
    )
    assert polled(*[0.16] * 10, *[0.1, 0.08, 0.05], *[0.03] * 20).found == []
    assert polled(*[0.9] * 10, *[0.05] * 20).found == [], "bursts in the morning"
    assert polled(*[0.001] * 20).found == [], "unknown: what is usual for it was never higher"
    assert polled(*[0.0] * 20).found == [], "nor is it of a binding whose calls are not counted"


def test_calls_of_poll_that_hardly_wait_any_more_are_a_slow_application() -> None:
    row = polled(*[0.16] * 10, *[0.001] * 8).only()
    assert (row["verdict"], row["judged_by"], row["state"]) == ("slow-processing", ["telemetry"], "open")
    assert row["why"].startswith("0 % of the poll() calls of orders wait for records (usually 16 %,")
    assert row["confidence"] <= 0.9
    assert polled(*[0.8] * 10, *[0.001] * 8, *[0.8] * 5).only()["state"] == "cleared"
    assert polled(*[0.8] * 10, *[0.0] * 8).only()["state"] == "open", "12 s per record: less than a millionth"


def test_a_job_of_some_minutes_an_hour_does_not_add_up_to_one_that_lasts() -> None:
    def rows(number: int) -> list[Row]:
        bad = {"buffer_wait_ratio_avg": 0.5} if number % 12 < 2 else {}
        return [*(of(**bad) if number % 12 < 2 else []), client("other")]

    assert Judged().windows(60, rows).found == []


def failing(*pushes: float | None) -> Judged:
    """Windows of five pushes, of which so many have an error."""

    def rows(number: int) -> list[Row]:
        count = pushes[number]
        return of(records_sent=900.0, record_errors=float(count != 0.0) * 9.0, record_error_pushes=count)

    return Judged().windows(len(pushes), rows)


def test_records_that_fail_for_more_than_five_minutes_are_found_with_their_second_window() -> None:
    assert failing(3.0, 5.0).only()["verdict"] == "record-errors"
    assert failing(1.0, 5.0, 1.0).only()["verdict"] == "record-errors"
    assert failing(*[1.0] * 7).only()["verdict"] == "record-errors", "a push of each window; the first says it began"
    assert failing(None, None).only()["verdict"] == "record-errors", "where pushes are not known, by failed records"


def test_a_moment_of_errors_in_two_windows_is_none() -> None:
    assert failing(2.0, 2.0, 0.0, 0.0, 0.0).found == []
    assert failing(3.0, 0.0, 0.0, 3.0).found == []
    assert failing(*[1.0] * 6).found == []


def test_a_moment_of_errors_in_pushes_of_several_instances_is_none() -> None:
    """With two pushes a window, that of one instance begins before another's ends."""

    def rows(number: int) -> list[Row]:
        bad = {"record_errors": 1.0, "record_error_pushes": 1.0, "records_sent": 300.0, "pushes": 2}
        fine = bad | {"record_errors": 0.0, "record_error_pushes": 0.0}
        worse = bad | {"record_errors": 2.0, "record_error_pushes": 2.0}
        of = {0: (worse, fine), 1: (fine, bad)}.get(number, (fine, fine))
        return [client("orders", f"orders-{at}", **each) for at, each in enumerate(of)]

    assert Judged().windows(4, rows).found == []


def test_a_single_failed_record_in_each_of_two_windows_is_none() -> None:
    """Also where a push covers a whole window, or no rate says how many pushes had one."""

    def found(pushes: int, *errors: float) -> list[tuple[str, str, str]]:
        windows = [{"record_errors": each, "records_sent": 900.0, "pushes": pushes} for each in errors]
        return Judged().windows(len(errors), lambda number: of(**windows[number])).found

    assert found(1, 1.0, 1.0, 0.0) == []
    assert found(5, 1.0, 1.0, 1.0, 0.0) == []
    assert found(1, 1.0, 1.0, 1.0) == [("record-errors", "orders", "open")], "three intervals of five minutes"


@pytest.mark.parametrize(("share", "is_found"), [(0.3, True), (0.02, False)])
def test_franz_go_sends_the_part_of_the_time_that_it_is_throttled(share: float, is_found: bool) -> None:
    """It divides the sum of its throttle times by the push interval: 0.3 are 18 of 60 s, however long requests take."""
    row = client("feed", dialect="franz-go", produce_throttle_avg_ms=share, produce_throttled=5.0)
    row["produce_throttle_max_ms"] = 402.0
    links = [link | {"request_latency_max_ms": 40.0} for link in with_links(row, {1: 0.1, 2: 0.1})[1:]]
    found = [each["why"].partition(";")[0] for each in Judged().windows(5, lambda _: [row, *links]).rows]
    why = "brokers throttle feed (produce quota) 30 % of the time, up to 402 ms per throttled request"
    assert found == [why] * is_found
