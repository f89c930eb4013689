"""Compares wanted limits with those of a cluster. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetgauge.cluster.quotas.limits import Entity, Limits, entity_path
from fleetgauge.cluster.subscriptions.planning import Action
from fleetgauge.cluster.subscriptions.resources import SubscriptionError

Changes = Mapping[Entity, Mapping[str, float | None]]
"""Limits to set by entity and key; None removes one."""


class QuotaError(SubscriptionError):
    """A quota, a file of them, or a request about them is not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happens to one limit.

    Attributes:
        entity: what it is for.
        key: Kafka's name of it.
        action: what happens.
        before, after: the limit in the unit of the key; None where there is none.
    """

    entity: Entity
    key: str
    action: Action
    before: float | None
    after: float | None

    @property
    def is_change(self) -> bool:
        """True if something is to be done."""
        return self.action not in (Action.KEEP, Action.LEAVE)


def plan(current: Limits, wanted: Limits, *, prune: bool = False) -> list[Change]:
    """Returns one change per limit, sorted by the entity's path and key.

    Args:
        current: all of the cluster.
        wanted: of the file; limits that are not in it are left alone.
        prune: delete limits that are not in the file.

    Raises:
        QuotaError: `prune` without a single wanted limit, which would delete all of them.
    """
    if prune and not any(wanted.values()):
        raise QuotaError("the file has no quota, and --prune would delete all of the cluster's")
    places = {(entity, key) for limits in (current, wanted) for entity, values in limits.items() for key in values}
    return [
        _change(entity, key, current.get(entity, {}).get(key), wanted.get(entity, {}).get(key), prune=prune)
        for entity, key in sorted(places, key=lambda place: (entity_path(place[0]), place[1]))
    ]


def _change(entity: Entity, key: str, before: float | None, after: float | None, *, prune: bool) -> Change:
    if after is None:
        action = Action.DELETE if prune else Action.LEAVE
    elif before is None:
        action = Action.ADD
    else:
        action = Action.KEEP if before == after else Action.CHANGE
    return Change(
        entity=entity, key=key, action=action, before=before, after=before if action is Action.LEAVE else after
    )


def alterations(planned: Sequence[Change], current: Limits) -> Changes:
    """The request that makes the changes of a plan, and no other.

    Args:
        planned: the plan.
        current: all limits of the cluster now.

    Raises:
        QuotaError: a limit is no longer what it was when the plan was made.
    """
    changes = [each for each in planned if each.is_change]
    stale = [each for each in changes if current.get(each.entity, {}).get(each.key) != each.before]
    if stale:
        raise QuotaError(
            f"{', '.join(f'{entity_path(each.entity)} {each.key}' for each in stale)} changed since the plan was made, "
            "so nothing is applied: make the plan again"
        )
    found: dict[Entity, dict[str, float | None]] = {}
    for each in changes:
        found.setdefault(each.entity, {})[each.key] = each.after
    return found
