"""The subscriptions of a cluster over its Admin API, by kafka-python: librdkafka's cannot name the resource type."""

import re
from collections.abc import Mapping
from typing import Any, Final

from fleetgauge.cluster.connection import Connection, refusal
from fleetgauge.cluster.errors import ClusterError
from fleetgauge.cluster.subscriptions.resources import KEYS, Resource, resource_of
from fleetgauge.telemetry.subscriptions.resources import INTERVAL_MS_CONFIG

_REFUSED: Final = re.compile(r"\[Error (\d+)\] (\w+): (.*)", re.DOTALL)


class Cluster(Connection):
    """The `plan.Store` of subscriptions."""

    needs = "client metrics (KIP-714) came with Kafka 3.7"
    client_id = "fleetgauge-subscriptions"

    def list(self) -> dict[str, Resource]:
        """See `plan.Store`; sorted by name, also those of canaries and deadlines (`resources.base_name`)."""
        from kafka.admin import ConfigResource, ConfigResourceType

        kind = ConfigResourceType.CLIENT_METRICS

        def described(admin: Any) -> dict[str, Any]:
            names = admin.list_config_resources([kind]).get("client_metrics", [])
            wanted = [ConfigResource(kind, name) for name in names]
            configs = admin.describe_configs(wanted, config_filter="all").get("client_metrics", {}) if names else {}
            return {name: configs.get(name, {}) for name in sorted(names)}

        listed = self.request(described, "DESCRIBE_CONFIGS")
        return {name: self._resource(name, configs) for name, configs in listed.items()}

    def alter(self, wanted: Mapping[str, Resource | None]) -> None:
        """See `plan.Store`."""
        from kafka.admin import ConfigResource, ConfigResourceType

        kind = ConfigResourceType.CLIENT_METRICS
        resources = [ConfigResource(kind, name, _operations(each)) for name, each in wanted.items()]
        results = self.request(
            lambda admin: admin.alter_configs(resources, raise_on_unknown=False, incremental=True)["client_metrics"],
            "ALTER_CONFIGS",
        )
        refused = {name: str(result) for name, result in sorted(results.items()) if result != "OK"}
        if refused:
            name, result = next(iter(refused.items()))
            raise _refusal(name, result, done=[each for each in sorted(results) if each not in refused])

    def _resource(self, name: str, described: Mapping[str, Mapping[str, Any]]) -> Resource:
        if not described:
            raise ClusterError(f"{self.servers} lists the subscription {name}, but does not describe it")
        known = {key: described[key]["value"] for key in KEYS if key in described}  # a later release may have others
        return resource_of(name, {key: str(value) for key, value in known.items() if value})


def _operations(resource: Resource | None) -> dict[str, tuple[str, str | None]]:
    """The operations by key that make a resource be this, whatever it was: one without keys is no longer there.

    The interval is always set: a node whose configuration declares the resource would return to that one's.
    """
    properties = {} if resource is None else {INTERVAL_MS_CONFIG: str(resource.interval_ms), **resource.properties()}
    return {key: ("SET", properties[key]) if key in properties else ("DELETE", None) for key in KEYS}


def _refusal(name: str, result: str, done: list[str]) -> ClusterError:
    match = _REFUSED.match(result)
    changed = f"; changed were {', '.join(done)}" if done else ""
    return refusal(match[2] if match else "", f"{name}: {match[3] if match else result}{changed}", "ALTER_CONFIGS")
