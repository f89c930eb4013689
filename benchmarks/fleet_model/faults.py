"""Faults: what each does to the fleet, to whom it can happen, and the verdict that is true of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.fleet_model.conditions import MINUTE, Key
from benchmarks.fleet_model.fleet import App, Fleet
from benchmarks.fleet_model.levers import STEP_S, Levers, Process, restart, spare_slots, step_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        verdict: of the catalogue; also the kind of the fault.
        subject_kind, subject: whom the verdict is about.
        target: client id, or node id in digits, that it is done to.
        node: of a slow path.
        begin, end: steps.
        size: 0 (mild) to 1 (severe).
    """

    verdict: str
    subject_kind: str
    subject: str
    target: str
    begin: int
    end: int
    size: float
    node: str = ""

    @property
    def key(self) -> Key:
        """Verdict and subject."""
        return self.verdict, self.subject_kind, self.subject


def daily(fleet: Fleet, step: int) -> float:
    """Factor of the day's curve on a producer's rate."""
    hour = (fleet.start + step * STEP_S) / 3600 % 24
    return float(1 + 0.4 * np.sin((hour - 8) / 24 * 2 * np.pi))


def _between(fault: Fault, mild: float, severe: float) -> float:
    return float(mild * (severe / mild) ** fault.size)


Apply = Callable[[Fleet, Levers, Fault, np.random.Generator], None]


