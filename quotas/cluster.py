"""What a quota callback is told of the cluster: its partitions and who leads them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition. `leader` is the id of the node that leads it, None while nobody does."""

    topic: str
    partition: int
    leader: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Kafka's `Cluster`, as far as KIP-257's callbacks need it. Topics that are being deleted are not in it.

    Attributes:
        cluster_id: as in the metadata, empty where it is unknown.
        partitions: one entry a partition.
    """

    cluster_id: str = ""
    partitions: Sequence[PartitionInfo] = ()

    @property
    def topics(self) -> frozenset[str]:
        """The names of all topics."""
        return frozenset(partition.topic for partition in self.partitions)

    def partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The partitions of one topic, none if there is no such topic."""
        return tuple(partition for partition in self.partitions if partition.topic == topic)

    def partitions_for_node(self, node_id: int) -> tuple[PartitionInfo, ...]:
        """The partitions that one node leads."""
        return tuple(partition for partition in self.partitions if partition.leader == node_id)
