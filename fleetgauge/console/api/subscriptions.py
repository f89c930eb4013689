"""Subscriptions on the page: those in force, the effect of a change on the live clients, and the change.

They are changed over the Admin API, of the brokers that `subscriptions.bootstrap.servers` names or of the node itself,
by the code of `fleetgauge subscriptions`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.settings import ClusterSettings
from fleetgauge.cluster.subscriptions.clients import Client, matching
from fleetgauge.cluster.subscriptions.cluster import Cluster
from fleetgauge.cluster.subscriptions.deadlines import Deadline, next_deadlines
from fleetgauge.cluster.subscriptions.planning import Plan, plan_changes
from fleetgauge.cluster.subscriptions.resources import (
    DEADLINE_MARK,
    SUBSCRIPTIONS,
    Resource,
    checked,
    resource_of,
)
from fleetgauge.console.api.node import Node, NotThereError
from fleetgauge.telemetry.subscriptions.match import split_match

_KEPT_S: Final = 5.0
_SHARE: Final = 20
"""Listing subscriptions takes at most 1/20 of the time."""
_NO_CLUSTER: Final = (
    "This process has no Admin API: set subscriptions.bootstrap.servers to brokers or a node, and restart it."
)
_NO_LISTENER: Final = (
    "This node has no listener on a loopback address without TLS and login, which changes need: set "
    "subscriptions.bootstrap.servers to one of its listeners, and restart it."
)
MAX_TEXTS: Final = 1_000
_FIELDS: Final = ("metrics", "interval_ms", "match")


class PageSubscriptions:
    """Subscriptions of the brokers or the node.

    Args:
        configured: where `subscriptions.bootstrap.servers` says they are; None without it.
        node: the process beside.
        clients: reads the live clients.
    """

    def __init__(self, configured: ClusterSettings | None, node: Node, clients: Callable[[], Sequence[Client]]) -> None:
        self._configured = configured
        self._node = node
        self._clients = clients
        self._listed: dict[str, Any] = {}
        self._listed_until_s = 0.0

    def list(self) -> dict[str, Any]:
        """Subscriptions in force, and the number of live clients that match each.

        Raises:
            ResourceError: the brokers do not list them.
            NotRunningError: the node does not answer.
        """
        started_s = time.monotonic()
        if started_s >= self._listed_until_s:
            self._listed = self._list()
            now_s = time.monotonic()
            self._listed_until_s = now_s + max(_KEPT_S, _SHARE * (now_s - started_s))
        return self._listed

    def plan(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Effect of a change on the live clients; changes nothing.

        Args:
            wanted: `name`, and `delete` true or the fields of a subscription.

        Raises:
            ResourceError: it is not valid, or the cluster does not answer.
            ValueError: a field is of another type.
        """
        name = wanted.get("name")
        if not isinstance(name, str):
            raise ValueError("name is a text")
        with Cluster(self._cluster()) as cluster:
            after = None if wanted.get("delete") is True else _resource(name, wanted)
            current = cluster.list()
        _check_there(current, name, after)
        return _as_json(plan_changes(SUBSCRIPTIONS.changes(current, {name: after}), self._clients()))

    def put(self, name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """Creates or changes one subscription; errors as in `plan`."""
        return self._change(name, _resource(name, wanted))

    def delete(self, name: str) -> dict[str, Any]:
        """Deletes a subscription; errors as in `plan`.

        Raises:
            NotThereError: there is none of this name.
        """
        return self._change(name, None)

    def _change(self, name: str, after: Resource | None) -> dict[str, Any]:
        with Cluster(self._cluster()) as cluster:
            _check_there(cluster.list(), name, after)
            cluster.alter({name: after})
        self._listed_until_s = 0.0
        return {"name": name, "deleted": after is None}

    def _list(self) -> dict[str, Any]:
        own = self._node.subscription_properties() if self._configured is None else None
        if self._configured is None and own is None:
            return {"source": "brokers", "editable": False, "why_not": _NO_CLUSTER, "subscriptions": []}
        if self._configured is not None:
            with Cluster(self._configured) as cluster:
                resources = cluster.list()
            source = f"brokers at {self._configured.bootstrap_servers}"
        else:
            resources = {name: resource_of(name, properties) for name, properties in sorted((own or {}).items())}
            source = "node"
        clients = [each.attributes() for each in self._clients()]
        why_not = None if self._configured or self._node.admin_address() else _NO_LISTENER
        return {
            "source": source,
            "editable": why_not is None,
            "why_not": why_not,
            "subscriptions": rows_of(resources, clients, datetime.now(UTC)),
        }

    def _cluster(self) -> ClusterSettings:
        if self._configured is not None:
            return self._configured
        address = self._node.admin_address()
        if address is None:
            raise ResourceError(_NO_CLUSTER if self._node.subscription_properties() is None else _NO_LISTENER)
        return ClusterSettings(bootstrap_servers=address)


def _check_there(current: Mapping[str, Resource], name: str, after: Resource | None) -> None:
    if after is None and name not in current:
        raise NotThereError("there is no subscription of this name")


def rows_of(resources: Mapping[str, Resource], clients: Sequence[Any], now: datetime) -> list[dict[str, Any]]:
    """One row per subscription; a deadline is a field of its subscription."""
    due = next_deadlines(resources)
    return [
        {
            "name": each.name,
            "metrics": list(each.metrics),
            "interval_ms": each.interval_ms,
            "match": [part.strip() for part in split_match(each.match) if part.strip()],
            "clients": _count(each, clients),
            **_until(due.get(each.name), now),
        }
        for each in resources.values()
        if DEADLINE_MARK not in each.name
    ]


def _until(due: Deadline | None, now: datetime) -> dict[str, Any]:
    """Deadline at which it is removed [us]; `overdue` if that has passed."""
    return {
        "until": None if due is None else round(due.at.timestamp() * 1e6),
        "overdue": due is not None and due.is_overdue(now),
    }


def _count(resource: Resource, clients: Sequence[Any]) -> int | None:
    """Number of matching clients; None if a Java pattern is not valid in RE2."""
    matches = matching(resource, clients)
    return None if matches is None else sum(matches)


def _resource(name: str, wanted: Mapping[str, Any]) -> Resource:
    """The subscription of a request.

    Raises:
        ResourceError: Kafka would refuse it.
        ValueError: a field is of another type.
    """
    metrics, interval_ms, match = (wanted.get(field) for field in _FIELDS)
    if not _is_texts(metrics) or not _is_texts(match):
        raise ValueError(f"metrics and match are lists of texts, at most {MAX_TEXTS} each")
    if type(interval_ms) is not int:
        raise ValueError("interval_ms is a number")
    properties = {"metrics": ",".join(metrics or ()), "match": ",".join(match or ()), "interval.ms": str(interval_ms)}
    return checked(name, {key: value for key, value in properties.items() if value})


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MAX_TEXTS and all(isinstance(each, str) for each in value)


def _as_json(plan: Plan) -> dict[str, Any]:
    sentences = [
        *(f"{len(each.clients)} clients of {each.software} cannot supply it: {each.why}" for each in plan.shortfalls),
        *(f"{len(each.clients)} clients of {each.software} have a known fault: {each.reason}" for each in plan.hazards),
    ]
    return {
        "changes": [
            {"name": each.name, "action": str(each.action), "clients": len(plan.effects[each.name].matching)}
            for each in plan.changes
            if each.is_change
        ],
        "clients": plan.clients,
        "touched": len(plan.touched),
        "added": asdict(plan.added),
        "sentences": sentences if plan.has_changes else ["Nothing would change.", *sentences],
        "notes": list(plan.notes),
    }