def _slow_node(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    levers.broker_ms[fault.begin : fault.end, fleet.broker_ids.index(int(fault.target))] += _between(fault, 9, 400)


def _slow_client(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    slots = fleet.slots_of(fault.target)
    rtt = max(fleet.app_of(slots[0]).rtt_ms)
    levers.net_ms[fault.begin : fault.end, slots, :] += (rtt + 5) * _between(fault, 1.8, 40)


def _slow_path(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    slots, broker = fleet.slots_of(fault.target), fleet.broker_ids.index(int(fault.node))
    rtt = max(fleet.app_of(slots[0]).rtt_ms)
    levers.net_ms[fault.begin : fault.end, slots, broker] += (rtt + 5) * _between(fault, 2.2, 40)


def _throttled(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    allowed = 1 - _between(fault, 0.2, 0.6)
    for slot in fleet.slots_of(fault.target):
        levers.quota_bytes_s[fault.begin : fault.end, slot] = _wire(fleet, slot, fault.begin) * allowed


def _wire(fleet: Fleet, slot: int, step: int) -> float:
    """What a slot sends or reads [B/s]."""
    app = fleet.app_of(slot)
    if app.role == "producer":
        return app.rate * daily(fleet, step) * app.record_bytes * app.compression
    rate = sum(each.rate * each.slots for each in fleet.apps if each.topic == app.topic)
    return rate * daily(fleet, step) * app.record_bytes / max(app.slots - app.spare, 1)


def _storm(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    slots = fleet.slots_of(fault.target)
    at = fault.begin
    while at < fault.end:
        levers.flaps[at, slots] = 1
        at += max(3, int(random.uniform(0.7, 1.3) * 3600 / _between(fault, 10, 50) / STEP_S))


def _slow_processing(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    levers.processing[fault.begin : fault.end, fleet.slots_of(fault.target)] = _between(fault, 5.5, 30)


def _lagging(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """A surge of records, beyond what the group can take."""
    topic = fleet.app_of(fleet.slots_of(fault.target)[0]).topic
    producers = [slot for slot in range(len(fleet.slot_app)) if _writes(fleet.app_of(slot), topic)]
    levers.load[fault.begin : fault.end, producers] = _between(fault, 6, 14) / daily(fleet, fault.begin)


def _writes(app: App, topic: int) -> bool:
    return app.role == "producer" and app.topic == topic


def _stalled(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    levers.is_stuck[fault.begin : fault.end, fleet.slots_of(fault.target)] = True


def _idle_consumer(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """Scaled out to more members than partitions."""
    for slot in spare_slots(fleet, fault.target):
        start = fault.begin + int(random.integers(0, 4))
        levers.processes.append(Process(slot=slot, start=start, end=fault.end, software=fleet.app_of(slot).software))


def _uneven(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """A hot key: one partition gets most of the topic's records, beside the usual ones."""
    app = fleet.app_of(fleet.slots_of(fault.target)[0])
    before = sum(len(topic.leaders) for topic in fleet.topics[: app.topic])
    count = len(fleet.topics[app.topic].leaders)
    factor = _between(fault, 12, 40)
    levers.skew[fault.begin : fault.end, before + int(random.integers(count))] = factor
    producers = [slot for slot in range(len(fleet.slot_app)) if _writes(fleet.app_of(slot), app.topic)]
    levers.load[fault.begin : fault.end, producers] = 1 + 0.3 * fault.size


def _small_batches(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    levers.linger[fault.begin : fault.end, fleet.slots_of(fault.target)] = 1e-4


def _uncompressed(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    levers.compression[fault.begin : fault.end, fleet.slots_of(fault.target)] = 1.0


def _buffer_full(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """The client's network takes less than it sends."""
    for slot in fleet.slots_of(fault.target):
        levers.link_bytes_s[fault.begin : fault.end, slot] = _wire(fleet, slot, fault.begin) / _between(fault, 1.5, 4)


def _record_errors(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    levers.error_share[fault.begin : fault.end, fleet.slots_of(fault.target)] = _between(fault, 0.01, 0.4)


def _tiny_fetches(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """A consumer that no longer waits for `fetch.min.bytes`, of producers that send each record at once."""
    levers.linger[fault.begin : fault.end, fleet.slots_of(fault.target)] = 0


def _churn(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    levers.reconnects_min[fault.begin : fault.end, fleet.slots_of(fault.target)] = _between(fault, 9, 60)


def _crash_loop(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    slot = fleet.slots_of(fault.target)[0]
    at = fault.begin
    while at < fault.end:
        down = int(random.integers(1, 6))
        restart(levers, slot, at, down=down, is_clean=False)
        at += down + int(random.uniform(2.2, 7) * MINUTE)


def _silent(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """The process hangs or its host is gone: nothing comes any more, and its group loses it."""
    process = _running(levers, fleet.slots_of(fault.target)[0], fault.begin)
    process.end, process.is_clean = fault.begin, False


def _clock_skew(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    process = _running(levers, fleet.slots_of(fault.target)[0], fault.begin)
    process.skew_s = float(random.choice([-1, 1])) * _between(fault, 45, 5000)
    process.skew_begin, process.skew_end = fault.begin, fault.end


def _running(levers: Levers, slot: int, step: int) -> Process:
    return next(each for each in levers.processes if each.slot == slot and each.start < step <= each.end)


def _outdated(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """Versions of librdkafka before 2.10.1, which can send no payload at all and doubled metrics."""
    name, _, version = fault.subject.partition("/")
    for process in levers.processes:
        if process.slot in fleet.slots_of(fault.target):
            process.software = (name, version)


def _deploy(fleet: Fleet, levers: Levers, fault: Fault, random: np.random.Generator) -> None:
    """A rolling restart with a worse version; rolled back in the end."""
    app = fleet.app_of(fleet.slots_of(fault.target)[0])
    rtt = max(app.rtt_ms)
    for number, slot in enumerate(fleet.slots_of(fault.target)[: app.slots - app.spare]):
        at, back = fault.begin + number * 6, fault.end + number * 6
        restart(levers, slot, at)
        restart(levers, slot, back)
        if app.role == "consumer":
            levers.processing[at:back, slot] = _between(fault, 8, 25)
        elif fault.size < 0.7 or app.library != "java":
            levers.net_ms[at:back, slot, :] += (rtt + 5) * _between(fault, 1.5, 12)
        else:
            levers.error_share[at:back, slot] = 0.05 * fault.size


APPLY: Final[dict[str, Apply]] = {
    "slow-node": _slow_node,
    "slow-client": _slow_client,
    "slow-path": _slow_path,
    "throttled": _throttled,
    "rebalance-storm": _storm,
    "slow-processing": _slow_processing,
    "lagging": _lagging,
    "stalled": _stalled,
    "idle-consumer": _idle_consumer,
    "uneven-group": _uneven,
    "small-batches": _small_batches,
    "uncompressed": _uncompressed,
    "buffer-full": _buffer_full,
    "record-errors": _record_errors,
    "tiny-fetches": _tiny_fetches,
    "connection-churn": _churn,
    "crash-loop": _crash_loop,
    "silent": _silent,
    "clock-skew": _clock_skew,
    "outdated": _outdated,
    "deploy-regression": _deploy,
}

OLD: Final = "confluent-kafka-python/2.8.0-rdkafka-2.8.0"


def can_have(fleet: Fleet, verdict: str, app: App) -> bool:
    """True if the verdict can be told of this application's pushes (column `sends` of the catalogue)."""
    is_java, is_producer = app.library == "java", app.role == "producer"
    has_lag = not is_producer and (is_java or fleet.samples_offsets)
    sends_group = not is_producer and app.library != "franz-go"
    return app.runs_s is None and {
        "slow-client": is_producer or app.library != "franz-go",
        "slow-path": is_producer,
        "throttled": is_producer or is_java,
        "rebalance-storm": sends_group and app.slots > 1,
        "slow-processing": sends_group,
        "lagging": has_lag,
        "stalled": has_lag,
        "idle-consumer": app.spare > 0,
        "uneven-group": has_lag and app.slots - app.spare >= 4,
        "small-batches": is_java and is_producer and app.rate > 90,
        "uncompressed": is_java and is_producer and app.rate * app.record_bytes > 2e6,
        "buffer-full": is_java and is_producer and app.rate * app.record_bytes > 5e5,
        "record-errors": is_java and is_producer,
        "tiny-fetches": is_java and not is_producer,
        "connection-churn": True,
        "crash-loop": True,
        "silent": not is_java or not is_producer,
        "clock-skew": True,
        "outdated": app.library == "librdkafka",
        "deploy-regression": is_producer or has_lag,
    }.get(verdict, False)


def draw(fleet: Fleet, verdict: str, begin: int, end: int, size: float, random: np.random.Generator) -> list[Fault]:
    """Faults of a kind on this fleet, in random order: the first whose condition holds is taken."""
    if verdict == "slow-node":
        nodes = [str(node) for node in fleet.broker_ids]
        random.shuffle(nodes)
        return [
            Fault(verdict=verdict, subject_kind="node", subject=node, target=node, begin=begin, end=end, size=size)
            for node in nodes
        ]
    apps = [app for app in fleet.apps if can_have(fleet, verdict, app)]
    order = random.permutation(len(apps))
    node = str(random.choice(fleet.broker_ids))
    found = []
    for app in (apps[number] for number in order):
        kind, subject = "client", app.client_id
        if verdict in ("rebalance-storm", "lagging", "stalled", "uneven-group"):
            kind, subject = "group", app.group
        elif verdict in ("silent", "clock-skew"):
            kind, subject = "instance", ""
        elif verdict == "slow-path":
            kind, subject = "path", f"{app.client_id}@{node}"
        elif verdict == "outdated":
            kind, subject, begin, end = "version", OLD, 0, step_count(fleet)
        found.append(
            Fault(
                verdict=verdict,
                subject_kind=kind,
                subject=subject,
                target=app.client_id,
                begin=begin,
                end=end,
                size=size,
                node=node,
            )
        )
    return found
