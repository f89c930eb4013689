"""Samples of the simulated groups, as `fleetgauge offsets` takes them of brokers: once a minute."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from fleetgauge.exporters.group_offsets.schema import Sample
from fleetgauge.testkit.simulate.groups import Rebalance
from fleetgauge.testkit.simulate.physics import TICK_S, Ticks
from fleetgauge.testkit.simulate.plan import BEGIN, Plan
from fleetgauge.testkit.simulate.world import App, Numbers

_EVERY: Final = 6
"""Ticks."""
_US: Final = 1_000_000


class GroupOffsets:
    """Offsets of every partition that a group consumes, from 0 at the beginning."""

    def __init__(self, plan: Plan, rebalances: list[Rebalance]) -> None:
        self._plan = plan
        self._apps = [app for app in plan.world.apps if app.group_id is not None]
        self._events = {app.name: [each for each in rebalances if each.app is app] for app in self._apps}
        self._committed = np.zeros(sum(len(app.partitions) for app in plan.world.apps))
        self._ticks = 0

    def of(self, ticks: Ticks, count: int) -> Iterator[Sample]:
        """The samples of the last `count` ticks, in the order of their times."""
        begin_s = ticks.begin_s + (len(ticks.lag) - count) * TICK_S
        for tick in range(len(ticks.lag) - count, len(ticks.lag)):
            self._committed += ticks.consumed[tick]
            self._ticks += 1
            if self._ticks % _EVERY == 0:
                at_s = begin_s + (tick - len(ticks.lag) + count + 1) * TICK_S
                for app in self._apps:
                    yield from self._of_app(app, at_s, ticks.lag[tick])

    def _of_app(self, app: App, at_s: float, lag: Numbers) -> Iterator[Sample]:
        events = self._events[app.name]
        latest = [each for each in events if each.at_s <= at_s][-1]
        common = Sample(
            sampled_at=round((BEGIN.timestamp() + at_s) * _US),
            cluster_id=self._plan.world.clusters[app.cluster].cluster_id,
            group_id=app.group_id,
            state="STABLE" if latest.members else "EMPTY",
        )
        members = {slot: self._member(slot, app, at_s) for slot in latest.members}
        for index, slot in enumerate(latest.owners.tolist()):
            committed = int(self._committed[app.partitions.start + index])
            yield common._replace(
                **members.get(slot, {}),
                topic=app.topic,
                partition=index,
                committed_offset=committed,
                end_offset=committed + int(lag[app.partitions.start + index]),
            )
        for slot in set(latest.members) - set(latest.owners.tolist()):
            yield common._replace(**members[slot])

    def _member(self, slot: int, app: App, at_s: float) -> dict[str, Any]:
        ids = [each.member_id for each in self._plan.processes[slot] if each.start_s <= at_s]
        host = f"/10.{slot >> 16 & 255}.{slot >> 8 & 255}.{slot & 255}"
        return {"member_id": ids[-1] if ids else f"{app.name}-{slot}", "client_id": app.name, "host": host}
