"""What an export makes of the cluster's subscriptions: the intervals that its clients may wait for."""

from collections.abc import Mapping
from typing import Any

from support.programs.push_log import push_record
from support.subscriptions import by_name

from fleetgauge.base.clock import MockTime
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.resources import Resource
from fleetgauge.node.processes.subscription_deadlines import SubscriptionDeadlines
from fleetgauge.node.status.topic_inventory import TopicInventory
from fleetgauge.push_log.kafka_topic.seen_clients import SeenClients

NOW = 1_750_000_000_000_000
SECOND = 1_000_000


class InMemory:
    """A store of subscriptions."""

    def __init__(self, *resources: Resource) -> None:
        self.resources = by_name(resources)

    def list(self) -> dict[str, Resource]:
        return self.resources

    def alter(self, wanted: Mapping[str, Resource | None]) -> None:
        self.resources = {name: each for name, each in self.resources.items() if name not in wanted}


def test_a_client_whose_subscription_is_taken_back_is_waited_for_by_the_interval_of_the_others() -> None:
    time = MockTime(wall_ms=NOW // 1_000)
    seen = SeenClients(10, time)
    deadlines = SubscriptionDeadlines(
        ClusterSettings(bootstrap_servers="-"), time, [TopicInventory("pushes", seen, lambda: [0], time)]
    )
    at: dict[str, Any] = {"received_at": NOW, "push_interval_ms": 15_000, "terminating": False}
    seen.take([(0, number, push_record(number, b"x")._replace(**at, client_id=f"c{number}")) for number in range(2)])
    all_, fast = (Resource(name="all", metrics=("*",)), Resource(name="fast", metrics=("*",), interval_ms=15_000))
    store = InMemory(all_, fast, Resource(name="java", metrics=("*",), match="client_id=(?=a)"))

    def states_at(seconds: int) -> set[str]:
        return {each.state(NOW + seconds * SECOND).value for each in seen.snapshot()}

    deadlines._look(store)
    assert states_at(100) == {"vanished"}
    store.resources |= by_name([Resource(name="fast.until.20200101T000000Z", match="client_instance_id=none")])
    deadlines._look(store)
    assert list(store.resources) == ["all", "java"]
    assert states_at(400) == {"live"}
    assert states_at(901) == {"vanished"}
