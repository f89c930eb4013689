"""Which verdicts are right, by the definitions of docs/analyse/verdicts.md and the state of the model: no push is read.

Each has a stretch in which it has to be found, and around it a wider one in which it may be: where a condition is near
its bound, either is right.
"""

import numpy as np

from benchmarks.fleet.second_fleet.clients import BEGIN_S, END_S, TICK_S, TICKS, TIMES_S, App, Mask, Slot, Span, Values
from benchmarks.fleet.second_fleet.consumers import ConsumerTraffic, GroupWork
from benchmarks.fleet.second_fleet.producers import ProducerTraffic
from benchmarks.fleet.second_fleet.world import Brokers, World, smooth, stretches

MUST_S = 1200.0
"""A condition that holds for so long has to be found."""
HOUR = np.ones(360)
"""As ticks."""


def add_truth(world: World) -> None:
    """Adds what follows from the traffic of all clients; faults with a time of their own have been added before."""
    for app in world.apps:
        if app.role == "producer":
            _of_faults(world, app)
            for client_id in sorted({slot.client_id for slot in app.slots}):
                _of_producer(world, app, client_id)
        elif app.role == "consumer":
            _of_faults(world, app)
            _of_group(world, app, app.work)
            for client_id in sorted({slot.client_id for slot in app.slots}):
                _of_consumer(world, app, client_id)
    for cluster, brokers in world.brokers.items():
        _of_brokers(world, cluster, brokers)


def _of_faults(world: World, app: App) -> None:
    if slow := app.faults.get("slow"):
        traffic = app.slots[0].traffic
        ratios = (traffic.latency_ms / traffic.base_ms)[slow.ticks].mean(0)
        ratio = float(np.median(ratios) if slow.node is None else ratios[slow.node])
        must = ratio > (2.1 if world.is_hard else 2.3)
        note = f"{app.role} {slow.how} x{ratio:.1f}"
        if slow.node is None:
            world.add(slow.verdict, app.name, app, slow.span, must, note)
        else:
            world.add(slow.verdict, f"{app.name}@{slow.node + 1}", app, slow.span, must, note, kind="path")
            world.add("slow-client", app.name, app, slow.span, False)
    if quota := app.faults.get("quota"):
        held = np.mean([slot.traffic.held.mean(1) for slot in app.slots], 0)
        for span in stretches(held > 0.1, 600):
            world.add("throttled", app.name, app, span, _lasts(span) >= MUST_S, app.role)
        after = quota.span[0], END_S
        for verdict in ("slow-client", "buffer-full", "small-batches", "deploy-regression"):
            world.add(verdict, app.name, app, after, False, "may follow from the quota")
        world.add("lagging", app.group, app, after, False, kind="group")


def faults_of(app: App) -> list[Span]:
    """When something is wrong with an application or one of its processes, since the epoch [s]."""
    spans = [fault.span for name, fault in app.faults.items() if name != "scale"]
    spans += [slot.clock.span for slot in app.slots if slot.clock and slot.clock.verdict]
    lives = [life for slot in app.slots for life in slot.lives]
    spans += [(life.end_s, END_S) for life in lives if life.end in ("crash", "silent")]
    return [(BEGIN_S + start_s, BEGIN_S + end_s) for start_s, end_s in spans]


def _lasts(span: Span) -> float:
    return span[1] - span[0]


class _Subject:
    """A client id, about which conditions are turned into truths."""

    def __init__(self, world: World, app: App, client_id: str) -> None:
        self.world, self.app, self.client_id = world, app, client_id

    def must(self, verdict: str, condition: Mask, least_s: float = 600, *, unless: bool = False) -> None:
        """To be found where a condition lasts twice as long as it has to."""
        for span in stretches(condition, least_s):
            must = not unless and _lasts(span) >= 2 * least_s
            self.world.add(verdict, self.client_id, self.app, span, must)

    def may(self, verdict: str, condition: Mask, least_s: float = 300) -> None:
        for span in stretches(condition, least_s):
            self.world.add(verdict, self.client_id, self.app, span, False)


def _most(values: list[Values], ticks: int = 30) -> Values:
    found: Values = np.max([smooth(each, ticks) for each in values], 0)
    return found


