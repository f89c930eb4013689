"""The interface for the command line and the console: list, plan, apply."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.planning import Finding, Plan, plan
from fleetgauge.cluster.subscriptions.resources import KEYS, Resource, SubscriptionError
from fleetgauge.telemetry.subscriptions.resources import INTERVAL_MS_CONFIG

Changes = Mapping[str, Mapping[str, str | None]]
"""Properties to set by resource and key; None deletes a key. A resource without keys is no longer there."""


class Store(Protocol):
    """Where the subscriptions are kept: `cluster.Cluster`, or a node's own."""

    def list(self) -> tuple[Resource, ...]:
        """All resources, sorted by name."""

    def alter(self, changes: Changes) -> None:
        """Sets and deletes properties.

        Raises:
            ClusterError: a change was refused; the text names it, and what was done before it.
        """


class Subscriptions:
    """The subscriptions of a cluster or node, planned against its live clients.

    Args:
        store: where they are kept.
        clients: reads the live clients.
        findings: reads the open verdicts, rows of the table `verdicts`.
    """

    def __init__(
        self,
        store: Store,
        clients: Callable[[], Sequence[Client]] = tuple,
        findings: Callable[[], Iterable[Finding]] = tuple,
    ) -> None:
        self._store = store
        self._clients = clients
        self._findings = findings

    def list(self) -> tuple[Resource, ...]:
        """All resources, also those of canaries and deadlines (`planning.base_name`), sorted by name."""
        return self._store.list()

    def plan(self, wanted: Sequence[Resource], *, prune: bool = False) -> Plan:
        """What would change, and what that does to the clients; changes nothing. See `planning.plan`.

        Raises:
            SubscriptionError: see `planning.plan`.
            ClusterError: the cluster does not answer.
        """
        return plan(self._store.list(), wanted, self._clients(), prune=prune, findings=self._findings())

    def apply(self, planned: Plan) -> None:
        """Makes the changes of a plan, and no other.

        Raises:
            SubscriptionError: a resource is no longer what it was when the plan was made; nothing is changed.
            ClusterError: the cluster refused a change.
        """
        current = {each.name: each for each in self._store.list()}
        changes = [change for change in planned.changes if change.is_change]
        stale = [change.name for change in changes if current.get(change.name) != change.before]
        if stale:
            raise SubscriptionError(
                f"{', '.join(stale)} changed since the plan was made, so nothing is applied: make the plan again"
            )
        if changes:
            self._store.alter({change.name: altered(change.after) for change in changes})


def altered(resource: Resource | None) -> dict[str, str | None]:
    """The properties that make a resource be this, whatever it was; None deletes it.

    The interval is always set: a node whose configuration declares the resource would return to that one's.
    """
    if resource is None:
        return dict.fromkeys(KEYS)
    properties = {INTERVAL_MS_CONFIG: str(resource.interval_ms), **resource.properties()}
    return {key: properties.get(key) for key in KEYS}
