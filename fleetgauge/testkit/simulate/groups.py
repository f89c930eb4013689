"""Consumer groups: who is a member when, which partitions it has, and when a group rebalances."""

from dataclasses import dataclass

import numpy as np

from fleetgauge.testkit.simulate.plan import SESSION_TIMEOUT_S, Plan
from fleetgauge.testkit.simulate.world import App, Numbers

_SETTLES_S = 3.0
"""Members that come or go within this time share a rebalance: `group.initial.rebalance.delay.ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """A change of a group's members.

    Attributes:
        at_s: when it begins.
        takes_ms: until all members have their partitions [ms].
        members: slots, afterwards.
        owners: of the application's partitions, slots; -1 without any member.
    """

    app: App
    at_s: float
    takes_ms: float
    members: tuple[int, ...]
    owners: Numbers


def rebalances(plan: Plan) -> list[Rebalance]:
    """All rebalances of all groups in their order; the first of each is how it stands in the beginning."""
    ordered: list[Rebalance] = []
    for app in plan.world.apps:
        if app.group_id is not None:
            ordered += _of_group(plan, app)
    return sorted(ordered, key=lambda each: each.at_s)


def _of_group(plan: Plan, app: App) -> list[Rebalance]:
    stays = {slot: _memberships(plan, slot) for slot in app.slots}
    moments = sorted({moment for each in stays.values() for stay in each for moment in stay if moment > 0})
    assignments = [_rebalance(plan, app, stays, -1e6)]
    last = -1e6
    for moment in moments:
        if moment == float("inf") or moment > plan.hours * 3600:
            continue
        if moment - last < _SETTLES_S:
            assignments.pop()
            moment = last
        assignments.append(_rebalance(plan, app, stays, moment))
        last = moment
    return assignments


def _memberships(plan: Plan, slot: int) -> list[tuple[float, float]]:
    """From when to when the slot's instances are members."""
    memberships: list[tuple[float, float]] = []
    for process in plan.processes[slot]:
        end = process.end_s + (0 if process.is_graceful else SESSION_TIMEOUT_S)
        stays = [(process.start_s + 1.5, end)]
        breaks = [(begin + SESSION_TIMEOUT_S, back) for begin, back in process.hung]
        breaks += [each for each in plan.away[slot] if process.start_s < each[0] < process.end_s]
        for begin, back in breaks:
            start, stop = stays.pop()
            stays += [(start, begin), (back, stop)]
        memberships += stays
    return memberships


def _rebalance(plan: Plan, app: App, stays: dict[int, list[tuple[float, float]]], at_s: float) -> Rebalance:
    settled = max(at_s, 0) + _SETTLES_S if at_s > 0 else 0.0
    members = tuple(slot for slot, each in stays.items() if any(begin <= settled < end for begin, end in each))
    count = len(app.partitions)
    owners = np.array([members[index % len(members)] if members else -1 for index in range(count)], np.int64)
    takes_ms = float(plan.random.uniform(1_500, 5_000)) if len(members) > 1 else float(plan.random.uniform(300, 3_200))
    return Rebalance(app=app, at_s=at_s, takes_ms=takes_ms, members=members, owners=owners)
