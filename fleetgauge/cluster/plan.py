"""Compares the resources of a file with those of a cluster, and applies the difference. No I/O of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from fleetgauge.cluster.errors import ResourceError

K = TypeVar("K")
"""The name of a resource."""
V = TypeVar("V")
"""The value of a resource; equal ones are the same to a cluster."""


class Action(StrEnum):
    """Action on a resource."""

    ADD = "add"
    CHANGE = "change"
    DELETE = "delete"
    KEEP = "keep"
    LEAVE = "leave"
    """Not in the file, and left alone without --prune."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Generic[K, V]):
    """Planned change of one resource.

    Attributes:
        name: of the resource.
        action: what happens.
        before, after: the resource; None where there is none. `after` is None as well for what is left alone.
    """

    name: K
    action: Action
    before: V | None
    after: V | None

    @property
    def is_change(self) -> bool:
        """True if something has to be done."""
        return self.action not in (Action.KEEP, Action.LEAVE)

    @property
    def result(self) -> V | None:
        """The resource once the change is made."""
        return self.after if self.is_change else self.before


def has_changes(changes: Iterable[Change[K, V]]) -> bool:
    """True if there is something to apply."""
    return any(each.is_change for each in changes)


class Store(Protocol[K, V]):
    """Where resources of a kind are kept: a cluster, or a node."""

    def list(self) -> Mapping[K, V]:
        """All of them by name.

        Raises:
            NotAuthorizedError: DESCRIBE_CONFIGS is missing.
            ClusterError: the cluster does not answer.
        """

    def alter(self, wanted: Mapping[K, V | None]) -> None:
        """Makes resources be these, whatever they were, in one request; None deletes one.

        Raises:
            NotAuthorizedError: ALTER_CONFIGS is missing.
            ClusterError: a change was refused, with the cluster's words; others of the request may have been made.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[K, V]):
    """A kind of resources: what its plans and files have of their own.

    Attributes:
        what: one of them in an error sentence: `subscription`.
        table: the table of a file that holds theirs: `client-metrics`, of `[client-metrics.NAME]`.
        keys: the keys of such a table.
        read: the resources of a file, of its tables by name; raises FleetgaugeError, without the path of the file.
        words: the parts of a name, by which plans are sorted.
        owner: the resource that this one belongs to: --prune leaves it alone if that one is in the file.
    """

    what: str
    table: str
    keys: Sequence[str]
    read: Callable[[Mapping[str, Mapping[str, object]]], Mapping[K, V]]
    words: Callable[[K], tuple[str, ...]]
    owner: Callable[[K], K] = lambda name: name

    def plan(self, current: Mapping[K, V], wanted: Mapping[K, V], *, prune: bool = False) -> list[Change[K, V]]:
        """Returns one change per resource of the file and of the cluster, sorted by name.

        Args:
            current: all of the cluster.
            wanted: of the file; others are left alone.
            prune: delete those that are not in the file.

        Raises:
            ResourceError: `prune` without a single wanted resource, which would delete all of them.
        """
        if prune and not wanted:
            raise ResourceError(f"the file has no {self.what}, and --prune would delete all of the cluster's")
        pruned = [name for name in current if self.owner(name) not in wanted] if prune else []
        return self.changes(current, {**dict.fromkeys(pruned), **wanted})

    def changes(self, current: Mapping[K, V], wanted: Mapping[K, V | None]) -> list[Change[K, V]]:
        """Returns one change per resource, sorted by name; None deletes one, and others are left alone."""
        return [
            Change(
                name=name,
                action=_action(current.get(name), wanted[name]) if name in wanted else Action.LEAVE,
                before=current.get(name),
                after=wanted.get(name),
            )
            for name in sorted(current.keys() | wanted.keys(), key=self.words)
        ]

    def apply(self, store: Store[K, V], planned: Iterable[Change[K, V]]) -> None:
        """Makes the changes of a plan, and no other.

        Raises:
            ResourceError: a resource is no longer what it was when the plan was made; nothing is changed.
            ClusterError: the cluster refused a change.
        """
        current = store.list()
        changes = [each for each in planned if each.is_change]
        stale = [" ".join(self.words(each.name)) for each in changes if current.get(each.name) != each.before]
        if stale:
            raise ResourceError(
                f"{', '.join(stale)} changed since the plan was made, so nothing is applied: plan again"
            )
        if changes:
            store.alter({each.name: each.after for each in changes})


def _action(before: V | None, after: V | None) -> Action:
    if after is None:
        return Action.DELETE
    if before is None:
        return Action.ADD
    return Action.KEEP if before == after else Action.CHANGE
