"""What admin tools change over the configuration's subscriptions: Kafka's checks, codes and texts, and our rule."""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import pytest

from fleetgauge.base.errors import ErrorCode, KafkaError
from fleetgauge.telemetry.subscriptions.overrides import (
    DEFAULT_NAME,
    DEFAULT_SUBSCRIPTION,
    MAX_NAME_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    Alteration,
    ClientMetricsResources,
    ConfigSource,
    Operation,
    ToolChanges,
)

SET, DELETE, APPEND, SUBTRACT = Operation
EMPTY = ClientMetricsResources(configured={}, changes=ToolChanges(), max_resources=3)
FILE = ClientMetricsResources(
    configured={"S1": {"metrics": "a.", "interval.ms": "60000"}}, changes=ToolChanges(), max_resources=3
)
BUILT_IN = ClientMetricsResources(
    configured={DEFAULT_NAME: dict(DEFAULT_SUBSCRIPTION)}, changes=ToolChanges(), max_resources=3
)
EVERY_KEY = [("interval.ms", DELETE, "1"), ("match", DELETE, ""), ("metrics", DELETE, "x")]
"""What kafka-client-metrics.sh --delete sends."""


def altered(
    resources: ClientMetricsResources, name: str, *alterations: tuple[str, int, str | None]
) -> ClientMetricsResources:
    return resources.altered(name, [Alteration(*each) for each in alterations])


def with_values(resources: ClientMetricsResources, name: str, **values: str) -> ClientMetricsResources:
    return altered(resources, name, *((key.replace("_", "."), SET, value) for key, value in values.items()))


def described(resources: ClientMetricsResources, name: str) -> dict[str, tuple[str, int]]:
    return {each.key: (each.value, int(each.source)) for each in resources.describe(name)}


@pytest.mark.parametrize(
    ("name", "alterations", "code", "text"),
    [
        ("", [("metrics", SET, "*")], 42, "Subscription name can't be empty"),
        ("", [], 42, "Subscription name can't be empty"),
        (
            "S",
            [("interval.ms", SET, "50")],
            42,
            "Invalid value 50 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            "S",
            [("interval.ms", SET, "abc")],
            40,
            "Invalid value abc for configuration interval.ms: Not a number of type INT",
        ),
        ("S", [("interval.ms", SET, "")], 40, "Invalid value  for configuration interval.ms: Not a number of type INT"),
        ("S", [("match", SET, "nosuch=x")], 40, "Illegal client matching pattern: nosuch=x"),
        ("S", [("match", SET, "client_id=*")], 40, "Illegal client matching pattern: client_id=*"),
        ("S", [("match", SET, "client_id=a,")], 40, "Configuration 'match' values must not be empty."),
        ("S", [("metrics", SET, "a,,b")], 40, "Configuration 'metrics' values must not be empty."),
        ("S", [("metrics", SET, None)], 42, "Null value not supported for : metrics"),
        ("S", [("metrics", APPEND, "a")], 40, "Can't APPEND to key metrics because its type is not LIST."),
        ("S", [("interval.ms", SUBTRACT, "1")], 40, "Can't SUBTRACT to key interval.ms because its type is not LIST."),
        ("S", [("bogus", APPEND, "a")], 40, "Can't APPEND to key bogus because its type is not LIST."),
        ("S", [("bogus", SET, "1")], 42, "Unknown client metrics configuration: bogus"),
        ("S", [("bogus", SET, "")], 42, "Unknown client metrics configuration: bogus"),
        ("S", [("metrics", SET, "a"), ("metrics", SET, "b")], 42, "Error due to duplicate config keys"),
        (
            "S",
            [("interval.ms", SET, "5"), ("match", SET, "x=y"), ("bogus", SET, "1")],
            42,
            "Unknown client metrics configuration: bogus",
        ),
        ("S", [("metrics", 9, "a")], 42, "Unknown config operation 9"),
    ],
)
def test_bad_alterations_are_refused_as_kafka_refuses_them(
    name: str, alterations: list[tuple[str, int, str | None]], code: int, text: str
) -> None:
    with pytest.raises(KafkaError) as raised:
        altered(EMPTY, name, *alterations)
    assert (raised.value.error_code, str(raised.value)) == (code, text)


def test_what_is_set_is_described_as_kafka_writes_it_and_the_rest_is_default() -> None:
    found = with_values(EMPTY, "S", interval_ms=" +200 ", metrics="a, b,a")
    assert described(found, "S") == {"interval.ms": ("200", 7), "match": ("", 5), "metrics": ("a,b", 7)}
    assert [each.key for each in found.describe("S")] == ["interval.ms", "match", "metrics"]
    assert described(EMPTY, "nosuch") == {"interval.ms": ("300000", 5), "match": ("", 5), "metrics": ("", 5)}


