"""The client-metrics resources of a node while it runs: the configuration's, tools' changes, and what is in force."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import structlog

from fleetgauge.base.errors import KafkaError
from fleetgauge.node.state.node_state import Transaction
from fleetgauge.node.state.store import RecordKind, Records
from fleetgauge.telemetry.catalogue.nearest_prefix import nearest_prefix
from fleetgauge.telemetry.catalogue.standard_metrics import is_known_prefix
from fleetgauge.telemetry.subscriptions.overrides import ClientMetricsResources, Properties, ToolChanges
from fleetgauge.telemetry.subscriptions.prefix_advice import MAX_ADVISED
from fleetgauge.telemetry.subscriptions.resources import METRICS_CONFIG, Subscriptions, check_subscription

log = structlog.get_logger(__name__)

_NODE = ""
"""Name of the record about the built-in resource; no resource has an empty name."""
_REPLACES_DEFAULT = {"replaces_default": "true"}


class ClientMetrics:
    """The resources; a `StateKind` that puts them in force.

    Args:
        subscriptions: gets every change.
        configured: resources of the configuration.
        max_resources: see `ClientMetricsResources`.
    """

    kind = RecordKind.CLIENT_METRICS

    def __init__(self, subscriptions: Subscriptions, configured: Properties, max_resources: int) -> None:
        self._subscriptions = subscriptions
        self._resources = ClientMetricsResources(
            configured=configured, changes=ToolChanges(), max_resources=max_resources
        )
        self._is_first = True

    def configure(self, configured: Properties, max_resources: int) -> None:
        """Takes over the resources of a configuration that was read again; tools' changes stay over them."""
        self._put_in_force(replace(self._resources, configured=configured, max_resources=max_resources))
        self._warn_of_overrides()

    def effective(self) -> dict[str, dict[str, str]]:
        """The resources in force: their properties by name."""
        return self._resources.effective()

    def resources(self, transaction: Transaction) -> ClientMetricsResources:
        """Returns the resources as of now, with the changes of all workers.

        Raises:
            PushLogError: the state cannot be read now.
        """
        return self._with(transaction.read(self.kind))

    def change(
        self, transaction: Transaction, alter: Callable[[ClientMetricsResources], ClientMetricsResources]
    ) -> None:
        """Changes the resources durably.

        Raises:
            PushLogError: the state cannot be written now; nothing is changed.
            Exception: what `alter` raises; nothing is changed.
        """
        transaction.change(self.kind, lambda records: to_records(alter(self._with(records)).changes))

    def usable(self, records: Records) -> Records:
        """See `StateKind`."""
        usable = {}
        for name, each in records.items():
            try:
                if name != _NODE:
                    check_subscription(name, {**self._resources.configured.get(name, {}), **each})
            except KafkaError as error:
                log.error("state.value_refused", subscription=name, error=str(error), consequence="it is not applied")
            else:
                usable[name] = each
        _prepare_advice(self._with(usable).effective())
        return usable

    def apply(self, records: Records) -> None:
        """See `StateKind`."""
        self._put_in_force(self._with(records))
        if self._is_first:
            self._is_first = False
            self._warn_of_overrides()

    def _with(self, records: Records) -> ClientMetricsResources:
        return replace(self._resources, changes=from_records(records))

    def _put_in_force(self, resources: ClientMetricsResources) -> None:
        self._resources = resources
        self._subscriptions.replace(resources.effective())

    def _warn_of_overrides(self) -> None:
        for name, keys in self._resources.overridden().items():
            log.warning(
                "subscription.overridden",
                message="a tool set other values than the configuration file, and they stay in force: "
                "kafka-configs.sh --alter --entity-type client-metrics --entity-name NAME --delete-config KEYS",
                subscription=name,
                keys=keys,
            )


def from_records(records: Records) -> ToolChanges:
    """Changes made by tools, from the records of the state.

    >>> from_records({"": {"replaces_default": "true"}, "S": {"metrics": "*"}})
    ToolChanges(values={'S': {'metrics': '*'}}, replaces_default=True)
    """
    values = {name: values for name, values in records.items() if name != _NODE}
    return ToolChanges(values=values, replaces_default=_NODE in records)


def to_records(changes: ToolChanges) -> Records:
    """The reverse of `from_records`."""
    return {**changes.values, **({_NODE: _REPLACES_DEFAULT} if changes.replaces_default else {})}


def _prepare_advice(effective: Properties) -> None:
    """Searches for the nearest known prefixes here rather than on the loop, where `Subscriptions` needs them."""
    lists = (values.get(METRICS_CONFIG, "").split(",") for values in effective.values())
    prefixes = (part.strip() for parts in lists for part in parts)
    for prefix in islice((each for each in prefixes if each and not is_known_prefix(each)), MAX_ADVISED):
        nearest_prefix(prefix)