def _of_producer(world: World, app: App, client_id: str) -> None:
    traffic: list[ProducerTraffic] = [slot.traffic for slot in app.slots if slot.client_id == client_id]
    subject = _Subject(world, app, client_id)
    if not app.is_go:
        blocked, queued_ms = _most([each.blocked for each in traffic]), _most([each.queued_ms for each in traffic])
        linger_ms = max(app.linger_ms, 2)
        if app.is_java:
            subject.must("buffer-full", blocked >= 0.08)
        waits = (queued_ms > 12 * linger_ms) & (queued_ms > 400)
        subject.must("buffer-full", waits, unless="quota" in app.faults)
        subject.may("buffer-full", ((queued_ms > 8 * linger_ms) & (queued_ms > 60)) | (blocked > 0.03))
    if app.is_java:
        _of_records(subject, app, traffic)
    made_per_min = _most([each.connects / TICK_S * 60 for each in traffic], 60)
    subject.must("connection-churn", made_per_min >= 7.5)
    subject.may("connection-churn", made_per_min >= 4.5)


def _of_records(subject: _Subject, app: App, traffic: list[ProducerTraffic]) -> None:
    """Requests, sizes and failures, which Java's producers alone push."""
    requests = _most([each.requests_per_s.sum(1) for each in traffic])
    batches = [
        smooth(each.records_per_s.sum(1)) / np.maximum(smooth(each.requests_per_s.sum(1)), 1e-9) for each in traffic
    ]
    batch, sent_bytes = np.min(batches, 0), app.record_bytes * app.compression
    is_small = (batch < 1.8) | (batch * sent_bytes < 850)
    subject.must("small-batches", (requests > 60) & is_small)
    is_rather_small = (batch < 2.3) | (batch * sent_bytes < 1250)
    subject.may("small-batches", (requests > 40) & is_rather_small)
    if app.compression == 1.0:
        bytes_per_s = _most([each.records_per_s.sum(1) for each in traffic]) * app.record_bytes
        subject.must("uncompressed", bytes_per_s >= 1.15e6)
        subject.may("uncompressed", bytes_per_s >= 0.85e6)
    retried = _most([each.retried for each in traffic])
    failed = np.sum([smooth(each.failed * each.records_per_s.sum(1)) for each in traffic], 0) * 300
    if "release" not in app.faults:
        subject.must("record-errors", failed >= 8, 300)
    subject.must("record-errors", retried >= 0.06, 300)
    subject.may("record-errors", (failed > 0.3) | (retried > 0.035), 200)


def _of_consumer(world: World, app: App, client_id: str) -> None:
    slots = [slot for slot in app.slots if slot.client_id == client_id]
    subject = _Subject(world, app, client_id)
    if not app.is_go:
        _of_polling(subject, app, slots)
    if app.is_java:
        traffic: list[ConsumerTraffic] = [slot.traffic for slot in slots]
        for span in stretches(_fetches_tiny(traffic, 60, 850), 600):
            world.add("tiny-fetches", client_id, app, span, _lasts(span) > MUST_S)
        subject.may("tiny-fetches", _fetches_tiny(traffic, 42, 1250))
    for slot in slots:
        has_none = (slot.traffic.owns.sum(1) == 0) & slot.traffic.is_alive
        for span in stretches(has_none, 1800):
            world.add("idle-consumer", client_id, app, span, not app.is_go)


def _fetches_tiny(members: list[ConsumerTraffic], least_per_s: float, below_bytes: float) -> Mask:
    """Where a member fetches more often and less than that: the same one, since one that is away fetches nothing."""
    rates = [smooth(each.requests_per_s.sum(1)) for each in members]
    sizes = [smooth(each.fetch_bytes) for each in members]
    by_member = [(rate > least_per_s) & (size < below_bytes) for rate, size in zip(rates, sizes, strict=True)]
    found: Mask = np.logical_or.reduce(by_member)
    return found


def _of_polling(subject: _Subject, app: App, slots: list[Slot]) -> None:
    world, client_id = subject.world, subject.client_id
    idle = smooth(np.min([np.where(_is_told(slot.traffic), slot.traffic.idle, 1) for slot in slots], 0))
    longpoll = app.faults.get("longpoll")
    if app.polls == "batch":  # the ratio of the others is no measure of their work
        is_slow = "work" in app.faults or longpoll is not None
        for span in stretches(idle < 0.085, 600):
            world.add("slow-processing", client_id, app, span, is_slow and _lasts(span) >= MUST_S)
        subject.may("slow-processing", idle < 0.14)
    if longpoll:
        note = f"{longpoll.size:.0f} s a poll"
        world.add("slow-processing", client_id, app, longpoll.span, True, note)


def _is_told(traffic: ConsumerTraffic) -> Mask:
    found: Mask = ~np.isnan(traffic.idle) & traffic.is_alive
    return found


