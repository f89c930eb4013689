"""A fleet that comes to be: its brokers, its applications and links, and what is true of them.

Random numbers come from one generator in a fixed order, so that a seed makes one zone, byte for byte.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from benchmarks.fleet.second_fleet.clients import (
    BEGIN_S,
    CLUSTERS,
    END_S,
    TICK_S,
    TICKS,
    TIMES_S,
    App,
    Fault,
    Library,
    Mask,
    Slot,
    Span,
    Values,
)

Kind = Literal["healthy", "hard", "small", "overlapping"]


@dataclass(frozen=True, kw_only=True)
class Brokers:
    """The brokers of a cluster, by tick and broker.

    Attributes:
        latency_ms: of a request, without its way.
        fine_ms: the same without faults.
        is_up: False while it restarts.
        faults: the broker by its place, from and to [ticks], and the kind.
    """

    latency_ms: Values
    fine_ms: Values
    is_up: Mask
    faults: list[tuple[int, int, int, str]]

    @property
    def count(self) -> int:
        return int(self.is_up.shape[1])


@dataclass(frozen=True, kw_only=True)
class Truth:
    """A stretch in which a verdict is right: has to be found if `must`, else may be."""

    verdict: str
    kind: str
    subject: str
    cluster: str
    start_s: float
    end_s: float
    must: bool
    family: str
    note: str
    app: str | None


class World:
    """A fleet that comes to be.

    Attributes:
        is_healthy: it has no faults.
        is_hard: faults are smaller and shorter.
        is_small: one cluster of three brokers, with 20 to 60 clients.
        clusters: brokers by cluster.
    """

    def __init__(self, seed: int, *kinds: Kind) -> None:
        self.random = np.random.default_rng(seed)
        self.is_healthy, self.is_hard, self.is_small = (kind in kinds for kind in ("healthy", "hard", "small"))
        self._is_overlapping = "overlapping" in kinds
        self.clusters = {next(iter(CLUSTERS)): 3} if self.is_small else CLUSTERS
        self.truth: list[Truth] = []
        self.apps: list[App] = []
        # From a third of the peak to the peak.
        self.load = 0.35 + 0.65 / (1 + np.exp(-(TIMES_S / 3600 - 2.6) * 1.6))
        self.brokers = {cluster: self._brokers(count) for cluster, count in self.clusters.items()}

    @property
    def slots(self) -> list[Slot]:
        return [slot for app in self.apps for slot in app.slots]

    def noise(self, ticks: int, sigma: float, tau_s: float) -> Values:
        """An Ornstein-Uhlenbeck process: normal noise that forgets itself in `tau_s`."""
        keep = math.exp(-TICK_S / tau_s)
        step = sigma * math.sqrt(1 - keep * keep)
        drawn = self.random.normal(size=ticks)
        found = np.zeros(ticks)
        found[0] = drawn[0] * sigma
        for tick in range(1, ticks):
            found[tick] = keep * found[tick - 1] + step * drawn[tick]
        return found

    def add(
        self, verdict: str, subject: str, app: App, span: Span, must: bool, note: str = "", kind: str = "client"
    ) -> None:
        """A truth about an application, its group, or one of its instances or paths."""
        self.add_truth(verdict, kind, subject, app.cluster, span, must, app.library.family, note, app.name)

    def add_truth(
        self,
        verdict: str,
        kind: str,
        subject: str,
        cluster: str,
        span: Span,
        must: bool,
        family: str = "all",
        note: str = "",
        app: str | None = None,
    ) -> None:
        start_s, end_s = (BEGIN_S + each for each in span)
        self.truth.append(
            Truth(
                verdict=verdict,
                kind=kind,
                subject=subject,
                cluster=cluster,
                start_s=start_s,
                end_s=end_s,
                must=bool(must),
                family=family,
                note=note,
                app=app,
            )
        )

    def _brokers(self, count: int) -> Brokers:
        """M/M/1 at each broker: service time by one minus utilization, plus faults."""
        random = self.random
        service_ms = random.uniform(0.9, 1.6, count)
        busy = random.uniform(0.42, 0.6, count)
        used = np.stack([busy[node] * self.load * (1 + self.noise(TICKS, 0.06, 300)) for node in range(count)], 1).clip(
            0.02, 0.85
        )
        up = np.ones((TICKS, count), bool)
        rolls_s = random.uniform(0.5, 4.5) * 3600
        for place, node in enumerate(random.permutation(count)):  # restarts of 40 s each
            at = int((rolls_s + place * 180) / TICK_S)
            up[at : at + 4, node] = False
            others = [other for other in range(count) if other != node]
            used[at : at + 30, others] = (used[at : at + 30, others] * 1.12).clip(0, 0.9)
        fine_ms = service_ms / (1 - used)
        for node in range(count):  # then a cold page cache
            last = np.flatnonzero(~up[:, node])[-1]
            fine_ms[last : last + 18, node] *= 1.5
        found = Brokers(latency_ms=fine_ms.copy(), fine_ms=fine_ms, is_up=up, faults=[])
        if not self.is_healthy:
            for start_h in (random.uniform(0.9, 1.6), random.uniform(3.3, 4.0)):
                self._break(found, start_h * 3600, service_ms, used)
        return found

    def _break(self, brokers: Brokers, start_s: float, service_ms: Values, used: Values) -> None:
        random = self.random
        node = int(random.integers(brokers.count))
        lasts_s = random.uniform(*((16, 26) if self.is_hard else (30, 70))) * 60
        start, end = int(start_s / TICK_S), int((start_s + lasts_s) / TICK_S)
        kind = ("disk", "gc", "cpu", "mild")[int(random.integers(4))]
        if self.is_hard:
            kind = "mild"
        extra_ms = self._broken_ms(kind, end - start, service_ms[node], used[start:end, node])
        if random.random() < 0.3:  # it comes on slowly
            extra_ms = extra_ms * np.minimum(1, np.arange(end - start) * TICK_S / 900)
        brokers.latency_ms[start:end, node] += extra_ms
        brokers.faults.append((node, start, end, kind))

    def _broken_ms(self, kind: str, ticks: int, service_ms: float, used: Values) -> Values:
        random = self.random
        if kind == "disk":  # fsync and cold reads behind a dying disk
            return random.uniform(25, 160) * np.exp(self.noise(ticks, 0.35, 120))
        if kind == "gc":  # a world that stops for p s every q s: p^2 / 2q on average
            stop_s, every_s = random.uniform(1.5, 3.5), random.uniform(20, 40)
            return 1000 * stop_s * stop_s / (2 * every_s) * np.exp(self.noise(ticks, 0.25, 60))
        if kind == "cpu":  # a neighbour takes the cores
            taken = np.minimum(0.985, used * 2.6)
            return np.minimum(600, service_ms * 4 / (1 - taken) * np.exp(self.noise(ticks, 0.2, 90)))
        return random.uniform(*((5, 9) if self.is_hard else (12, 20))) * np.exp(self.noise(ticks, 0.2, 200))

    def app(self, name: str, role: str, library: Library, count: int, **own: Any) -> App:
        """An application with properties by chance, but for its `own`; `team` names its principal."""
        random = self.random
        cluster = own.pop("cluster", None) or list(CLUSTERS)[int(random.random() < 0.35)]
        cluster = cluster if cluster in self.clusters else next(iter(self.clusters))
        drawn: dict[str, Any] = {
            "principal": "User:" + own.pop("team", name.split("-")[0]),
            "rtt_ms": float(random.choice([0.4, 0.6, 0.9, 1.4])),
            "interval_s": int(random.choice([30, 60, 60, 60, 60, 300])),
            "rate": float(10 ** random.uniform(0.8, 1.9) if role == "producer" else 10 ** random.uniform(1, 2.3)),
            "record_bytes": float(10 ** random.uniform(2.2, 3.2)),
            "linger_ms": float(random.choice([0, 5, 5, 10])),
            "compression": float(random.choice([0.25, 0.4, 0.55])),
            "acks_all": bool(random.random() < 0.8),
            "ids": str(random.choice(["shared", "each"])),
            "partitions": int(random.choice([6, 12, 12, 24])),
            "burst": float(random.choice([2, 5, 10])),
            "topic": str(random.choice(["{}.events", "{}-events", "{}.v1.in"])).format(name),
            "is_static": bool(random.random() < 0.3),
        }
        if library.family == "librdkafka":
            drawn["linger_ms"] = 5.0
        made = App(name=name, role=role, library=library, count=count, cluster=cluster, **(drawn | own))
        made.slots += [
            Slot(app=made, client_id=name if made.ids == "shared" else f"{name}-{number}", number=number)
            for number in range(count)
        ]
        self.apps.append(made)
        return made

    def one_id(self, name: str, role: str, library: Library, count: int = 0, **own: Any) -> App:
        """An application of one client id, with one to three instances unless told."""
        return self.app(name, role, library, count or int(self.random.integers(1, 4)), **{"ids": "shared", **own})

    def span(self, least_min: float = 25, most_min: float = 80, first_h: float = 0.9, last_h: float = 4.6) -> Span:
        """When a fault is: it lasts so many minutes."""
        start_s = self.start_s(first_h, last_h)
        lasts_min = self.random.uniform(*((16, 26) if self.is_hard else (least_min, most_min)))
        return start_s, min(END_S, start_s + lasts_min * 60)

    def start_s(self, first_h: float, last_h: float) -> float:
        """When a fault begins [s]; where faults overlap, within 20 minutes of the beginning of a broker's."""
        start_s = float(self.random.uniform(first_h, last_h)) * 3600
        if not self._is_overlapping:
            return start_s
        begins = [start * TICK_S for _, start, _, _ in self.brokers[next(iter(self.clusters))].faults]
        return float(self.random.choice(begins) + self.random.uniform(0, 1200))

    def links(self, slot: Slot) -> tuple[Values, Values]:
        """Time to each broker's response, but for what fetches wait for, with and without the client's fault [ms]."""
        random, app, brokers = self.random, slot.app, self.brokers[slot.app.cluster]
        count = brokers.count
        rtt_ms = app.rtt_ms * (1 + 0.05 * random.normal(size=count)) + random.uniform(0, 0.15, count)
        sway = np.stack([self.noise(TICKS, 0.05, 600) for _ in range(count)], 1)
        base_ms = rtt_ms[None, :] * np.exp(sway) + brokers.latency_ms
        extra_ms = np.zeros((TICKS, count))
        if fault := app.faults.get("slow"):
            drawn = random.uniform(0.05, 0.12), random.uniform(20, 90), random.uniform(25, 80)
            app.slow_ms = app.slow_ms or drawn  # the same for all of its instances
            lost, cpu_ms, detour_ms = app.slow_ms
            ticks = int(fault.ticks.sum())
            ways = {  # all are drawn: what comes after must not hang on the way
                "loss": lost * 240 * np.exp(self.noise(ticks, 0.3, 120)),
                "cpu": cpu_ms * np.exp(self.noise(ticks, 0.4, 90)),
                "reroute": np.full(ticks, detour_ms),
            }
            added_ms = (0.25 if self.is_hard else 1) * ways[fault.how]
            if fault.node is None:
                extra_ms[fault.ticks] += added_ms[:, None]
            else:
                extra_ms[fault.ticks, fault.node] += added_ms
        return base_ms + extra_ms, base_ms


