"""Rules of an operator's own: values that stay beyond a bound, sums that grow, and the clients that they are about."""

from collections.abc import Sequence
from typing import Any

import pytest
from unit.verdicts.fleets import NOON_US, Judged, Row, client

from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import parse_rules

S = 1_000_000
LATENCY = "org.apache.kafka.producer.node.request.latency.max"
KIP_714 = f'[rules.slow]\nmetric = "{LATENCY}"\nabove = 5000\nfor = "180s"\nseverity = "critical"\n'
GROWTH = '[rules.errors]\ncustom_metric = "app.errors"\nincrease_above = 5\nwithin = "10m"\n'


def point(at_s: float, value: float | None = None, client_id: str = "checkout", **fields: Any) -> Row:
    """A point of a client's first instance."""
    at_us = int(NOON_US + at_s * S)
    own = {
        "received_at": at_us, "push_id": f"{client_id}-{at_s:09.1f}", "cluster_id": "c", "principal": "User:a",
        "client_instance_id": f"{client_id}-1", "metric_name": LATENCY, "value": value, "push_interval_ms": 60_000,
        "twin": False,
    }  # fmt: skip
    return own | fields


def known(client_id: str = "checkout", **columns: Any) -> Row:
    """A row of CLIENTS."""
    own = {
        "cluster_id": "c", "principal": "User:a", "client_instance_id": f"{client_id}-1", "client_id": client_id,
        "dialect": "java", "role": "producer", "first_seen": NOON_US, "last_seen": NOON_US + 3_600 * S,
        "terminated": False,
    }  # fmt: skip
    return own | columns


def judged(rules: str, points: Sequence[Row], count: int = 4, *clients: str) -> Judged:
    """Windows of some clients whose other measures are all right."""
    names = clients or ("checkout",)
    found = Judged(parse_rules(rules))
    found.points = list(points)
    found.clients = [known(name) for name in names]
    return found.windows(count, lambda _: [client(name) for name in names])


def every_minute(values: Sequence[float], **fields: Any) -> list[Row]:
    return [point(30 + 60 * number, value, **fields) for number, value in enumerate(values)]


def test_kip_714s_own_example_opens_after_more_than_180_s_and_clears_with_a_good_window() -> None:
    values = [10.0] * 5 + [6_000.0, 7_000, 6_000, 6_000, 6_000] + [10.0] * 10
    row = judged(KIP_714 + 'text = "{client_id} waits {value} ms for broker {node_id}"', every_minute(values)).only()
    assert (row["verdict"], row["subject_kind"], row["subject"], row["severity"]) == (
        "slow", "instance", "checkout-1", "critical",
    )  # fmt: skip
    assert (row["state"], row["client_id"], row["principal"], row["cluster_id"]) == (
        "cleared", "checkout", "User:a", "c",
    )  # fmt: skip
    assert row["why"] == "checkout waits 6,000 ms for broker unknown; since 2026-03-01 12:05 UTC"
    assert "[rules.slow]" in row["action"]
    (evidence,) = row["evidence"]
    assert (evidence["metric"], evidence["observed"], evidence["expected"]) == (LATENCY, 6_000.0, 5_000.0)


@pytest.mark.parametrize(
    "values",
    [
        [6_000.0, 6_000, 6_000, 6_000, 10],  # 180 s and no more
        [6_000.0, 6_000, 6_000, 10, 6_000, 6_000, 6_000],  # with a pause
        [5_000.0] * 10,  # the bound itself
        [float("nan")] * 10,
        [float("inf")] * 10,
    ],
)
def test_what_is_beyond_for_too_short_a_time_or_not_at_all_opens_nothing(values: list[float]) -> None:
    assert judged(KIP_714, every_minute(values)).rows == []


def test_it_opens_over_the_border_of_windows_however_they_are_cut_into_runs() -> None:
    points = every_minute([10.0, 10, 10, 6_000, 6_000, 6_000, 6_000, 6_000, 10])
    whole = judged(KIP_714, points)
    assert whole.only()["opened_at"].minute == 5, "the window in which it had lasted for long enough"
    again = judged(KIP_714, points, 1)
    again.memory = Memory.of(again.memory.parts())
    again.windows(3, lambda _: [client("checkout")])
    assert again.rows == whole.rows