def _of_group(world: World, app: App, work: GroupWork) -> None:
    if not app.is_go:
        _of_rebalances(world, app, work)
    if not app.is_java:
        return
    stall, lag = app.faults.get("stall"), work.lag.sum(1)
    growth = smooth(np.r_[np.zeros(30), lag[30:] - lag[:-30]], 6)
    incoming = smooth(work.rate) * 300
    for span in stretches((growth > 0.03 * incoming) & (growth > 100), 900):
        world.add("lagging", app.group, app, span, not stall and _lasts(span) >= 1500, kind="group")
    for span in stretches((growth > 0.004 * incoming) & (growth > 20), 300):
        world.add("lagging", app.group, app, span, False, kind="group")
    if stall:
        first = np.flatnonzero(stall.ticks)[0]
        shown = max(slot.traffic.lag[first][slot.traffic.owns[first]].sum() for slot in app.slots)
        note = f"{stall.how} {app.commits}, lag shown {shown:.0f}"
        world.add("stalled", app.group, app, stall.span, bool(shown > 0), note, kind="group")
        after = stall.span[0], stall.span[1] + 1800
        world.add("lagging", app.group, app, after, False, kind="group")
        if stall.how == "block":
            for client_id in {slot.client_id for slot in app.slots}:
                world.add("slow-processing", client_id, app, stall.span, False)
    if app.count >= 4:
        _of_balance(world, app, work)


def _of_rebalances(world: World, app: App, work: GroupWork) -> None:
    hourly = np.convolve(work.rebalances.max(1), HOUR)[:TICKS]
    share = np.convolve(work.rebalances_ms.max(1) / 1000, HOUR)[:TICKS] / 3600
    ends = {life.end for slot in app.slots for life in slot.lives}
    must = "storm" in app.faults and bool(hourly.max() > 8)
    note = f"{hourly.max():.0f} an hour" + ("" if "storm" in app.faults or "crash" in ends else " planned")
    for start_s, end_s in stretches((hourly > 6) | ((share > 0.05) & (TIMES_S > 3600)), 60):
        world.add("rebalance-storm", app.group, app, (max(0, start_s - 3000), end_s), must, note, kind="group")


def _of_balance(world: World, app: App, work: GroupWork) -> None:
    members = range(app.count)
    used = np.stack([smooth(work.used[:, member] / TICK_S) for member in members], 1)
    lags = np.stack([smooth((work.lag * (work.owner == member)).sum(1)) for member in members], 1)
    has_more = used.max(1) > 3.3 * np.maximum(np.median(used, 1), 0.01)
    for span in stretches(has_more & (used.max(1) > 12), 900):
        world.add("uneven-group", app.group, app, span, _lasts(span) > 1800, kind="group")
    is_behind = (lags.max(1) > 3.3 * np.maximum(np.median(lags, 1), 1)) & (lags.max(1) > 1000)
    for span in stretches(is_behind, 900):
        world.add("uneven-group", app.group, app, span, False, kind="group")


def _of_brokers(world: World, cluster: str, brokers: Brokers) -> None:
    """A broker is slow while it is so to half of those that produce to it."""
    for node, start, end, kind in brokers.faults:
        apps = [app for app in world.apps if app.cluster == cluster and app.role == "producer"]
        slots = [slot for app in apps if "slow" not in app.faults for slot in app.slots]
        up = [slot for slot in slots if slot.traffic.is_alive[start:end].mean() > 0.5]
        ratio = np.median(np.array([_ratio(slot, brokers, node, start, end) for slot in up]), 0)
        found = stretches(smooth(ratio, 6) >= 2, 600, 30)
        begin_s = start * TICK_S
        span = (begin_s + found[0][0], begin_s + found[-1][1]) if found else (begin_s, end * TICK_S)
        note = f"{kind} median ratio {ratio.mean():.1f}"
        world.add_truth("slow-node", "node", str(node + 1), cluster, span, bool(found), note=note)


def _ratio(slot: Slot, brokers: Brokers, node: int, start: int, end: int) -> Values:
    """A producer's latency by what it would be without the fault."""
    latency_ms: Values = slot.traffic.latency_ms[start:end, node]
    extra_ms = (brokers.latency_ms - brokers.fine_ms)[start:end, node]
    fine_ms = latency_ms - extra_ms * (1 + (0.3 / brokers.count if slot.app.acks_all else 0))
    found: Values = latency_ms / np.maximum(fine_ms, 0.1)
    return found