def test_a_describe_without_a_name_is_refused_with_kafkas_text() -> None:
    with pytest.raises(KafkaError, match="Client metrics subscription name must not be empty") as raised:
        list(EMPTY.describe(""))
    assert raised.value.error_code is ErrorCode.INVALID_REQUEST


def test_an_alteration_without_operations_or_of_an_unknown_resource_is_accepted_and_makes_none() -> None:
    assert altered(EMPTY, "S") == EMPTY
    assert altered(EMPTY, "nosuch", *EVERY_KEY) == EMPTY
    assert altered(EMPTY, "S", ("bogus", DELETE, "")) == EMPTY


def test_a_resource_without_keys_is_gone() -> None:
    made = with_values(EMPTY, "S", metrics="a", interval_ms="1000")
    assert list(made.effective()) == ["S"]
    assert altered(made, "S", ("metrics", DELETE, "")).effective() == {"S": {"interval.ms": "1000"}}
    assert altered(made, "S", *EVERY_KEY) == EMPTY


def test_an_empty_list_is_a_value() -> None:
    assert described(with_values(EMPTY, "S", metrics=""), "S")["metrics"] == ("", 7)


def test_a_tools_value_overrides_the_files_and_its_deletion_returns_to_it() -> None:
    assert described(FILE, "S1")["metrics"] == ("a.", ConfigSource.STATIC_BROKER_CONFIG)
    changed = with_values(FILE, "S1", metrics="b.")
    assert changed.effective() == {"S1": {"metrics": "b.", "interval.ms": "60000"}}
    (metrics,) = (each for each in changed.describe("S1") if each.key == "metrics")
    assert metrics.layers == (
        (ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG, "b."),
        (ConfigSource.STATIC_BROKER_CONFIG, "a."),
    )
    assert changed.overridden() == {"S1": ["metrics"]}
    assert altered(changed, "S1", ("metrics", DELETE, "")) == FILE
    assert FILE.overridden() == {}


@pytest.mark.parametrize(
    ("deleted", "named"), [(["metrics"], "metrics"), (["interval.ms", "match"], "interval.ms"), (None, "it")]
)
def test_what_only_the_file_declares_cannot_be_deleted(deleted: list[str] | None, named: str) -> None:
    changes = EVERY_KEY if deleted is None else [(key, DELETE, "") for key in deleted]
    with pytest.raises(KafkaError, match=rf"\[client-metrics.S1\], and tools cannot delete {named}: ") as raised:
        altered(FILE, "S1", *changes)
    assert raised.value.error_code is ErrorCode.POLICY_VIOLATION


def test_a_delete_of_a_declared_resource_is_refused_also_where_tools_override_all_of_it() -> None:
    changed = with_values(FILE, "S1", metrics="b.", interval_ms="1000", match="client_id=a")
    with pytest.raises(KafkaError, match="tools cannot delete it"):
        altered(changed, "S1", *EVERY_KEY)
    assert altered(changed, "S1", *EVERY_KEY[:2]).effective() == {"S1": {"metrics": "b.", "interval.ms": "60000"}}


def test_a_key_that_neither_sets_may_be_deleted_of_a_declared_resource() -> None:
    assert altered(FILE, "S1", ("match", DELETE, "")) == FILE


def test_the_built_in_default_becomes_an_ordinary_resource_once_a_tool_changes_it() -> None:
    assert described(BUILT_IN, DEFAULT_NAME)["metrics"] == ("*", ConfigSource.DEFAULT_CONFIG)
    slower = with_values(BUILT_IN, DEFAULT_NAME, interval_ms="30000")
    assert described(slower, DEFAULT_NAME) == {"interval.ms": ("30000", 7), "match": ("", 5), "metrics": ("*", 7)}
    gone = altered(BUILT_IN, DEFAULT_NAME, *EVERY_KEY)
    assert gone.effective() == {}
    assert altered(BUILT_IN, DEFAULT_NAME, ("interval.ms", DELETE, "")).effective() == {DEFAULT_NAME: {"metrics": "*"}}


def test_the_built_in_default_stays_beside_other_resources_of_tools() -> None:
    assert sorted(with_values(BUILT_IN, "S", metrics="a").effective()) == ["S", DEFAULT_NAME]


def test_a_file_with_a_table_replaces_a_deleted_default_and_an_empty_one_does_not_bring_it_back() -> None:
    gone = altered(BUILT_IN, DEFAULT_NAME, *EVERY_KEY).changes
    declared: Mapping[str, Any] = {DEFAULT_NAME: {"metrics": "b."}}
    assert ClientMetricsResources(configured=declared, changes=gone, max_resources=3).effective() == declared
    assert ClientMetricsResources(configured=BUILT_IN.configured, changes=gone, max_resources=3).effective() == {}


