"""The applications of the second fleet: healthy ones of every library, and those that something is wrong with."""

from typing import Any

import numpy as np

from benchmarks.fleet.second_fleet.clients import (
    END_S,
    FRANZ_GO,
    HOURS,
    JAVA_37,
    JAVA_39,
    JAVA_40,
    JAVA_44,
    JAVA_IN_USE,
    OLD_C,
    OLD_GO,
    PLAIN_C,
    PYTHON,
    App,
    Library,
    Life,
    Slot,
)
from benchmarks.fleet.second_fleet.world import World, fault

PATCHES = {"3.9.1": "3.9.2", "4.0.0": "4.0.1", "4.1.1": "4.1.2", "4.4.0": "4.4.1"}
"""What a new release of an application brings, by the version of kafka-clients that it had."""


def populate(world: World) -> None:
    """Adds all applications."""
    population = _Population(world)
    for make in HEALTHY:
        make(population)
    healthy = len(world.apps)
    for make in () if world.is_healthy else BROKEN:
        make(population)
    if world.is_small:
        _keep_few(world, healthy)


_FEW_BROKEN = 6


def _keep_few(world: World, healthy: int) -> None:
    """Leaves six applications with a fault, and of the others, which come first, as many as make 20 to 60 clients."""
    places = world.random.permutation(len(world.apps))
    kept = [world.apps[place] for place in places if place >= healthy][:_FEW_BROKEN]
    most = int(world.random.integers(20, 60))
    for app in (world.apps[place] for place in places if place < healthy):
        if sum(each.count for each in (*kept, app)) <= most:
            kept.append(app)
    names = {app.name for app in kept}
    world.apps = [app for app in world.apps if app.name in names]
    world.truth = [each for each in world.truth if each.app is None or each.app in names]


class _Population:
    def __init__(self, world: World) -> None:
        self.world, self.random = world, world.random
        self.app, self.one_id, self.span = world.app, world.one_id, world.span
        self._names = 0

    def name(self, word: str) -> str:
        self._names += 1
        return f"{word}{self._names}"

    def between(self, least: float, most: float) -> float:
        return float(self.random.uniform(least, most))

    def count(self, least: int, below: int) -> int:
        return int(self.random.integers(least, below))

    def pick(self, *options: Any) -> Any:
        return options[int(self.random.integers(len(options)))]

    def java(self) -> Library:
        return JAVA_IN_USE[int(self.random.integers(len(JAVA_IN_USE)))]

    def of_each(self) -> tuple[Library, ...]:
        return self.java(), PYTHON, FRANZ_GO


def _everyday(at: _Population) -> None:
    for _ in range(13):
        at.app(at.name("orders") + "-producer", "producer", at.java(), at.count(2, 6))
    for library in (at.java(), at.java(), PYTHON):
        name, rate, linger_ms = at.name("bulk"), at.between(1500, 4000), float(at.pick(20, 50))
        at.app(f"{name}-producer", "producer", library, 3, rate=rate, linger_ms=linger_ms, record_bytes=900.0)
        name, rate = at.name("bulk"), at.between(1500, 4000)
        at.app(f"{name}-reader", "consumer", library, 4, rate=rate, record_bytes=1500.0, burst=20.0)
    for _ in range(7):
        at.app(at.name("edge") + "-producer", "producer", at.pick(PYTHON, PLAIN_C), at.count(2, 5))
    for _ in range(5):
        at.app(at.name("go") + "-producer", "producer", FRANZ_GO, at.count(2, 5))
    for _ in range(13):
        at.app(at.name("billing") + "-reader", "consumer", at.java(), at.count(2, 7))
    for _ in range(6):
        name, library, count = at.name("search") + "-reader", at.pick(PYTHON, PLAIN_C), at.count(2, 5)
        at.app(name, "consumer", library, count, polls=at.pick("batch", "batch", "message"))
    for _ in range(4):
        at.app(at.name("gosink") + "-reader", "consumer", FRANZ_GO, at.count(2, 5))
    for _ in range(2):
        at.app(at.name("ops") + "-admin", "admin", JAVA_44, 1, interval_s=300)


