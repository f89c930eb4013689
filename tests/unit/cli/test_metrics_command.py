"""`fleetgauge metrics`: what an operator asks before writing a subscription."""

import json

import pytest
from typer.testing import CliRunner, Result

from fleetgauge.cli import app
from fleetgauge.telemetry.catalogue.standard_metrics import REQUIRED_SOURCE


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["metrics", *arguments])


def names(*arguments: str) -> list[str]:
    return [metric["name"] for metric in json.loads(run(*arguments, "--format", "json").stdout)]


def test_it_shows_each_metric_on_one_line_with_kafkas_own_name() -> None:
    lines = run("--required").stdout.splitlines()
    (latency,) = [line for line in lines if line.startswith("org.apache.kafka.producer.node.request.latency.max ")]
    assert latency.split() == [
        "org.apache.kafka.producer.node.request.latency.max",
        *("gauge", "required", "node_id", "java", "librdkafka", "franz-go"),
        *("producer-node-metrics", "request-latency-max"),
    ]
    assert lines[-1] == "6 metrics"


def test_a_prefix_shows_what_a_subscription_with_it_would_select() -> None:
    assert len(names("--prefix", "org.apache.kafka.consumer.poll.")) == 1
    both = names("-p", "org.apache.kafka.consumer.poll.", "-p", "org.apache.kafka.producer.record.queue.time.")
    assert len(both) == 3
    assert names("--prefix", "*") == names()


def test_the_help_says_where_the_required_metrics_are_from() -> None:
    """KIP-714 marks them in bold type alone, and no source with the marks was found."""
    assert "Dekaf" in REQUIRED_SOURCE
    assert "".join(REQUIRED_SOURCE.split()) in "".join(run("--help").stdout.replace("│", "").split())


def test_filters_are_joined() -> None:
    assert len(names("--standard")) == 21
    assert len(names("--standard", "--role", "producer")) == 8
    assert len(names("--role", "share-consumer", "--client", "librdkafka")) > 17
    assert names("--role", "producer", "--required", "--prefix", "org.apache.kafka.producer.node.") == [
        "org.apache.kafka.producer.node.request.latency.avg",
        "org.apache.kafka.producer.node.request.latency.max",
    ]


def test_json_holds_the_whole_row() -> None:
    (metric,) = json.loads(run("-p", "org.apache.kafka.consumer.fetch.manager.records.lag.max", "-f", "json").stdout)
    assert metric == {
        "name": "org.apache.kafka.consumer.fetch.manager.records.lag.max",
        "type": "gauge",
        "attributes": ["topic", "partition"],
        "roles": ["consumer"],
        "is_standard": False,
        "is_required": False,
        "kafka_group": "consumer-fetch-manager-metrics",
        "kafka_name": "records-lag-max",
        "clients": ["java"],
        "unit": "records",
        "quantity": "records between the consumer's position and the end of the partition",
        "meaning": "records between the consumer's position and the end of the partition, at most in the client's "
        "last samples",
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-p", "producer.node."), "did you mean org.apache.kafka.producer.node.?"),
        (("-p", "com.example."), "no known metric is selected"),
        (("--role", "admin", "--required"), "no known metric is selected"),
    ],
)
def test_where_nothing_is_left_it_says_so_and_fails(arguments: tuple[str, ...], said: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, said in result.stderr) == (1, True)