def test_alter_configs_replaces_what_tools_set_and_leaves_the_file() -> None:
    changed = with_values(FILE, "S1", interval_ms="1000", match="client_id=a")
    replaced = changed.replaced("S1", {"metrics": "b."})
    assert replaced.effective() == {"S1": {"metrics": "b.", "interval.ms": "60000"}}
    assert replaced.replaced("S1", {}) == FILE
    with pytest.raises(KafkaError, match="Null value not supported for : metrics"):
        EMPTY.replaced("S", {"metrics": None})


def test_more_resources_than_allowed_are_refused_and_those_that_are_there_may_be_changed() -> None:
    full = FILE
    for name in ("S2", "S3"):
        full = with_values(full, name, metrics="a")
    with pytest.raises(
        KafkaError, match=r"at most 3 client metrics resources \(client.metrics.resources.max\)"
    ) as raised:
        with_values(full, "S4", metrics="a")
    assert raised.value.error_code is ErrorCode.POLICY_VIOLATION
    assert with_values(full, "S3", metrics="b").effective()["S3"] == {"metrics": "b"}
    assert with_values(full, "S1", metrics="b").effective()["S1"]["metrics"] == "b"


def test_long_names_and_values_are_refused_and_strange_ones_are_kept() -> None:
    longest = "n" * MAX_NAME_CHARACTERS
    assert longest in with_values(EMPTY, longest, metrics="a").effective()
    with pytest.raises(KafkaError, match="Subscription name can't be longer than 255 characters"):
        with_values(EMPTY, longest + "n", metrics="a")
    with pytest.raises(KafkaError, match="Value of metrics can't be longer than"):
        with_values(EMPTY, "S", metrics="a" * (MAX_VALUE_CHARACTERS + 1))
    strange = "</script>\n\x1b[31m\x1f\u202e\0"
    assert strange in with_values(EMPTY, strange, metrics="a").effective()


def test_patterns_that_would_delay_every_new_client_are_refused_with_the_limit_and_what_was_given() -> None:
    dear = ",".join(["client_id=.*a.{400}"] * 4)
    resources = dataclasses.replace(EMPTY, max_resources=200)
    with pytest.raises(
        KafkaError, match=r"would have \d+ instructions .*, \d+ of them those of S, .* at most 32768"
    ) as raised:
        with_values(resources, "S", match=",".join([dear] * 3))
    assert raised.value.error_code is ErrorCode.POLICY_VIOLATION
    full = with_values(with_values(resources, "S1", match=dear), "S2", match=dear)
    with pytest.raises(KafkaError, match="those of S3"):
        with_values(full, "S3", match=dear)
    assert "S3" in with_values(full, "S3", metrics="a", match="client_id=orders-.*").effective()
    with pytest.raises(KafkaError, match="those of S1"):
        with_values(full, "S1", match=",".join([dear] * 2))
    again = with_values(altered(full, "S2", *EVERY_KEY), "S3", match=dear)
    assert sorted(again.effective()) == ["S1", "S3"]


def test_nothing_else_is_refused_where_an_earlier_release_kept_more_patterns() -> None:
    kept = {"S1": {"match": ",".join(["client_id=.*a.{400}"] * 12)}, "S2": {"match": "client_id=("}}
    resources = dataclasses.replace(EMPTY, changes=ToolChanges(values=kept))
    assert with_values(resources, "S1", metrics="a").effective()["S1"] == {**kept["S1"], "metrics": "a"}
    assert altered(resources, "S1", *EVERY_KEY).effective() == {"S2": kept["S2"]}


def test_no_list_of_names_that_an_operator_would_write_reaches_the_bound_of_patterns() -> None:
    """As many names of clients as a value has room for, and the most resources with all six selectors."""
    names = "|".join(f"{hashlib.sha256(bytes([each])).hexdigest()[:12]}-orders-{each}" for each in range(256))
    one = with_values(EMPTY, "S", match=f"client_id={names}")
    assert one.effective()["S"]["match"] == f"client_id={names}"
    resources = dataclasses.replace(EMPTY, max_resources=200)
    for number in range(200):
        match = (
            f"client_id=team-{number}-.*,client_software_name=apache-kafka-java,client_software_version=4\\..*,"
            f"client_source_address=10\\.{number}\\..*,client_source_port=[0-9]+,client_instance_id=.*"
        )
        resources = with_values(resources, f"S{number}", match=match)
    assert len(resources.effective()) == 200


def test_a_quoted_pattern_keeps_its_commas() -> None:
    quoted = 'client_id="a{1,2}", client_software_name=b'
    assert described(with_values(EMPTY, "S", match=quoted), "S")["match"] == (
        'client_id="a{1,2}",client_software_name=b',
        7,
    )
