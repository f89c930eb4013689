"""A subscription that requests nothing is pointed out in the log of a node, at its start and at a SIGHUP."""

from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.programs.node import Node
from support.waiting import wait_for

pytestmark = pytest.mark.integration

SENTENCE = "this subscription requests no metrics"


def test_a_subscription_without_metrics_is_warned_of_at_the_start_and_at_a_reread(tmp_path: Path) -> None:
    with Node(tmp_path, config="[client-metrics.all]\ninterval.ms = 1000\n") as node:
        with RawClient(node.port) as client:
            assert client.get().requested_metrics == []
        wait_for(lambda: _warnings(node), "the warning", until=lambda tables: tables == ["[client-metrics.all]"])
        node.reread('[client-metrics.all]\nmetrics = "*"\n[client-metrics.more]\nmetrics = ""\n')
        both = ["[client-metrics.all]", "[client-metrics.more]"]
        wait_for(lambda: _warnings(node), "the other warning", until=lambda tables: tables == both)
        node.reread('[client-metrics.all]\nmetrics = "*"\n')
        assert len(_warnings(node)) == 2


def test_an_override_of_the_default_subscriptions_interval_leaves_its_metrics(tmp_path: Path) -> None:
    with Node(tmp_path, "client-metrics.default.interval.ms=1000") as node:
        with RawClient(node.port) as client:
            client.api_versions(name="apache-kafka-java", software_version="4.3.1")
            subscription = client.get()
        assert (subscription.requested_metrics, subscription.push_interval_ms) == (["*"], 1_000)
        assert _warnings(node) == []


def _warnings(node: Node) -> list[str]:
    """The tables that were warned of, in order."""
    lines = [line for line in node.output().splitlines() if SENTENCE in line]
    return [line[line.index("[client-metrics.") :].partition("]")[0] + "]" for line in lines]