def ticks_of(span: Span) -> Mask:
    found = np.zeros(TICKS, bool)
    found[int(span[0] / TICK_S) : int(span[1] / TICK_S)] = True
    return found


def fault(span: Span, size: float = 0.0, **own: Any) -> Fault:
    return Fault(span=span, ticks=ticks_of(span), size=size, **own)


def stretches(condition: Mask, least_s: float, join_ticks: int = 18) -> list[Span]:
    """Stretches of at least `least_s` in which a condition mostly holds; holes of up to `join_ticks` are bridged."""
    found = np.flatnonzero(condition)
    if not len(found):
        return []
    cuts = np.flatnonzero(np.diff(found) > join_ticks)
    bounds: Iterable[tuple[int, int]] = zip(
        np.r_[found[0], found[cuts + 1]], np.r_[found[cuts], found[-1]], strict=True
    )
    return [
        (start * TICK_S, (end + 1) * TICK_S)
        for start, end in bounds
        if (end + 1 - start) * TICK_S >= least_s and condition[start : end + 1].mean() > 0.6
    ]


def smooth(values: Values, ticks: int = 30) -> Values:
    """The mean of the last ticks."""
    sums = np.cumsum(np.r_[np.zeros(ticks), values])
    found: Values = (sums[ticks:] - sums[:-ticks]) / ticks
    return found