def _unlike_their_peers(at: _Population) -> None:
    """Clients that are far away, old, busy or slow to poll, and healthy."""
    for library in (at.java(), PYTHON, FRANZ_GO):
        name, cluster = at.name("geo"), next(iter(at.world.clusters))
        at.app(f"{name}-producer-near", "producer", library, 3, team=name, rtt_ms=0.6, cluster=cluster)
        far_ms = at.between(35, 90)
        at.app(f"{name}-producer-far", "producer", library, 2, team=name, rtt_ms=far_ms, cluster=cluster)
    at.app(at.name("legacy") + "-producer", "producer", JAVA_37, 3)
    at.app(at.name("legacy") + "-reader", "consumer", JAVA_37, 3)
    at.app(at.name("busy") + "-reader", "consumer", at.java(), 4, utilization=0.8)
    for _ in range(2):
        own: dict[str, Any] = {
            "rate": at.between(150, 400),
            "burst": 40.0,
            "utilization": at.between(0.15, 0.4),
            "interval_s": 60,
        }
        at.app(at.name("permsg") + "-reader", "consumer", PYTHON, 2, polls="message", **own)


def _deployed(at: _Population) -> None:
    for app in list(at.world.apps):
        if app.role != "admin" and at.random.random() < 0.35:
            start_s, gap_s = at.random.uniform(0.4, 5.2) * 3600, at.random.uniform(40, 120)
            for number, slot in enumerate(app.slots):
                _restart(slot, start_s + number * gap_s, at.random.uniform(8, 30))


def _scaled(at: _Population) -> None:
    """Scaled out, and in, with a deployment."""
    for library in (at.java(), PYTHON):
        app = at.app(at.name("scale") + "-producer", "producer", library, 8, interval_s=60)
        start_s = at.random.uniform(1.5, 3.5) * 3600
        for slot in app.slots[4:]:
            slot.lives = [Life(start_s=start_s, end_s=END_S, end="open")]
        for number, slot in enumerate(app.slots[:4]):
            _restart(slot, start_s + 30 * number, 12)
        app.faults["scale"] = fault((start_s, END_S))
        app = at.app(at.name("scale") + "-reader", "consumer", library, 6, interval_s=60, partitions=12)
        start_s = at.random.uniform(1, 2.5) * 3600
        for slot in app.slots[3:]:
            slot.lives = [Life(start_s=start_s, end_s=start_s + 7200, end="clean")]


def _jobs(at: _Population) -> None:
    """Up for four minutes each hour, each time as another instance."""
    for library in at.of_each():
        app = at.one_id(at.name("nightly") + "-job", "producer", library, 1, interval_s=60, rate=400.0)
        first_s = at.random.uniform(0, 2400)
        starts_s = [first_s + 3600 * hour for hour in range(HOURS)]
        app.slots[0].lives = [Life(start_s=start_s, end_s=start_s + 260, end="clean") for start_s in starts_s]


def _old_versions(at: _Population) -> None:
    """Which of those above have a version that may be called outdated."""
    for library in (JAVA_37, JAVA_39, JAVA_40):
        versions = {library.version, PATCHES.get(library.version, library.version)}
        for cluster in at.world.clusters:
            for version in sorted(versions):
                subject = f"{library.software}/{version}"
                at.world.add_truth("outdated", "version", subject, cluster, (0.0, END_S), False, "java")


def _slow(at: _Population) -> None:
    for library in (*at.of_each(), at.java(), PYTHON):
        for verdict, role in (("slow-client", "producer"), ("slow-client", "consumer"), ("slow-path", "producer")):
            if role == "consumer" and library is FRANZ_GO:
                continue
            name = at.name("host")
            if role == "producer":
                app = at.one_id(f"{name}-app", role, library, rate=at.between(60, 300))
            else:
                own: dict[str, Any] = {"rate": at.between(300, 900), "burst": 1.0, "record_bytes": 3000.0}
                app = at.one_id(f"{name}-sink", role, library, **own)
            span, how = at.span(), at.pick("loss", "cpu", "reroute")
            node = None if verdict == "slow-client" else at.count(0, at.world.clusters[app.cluster])
            if node is not None and how == "cpu":
                how = "loss"
            app.faults["slow"] = fault(span, how=how, node=node, verdict=verdict)


def _limited(at: _Population) -> None:
    for library in (*at.of_each(), at.java()):
        name = at.name("quota") + "-app"
        app = at.one_id(name, "producer", library, rate=at.between(800, 2500), record_bytes=900.0)
        app.faults["quota"] = fault(at.span(30, 100), at.between(0.3, 0.75))
    for library in (at.java(), at.java()):
        name = at.name("quota") + "-sink"
        app = at.one_id(name, "consumer", library, rate=at.between(2000, 5000), record_bytes=900.0)
        app.faults["quota"] = fault(at.span(30, 100), at.between(0.4, 0.75))


