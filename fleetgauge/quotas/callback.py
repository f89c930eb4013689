"""Custom quotas (KIP-257): the callback interface, the cluster metadata that it receives, and the loading of its class.

A gateway feeds `Cluster` from the Metadata responses that pass it; `fleetgauge serve` has no partitions and never sends
metadata.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from fleetgauge.base.arguments import check_types
from fleetgauge.base.errors import InvalidConfigError
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.entity import KafkaQuotaEntity
from fleetgauge.quotas.quota_type import ClientQuotaType

CLIENT_QUOTA_CALLBACK_CLASS_CONFIG: Final = "client.quota.callback.class"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition. `leader` is the id of the node that leads it, None without a leader."""

    topic: str
    partition: int
    leader: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Kafka's `Cluster`, reduced to what KIP-257's callbacks need. Topics that are being deleted are not included.

    Attributes:
        cluster_id: as in the metadata, empty if unknown.
        partitions: one entry per partition.
    """

    cluster_id: str = ""
    partitions: Sequence[PartitionInfo] = ()

    def topics(self) -> frozenset[str]:
        """Returns the names of all topics."""
        return frozenset(partition.topic for partition in self.partitions)

    def partitions_for_topic(self, topic: str) -> tuple[PartitionInfo, ...]:
        """Returns the partitions of one topic, empty for an unknown topic."""
        return tuple(partition for partition in self.partitions if partition.topic == topic)

    def partitions_for_node(self, node_id: int) -> tuple[PartitionInfo, ...]:
        """Returns the partitions that one node leads."""
        return tuple(partition for partition in self.partitions if partition.leader == node_id)


class ClientQuotaCallback(Protocol):
    """Kafka's `ClientQuotaCallback`: decides which clients share a quota, and its limit.

    One callback serves all quota managers; its methods are called from every thread that handles requests, so
    they have to be fast and thread-safe. Exceptions propagate to the request that called. Subclass this to inherit the
    methods that do nothing; `quota_metric_tags` and `quota_limit` have to be implemented.
    """

    def configure(self, configs: Mapping[str, object]) -> None:
        """Called once, first, with every configured key."""
        return

    def quota_metric_tags(
        self, quota_type: ClientQuotaType, principal: KafkaPrincipal, client_id: str
    ) -> Mapping[str, str]:
        """Returns the tags of the quota of this request: requests with equal tags share one quota.

        The quota's metrics carry the tags. `client_id` is empty if the client sent none. Called for every request.
        """

    def quota_limit(self, quota_type: ClientQuotaType, metric_tags: Mapping[str, str]) -> float | None:
        """Returns the limit for `metric_tags` in the unit of the quota; None if the tags are no longer in use.

        Called when tags are first seen, and for all of them after `update_quota`, `remove_quota`, a metadata update
        that changed quotas, or while `quota_reset_required`.
        """

    def update_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity, new_value: float) -> None:
        """A quota was set with Kafka's tools. Its limit has not been used yet."""
        return

    def remove_quota(self, quota_type: ClientQuotaType, quota_entity: KafkaQuotaEntity) -> None:
        """A quota was removed with Kafka's tools."""
        return

    def quota_reset_required(self, quota_type: ClientQuotaType) -> bool:
        """True if limits may have changed, other than through these methods, since the last call for the type.

        Called for every request, so it should only read a flag. Changes through the other methods need no reset.
        """
        return False

    def update_cluster_metadata(self, cluster: Cluster) -> bool:
        """Partitions or their leaders have changed; True if that changed quotas."""
        return False

    def close(self) -> None:
        """The quota managers are shut down."""
        return


_METHODS: Final = tuple(name for name in vars(ClientQuotaCallback) if not name.startswith("_"))


def load_callback(name: str, configs: Mapping[str, object]) -> ClientQuotaCallback:
    """Instantiates and configures the callback that `client.quota.callback.class` names.

    Args:
        name: `package.module.Class` or `package.module:Class`.
        configs: passed to its `configure`.

    Raises:
        InvalidConfigError: it is not found, cannot be imported, instantiated or configured, or is not a callback.
    """
    check_types(name=(name, str))
    module_name, _, class_name = name.rpartition(":" if ":" in name else ".")
    if not module_name or not class_name:
        raise _cannot(name, "it is not a dotted path: write it like my_company.quotas.GroupQuotas")
    try:
        callback = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:
        raise _cannot(name, f"{type(error).__name__}: {error}") from error
    missing = [method for method in _METHODS if not callable(getattr(callback, method, None))]
    if missing:
        raise _cannot(name, f"it is not a ClientQuotaCallback: it lacks {', '.join(missing)}")
    try:
        callback.configure(configs)
    except Exception as error:
        raise _cannot(name, f"its configure raised {type(error).__name__}: {error}") from error
    return callback  # type: ignore[no-any-return]


def _cannot(name: str, why: str) -> InvalidConfigError:
    return InvalidConfigError(f"{CLIENT_QUOTA_CALLBACK_CLASS_CONFIG}: cannot use {name}: {why}.")
