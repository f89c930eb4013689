"""What a quota callback hears of partitions and leaders (KIP-257), from Metadata responses in every version."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from support.gateway.gateway_traffic import Relay, encoded, request, response, response_schema

from fleetgauge.base.clock import MockTime
from fleetgauge.gateway.requests.walk import MAX_STEPS, MAX_TOPICS
from fleetgauge.gateway.traffic.rules import TrafficRules
from fleetgauge.quotas.callback import Cluster, PartitionInfo
from fleetgauge.quotas.config import QuotaConfig
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.managers import QuotaManagers
from fleetgauge.quotas.metrics.metrics import Metrics

UNKNOWN, DENIED = ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed
Leaders = Mapping[str, tuple[int, ...] | ErrorCode]
"""By topic: the leader of each partition, -1 for none; or the topic's error."""


class Heard(Relay):
    """A connection whose gateway has a callback; `clusters` has what it was called with."""

    def __init__(self, *nodes: str) -> None:
        time = MockTime()
        managers = QuotaManagers.instantiate(QuotaConfig(), Metrics(time=time), time)
        self.clusters: list[Cluster] = []
        super().__init__(nodes, rules=TrafficRules(managers, Identities(), self.clusters.append))

    def answer(self, leaders: Leaders, version: int = 12, step: int = 0) -> None:
        """A Metadata response passes, in pieces of `step` bytes."""
        self.from_client(request(3, version, 1, b""))
        frame = response(3, version, 1, encoded(metadata(leaders, version)))
        for at in range(0, len(frame), step or len(frame)):
            self.from_broker(frame[at : at + (step or len(frame))])
        assert not self.in_flight


def metadata(leaders: Leaders, version: int) -> Any:
    schema = response_schema(3, version)
    topic = schema.__annotations__["topics"].__args__[0]
    partition = topic.__annotations__["partitions"].__args__[0]
    common = {
        "throttle_time": timedelta(),
        "brokers": (),
        "cluster_id": "c",
        "controller_id": 1,
        "error_code": ErrorCode.none,
    }

    def made(kind: Any, **values: Any) -> Any:
        return kind(**{key: value for key, value in values.items() if key in kind.__dataclass_fields__})

    def topic_of(number: int, name: str, led: tuple[int, ...] | ErrorCode) -> Any:
        error = led if isinstance(led, ErrorCode) else ErrorCode.none
        partitions = tuple(
            made(
                partition, error_code=ErrorCode.none, partition_index=index, leader_id=leader, leader_epoch=7,
                replica_nodes=(1, 2), isr_nodes=(1,), offline_replicas=(),
            )
            for index, leader in enumerate(() if isinstance(led, ErrorCode) else led)
        )  # fmt: skip
        values = {"name": name, "topic_id": UUID(int=number + 1), "is_internal": False, "partitions": partitions}
        return made(topic, error_code=error, **values)

    topics = tuple(topic_of(number, *each) for number, each in enumerate(leaders.items()))
    return made(schema, topics=topics, **common)


def heard(cluster: Cluster) -> dict[str, tuple[int | None, ...]]:
    return {
        topic: tuple(each.leader for each in cluster.partitions_for_topic(topic)) for topic in sorted(cluster.topics())
    }


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("step", [0, 1])
def test_leaders_are_heard_in_every_version_and_in_any_pieces(version: int, step: int) -> None:
    relay = Heard()
    relay.answer({"a.x": (1, 2, -1), "b": (3,)}, version, step)
    (cluster,) = relay.clusters
    assert heard(cluster) == {"a.x": (1, 2, None), "b": (3,)}
    assert PartitionInfo(topic="a.x", partition=1, leader=2) in cluster.partitions


def test_a_change_is_heard_once_and_what_stays_is_not() -> None:
    relay = Heard()
    relay.answer({"a": (1, 2), "b": (3,)})
    relay.answer({"a": (1, 2)})
    assert len(relay.clusters) == 1
    relay.answer({"a": (1, 1)})
    relay.answer({"a": (1, 1, 2), "c": (2,)})
    assert [heard(each) for each in relay.clusters[1:]] == [
        {"a": (1, 1), "b": (3,)},
        {"a": (1, 1, 2), "b": (3,), "c": (2,)},
    ]


def test_a_deleted_topic_is_gone_and_one_that_a_client_may_not_describe_stays() -> None:
    relay = Heard()
    relay.answer({"a": (1,), "b": (2,)})
    relay.answer({"a": DENIED, "b": UNKNOWN, "never": UNKNOWN})
    assert [heard(each) for each in relay.clusters[1:]] == [{"a": (1,)}]


@pytest.mark.parametrize("nodes", [(), ("*=127.0.0.1:1",)], ids=["as it is", "with other addresses"])
def test_all_partitions_of_a_large_cluster_are_heard(nodes: tuple[str, ...]) -> None:
    relay = Heard(*nodes)
    leaders = {f"t{number}": tuple(range(4)) for number in range(MAX_TOPICS + 1)}
    assert 4 * len(leaders) * 6 > MAX_STEPS
    relay.answer(leaders)
    (cluster,) = relay.clusters
    assert len(cluster.partitions) == 4 * len(leaders)
