"""The table of known metrics, and the rule that names them."""

import collections
from typing import Literal

import pytest

from fleetgauge.telemetry.catalogue import standard_metrics
from fleetgauge.telemetry.catalogue.standard_metrics import (
    ROLE_PREFIXES,
    attribute_name,
    is_known_prefix,
    known_metrics,
    selected,
    serves_every_role,
    telemetry_name,
)


@pytest.mark.parametrize(
    ("group", "name", "expected"),
    [
        ("producer-metrics", "connection-creation-rate", "org.apache.kafka.producer.connection.creation.rate"),
        ("consumer-coordinator-metrics", "rebalance-latency-max", "consumer.coordinator.rebalance.latency.max"),
        ("producer-node-metrics", "request-latency-avg", "org.apache.kafka.producer.node.request.latency.avg"),
        ("app-info", "start-time-ms", "org.apache.kafka.app.info.start.time.ms"),
        ("Stream-Thread-Metrics", "Process-Ratio", "org.apache.kafka.stream.thread.process.ratio"),
        ("kafka-metrics-count", "count", "org.apache.kafka.kafka.count.count"),
    ],
)
def test_a_telemetry_name_is_kafkas_group_and_name_in_dots(group: str, name: str, expected: str) -> None:
    assert telemetry_name(group, name).removeprefix("org.apache.kafka.") == expected.removeprefix("org.apache.kafka.")
    assert telemetry_name(group, name).startswith("org.apache.kafka.")


def test_an_attribute_is_kafkas_tag_with_underscores() -> None:
    assert attribute_name("processor-node-id") == "processor_node_id"


def test_the_table_has_every_standard_and_required_metric_of_kip_714() -> None:
    standard = [metric for metric in known_metrics() if metric.is_standard]
    required = [metric for metric in standard if metric.is_required]
    roles = collections.Counter(metric.name.split(".")[3] for metric in standard)
    assert roles == {"producer": 8, "consumer": 13}
    assert len(required) == 6
    assert all(metric.name.split(".")[3] in metric.roles for metric in standard)


def test_every_client_has_the_required_metrics() -> None:
    assert all({"java", "librdkafka", "franz-go"} <= set(m.clients) for m in known_metrics() if m.is_required)


@pytest.mark.parametrize(
    ("client", "counts"),
    [
        ("librdkafka", {"producer": 10, "consumer": 13, "share-consumer": 17}),
        ("franz-go", {"producer": 6, "consumer": 6}),
    ],
)
def test_what_other_clients_have_is_named_as_kafkas_own(
    client: Literal["librdkafka", "franz-go"], counts: dict[str, int]
) -> None:
    listed = standard_metrics._OTHER_CLIENTS[client]
    assert {role: sum(len(n.split()) for n in groups.values()) for role, groups in listed.items()} == counts
    assert sum(client in metric.clients for metric in known_metrics()) == sum(counts.values())


def test_a_name_stands_in_the_table_once() -> None:
    names = [metric.name for metric in known_metrics()]
    assert len(names) == len(set(names))
    assert all(name == name.lower() and "-" not in name for name in names)


def test_a_prefix_selects_what_begins_with_it() -> None:
    names = {metric.name for metric in selected(("org.apache.kafka.producer.node.", "org.apache.kafka.consumer.poll"))}
    assert len(names) == 13
    assert {"org.apache.kafka.producer.node.request.rate", "org.apache.kafka.consumer.poll.idle.ratio.avg"} <= names


@pytest.mark.parametrize("all_metrics", ["*", "", "org.apache.kafka.", "o"])
def test_every_form_of_all_selects_everything(all_metrics: str) -> None:
    assert selected((all_metrics,)) == known_metrics()


@pytest.mark.parametrize("prefix", ["producer.", "org.apache.kafka.producer-metrics", "ORG.", "com.example.", "**"])
def test_what_is_no_prefix_of_a_known_name_is_not_known(prefix: str) -> None:
    assert not is_known_prefix(prefix)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("*", True),
        ("", True),
        ("org.apache.kafka.", True),
        ("org.apache.kafka.consumer.", False),
        ("org.apache.kafka.producer.", False),
        ("org.apache.kafka.admin.", False),
        ("x", False),
    ],
)
def test_one_prefix_serves_producers_and_consumers_of_librdkafka_only_above_their_roles(
    prefix: str, expected: bool
) -> None:
    assert serves_every_role("librdkafka", prefix) is expected


def test_a_metric_that_only_clients_of_one_role_have_names_that_role() -> None:
    for metric in known_metrics():
        named = [role for role, prefix in ROLE_PREFIXES.items() if metric.name.startswith(prefix)]
        assert set(named) <= {*metric.roles, "consumer"}, metric.name
        if len(metric.roles) == 1:
            assert named[-1:] == [*metric.roles], metric.name
