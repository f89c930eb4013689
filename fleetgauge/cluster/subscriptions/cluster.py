"""The subscriptions of a cluster over its Admin API, by kafka-python: librdkafka's cannot name the resource type."""

import re
from collections.abc import Mapping
from typing import Any, Final

from fleetgauge.cluster.subscriptions.connection import NOT_AUTHORIZED, Connection, missing_acl
from fleetgauge.cluster.subscriptions.resources import KEYS, ClusterError, NotAuthorizedError, Resource, resource_of
from fleetgauge.cluster.subscriptions.service import Changes
from fleetgauge.cluster.subscriptions.settings import ClusterSettings

_REFUSED: Final = re.compile(r"\[Error (\d+)\] (\w+): (.*)", re.DOTALL)


class Cluster(Connection):
    """The `Store` of `service.Subscriptions`. Use it in `with`.

    Args:
        settings: where the cluster is.

    Raises:
        SubscriptionError: kafka-python is missing, or a setting is not known to it.
        ClusterError: no broker answers, or it refuses the credentials.
    """

    needs = "client metrics (KIP-714) came with Kafka 3.7"

    def __init__(self, settings: ClusterSettings) -> None:
        super().__init__(settings, "fleetgauge-subscriptions")

    def list(self) -> tuple[Resource, ...]:
        """All client-metrics resources, sorted by name.

        Raises:
            NotAuthorizedError: DESCRIBE_CONFIGS is missing.
            ClusterError: the cluster does not answer.
        """
        from kafka.admin import ConfigResource, ConfigResourceType

        kind = ConfigResourceType.CLIENT_METRICS
        try:
            names = self.admin.list_config_resources([kind]).get("client_metrics", [])
            wanted = [ConfigResource(kind, name) for name in names]
            found = self.admin.describe_configs(wanted, config_filter="all").get("client_metrics", {}) if names else {}
        except Exception as error:  # as above
            raise self.failure(error, "DESCRIBE_CONFIGS") from error
        return tuple(self._resource(name, found.get(name, {})) for name in sorted(names))

    def alter(self, changes: Changes) -> None:
        """Sets and deletes properties, all resources in one request.

        Raises:
            NotAuthorizedError: ALTER_CONFIGS is missing.
            ClusterError: a change was refused, with the cluster's words; others of the request may have been made.
        """
        from kafka.admin import ConfigResource, ConfigResourceType

        kind = ConfigResourceType.CLIENT_METRICS
        resources = [ConfigResource(kind, name, dict(map(_operation, keys.items()))) for name, keys in changes.items()]
        try:
            results = self.admin.alter_configs(resources, raise_on_unknown=False, incremental=True)["client_metrics"]
        except Exception as error:  # as above
            raise self.failure(error, "ALTER_CONFIGS") from error
        refused = {name: str(result) for name, result in sorted(results.items()) if result != "OK"}
        if refused:
            name, result = next(iter(refused.items()))
            raise _refusal(name, result, done=[each for each in sorted(results) if each not in refused])

    def _resource(self, name: str, described: Mapping[str, Mapping[str, Any]]) -> Resource:
        if not described:
            raise ClusterError(f"{self.servers} lists the subscription {name}, but does not describe it")
        known = {key: described[key]["value"] for key in KEYS if key in described}  # a later release may have others
        return resource_of(name, {key: str(value) for key, value in known.items() if value})


def _operation(item: tuple[str, str | None]) -> tuple[str, tuple[str, str | None]]:
    key, value = item
    return key, ("DELETE", None) if value is None else ("SET", value)


def _refusal(name: str, result: str, done: list[str]) -> ClusterError:
    found = _REFUSED.match(result)
    if found is not None and found[2] in NOT_AUTHORIZED:
        return NotAuthorizedError(missing_acl("ALTER_CONFIGS"))
    changed = f"; changed were {', '.join(done)}" if done else ""
    return ClusterError(f"the cluster refuses {name}: {found[3] if found else result}{changed}")
