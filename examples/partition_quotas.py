"""A quota for the whole cluster; each broker grants its share by the partitions that it leads (KIP-257, motivation 2).

    client.quota.callback.class = "partition_quotas.PartitionQuotas"
    node.id = 1

At `fleetgauge gateway` that is the broker behind it: `node.id` is the broker's, and partitions are those that Metadata
responses to its clients have listed.

A user's topics are those that begin with its name and a dot. The quota that is set for a user is one for the cluster: a
broker that leads 2 of the user's 8 partitions gives a quarter of it, and more when it leads more. A broker that leads
none gives the share of one partition, so that requests which come astray are still held.
"""

from collections import Counter
from collections.abc import Mapping

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.callback import ClientQuotaCallback, Cluster
from fleetgauge.quotas.entity import KafkaQuotaEntity, UserEntity
from fleetgauge.quotas.quota_type import ClientQuotaType

USER_TAG = "user"


class PartitionQuotas(ClientQuotaCallback):
    """Quotas by partitions led. Safe for threads: what requests read is replaced by single steps."""

    def __init__(self) -> None:
        self._node_id = 0
        self._shares: dict[str, float] = {}
        self._limits: dict[tuple[ClientQuotaType, KafkaQuotaEntity], float] = {}

    def configure(self, configs: Mapping[str, object]) -> None:
        """Reads `node.id`."""
        self._node_id = int(str(configs["node.id"]))

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """All clients of a user share its quota."""
        return {USER_TAG: principal.name}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """This broker's share of the user's quota; the whole of it while no topic of the user's is known."""
        user = metric_tags[USER_TAG]
        limit = self._limits.get((quota_type, KafkaQuotaEntity(UserEntity.of(user), None)))
        return None if limit is None else limit * self._shares.get(user, 1.0)

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        """Keeps the quota for the whole cluster."""
        self._limits[quota_type, quota_entity] = new_value

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity) -> None:
        """Removes the quota."""
        self._limits.pop((quota_type, quota_entity), None)

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Counts the partitions by leader again; True if that changed a share."""
        partitions: Counter[str] = Counter()
        led: Counter[str] = Counter()
        for partition in cluster.partitions:
            user = partition.topic.partition(".")[0]
            partitions[user] += 1
            led[user] += partition.leader == self._node_id
        shares = {user: max(led[user], 1) / count for user, count in partitions.items()}
        changed = shares != self._shares
        self._shares = shares
        return changed
