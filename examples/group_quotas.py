"""Several principals share one quota (KIP-257's first motivation).

    client.quota.callback.class = "group_quotas.GroupQuotas"
    client.quota.callback.config.quota.groups = "payments: alice, bob; search: carol"

The members of a group share its quota, whatever their client ids; the quota is set with the usual tools, for a user of
the group's name: `kafka-configs.sh --entity-type users --entity-name payments --add-config producer_byte_rate=1048576`.
Whoever is in no group has a quota as a user of their own name.
"""

from collections.abc import Mapping

from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.callback import ClientQuotaCallback
from fleetgauge.quotas.entity import DEFAULT_USER_ENTITY, KafkaQuotaEntity, UserEntity
from fleetgauge.quotas.quota_type import ClientQuotaType

GROUPS_CONFIG = "quota.groups"
GROUP_TAG = "group"


class GroupQuotas(ClientQuotaCallback):
    """Quotas by group. Safe for threads: what requests read is replaced by single steps."""

    def __init__(self) -> None:
        self._group_of: dict[str, str] = {}
        self._limits: dict[tuple[ClientQuotaType, KafkaQuotaEntity], float] = {}

    def configure(self, configs: Mapping[str, object]) -> None:
        """Reads `quota.groups`: `group: member, member; group: member`."""
        for group in str(configs.get(GROUPS_CONFIG, "")).split(";"):
            name, _, members = group.partition(":")
            for member in filter(None, map(str.strip, members.split(","))):
                self._group_of[member] = name.strip()

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """The group's name, or the principal's own; client ids do not matter."""
        return {GROUP_TAG: self._group_of.get(principal.name, principal.name)}

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """The quota of the user of that name, or the default one of users."""
        named = self._limits.get((quota_type, KafkaQuotaEntity(UserEntity.of(metric_tags[GROUP_TAG]), None)))
        by_default = self._limits.get((quota_type, KafkaQuotaEntity(DEFAULT_USER_ENTITY, None)))
        return by_default if named is None else named

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        """Stores a quota; quotas on client ids are stored, too, but never requested."""
        self._limits[quota_type, quota_entity] = new_value

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity) -> None:
        """Removes a quota."""
        self._limits.pop((quota_type, quota_entity), None)
