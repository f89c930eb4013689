"""Plans of subscriptions that are given as lists."""

from collections.abc import Iterable, Sequence

from fleetgauge.cluster.subscriptions.clients import Client
from fleetgauge.cluster.subscriptions.planning import Finding, Plan, plan_changes
from fleetgauge.cluster.subscriptions.resources import SUBSCRIPTIONS, Resource


def by_name(resources: Iterable[Resource]) -> dict[str, Resource]:
    """The resources as a cluster lists them."""
    return {each.name: each for each in resources}


def plan(
    current: Sequence[Resource],
    wanted: Sequence[Resource],
    clients: Sequence[Client],
    *,
    prune: bool = False,
    findings: Iterable[Finding] = (),
) -> Plan:
    """The plan of a file, with its effect on clients."""
    changes = SUBSCRIPTIONS.plan(by_name(current), by_name(wanted), prune=prune)
    return plan_changes(changes, clients, findings=findings)