def test_a_gap_in_the_pushes_begins_anew() -> None:
    points = [point(30, 6_000.0), point(90, 6_000), point(290, 6_000), point(350, 6_000)]
    assert judged(KIP_714, points).rows == []


def test_without_for_one_value_is_enough_and_the_worst_of_a_push_is_named() -> None:
    rules = f'[rules.slow]\nmetric = "{LATENCY}"\nabove = 5000\ntext = "node {{node_id}}: {{value}}"'
    points = [point(30, 6_000.0, node_id=1), point(30, 9_000.5, node_id=2), point(90, 10.0)]
    assert judged(rules, points).only()["why"].startswith("node 2: 9,000.5; since")


def test_a_lower_bound_is_one_too() -> None:
    rules = '[rules.busy]\ncustom_metric = "a.idle"\nbelow = 0.05'
    row = judged(rules, [point(30, 0.01, metric_name="a.idle")]).only()
    assert row["why"].startswith("a.idle of checkout is 0.01, below 0.05; since")


def test_a_rule_is_about_the_clients_that_it_matches_as_a_whole() -> None:
    points = [point(30, 9_000.0, name) for name in ("billing", "billing-1", "old-billing-1")]
    rules = (
        f'[rules.slow]\nmetric = "{LATENCY}"\nabove = 5000\nmatch = {{ client_id = "billing-.*", role = "producer" }}'
    )
    found = judged(rules, points, 2, "billing", "billing-1", "old-billing-1")
    assert [row["client_id"] for row in found.rows] == ["billing-1"]
    assert judged(rules.replace('"producer"', '"consumer"'), points, 2, "billing-1").rows == []


def test_sums_that_grow_within_a_time_open_and_clear() -> None:
    points = [
        point(30 + 60 * number, None, metric_name="app.errors", delta=2.0 if 6 <= number < 9 else 0.0)
        for number in range(30)
    ]
    found = judged(GROWTH, points, 6)
    row = found.only()
    assert (row["state"], row["opened_at"].minute, row["cleared_at"].minute) == ("cleared", 5, 20)
    assert row["why"].startswith("app.errors of checkout grew by 6 within 600 s; since")
    few = [each | {"delta": each["delta"] / 2} for each in points]
    assert judged(GROWTH, few, 6).rows == []


def test_a_first_delta_that_reaches_back_for_longer_and_what_is_by_topic_beside_a_total_do_not_count() -> None:
    early: Row = {"before_subscription": True, "start_time_unix_nano": 1, "time_unix_nano": 700 * 10**9}
    first = point(30, None, metric_name="app.errors", delta=100.0, **early)
    assert judged(GROWTH, [first]).rows == []
    assert judged(GROWTH, [first | {"time_unix_nano": 500 * 10**9}]).only()["verdict"] == "errors"
    both = [point(30, None, metric_name="app.errors", delta=4.0, topic=topic) for topic in (None, "a")]
    assert judged(GROWTH, both).rows == []
    assert judged(GROWTH, [*both[1:], both[1] | {"topic": "b"}]).only()["verdict"] == "errors"


def test_clients_that_run_day_and_night_are_silent_even_where_an_end_is_not_announced() -> None:
    def seen_once(rules: str) -> list[str]:
        found = Judged(parse_rules(rules))
        found.clients = [known("checkout", last_seen=NOON_US + 295 * S)]
        others = [client(f"other-{number}") for number in range(5)]
        found.windows(6, lambda number: [*others, client("checkout")] if number == 0 else others)
        return [row["subject"] for row in found.rows if row["verdict"] == "silent"]

    assert seen_once("") == [], "a Java producer ends without a terminating push"
    assert seen_once('[silent]\nstays = ["check.*"]') == ["checkout-1"]
    assert seen_once('[silent]\nstays = ["check"]') == [], "a pattern matches the whole"


def test_without_points_a_rule_finds_nothing_and_a_client_that_is_unknown_matches_nothing() -> None:
    assert judged(KIP_714, []).rows == []
    strangers = [point(30 + 60 * number, 6_000.0, "stranger") for number in range(5)]
    found = Judged(parse_rules(KIP_714 + 'match = { client_id = ".*" }'))
    found.points = strangers
    assert found.windows(2, lambda _: [client("stranger")]).rows == []
    found = Judged(parse_rules(KIP_714))
    found.points = strangers
    assert found.windows(1, lambda _: [client("stranger")]).only()["why"].startswith(f"{LATENCY} of unknown is 6,000")
