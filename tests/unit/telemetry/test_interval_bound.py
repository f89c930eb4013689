"""An interval that a client's software cannot compute with is not given to it."""

import uuid

import pytest
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode
from fleetgauge.telemetry.subscriptions.interval_bound import LIBRDKAFKA_MAX_INTERVAL_MS

HOUR_MS = 3_600_000
LARGEST_JITTER_PERCENT = 120


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0"),
        ("confluent-kafka-go", "2.6.0"),
        ("confluent-kafka-dotnet", "2.10.1"),
        ("librdkafka", "2.5.3"),
        ("node-rdkafka", "3.0.0"),
        ("rust-kafka", "0.36-rdkafka-2.8.0"),
    ],
)
def test_librdkafka_gets_the_longest_interval_that_it_can_compute_with(
    make_node: type[Node], make_client: type[Client], name: str, version: str
) -> None:
    node = make_node(interval_ms=HOUR_MS)
    client = make_client(node, client_software_name=name, client_software_version=version)
    interval_ms = client.get().push_interval_ms
    assert interval_ms == LIBRDKAFKA_MAX_INTERVAL_MS
    assert interval_ms * 10 * LARGEST_JITTER_PERCENT < 2**31 <= (interval_ms + 1) * 10 * LARGEST_JITTER_PERCENT


def test_its_pushes_are_gated_by_the_interval_that_it_was_given(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(interval_ms=HOUR_MS)
    client = make_client(node, client_software_name="librdkafka", client_software_version="2.16.0")
    client.get()
    assert client.answer() is ErrorCode.NONE
    node.time.sleep(LIBRDKAFKA_MAX_INTERVAL_MS)
    push = client.accepted()
    assert push.record.push_interval_ms == LIBRDKAFKA_MAX_INTERVAL_MS


def test_its_subscription_id_is_the_one_of_that_interval_so_a_restarted_node_knows_it(
    make_node: type[Node], make_client: type[Client]
) -> None:
    instance_id = uuid.uuid4()
    ids = set()
    for interval_ms in (HOUR_MS, LIBRDKAFKA_MAX_INTERVAL_MS):
        client = make_client(make_node(interval_ms=interval_ms), client_software_name="librdkafka")
        client.id = instance_id
        client.get()
        ids.add(client.subscription_id)
    assert len(ids) == 1


@pytest.mark.parametrize("name", ["apache-kafka-java", "kgo", "unknown"])
def test_others_get_the_hour_that_was_configured(make_node: type[Node], make_client: type[Client], name: str) -> None:
    node = make_node(interval_ms=HOUR_MS)
    assert make_client(node, client_software_name=name).get().push_interval_ms == HOUR_MS


def test_a_shorter_interval_is_left_as_it_is(make_node: type[Node], make_client: type[Client]) -> None:
    node = make_node(interval_ms=LIBRDKAFKA_MAX_INTERVAL_MS - 1)
    client = make_client(node, client_software_name="librdkafka")
    assert client.get().push_interval_ms == LIBRDKAFKA_MAX_INTERVAL_MS - 1
