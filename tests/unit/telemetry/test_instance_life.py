"""Which client instances a node remembers: connections, expiry, the bound of the cache."""

import uuid

import pytest
from structlog.testing import capture_logs
from unit.telemetry.node import Client, Node

from fleetgauge.base.errors import ErrorCode
from fleetgauge.telemetry.instances.gate import MAX_TIMED

INTERVAL_MS = 60_000


def test_an_instance_goes_with_its_only_connection(node: Node, client: Client) -> None:
    client.get()
    assert node.disconnect("c1") == 1
    assert len(node.manager.instances.cache) == 0
    assert node.disconnect("c1") == 0


def test_the_end_of_an_old_connection_leaves_a_live_client_alone(node: Node, client: Client) -> None:
    client.get("bootstrap")
    client.answer("broker")
    assert node.disconnect("bootstrap") == 0
    assert client.answer("broker") is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert node.disconnect("broker") == 1


def test_the_end_of_the_latest_connection_leaves_a_client_alone_that_has_another(node: Node, client: Client) -> None:
    client.get("bootstrap")
    client.answer("broker")
    assert node.disconnect("broker") == 0
    assert client.answer("bootstrap") is ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_connection_ends_every_client_that_lived_on_it_alone(node: Node, make_client: type[Client]) -> None:
    clients = [make_client(node, client_id=f"app-{index}") for index in range(3)]
    for each in clients:
        each.get()
    clients[1].answer("c2")
    assert node.disconnect("c1") == 2
    assert len(node.manager.instances.cache) == 1


def test_only_the_latest_connections_of_a_client_are_remembered(node: Node, client: Client) -> None:
    client.id = uuid.uuid4()
    for index in range(100):
        client.get(f"c{index}")
    assert len(node.manager.instances.cache._by_connection) == MAX_TIMED
    for index in range(99):
        assert node.disconnect(f"c{index}") == 0
    assert node.disconnect("c99") == 1


@pytest.mark.parametrize(("interval_ms", "lifetime_ms"), [(100, 60_000), (60_000, 180_000)])
def test_a_silent_instance_expires_after_three_intervals_but_never_within_a_minute(
    make_node: type[Node], make_client: type[Client], interval_ms: int, lifetime_ms: int
) -> None:
    node = make_node(interval_ms=interval_ms)
    make_client(node).get()
    node.time.sleep(lifetime_ms - 1)
    assert node.expire() == 0
    node.time.sleep(1)
    assert node.expire() == 1
    assert len(node.manager.instances.cache) == 0
    assert node.disconnect("c1") == 0


def test_every_request_starts_the_time_anew_and_an_old_deadline_removes_nothing(node: Node, client: Client) -> None:
    client.get()
    for _ in range(10):
        node.time.sleep(2 * INTERVAL_MS)
        assert client.answer() is ErrorCode.NONE
        assert node.expire() == 0
    node.time.sleep(3 * INTERVAL_MS)
    assert node.expire() == 1


def test_an_old_deadline_does_not_remove_an_instance_that_came_back(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(cache_max_size=1)
    client = make_client(node)
    client.get()
    make_client(node, "c2").get()  # evicts the first
    node.time.sleep(3 * INTERVAL_MS - 1)
    client.answer()  # back again, and the second is evicted
    node.time.sleep(1)
    assert node.expire() == 0
    assert len(node.manager.instances.cache) == 1


def test_a_shorter_interval_brings_the_deadline_forward(make_node: type[Node], make_client: type[Client]) -> None:
    node = make_node(interval_ms=3_600_000)
    client = make_client(node)
    client.get()
    node.manager.subscriptions.update("all", {"metrics": "*", "interval.ms": "100"})
    client.get()
    node.time.sleep(60_000)
    assert node.expire() == 1


def test_the_least_recently_used_instance_goes_when_the_cache_is_full(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(cache_max_size=2)
    first, second, third = (make_client(node, f"c{index}", client_id=f"app-{index}") for index in range(3))
    first.get()
    second.get()
    first.answer()
    third.get()
    assert len(node.manager.instances.cache) == 2
    assert first.answer() is ErrorCode.THROTTLING_QUOTA_EXCEEDED  # its gate is still known
    assert node.disconnect("c1") == 0  # the second is gone, with its connection
    assert node.manager.figures.counters()["instances_evicted"] == 1


def test_eviction_warns_at_most_once_in_five_minutes(make_node: type[Node], make_client: type[Client]) -> None:
    node = make_node(cache_max_size=1)
    with capture_logs() as said:
        for index in range(10):
            make_client(node, f"c{index}").get()
        assert [(line["event"], line["instances"], line["evicted"]) for line in said] == [
            ("telemetry.instance_cache_full", 1, 1)
        ]
        node.time.sleep(300_000)
        make_client(node, "later").get()
        assert [line["evicted"] for line in said] == [1, 10]
    assert node.manager.figures.counters()["instances_evicted"] == 10


def test_a_flood_of_new_ids_leaves_no_more_behind_than_the_cache_holds(
    make_node: type[Node], make_client: type[Client]
) -> None:
    node = make_node(cache_max_size=50, interval_ms=3_600_000)
    client = make_client(node)
    for index in range(5_000):
        client.id = uuid.UUID(int=index + 2)
        client.get(f"c{index}")
    cache = node.manager.instances.cache
    assert len(cache) == len(cache._by_connection) == len(cache.register) == 50
    assert len(cache._queue) <= 2 * 50 + 1_024 + 1
