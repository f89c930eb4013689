"""Subscriptions that are taken back at a time: the deadline is a resource of the cluster, beside the subscription.

Its name says which and when, `NAME.until.20261123T184500Z`, and it matches no client. So the deadline outlives whoever
set it, and any process with access to the cluster can keep it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from fleetgauge.cluster.subscriptions.resources import DEADLINE_MARK, KEYS, Resource
from fleetgauge.cluster.subscriptions.service import Changes, Store, altered

_FORM: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"(?P<name>.+)" + re.escape(DEADLINE_MARK) + r"(?P<at>[0-9]{8}T[0-9]{6}Z)", re.DOTALL)
_NO_CLIENT: Final = "client_instance_id=none"
"""An instance id has 22 characters or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """When a subscription is taken back.

    Attributes:
        name: of the subscription.
        at: the time (UTC, whole seconds).
        resource: name of the resource that keeps it.
    """

    name: str
    at: datetime
    resource: str

    def is_overdue(self, now: datetime) -> bool:
        """True if it has passed, and the subscription is still there: no process keeps it."""
        return self.at <= now


def deadline(name: str, at: datetime) -> Deadline:
    """The deadline of a subscription; a part of a second counts as a whole one."""
    whole = (at + timedelta(microseconds=999_999)).astimezone(UTC).replace(microsecond=0)
    return Deadline(name=name, at=whole, resource=f"{name}{DEADLINE_MARK}{whole.strftime(_FORM)}")


def deadlines(resources: Sequence[Resource]) -> list[Deadline]:
    """All deadlines, the next one first."""
    found = []
    for each in resources:
        if (match := _NAME.fullmatch(each.name)) is not None:
            try:
                at = datetime.strptime(match["at"], _FORM).replace(tzinfo=UTC)
            except ValueError:
                continue  # somebody else's name
            found.append(Deadline(name=match["name"], at=at, resource=each.name))
    return sorted(found, key=lambda each: (each.at, each.name))


def next_deadlines(resources: Sequence[Resource]) -> dict[str, Deadline]:
    """The next deadline of each subscription that has one."""
    return {each.name: each for each in reversed(deadlines(resources))}


def setting(resources: Sequence[Resource], wanted: Deadline, subscription: Resource | None = None) -> Changes:
    """The changes that set a deadline, in place of earlier ones of the same subscription.

    Args:
        resources: all of the cluster.
        wanted: the deadline.
        subscription: the resource, where it is to be set by the same request.
    """
    changes = _without(resources, wanted.name) | {
        wanted.resource: altered(Resource(name=wanted.resource, match=_NO_CLIENT))
    }
    return changes if subscription is None else {**changes, subscription.name: altered(subscription)}


def cancelling(resources: Sequence[Resource], name: str) -> Changes:
    """The changes that remove the deadlines of a subscription, which stays; empty if it has none."""
    return _without(resources, name)


def taking_back(resources: Sequence[Resource], now: datetime) -> tuple[list[Deadline], Changes]:
    """The deadlines that are due, and the changes that take their subscriptions back."""
    present = {each.name for each in resources}
    due = [each for each in deadlines(resources) if each.at <= now]
    gone = {name for each in due for name in (each.name, each.resource) if name in present}
    return due, {name: dict.fromkeys(KEYS) for name in sorted(gone)}


def take_back(store: Store, now: datetime) -> list[Deadline]:
    """Takes back what is due, and returns it. Safe to run in several processes, and again after a failure.

    Raises:
        ClusterError: the cluster does not answer, or refuses.
    """
    due, changes = taking_back(store.list(), now)
    if changes:
        store.alter(changes)
    return due


def _without(resources: Sequence[Resource], name: str) -> dict[str, dict[str, str | None]]:
    return {each.resource: dict.fromkeys(KEYS) for each in deadlines(resources) if each.name == name}