def _rebalanced(at: _Population) -> None:
    for library in (at.java(), at.java(), PYTHON):
        name, count = at.name("storm") + "-reader", at.count(3, 7)
        app = at.app(name, "consumer", library, count, partitions=12, interval_s=60, is_static=False)
        span = at.span(60, 120, 0.7, 3.8)
        gap_s = at.random.uniform(150, 380)
        times_s = np.cumsum(at.random.uniform(0.6, 1.4, 200) * gap_s)[: int((span[1] - span[0]) / gap_s)] + span[0]
        app.faults["storm"] = fault(span, times_s=tuple(times_s))


def _slow_at_work(at: _Population) -> None:
    one: dict[str, Any] = {"ids": "shared", "interval_s": 60}
    for library, reads_async in ((at.java(), False), (JAVA_44, True), (PYTHON, False), (PLAIN_C, False)):
        name, count = at.name("slowapp") + "-reader", at.count(2, 5)
        app = at.app(name, "consumer", library, count, reads_async=reads_async, partitions=12, **one)
        app.faults["work"] = fault(at.span(30, 80), at.between(1.15, 1.6))
    app = at.one_id(at.name("longpoll") + "-reader", "consumer", at.java(), 2, interval_s=60, partitions=6, rate=30.0)
    app.faults["longpoll"] = fault(at.span(60, 100), at.between(250, 285))


def _behind(at: _Population) -> None:
    for library in (at.java(), at.java()):
        name, count, interval_s = at.name("behind") + "-reader", at.count(2, 6), int(at.pick(60, 300))
        app = at.app(name, "consumer", library, count, interval_s=interval_s, partitions=12)
        app.faults["surge"] = fault(at.span(35, 80), at.between(1.25, 2))
    for how, commits in (("pause", "auto"), ("pause", "manual"), ("block", "auto")):
        name, library, count = at.name("stuck") + "-reader", at.java(), at.count(1, 4)
        app = at.app(name, "consumer", library, count, interval_s=60, commits=commits, rate=at.between(100, 600))
        app.faults["stall"] = fault(at.span(30, 70), how=how)


def _uneven(at: _Population) -> None:
    for library in (at.java(), PYTHON):
        at.app(at.name("spare") + "-reader", "consumer", library, 5, partitions=3, ids="each", interval_s=60)
    skewed: dict[str, Any] = {
        "ids": "each",
        "rate": 300.0,
        "skewed_key": True,
        "interval_s": 60,
        "utilization": 0.2,
        "partitions": 12,
    }
    for _ in range(2):
        at.app(at.name("skewed") + "-reader", "consumer", at.java(), at.count(4, 7), **skewed)


def _wasteful(at: _Population) -> None:
    sync: dict[str, Any] = {"linger_ms": 0.0, "is_sync": True, "record_bytes": 250.0, "rtt_ms": 0.4}
    plain: dict[str, Any] = {"compression": 1.0, "record_bytes": 1100.0, "linger_ms": 10.0}
    tiny: dict[str, Any] = {"record_bytes": 90.0, "burst": 1.0, "rtt_ms": 0.4, "partitions": 12, "compression": 0.8}
    for _ in range(2):
        at.one_id(at.name("sync") + "-app", "producer", at.java(), rate=at.between(350, 700), **sync)
        name, library = at.name("plain") + "-app", at.java()
        at.one_id(name, "producer", library, rate=at.between(5000, 8000), **plain)
        at.one_id(at.name("tiny") + "-sink", "consumer", at.java(), 1, rate=at.between(900, 1800), **tiny)


def _failing(at: _Population) -> None:
    narrow: dict[str, Any] = {"rate": 700.0, "record_bytes": 800.0, "in_flight": 1, "linger_ms": 5.0}
    for library in (at.java(), at.java(), PYTHON):
        app = at.one_id(at.name("full") + "-app", "producer", library, rtt_ms=at.between(25, 50), **narrow)
        app.faults["demand"] = fault(at.span(25, 60), at.between(9, 14))
    for number in range(3):
        app = at.one_id(at.name("failing") + "-app", "producer", at.java(), rate=at.between(60, 500))
        span = at.span(15, 60)
        if number < 2:
            app.faults["errors"] = fault(span, float(10 ** at.random.uniform(-3, -1)))
        else:
            app.faults["retries"] = fault(span, at.between(0.08, 0.3))
    for library in at.of_each():
        app = at.one_id(at.name("churn") + "-app", "producer", library, interval_s=int(at.pick(30, 60)), rate=30.0)
        app.faults["churn"] = fault(at.span(25, 100), at.between(9, 40) / 60)


