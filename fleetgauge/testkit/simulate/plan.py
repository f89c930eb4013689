"""Plan of a simulated fleet: processes that start and end, and causes that change how it works for a while.

A cause acts on a quantity of `testkit.simulate.physics` (a disk's time, an application's cost of a record, a quota),
never on what a client measures. `testkit.simulate.pathologies` and `testkit.simulate.healthy` write plans.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from fleetgauge.fleet.errors import FleetError
from fleetgauge.testkit.simulate.world import FOREVER, App, Numbers, Software, World, instance_id, uuid_text

BEGIN: Final = datetime(2026, 3, 2, 6, tzinfo=UTC)
"""When every simulated fleet begins: a Monday morning, while load rises."""

SESSION_TIMEOUT_S: Final = 45.0
"""After which a group notices that a member is gone [s]: Kafka's default."""


def daily_load(seconds: Numbers | float) -> Numbers:
    """Load relative to its mean at this time: highest at 15:00 UTC, lowest at 3:00."""
    hour = BEGIN.hour + np.asarray(seconds) / 3600
    return 1 + 0.3 * np.sin((hour - 9) * np.pi / 12)


@dataclass(slots=True, kw_only=True)
class Process:
    """One client instance.

    Attributes:
        start_s, end_s: since the fleet's beginning [s]; before it for what already runs.
        is_graceful: it is closed, not killed.
        luck: from 0 to 1: when in its interval it pushes, and whatever else differs between instances of a kind.
        hung: times in which it does nothing at all, and sends nothing.
    """

    slot: int
    start_s: float
    end_s: float
    is_graceful: bool
    software: Software
    instance_id: str
    member_id: str
    port: int
    luck: float
    hung: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A change of one quantity, for a while.

    Attributes:
        quantity: a name of `testkit.simulate.physics.QUANTITIES`.
        at: indices of what it concerns: slots, nodes (cluster * World.nodes + index), or consumed partitions.
        node: of links, the index of the node; None for other quantities.
    """

    quantity: str
    at: Numbers
    from_s: float
    to_s: float
    value: float
    node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A row of the truth: this verdict is right about this subject in these times.

    `client_id` is the application that has the fault; None of a broker's.
    """

    verdict: str
    subject_kind: str
    subject: str
    cluster_id: str
    client_id: str | None
    from_s: float
    to_s: float

    def times(self, begin: datetime = BEGIN, speed: float = 1.0) -> tuple[datetime, datetime]:
        """From and to, in UTC, of a fleet whose time begins then, and passes so many times as fast."""
        return begin + timedelta(seconds=self.from_s / speed), begin + timedelta(seconds=self.to_s / speed)


@dataclass(slots=True)
class Plan:
    """All that happens.

    Attributes:
        processes: of each slot, one after the other.
        away: times in which a slot's member is out of its group although its process lives.
        free: applications that no plan concerns yet.
    """

    world: World
    hours: float
    random: np.random.Generator
    processes: list[list[Process]] = field(init=False)
    causes: list[Cause] = field(default_factory=list)
    truth: list[Truth] = field(default_factory=list)
    away: list[list[tuple[float, float]]] = field(init=False)
    free: list[App] = field(init=False)

    def __post_init__(self) -> None:
        self.processes = [[] for _ in self.world.of_slot]
        self.away = [[] for _ in self.world.of_slot]
        self.free = [app for app in self.world.apps if not app.is_batch and app.role != "admin"]
        for app in self.world.apps:
            for slot in app.slots[: app.size] if not app.is_batch else ():
                self.start(slot, -float(self.random.uniform(3_600, 360_000)))

    def start(self, slot: int, at_s: float, software: Software | None = None) -> Process:
        """Puts a new instance into a slot, in which none is any more."""
        app, random = self.world.of_slot[slot], self.random
        process = Process(
            slot=slot,
            start_s=at_s,
            end_s=FOREVER,
            is_graceful=True,
            software=software or app.software,
            instance_id=instance_id(random),
            member_id=f"{app.name}-{uuid_text(random)}",
            port=int(random.integers(32_768, 60_000)),
            luck=float(random.random()),
        )
        self.processes[slot].append(process)
        return process

    def stop(self, slot: int, at_s: float, *, is_graceful: bool = True) -> None:
        """Ends the instance that is last in the slot, if it still runs."""
        if self.processes[slot] and self.processes[slot][-1].end_s > at_s:
            self.processes[slot][-1].end_s = max(at_s, self.processes[slot][-1].start_s + 1)
            self.processes[slot][-1].is_graceful = is_graceful

    def deploy(self, app: App, at_s: float, gap_s: float, software: Software | None = None) -> float:
        """Replaces the instances of an application one after the other; returns when the last one is."""
        for number, slot in enumerate(app.slots[: app.size]):
            begin = at_s + number * gap_s
            self.stop(slot, begin)
            self.start(slot, begin + float(self.random.uniform(4, 15)), software)
        return at_s + app.size * gap_s

    def cause(
        self, quantity: str, at: Iterable[int], times: tuple[float, float], value: float, node: int | None = None
    ) -> None:
        """Adds a cause."""
        slots = np.fromiter(at, np.int64)
        self.causes.append(Cause(quantity=quantity, at=slots, from_s=times[0], to_s=times[1], value=value, node=node))

    def take(self, fitting: Sequence[App]) -> App | None:
        """Draws one of these applications that nothing concerns yet; None if there is none."""
        free = [app for app in fitting if app in self.free]
        if not free:
            return None
        app = free[int(self.random.integers(len(free)))]
        self.free.remove(app)
        return app

    def base_latency_ms(self, slot: int, node: int, *, held: bool = True) -> float:
        """Usual latency of a request of this slot to a node [ms]: network, queue, and the wait of a fetch for data."""
        app = self.world.of_slot[slot]
        cluster = self.world.clusters[app.cluster]
        queue = cluster.service_ms[node] / (1 - cluster.utilisation[node])
        held_ms = 0.0
        if held and app.role == "consumer":
            partitions = len(app.partitions) / app.size
            arrivals = app.rate * partitions / app.batch_records / min(partitions, len(cluster.node_ids))
            held_ms = 1000 * float(held_s(np.array(arrivals), 5.0 if app.software.library == "franz-go" else 0.5))
        return float(self.world.rtt_ms[slot, node] + queue + held_ms)


def held_s(arrivals: Numbers, most_s: Numbers | float) -> Numbers:
    """Time that a broker holds a fetch until data arrives [s]: mean of an exponential time, cut off at `most_s`."""
    arrivals = np.maximum(arrivals, 1e-6)
    return (1 - np.exp(-arrivals * most_s)) / arrivals


def no_subject(verdict: str, subject: str | None, fitting: Sequence[str]) -> FleetError:
    """Error for a subject that does not exist, or that a verdict cannot be about."""
    if subject is None:
        return FleetError(f"--with: no client of this fleet fits {verdict}: give more --clients, or another --seed")
    shown = ", ".join(fitting[:8]) + (", ..." if len(fitting) > 8 else "")
    return FleetError(f"--with: {verdict} cannot be about {subject!r} in this fleet; it can be about {shown or 'none'}")
