"""What a change of subscriptions does to the resources and to the live clients."""

from dataclasses import replace
from typing import Any

import pytest
from support.subscriptions import plan

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.plan import Action
from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.planning import Effect, Plan
from fleetgauge.cluster.subscriptions.resources import Resource

JAVA = Client(
    instance_id="TaPBdoXKTJC6sSpzRYxDbA",
    client_id="orders",
    software_name="apache-kafka-java",
    software_version="4.3.1",
    address="10.0.0.1",
    port=5000,
)
LIBRDKAFKA = replace(
    JAVA,
    instance_id="bE0TJnyZQCOw2qA8FvYl0g",
    client_id="billing",
    software_name="confluent-kafka-python",
    software_version="2.16.1-rdkafka-2.16.0",
)
CRASHING = replace(LIBRDKAFKA, software_name="librdkafka", software_version="2.5.0", client_id="old")
ALL = Resource(name="all", metrics=("*",), interval_ms=60_000)
PRODUCERS = Resource(name="producers", metrics=("org.apache.kafka.producer.",), interval_ms=30_000)


def actions(planned: Plan) -> dict[str, Action]:
    return {change.name: change.action for change in planned.changes}


def effects(planned: Plan) -> list[Effect]:
    """In the order of the changes."""
    return [planned.effects[change.name] for change in planned.changes]


def test_names_outside_the_file_are_left_alone_unless_pruned() -> None:
    current, wanted = [ALL, PRODUCERS], [replace(PRODUCERS, interval_ms=10_000), replace(ALL, name="new")]
    assert actions(plan(current, wanted, [])) == {
        "all": Action.LEAVE,
        "producers": Action.CHANGE,
        "new": Action.ADD,
    }
    assert actions(plan(current, wanted, [], prune=True))["all"] is Action.DELETE


def test_what_is_as_the_file_wants_it_is_no_change() -> None:
    planned = plan([ALL], [ALL], [JAVA])
    assert not planned.has_changes
    assert planned.touched == ()


def test_an_empty_file_does_not_prune_a_cluster() -> None:
    with pytest.raises(ResourceError, match="would delete all"):
        plan([ALL], [], [], prune=True)


def test_pruning_leaves_the_canary_and_the_deadline_of_a_name_in_the_file() -> None:
    beside = [replace(ALL, name="all.canary"), replace(ALL, name="all.until.20261123T184500Z")]
    strange = [replace(each, name=each.name.replace("all", "gone")) for each in beside]
    planned = actions(plan([ALL, *beside, *strange], [ALL], [], prune=True))
    assert {planned[each.name] for each in beside} == {Action.LEAVE}
    assert {planned[each.name] for each in strange} == {Action.DELETE}


def test_clients_count_as_matching_by_all_selectors() -> None:
    orders = Resource(name="o", metrics=("*",), match="client_id=ord.*,client_source_address=10\\.0\\.0\\.1")
    planned = plan([], [orders], [JAVA, LIBRDKAFKA])
    assert effects(planned)[0].matching == (JAVA,)
    assert planned.touched == (JAVA,)


def test_what_a_wider_subscription_asks_for_already_touches_no_client() -> None:
    planned = plan([ALL], [replace(PRODUCERS, interval_ms=60_000)], [JAVA])
    assert planned.has_changes
    assert effects(planned)[1].matching == (JAVA,)
    assert planned.touched == ()
    assert planned.added.pushes_per_minute == 0


def test_pushes_are_counted_by_the_interval_that_results() -> None:
    """Three clients at 60 s, then at 10 s: 3 pushes a minute become 18."""
    clients = [replace(JAVA, instance_id=f"{letter}aPBdoXKTJC6sSpzRYxDbA") for letter in "TUV"]
    planned = plan([ALL], [Resource(name="fast", metrics=("*",), interval_ms=10_000)], clients)
    assert planned.added.pushes_per_minute == pytest.approx(15)
    assert effects(planned)[1].added == planned.added


def test_bytes_are_estimated_from_what_the_same_software_sends() -> None:
    """10 pushes of 2,000 B in all under `*`: at the same metrics each push has 200 B; 6 a minute more are 1,200 B."""
    sender = replace(JAVA, pushes=10, push_bytes=2_000, metrics=("*",))
    quiet = replace(JAVA, instance_id="UaPBdoXKTJC6sSpzRYxDbA", client_id="quiet", metrics=())
    added = plan(
        [replace(ALL, match="client_id=orders")],
        [Resource(name="q", metrics=("*",), interval_ms=10_000, match="client_id=quiet")],
        [sender, quiet],
    )
    assert added.added.pushes_per_minute == pytest.approx(6)
    assert added.added.bytes_per_minute == pytest.approx(1_200)
    assert added.bases == ("software",)


def test_a_part_of_the_metrics_costs_a_part_of_the_bytes() -> None:
    """Of 2,000 B all but 140 are shared by the metrics, of which a tenth or so are left."""
    sender = replace(JAVA, pushes=10, push_bytes=20_000, metrics=("*",))
    less = plan([ALL], [replace(ALL, metrics=("org.apache.kafka.producer.node.",))], [sender])
    assert -1_860 < less.added.bytes_per_minute < -1_500
    assert less.added.series < 0
    assert less.added.pushes_per_minute == 0


