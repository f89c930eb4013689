"""Subscriptions that are taken back at a time: the deadline is a resource of the cluster, beside the subscription.

Its name says which and when, `NAME.until.20261123T184500Z`, and it matches no client. So the deadline outlives whoever
set it, and any process with access to the cluster can keep it.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from fleetgauge.cluster.plan import Store
from fleetgauge.cluster.subscriptions.resources import DEADLINE_MARK, Resource

_FORM: Final = "%Y%m%dT%H%M%SZ"
_NAME: Final = re.compile(r"(?P<name>.+)" + re.escape(DEADLINE_MARK) + r"(?P<at>[0-9]{8}T[0-9]{6}Z)", re.DOTALL)
Changes = Mapping[str, Resource | None]
"""New values of resources, in the form of `plan.Store.alter`."""

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


def deadlines(names: Iterable[str]) -> list[Deadline]:
    """All deadlines of these resources, the next one first."""
    dues = []
    for name in names:
        if (match := _NAME.fullmatch(name)) is not None:
            try:
                at = datetime.strptime(match["at"], _FORM).replace(tzinfo=UTC)
            except ValueError:
                continue  # somebody else's name
            dues.append(Deadline(name=match["name"], at=at, resource=name))
    return sorted(dues, key=lambda each: (each.at, each.name))


def next_deadlines(names: Iterable[str]) -> dict[str, Deadline]:
    """The next deadline of each subscription that has one."""
    return {each.name: each for each in reversed(deadlines(names))}


def setting(names: Iterable[str], wanted: Deadline, subscription: Resource | None = None) -> Changes:
    """The changes that set a deadline, in place of earlier ones of the same subscription.

    Args:
        names: all resources of the cluster.
        wanted: the deadline.
        subscription: the resource, where it is to be set by the same request.
    """
    changes = {**cancelling(names, wanted.name), wanted.resource: Resource(name=wanted.resource, match=_NO_CLIENT)}
    return changes if subscription is None else {**changes, subscription.name: subscription}


def cancelling(names: Iterable[str], name: str) -> Changes:
    """The changes that remove the deadlines of a subscription, which stays; empty if it has none."""
    return {each.resource: None for each in deadlines(names) if each.name == name}


def taking_back(names: Collection[str], now: datetime) -> tuple[list[Deadline], Changes]:
    """The deadlines that are due, and the changes that take their subscriptions back."""
    due = [each for each in deadlines(names) if each.at <= now]
    gone = {name for each in due for name in (each.name, each.resource) if name in names}
    return due, dict.fromkeys(sorted(gone))


def take_back(store: Store[str, Resource], now: datetime) -> list[Deadline]:
    """Takes back what is due, and returns it. Safe to run in several processes, and again after a failure.

    Raises:
        ClusterError: the cluster does not answer, or refuses.
    """
    due, changes = taking_back(store.list(), now)
    if changes:
        store.alter(changes)
    return due
