"""The known-bad-client guard: who is protected, of what is asked instead, and what an operator sees and may change."""

import re
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode, InvalidConfigError
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.messages import GetTelemetrySubscriptionsResult
from fleetgauge.telemetry.subscriptions.client_guard import GuardAction
from fleetgauge.telemetry.subscriptions.known_clients import SHIPPED, guard_rules

ALL_OF_KAFKA = ("org.apache.kafka.",)
PYTHON_250 = {"client_software_name": "confluent-kafka-python", "client_software_version": "2.5.0-rdkafka-2.5.0"}


def rules_for(name: str, version: str) -> list[str]:
    return [rule.name for rule in SHIPPED if rule.concerns(name, version)]


def guard_lines(said: list[EventDict]) -> list[EventDict]:
    return [line for line in said if line["event"] == "telemetry.client_guard_applied"]


def asked(
    make_node: type[Node], make_client: type[Client], metrics: str, **software: str
) -> GetTelemetrySubscriptionsResult:
    node = make_node(subscribed=False)
    node.manager.subscriptions.update("s", {"metrics": metrics, "interval.ms": "60000"})
    return make_client(node, **software).get()


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("librdkafka", "2.5.0"),
        ("confluent-kafka-python", "2.5.0-rdkafka-2.5.0"),
        ("confluent-kafka-go", "2.5.0"),
        ("confluent-kafka-dotnet", "2.5.2"),
        ("confluent-kafka-javascript", "0.1.16-devel-librdkafka-2.5.0"),
        ("karafka", "v2.4.8-rdkafka-ruby-v0.16.0-librdkafka-v2.5.0"),
        ("kafka-ruby", "v0.5.2-librdkafka-v2.5.0-ruby-3.3.1"),
        ("somebody-elses", "1.0-rdkafka-2.5.0-RC1"),
        ("librdkafka", "2.5.3-RC1"),
        ("librdkafka", "HEAD"),
        ("confluent-kafka-python", "2.5.0-rdkafka-"),
    ],
)
def test_librdkafka_2_5_0_is_known_under_every_name_and_so_is_what_might_be_it(name: str, version: str) -> None:
    assert "librdkafka-crash" in rules_for(name, version)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("librdkafka", "2.5.3"),
        ("librdkafka", "2.4.0"),
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"),
        ("confluent-kafka-python", "2.5.0-rdkafka-2.16.0"),
        ("apache-kafka-java", "2.5.0"),
        ("kgo", "v2.5.0"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_other_clients_are_left_alone_by_it(name: str, version: str) -> None:
    assert "librdkafka-crash" not in rules_for(name, version)


@pytest.mark.parametrize(
    "metrics",
    ["no.such.", "org.apache.kafka.consumer.", "org.apache.kafka.consumer.,org.apache.kafka.producer.", "x,y"],
)
def test_librdkafka_2_5_0_is_never_asked_for_what_would_end_its_process(
    make_node: type[Node], make_client: type[Client], metrics: str
) -> None:
    assert asked(make_node, make_client, metrics, **PYTHON_250).requested_metrics == ALL_OF_KAFKA


@pytest.mark.parametrize("metrics", ["*", "org.apache.kafka.", "org.apache."])
def test_what_does_it_no_harm_is_asked_as_the_operator_says(
    make_node: type[Node], make_client: type[Client], metrics: str
) -> None:
    assert asked(make_node, make_client, metrics, **PYTHON_250).requested_metrics == (metrics,)


def test_nothing_asked_stays_nothing(make_node: type[Node], make_client: type[Client]) -> None:
    assert asked(make_node, make_client, "", **PYTHON_250).requested_metrics == ()


@pytest.mark.parametrize(("version", "kept"), [("2.10.0", False), ("2.10.1", True), ("2.16.0", True)])
def test_librdkafka_that_reads_only_the_last_prefix_is_asked_for_all_of_kafkas(
    make_node: type[Node], make_client: type[Client], version: str, kept: bool
) -> None:
    both = "org.apache.kafka.consumer.,org.apache.kafka.producer."
    result = asked(make_node, make_client, both, client_software_name="librdkafka", client_software_version=version)
    assert result.requested_metrics == (tuple(both.split(",")) if kept else ALL_OF_KAFKA)


@pytest.mark.parametrize(
    ("version", "codecs"),
    [
        ("3.7.2", (4, 3, 1, 2)),
        ("3.8.0", (1,)),
        ("3.9.1", (1,)),
        ("3.9.2", (4, 3, 1, 2)),
        ("4.0.0", (1,)),
        ("4.0.1", (4, 3, 1, 2)),
        ("4.4.0", (4, 3, 1, 2)),
        ("7.6.0-ccs", (4, 3, 1, 2)),
    ],
)
def test_a_java_client_that_dies_of_a_missing_codec_is_offered_javas_own_alone(
    make_node: type[Node], make_client: type[Client], version: str, codecs: tuple[int, ...]
) -> None:
    result = asked(make_node, make_client, "*", client_software_version=version)
    assert (result.accepted_compression_types, result.requested_metrics) == (codecs, ("*",))


def test_a_rule_announces_no_codec_that_the_node_does_not_take(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(compression_types=(CompressionType.ZSTD,))
    client = make_client(node, client_software_version="4.0.0")
    assert client.get().accepted_compression_types == ()
    assert client.answer(compression_type=CompressionType.NONE) is ErrorCode.NONE


def test_all_among_a_rewrites_prefixes_stands_alone(make_node: type[Node], make_client: type[Client]) -> None:
    node = make_node()
    rule = {"software": "apache-kafka-java", "action": "rewrite", "metrics": ["org.apache.kafka.", "*"]}
    node.manager.replace_guard_rules(guard_rules({"all": rule}))
    assert make_client(node).get().requested_metrics == ("*",)


def test_the_guide_names_every_shipped_rule() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "operate" / "metrics-and-guard.md").read_text()
    assert [rule.name for rule in SHIPPED if f"`{rule.name}`" not in guide] == []


def test_a_guarded_client_pushes_under_the_id_that_it_was_given(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(subscribed=False)
    node.manager.subscriptions.update("s", {"metrics": "no.such.", "interval.ms": "60000"})
    guarded, other = make_client(node, **PYTHON_250), make_client(node, "c2")
    guarded.get()
    other.get()
    assert (guarded.answer(), other.answer()) == (ErrorCode.NONE, ErrorCode.NONE)


def test_a_withheld_subscription_has_another_id_than_all_metrics(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node()
    client = make_client(node, client_software_name="kgo", client_software_version="v1.22.2")
    assert client.get().requested_metrics == ("",)
    assert client.answer() is ErrorCode.NONE
    node.manager.replace_guard_rules(guard_rules({"no-go": {"software": "kgo", "action": "withhold"}}))
    assert client.answer() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.get().requested_metrics == ()


def test_a_change_of_the_rules_is_to_those_concerned_a_change_of_subscription_and_to_others_nothing(
    node: Node, make_client: type[Client]
) -> None:
    python, java = make_client(node, **PYTHON_250), make_client(node, "c2")
    for client in (python, java):
        client.get()
        client.answer()
    withhold = {"mute": {"software": "confluent-kafka-python", "action": "withhold", "reason": "it floods"}}
    node.manager.replace_guard_rules(guard_rules(withhold))
    assert python.answer() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert java.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert python.get().requested_metrics == ()
    node.manager.replace_guard_rules(guard_rules({}))
    assert python.answer() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert python.get().requested_metrics == ("*",)


def test_other_codecs_are_a_change_of_subscription_too(node: Node, make_client: type[Client]) -> None:
    client = make_client(node)
    client.get()
    client.answer()
    gzip = {"software": "apache-kafka-java", "action": "rewrite", "compression": "gzip"}
    node.manager.replace_guard_rules(guard_rules({"gzip": gzip}))
    assert client.answer() is ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert client.get().accepted_compression_types == (1,)


def test_a_note_changes_nothing_for_the_client(node: Node, make_client: type[Client]) -> None:
    client = make_client(node)
    first = client.get()
    client.answer()
    node.manager.replace_guard_rules(guard_rules({"old": {"software": "apache-kafka-.*", "action": "note"}}))
    assert client.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    node.time.sleep(60_000)
    assert client.get().subscription_id == first.subscription_id
    assert node.manager.guard.counters()["old"]["subscriptions"] == 1


def test_what_was_applied_is_counted_by_rule_and_logged_once_for_a_version(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(subscribed=False)
    node.manager.subscriptions.update("s", {"metrics": "no.such."})
    with capture_logs() as said:
        for number in range(3):
            make_client(node, f"c{number}", **PYTHON_250).get()
        make_client(node, "java").get()
    counters = node.manager.guard.counters()
    assert [(name, rule["action"], rule["subscriptions"]) for name, rule in counters.items()] == [
        ("librdkafka-crash", "rewrite", 3)
    ]
    (line,) = guard_lines(said)
    assert (line["log_level"], line["rule"], line["action"]) == ("warning", "librdkafka-crash", "rewrite")
    assert (line["software_name"], line["software_version"]) == ("confluent-kafka-python", "2.5.0-rdkafka-2.5.0")


def test_a_flood_of_software_versions_is_logged_and_remembered_in_bounded_space(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(subscribed=False)
    node.manager.subscriptions.update("s", {"metrics": "no.such."})
    with capture_logs() as said:
        for number in range(1_500):
            version = f"1.{number}-rdkafka-2.5.0"
            client = make_client(node, str(number), client_software_name="x" * 4_000, client_software_version=version)
            assert client.get().requested_metrics == ALL_OF_KAFKA
    lines = guard_lines(said)
    assert (len(lines), max(len(str(line)) for line in lines) < 600) == (256, True)
    assert node.manager.guard.counters()["librdkafka-crash"]["subscriptions"] == 1_500


def test_the_shipped_rules_say_why_and_where_that_can_be_read() -> None:
    assert len({rule.name for rule in SHIPPED}) == len(SHIPPED)
    assert all(rule.reason and rule.source.startswith("https://") for rule in SHIPPED)


def test_a_shipped_rule_can_be_changed_and_switched_off_by_its_name() -> None:
    changed = guard_rules({"librdkafka-crash": {"action": "withhold"}, "franz-go-all": {"enabled": False}})
    by_name = {rule.name: rule for rule in changed}
    assert by_name["librdkafka-crash"].action is GuardAction.WITHHOLD
    assert by_name["librdkafka-crash"].versions.text == ">=2.5.0, <2.5.3"
    assert "franz-go-all" not in by_name
    assert guard_rules({}) == SHIPPED


def test_rules_of_ones_own_come_after_the_shipped_ones_and_see_what_those_left(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node()
    node.manager.replace_guard_rules(guard_rules({"z": {"software": "kgo", "versions": "<2", "action": "withhold"}}))
    old = make_client(node, client_software_name="kgo", client_software_version="v1.22.2")
    new = make_client(node, "c2", client_software_name="kgo", client_software_version="v2.0.0")
    assert (old.get().requested_metrics, new.get().requested_metrics) == ((), ("",))


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"action": "withhold"}, "software is missing"),
        ({"software": "x"}, "action is missing"),
        ({"software": "x", "action": "explode"}, "action is 'explode', and has to be one of withhold, rewrite, note"),
        ({"software": "x", "action": "rewrite"}, "needs metrics or compression"),
        ({"software": "x", "action": "note", "version": "1"}, "version is no key of a client guard rule"),
        ({"software": "(", "action": "note"}, "is not a pattern that RE2 supports"),
        ({"software": "x", "action": "note", "versions": ">=two"}, "'>=two' is no bound of a version range"),
        ({"software": "x", "action": "note", "when": "never"}, "when is 'never', and has to be one of always"),
        ({"software": "x", "action": "rewrite", "compression": "brotli"}, "compression holds 'brotli'"),
        ({"software": "x", "action": "note", "enabled": "perhaps"}, "enabled is 'perhaps'"),
    ],
)
def test_a_bad_rule_is_refused_with_what_is_wrong_and_what_is_allowed(table: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=re.escape(problem)):
        guard_rules({"mine": table})