def test_bytes_of_a_software_that_never_pushed_are_typical_and_said_to_be() -> None:
    planned = plan([], [ALL], [LIBRDKAFKA])
    assert planned.bases == ("typical",)
    assert 100 < planned.added.bytes_per_minute < 3_000


def test_series_are_counted_from_data_points_where_they_are_known() -> None:
    """100 pushes of 4,000 points: 40 series under `*`."""
    known = replace(JAVA, role="producer", pushes=100, points=4_000, metrics=("*",))
    assert plan([], [ALL], [known]).added.series == pytest.approx(40)


def test_no_interval_above_five_minutes_is_reckoned_with() -> None:
    planned = plan([], [replace(ALL, interval_ms=3_600_000)], [JAVA])
    assert planned.added.pushes_per_minute == pytest.approx(0.2)
    assert any("no interval above 300,000 ms" in note for note in planned.notes)


def test_a_client_that_has_none_of_the_metrics_is_named_with_the_reason() -> None:
    wanted = Resource(name="r", metrics=("org.apache.kafka.producer.record.error.rate",))
    (shortfall,) = plan([], [wanted], [JAVA, LIBRDKAFKA]).shortfalls
    assert shortfall.software == LIBRDKAFKA.software
    assert shortfall.why == "librdkafka has no metric under org.apache.kafka.producer.record.error.rate"
    assert shortfall.clients == (LIBRDKAFKA,)


@pytest.mark.parametrize(
    ("software", "version", "why"),
    [
        ("apache-kafka-java", "3.6.2", "telemetry (KIP-714) needs java 3.7.0 or later"),
        ("librdkafka", "2.4.0", "telemetry (KIP-714) needs librdkafka 2.5.0 or later"),
        ("confluent-kafka-python", "2.4.0-rdkafka-2.4.0", "telemetry (KIP-714) needs librdkafka 2.5.0 or later"),
        ("sarama", "1.43", "the metrics of this software are unknown"),
    ],
)
def test_a_client_from_before_telemetry_is_named(software: str, version: str, why: str) -> None:
    client = replace(JAVA, software_name=software, software_version=version)
    (shortfall,) = plan([], [ALL], [client]).shortfalls
    assert shortfall.why == why


def test_a_client_that_the_change_may_crash_is_named() -> None:
    wanted = Resource(name="r", metrics=("org.apache.kafka.consumer.coordinator.",))
    planned = plan([], [wanted], [JAVA, LIBRDKAFKA, CRASHING])
    assert [(each.rule, each.clients) for each in planned.hazards] == [("librdkafka-crash", (CRASHING,))]
    assert "ends its process" in planned.hazards[0].reason


def test_a_second_subscription_is_a_hazard_by_the_union_of_both() -> None:
    """Alone, each asks for one prefix that all of librdkafka's clients have metrics under."""
    one = Resource(name="one", metrics=("org.apache.kafka.",))
    two = Resource(name="two", metrics=("org.apache.kafka.producer.",))
    assert not plan([], [one], [CRASHING]).hazards
    assert "librdkafka-crash" in {each.rule for each in plan([one], [two], [CRASHING]).hazards}


def test_a_codec_that_kills_a_client_is_a_hazard_of_its_first_push_alone() -> None:
    client = replace(JAVA, software_version="3.9.0")
    assert [each.rule for each in plan([], [ALL], [client]).hazards] == ["java-missing-codec"]
    assert not plan([ALL], [replace(ALL, interval_ms=10_000)], [client]).hazards


def test_open_verdicts_about_touched_clients_are_there() -> None:
    def row(**fields: Any) -> dict[str, Any]:
        return {"verdict": "crash-loop", "state": "open", "subject_kind": "client", "subject": "orders", **fields}

    findings = [
        row(),
        row(state="cleared"),
        row(subject="billing"),
        row(subject_kind="instance", subject=JAVA.instance_id),
        row(subject_kind="version", subject=JAVA.software),
        row(subject_kind="group", subject="orders"),
    ]
    planned = plan([], [replace(ALL, match="client_id=orders")], [JAVA, LIBRDKAFKA], findings=findings)
    assert list(planned.findings) == [findings[0], findings[3], findings[4]]


def test_an_unknown_prefix_names_the_nearest() -> None:
    (note,) = plan([], [Resource(name="r", metrics=("org.apache.kafka.prodcuer.",))], []).notes
    assert "did you mean org.apache.kafka.producer.?" in note


def test_a_pattern_of_java_alone_matches_no_client_and_is_noted() -> None:
    planned = plan([replace(ALL, match="client_id=(?!a).*")], [PRODUCERS], [JAVA])
    assert effects(planned)[0].matching == ()
    assert any("RE2 does not support" in note for note in planned.notes)


def test_a_port_that_is_not_known_is_counted_as_undecided() -> None:
    wanted = replace(ALL, match="client_source_port=5.*")
    (effect,) = effects(plan([], [wanted], [JAVA, replace(JAVA, port=None)]))
    assert (len(effect.matching), effect.undecided) == (1, 1)
