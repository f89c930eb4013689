"""Rules at work on one client: one alert until it clears, whatever comes, comes twice, comes late or does not come."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.watch.client import MAX_CONNECTIONS, MAX_STEPS, ClientWatch, dump_state, load_state
from fleet.watch.identity import IDENTITY, Push, Sample
from fleet.watch.rules import Rule, parse_rules
from fleet.watch.table import ALERTS, as_json

S = 1_000_000
START = 1_750_000_000 * S
HOUR = 3_600 * S
LATENCY = "org.apache.kafka.producer.node.request.latency.max"
REBALANCES = "org.apache.kafka.consumer.coordinator.rebalance.total"
IDENTITY_OF_ONE = dict.fromkeys(IDENTITY) | {
    "client_instance_id": "Tm-1TLjmRReIm-FbmcCcIA",
    "client_id": "checkout",
    "client_software_name": "apache-kafka-java",
    "client_software_version": "4.4.0",
    "principal": "User:shop",
    "client_source_address": "10.0.0.1",
    "client_source_port": 40001,
    "receiver_node_id": 1,
    "group_id": "g",
    "group_member_id": "m-1",
    "push_interval_ms": 60_000,
}
SLOW = f'[rules.slow]\nmetric = "{LATENCY}"\nabove = 5000\nfor = "180s"\n'
SILENT = "[rules.silent]\nsilent_intervals = 3\n"
STORM = f'[rules.storm]\nmetric = "{REBALANCES}"\nincrease_above = 5\nwithin = "10m"\n'


@dataclass(slots=True)
class Client:
    """A client under watch; times in seconds from START."""

    rules: tuple[Rule, ...]
    watch: ClientWatch = field(init=False)
    said: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = ClientWatch(self.rules, HOUR)

    def push(self, at_s: float, *samples: Sample, terminating: bool = False, **known: Any) -> None:
        at_us = START + round(at_s * S)
        events = self.watch.see(
            Push(
                push_id=f"{at_us:032x}",
                received_us=at_us,
                terminating=terminating,
                identity=IDENTITY_OF_ONE | known,
                samples=samples,
            )
        )
        self.said += events or []

    def passes(self, until_s: float) -> None:
        self.said += self.watch.advance(START + round(until_s * S))

    def restart(self, rules: str | None = None) -> None:
        """As Spark does between any two batches."""
        self.rules = parse_rules(rules) if rules else self.rules
        self.watch = ClientWatch(self.rules, HOUR, load_state(dump_state(self.watch.state)))

    @property
    def story(self) -> list[tuple[str, str, str | None, float]]:
        """Rule, state, reason, and when [s]."""
        return [(each["rule"], each["state"], each["clear_reason"], _seconds(each["changed_at"])) for each in self.said]


def _seconds(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp() - START / S


def slow(value: float, **more: Any) -> Sample:
    return Sample(metric_name=LATENCY, value=float(value), **more)


def rebalances(value: float, *, kind: str = "delta", covers_s: int = 60, **more: Any) -> Sample:
    return Sample(metric_name=REBALANCES, value=value, temporality=kind, covers_us=covers_s * S, **more)


def client(*texts: str) -> Client:
    return Client(parse_rules("\n".join(texts)))


def test_a_latency_over_5000_ms_for_more_than_180_s_opens_one_alert_and_clears_once() -> None:
    one = client(SLOW)
    for at_s, value in ((0, 5_000), (60, 5_001), (120, 9_000), (180, 7_000), (240, 6_000)):
        one.push(at_s, slow(value))
    assert one.said == []
    for at_s, value in ((241, 6_100), (300, 8_000), (360, 5_000), (420, 100)):
        one.push(at_s, slow(value))
    assert one.story == [("slow", "open", None, 241), ("slow", "cleared", "recovered", 360)]
    opened, cleared = one.said
    assert opened["alert_id"] == cleared["alert_id"]
    assert (_seconds(opened["began_at"]), opened["value"], opened["threshold"]) == (60, 6_100, 5_000)
    assert (cleared["value"], cleared["furthest"]) == (6_100, 8_000)


def test_an_alert_of_the_same_ids_in_another_cluster_is_another_alert() -> None:
    alert_ids = set()
    for cluster_id in ("", "c", "d"):
        one = client(SLOW.replace("180s", "0s"))
        one.push(0, slow(6_000), cluster_id=cluster_id)
        alert_ids.add(one.said[0]["alert_id"])
    assert len(alert_ids) == 3


def test_an_alert_carries_the_whole_identity_of_its_client() -> None:
    one = client(SLOW)
    one.push(0, slow(6_000, node_id=2), slow(100, node_id=3), group_member_id="m-0")
    one.push(100, slow(6_000, node_id=2), client_source_port=40002, receiver_node_id=3)
    one.push(200, slow(6_000, node_id=2), slow(7_000, node_id=3), group_id=None, group_member_id=None)
    (alert,) = one.said
    assert set(ALERTS.names) == set(alert)
    assert as_json(alert)
    assert {name: alert[name] for name in IDENTITY} == IDENTITY_OF_ONE
    assert alert["connections"] == [
        {"client_source_address": "10.0.0.1", "client_source_port": 40002, "receiver_node_id": 3},
        {"client_source_address": "10.0.0.1", "client_source_port": 40001, "receiver_node_id": 1},
    ]
    assert (alert["metric_name"], alert["value"], alert["node_id"]) == (LATENCY, 7_000, 3)
    assert alert["text"] == f"{LATENCY} of checkout is 7,000, above 5,000"


def test_a_text_of_ones_own_says_what_is_known_and_what_is_not() -> None:
    one = client(f'[rules.r]\nmetric = "{LATENCY}"\nabove = 1\ntext = "{{client_id}} {{node_id}} {{topic}} {{value}}"')
    one.push(0, slow(1234.5, node_id=1))
    assert one.said[0]["text"] == "checkout 1 unknown 1,234.5"


def test_a_push_without_the_metric_neither_opens_nor_clears() -> None:
    one = client(SLOW)
    one.push(0, slow(6_000))
    one.push(60)
    one.push(120, slow(6_000))
    one.push(181, slow(6_000))
    one.push(240)
    one.push(300)
    assert one.story == [("slow", "open", None, 181)]


def test_a_metric_that_no_longer_comes_clears_as_unknown_and_never_as_recovered() -> None:
    one = client(SLOW)
    for at_s in (0, 100, 200):
        one.push(at_s, slow(6_000))
    for at_s in (260, 320, 379):
        one.push(at_s)
        one.passes(at_s)
    assert len(one.said) == 1
    one.passes(380)
    assert one.story[1:] == [("slow", "cleared", "unknown", 380)]


def test_what_held_before_a_long_gap_does_not_count() -> None:
    one = client(SLOW)
    one.push(0, slow(6_000))
    one.push(181, slow(6_000))
    assert one.said == []
    one.push(300, slow(6_000))
    one.push(362, slow(6_000))
    assert one.story == [("slow", "open", None, 362)]


def test_a_silent_client_is_told_once_and_clears_when_it_pushes_again() -> None:
    one = client(SILENT)
    one.push(0)
    one.passes(179.9)
    assert one.said == []
    one.passes(180)
    one.passes(1_000)
    one.restart()
    one.push(1_100)
    assert one.story == [("silent", "open", None, 180), ("silent", "cleared", "recovered", 1_100)]
    assert _seconds(one.said[0]["began_at"]) == 0


@pytest.mark.parametrize(
    ("role", "library", "is_silent"),
    [
        ("producer", "apache-kafka-java", False),
        ("admin", "apache-kafka-java", False),
        (None, "apache-kafka-java", False),
        ("consumer", "apache-kafka-java", True),
        ("producer", "kgo", True),
    ],
)
def test_a_quiet_client_is_silent_if_it_says_when_it_ends_or_is_expected_to_stay(
    role: str | None, library: str, is_silent: bool
) -> None:
    one = client(SILENT, "[rules.expected]\nsilent_intervals = 4\nstays = true\n")
    known = {"group_id": None, "group_member_id": None, "client_software_name": library}
    one.push(0, role=role, **known)
    one.push(60, **known)
    one.passes(1_000)
    assert one.story == [("silent", "open", None, 240)] * is_silent + [("expected", "open", None, 300)]


def test_a_client_that_said_that_it_ends_is_not_silent_and_clears_what_is_open() -> None:
    one = client(SLOW, SILENT)
    for at_s in (0, 100, 200):
        one.push(at_s, slow(6_000))
    one.push(210, terminating=True)
    one.push(210, terminating=True)
    one.push(100, slow(6_000))
    one.passes(100_000)
    assert one.story == [("slow", "open", None, 200), ("slow", "cleared", "ended", 210)]
    assert one.watch.is_forgotten(START + 210 * S + 1)


def test_a_silent_client_is_forgotten_in_time_and_its_alert_clears_as_gone() -> None:
    one = client(SILENT)
    one.push(0)
    one.passes(180 + 3_599)
    assert not one.watch.is_forgotten(START + (180 + 3_599) * S)
    one.passes(180 + 3_600)
    assert one.story == [("silent", "open", None, 180), ("silent", "cleared", "gone", 3_780)]
    assert one.watch.is_forgotten(START + (180 + 3_600) * S)


@pytest.mark.parametrize(("interval_ms", "silent_after_s"), [(1_000, 60), (None, 900), (2**31 - 1, 10_800), (-5, 60)])
def test_silence_is_judged_by_the_clients_own_interval(interval_ms: int | None, silent_after_s: int) -> None:
    one = client(SILENT)
    one.push(0, push_interval_ms=interval_ms)
    one.passes(silent_after_s - 1)
    assert one.said == []
    one.passes(silent_after_s)
    assert one.story == [("silent", "open", None, silent_after_s)]


def test_many_rebalances_within_the_window_are_a_storm() -> None:
    one = client(STORM)
    one.push(0, rebalances(40, covers_s=86_400))  # since the client's start: when, nobody knows
    for at_s in (60, 120, 180):
        one.push(at_s, rebalances(2))
    assert one.story == [("storm", "open", None, 180)]
    assert (one.said[0]["value"], _seconds(one.said[0]["began_at"])) == (6, 60)
    for at_s in (240, 500):
        one.push(at_s, rebalances(0))
    assert len(one.said) == 1
    one.push(660, rebalances(0))
    assert one.story[1:] == [("storm", "cleared", "recovered", 660)]


def test_cumulative_sums_and_totals_beside_their_topics_grow_once() -> None:
    one = client(STORM)
    one.push(0, rebalances(100, kind="cumulative"))
    one.push(60, rebalances(105, kind="cumulative"), rebalances(105, kind="cumulative", topic="a"))
    assert one.said == []
    one.push(120, rebalances(106, kind="cumulative"))
    assert one.said[0]["value"] == 6


def test_a_storm_whose_metric_stays_away_clears_as_unknown() -> None:
    one = client(STORM)
    one.push(0, rebalances(9))
    one.push(60)
    one.passes(600)
    assert one.story == [("storm", "open", None, 0), ("storm", "cleared", "unknown", 600)]


def test_an_alert_of_a_rule_that_was_removed_or_is_for_others_clears() -> None:
    one = client(SLOW, f'[rules.other]\nmetric = "{LATENCY}"\nabove = 1\n')
    for at_s in (0, 100, 200):
        one.push(at_s, slow(6_000))
    one.restart(SLOW + 'match = { client_id = "billing" }')
    one.push(260, slow(6_000))
    assert one.story[2:] == [("slow", "cleared", "not_watched", 260), ("other", "cleared", "not_watched", 260)]
    one.passes(10_000)
    assert len(one.said) == 4


def test_a_rule_that_became_another_kind_begins_anew() -> None:
    one = client(SILENT.replace("silent", "r", 1))
    one.push(0)
    one.passes(180)
    one.restart(SLOW.replace("slow", "r"))
    one.passes(200)
    one.push(210, slow(6_000))
    one.push(300, slow(6_000))
    one.push(391, slow(6_000))
    one.push(392, slow(7_000))
    assert one.story == [("r", "open", None, 180), ("r", "cleared", "not_watched", 210), ("r", "open", None, 391)]


def test_a_removed_rule_is_not_judged_when_time_passes() -> None:
    one = client(SLOW, SILENT)
    one.push(0, slow(6_000))
    one.restart(STORM)
    one.passes(100_000)
    assert one.said == []


def test_a_repeat_or_a_push_behind_a_later_one_counts_for_nothing() -> None:
    watch = ClientWatch(parse_rules(STORM), HOUR)
    push = Push(
        push_id="0" * 32, received_us=START, terminating=False, identity=IDENTITY_OF_ONE, samples=(rebalances(4),)
    )
    assert watch.see(push) == []
    assert watch.see(push) is None
    assert watch.see(Push(push_id="f", received_us=START - 1, terminating=False, identity=IDENTITY_OF_ONE)) is None


def test_what_is_remembered_is_bounded() -> None:
    one = client(SLOW, SILENT, STORM)
    sizes = []
    for number in range(3 * MAX_STEPS):
        one.push(number / 10, slow(6_000), rebalances(1), client_source_port=1_024 + number)
        sizes.append(len(dump_state(one.watch.state)))
    assert len(one.watch.state.connections) == MAX_CONNECTIONS
    assert len(one.watch.state.rules["storm"].steps) == MAX_STEPS
    assert one.watch.state.rules["storm"].alert is not None
    assert one.watch.state.rules["storm"].alert["furthest"] == 3 * MAX_STEPS
    assert max(sizes) < 20_000


EVENTS = st.lists(
    st.tuples(st.integers(1, 170), st.sampled_from((None, 4_000.0, 6_000.0)), st.sampled_from((None, 0.0, 3.0))),
    min_size=1,
    max_size=40,
)


@given(EVENTS, st.data())
def test_alerts_alternate_and_are_the_same_however_pushes_fall_into_batches(
    events: list[tuple[int, float | None, float | None]], data: st.DataObject
) -> None:
    whole, parts = client(SLOW, SILENT, STORM), client(SLOW, SILENT, STORM)
    at_s = 0
    for step_s, latency, growth in events:
        at_s += step_s
        samples = [slow(latency)] if latency is not None else []
        samples += [rebalances(growth)] if growth is not None else []
        whole.push(at_s, *samples)
        parts.push(at_s, *samples)
        if data.draw(st.booleans()):
            parts.restart()
        if data.draw(st.booleans()):
            parts.push(at_s, *samples)
    assert whole.said == parts.said
    for rule in ("slow", "storm"):
        states = [state for name, state, _, _ in whole.story if name == rule]
        assert states == ["open", "cleared"] * (len(states) // 2) + ["open"] * (len(states) % 2)