def _crashing(at: _Population) -> None:
    others = ((PYTHON, "producer"), (PYTHON, "consumer"), (FRANZ_GO, "producer"))
    for library, role in ((at.java(), "producer"), (at.java(), "consumer"), others[0], others[2]):
        name, count = at.name("crash") + "-app", 1 if role == "producer" else 3
        own: dict[str, Any] = {"interval_s": int(at.pick(30, 60)), "rate": 200.0, "is_static": False}
        app = at.one_id(name, role, library, count, **own)
        span = at.span(40, 90)
        lives, start_s = [Life(start_s=0.0, end_s=span[0], end="crash")], span[0] + 20
        while start_s < span[1]:
            lasts_s = at.random.uniform(130, 420)
            lives.append(Life(start_s=start_s, end_s=start_s + lasts_s, end="crash"))
            start_s += lasts_s + at.random.uniform(8, 60)
        app.slots[0].lives = [*lives, Life(start_s=start_s, end_s=END_S, end="open")]
        at.world.add("crash-loop", app.name, app, (span[0], start_s), True, f"{len(lives) - 1} lives")
    for library, role in ((at.java(), "consumer"), *others):
        name = at.name("vanish") + "-app"
        app = at.app(name, role, library, 3, ids="each", interval_s=int(at.pick(30, 60, 60, 300)))
        app.slots[0].lives = [Life(start_s=0.0, end_s=at.random.uniform(0.8, 5.2) * 3600, end="silent")]


def _wrong_clocks(at: _Population) -> None:
    for library in at.of_each():
        app = at.app(at.name("clock") + "-app", "producer", library, 2, ids="each")
        span = at.span(30, 120)
        size_s = float(at.pick(-1, 1) * 10 ** at.random.uniform(1.6, 2.8))
        app.slots[0].clock = fault(span, size_s, verdict="clock-skew")
        app = at.app(at.name("drift") + "-app", "producer", library, 1)
        app.slots[0].clock = fault((0.0, END_S), at.between(-14, 14))


def _outdated(at: _Population) -> None:
    for library in (OLD_C, OLD_GO):
        app = at.app(at.name("old") + "-app", "producer", library, 2)
        subject = f"{library.software}/{library.version}"
        at.world.add("outdated", subject, app, (0.0, END_S), True, kind="version")


def _released(at: _Population) -> None:
    of_java = [(at.java(), how) for how in ("latency", "errors", "throughput")]
    for library, how in (*of_java, (PYTHON, "latency"), (FRANZ_GO, "latency"), (at.java(), "nothing")):
        own: dict[str, Any] = {"rate": at.between(80, 500), "interval_s": 60}
        app = at.one_id(at.name("release") + "-app", "producer", library, 3, **own)
        span = at.world.start_s(1.2, 4.2), END_S
        for number, slot in enumerate(app.slots):
            _restart(slot, span[0] + number * 45, 15)
        app.faults["release"] = fault(span, at.between(2.2, 4), how=how)
        if how != "nothing":
            at.world.add("deploy-regression", app.name, app, span, True, how)


def _restart(slot: Slot, at_s: float, pause_s: float) -> None:
    last = slot.lives[-1]
    end_s = last.end_s
    if last.start_s + 60 < at_s < end_s - 60:
        last.end_s, last.end = at_s, "clean"
        slot.lives.append(Life(start_s=at_s + pause_s, end_s=end_s, end="open"))


def software_of(app: App, life: int) -> tuple[str, str]:
    """Name and version of the library of an application's nth process at a slot."""
    version = app.library.version
    if "release" in app.faults and life > 0 and app.is_java:
        version = PATCHES[version]
    return app.library.software, version


HEALTHY = (_everyday, _unlike_their_peers, _deployed, _scaled, _jobs, _old_versions)
BROKEN = (
    *(_slow, _limited, _rebalanced, _slow_at_work, _behind, _uneven, _wasteful, _failing),
    *(_crashing, _wrong_clocks, _outdated, _released),
)
