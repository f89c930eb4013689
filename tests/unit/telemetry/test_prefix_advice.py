"""Subscriptions that no known client answers are said, once, and stay in force."""

from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict
from unit.telemetry.node import Client, Node

Warnings = Callable[[], list[EventDict]]


@pytest.fixture
def warnings_of() -> Iterator[Warnings]:
    with capture_logs() as said:
        yield lambda: [line for line in said if line["event"] == "telemetry.unknown_metric_prefix"]


def test_a_prefix_that_no_client_knows_is_warned_about_with_the_nearest_one(
    node: Node, client: Client, warnings_of: Warnings
) -> None:
    node.manager.subscriptions.update("latency", {"metrics": "org.apache.kafka.prodcuer.,org.apache.kafka.consumer."})
    (warning,) = warnings_of()
    assert (warning["subscription"], warning["prefix"]) == ("latency", "org.apache.kafka.prodcuer.")
    assert warning["nearest"] == "org.apache.kafka.producer."
    assert node.manager.subscriptions.advice.unmatched == {
        "latency": {"org.apache.kafka.prodcuer.": "org.apache.kafka.producer."}
    }


def test_it_is_never_refused(make_node: type[Node], make_client: type[Client], warnings_of: Warnings) -> None:
    node = make_node(subscribed=False)
    node.manager.subscriptions.update("app", {"metrics": "com.example.orders."})
    assert make_client(node).get().requested_metrics == ("com.example.orders.",)
    assert "fleetgauge metrics lists the known ones" in warnings_of()[0]["message"]


def test_it_is_said_once_for_each_change(node: Node, warnings_of: Warnings) -> None:
    wrong = {"metrics": "producer."}
    node.manager.subscriptions.replace({"a": wrong})
    node.manager.subscriptions.replace({"a": wrong, "b": {"metrics": "*"}})
    node.manager.subscriptions.update("c", {"metrics": "org.apache.kafka."})
    assert len(warnings_of()) == 1
    node.manager.subscriptions.replace({"b": wrong})
    assert len(warnings_of()) == 2


def test_a_mended_subscription_is_mentioned_no_more(node: Node) -> None:
    node.manager.subscriptions.update("a", {"metrics": "producer."})
    assert node.manager.subscriptions.advice.unmatched == {"a": {"producer.": "org.apache.kafka.producer."}}
    node.manager.subscriptions.update("a", {"metrics": "org.apache.kafka.producer."})
    assert node.manager.subscriptions.advice.unmatched == {}


def test_all_and_nothing_are_no_reason_for_a_warning(node: Node, warnings_of: Warnings) -> None:
    node.manager.subscriptions.replace({"all": {"metrics": "*"}, "none": {"interval.ms": "1000"}})
    assert warnings_of() == []


def test_an_enormous_list_of_prefixes_is_looked_at_in_bounded_space(node: Node, warnings_of: Warnings) -> None:
    prefixes = ",".join(f"{number}" + "y" * 1_000 for number in range(3_000))
    node.manager.subscriptions.update("many", {"metrics": prefixes})
    found = node.manager.subscriptions.advice.unmatched["many"]
    assert len(found) == 32
    assert len(warnings_of()) == 32
    assert all(len(str(warning)) < 600 for warning in warnings_of())
