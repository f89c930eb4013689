"""How quotas are customised: what a callback is asked and told, and how a configured one is loaded (KIP-257)."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from base.errors import InvalidConfigError
from base.principal import KafkaPrincipal
from quotas.entity import KafkaQuotaEntity
from quotas.quota_type import ClientQuotaType

CLIENT_QUOTA_CALLBACK_CLASS_CONFIG: Final = "client.quota.callback.class"


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

    def topics(self) -> frozenset[str]:
        """The names of all topics."""
        return frozenset(partition.topic for partition in self.partitions)

    def partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """The partitions of one topic, none if there is no such topic."""
        return tuple(partition for partition in self.partitions if partition.topic == topic)

    def partitions_for_node(self, node_id: int) -> tuple[PartitionInfo, ...]:
        """The partitions that one node leads."""
        return tuple(partition for partition in self.partitions if partition.leader == node_id)


class ClientQuotaCallback(Protocol):
    """Kafka's `ClientQuotaCallback`: decides who shares a quota, and how large it is.

    One callback serves all quota managers; its methods are called from every thread that handles requests, so
    they have to be quick and safe for threads. What it raises reaches the request that asked. Subclass this for the
    methods that do nothing; `quota_metric_tags` and `quota_limit` are its purpose.
    """

    def configure(self, configs: Mapping[str, object]) -> None:
        """Called once, before anything else, with every configured key."""
        return

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """Who shares the quota of this request: all requests that are given the same tags do.

        The quota's metrics carry the tags. `client_id` is empty where a client sends none. Called for every request.
        """
        ...

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """The limit, in the unit of the quota, of those who share `metric_tags`; None if the tags are in use no more.

        Called when tags are first seen, and for all of them after `update_quota`, `remove_quota`, a metadata update
        that changed quotas, or while `quota_reset_required`.
        """
        ...

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        """A quota was set with the usual tools. Its limit has not been used yet."""
        return

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity) -> None:
        """A quota was removed with the usual tools."""
        return

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """True if limits may have changed, other than by the calls here, since this was last asked for the type.

        Asked with every request: a flag. Changes that arrive by the other calls are seen to without it.
        """
        return False

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Partitions or their leaders have changed; True if that changed quotas."""
        return False

    def close(self) -> None:
        """The quota managers are shut down."""
        return


_METHODS: Final = (
    "configure",
    "quota_metric_tags",
    "quota_limit",
    "update_quota",
    "remove_quota",
    "quota_reset_required",
    "update_cluster_metadata",
    "close",
)


def load_callback(name: str, configs: Mapping[str, object]) -> ClientQuotaCallback:
    """Makes and configures the callback that `client.quota.callback.class` names.

    Args:
        name: `package.module.Class` or `package.module:Class`.
        configs: what its `configure` is given.

    Raises:
        InvalidConfigError: it is not found, does not import, cannot be made or configured, or is no callback.
    """
    module_name, _, class_name = name.rpartition(":" if ":" in name else ".")
    if not module_name or not class_name:
        raise _cannot(name, "it is no dotted path, for example my_company.quotas.GroupQuotas")
    try:
        callback = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:
        raise _cannot(name, f"{type(error).__name__}: {error}") from error
    missing = [method for method in _METHODS if not callable(getattr(callback, method, None))]
    if missing:
        raise _cannot(name, f"it is no ClientQuotaCallback, {', '.join(missing)} is missing")
    try:
        callback.configure(configs)
    except Exception as error:
        raise _cannot(name, f"its configure raised {type(error).__name__}: {error}") from error
    return callback  # type: ignore[no-any-return]


def _cannot(name: str, why: str) -> InvalidConfigError:
    return InvalidConfigError(f"{CLIENT_QUOTA_CALLBACK_CLASS_CONFIG}: cannot use {name}: {why}.")
