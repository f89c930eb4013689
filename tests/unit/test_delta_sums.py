"""The comparison of deltas with a client's own count sees a single delta that is lost."""

from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.fleet.delta_sums import DeltaSums


def push(delta: int, interval_ms: int = 200) -> dict[str, Any]:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="requests")
    metric.sum.data_points.add(as_int=delta)
    return {"push_interval_ms": interval_ms, "metrics": data.SerializeToString()}


def missing(deltas: list[int], own_counts: list[int]) -> dict[int, int]:
    """What is missing when the last of the pushes has landed; the first was before the longer interval."""
    sums = DeltaSums("requests", longer_ms=200)
    landed = [push(delta, 200 if number else 100) for number, delta in enumerate(deltas)]
    return [sums.missing(landed[: number + 1], count) for number, count in enumerate(own_counts)][-1]


def test_deltas_agree_with_a_client_that_counts_on_after_each_push() -> None:
    assert missing([5, 2, 1, 1, 3], [6, 8, 9, 10, 13]) == {}


def test_nothing_is_said_before_three_more_pushes_have_landed() -> None:
    assert missing([5, 2, 1, 1], [6, 8, 9, 10]) != {}


def test_one_delta_that_is_lost_is_never_made_up_for() -> None:
    assert missing([5, 2, 0, 1, 3, 1, 1, 1], [6, 8, 9, 10, 13, 14, 15, 16]) != {}


def test_what_a_client_counts_until_a_push_has_landed_is_none_that_is_lost() -> None:
    deltas, own_counts = [5, 4, 4, 4, 4, 4], [6, 10, 15, 19, 23, 27]
    assert missing(deltas, own_counts) == {}
    assert missing([5, 4, 4, 0, 4, 4], own_counts) != {}
    assert missing([5, 4, 4, 4, 4, 4], [count + 4 * (number > 2) for number, count in enumerate(own_counts)]) != {}


def test_nothing_is_compared_before_everything_acknowledged_has_landed() -> None:
    sums = DeltaSums("requests", longer_ms=200)
    landed = [push(delta) for delta in (5, 1, 1, 1, 1)]
    late = [sums.missing(landed[: number + 1], 7 + 2 * number, acknowledged=number + 2) for number in range(5)]
    assert late[-1] == {0: 6}, "the landing lags more and more, and nothing is made of that"
    found = [sums.missing(landed[: number + 1], 5 + number, acknowledged=number + 1) for number in range(5)]
    assert found[-1] == {}


def test_after_a_failed_push_the_comparison_begins_anew() -> None:
    sums = DeltaSums("requests", longer_ms=200)
    landed = [push(delta) for delta in (5, 0, 1, 1, 1)]
    own_counts = [6, 9, 10, 11, 12]
    found = [sums.missing(landed[: n + 1], count, failed=int(n > 0)) for n, count in enumerate(own_counts)]
    assert [bool(each) for each in found] == [True, True, True, True, False]
