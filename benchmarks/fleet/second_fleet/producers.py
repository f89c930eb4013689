"""What producers and admin clients do, tick by tick: batches, requests, and records that wait or fail."""

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.fleet.second_fleet.clients import TICK_S, TICKS, App, Fault, Slot, Traffic, Values
from benchmarks.fleet.second_fleet.world import Brokers, World

BATCH_BYTES = 16384
MEMORY_BYTES = 33554432


@dataclass(kw_only=True)
class ProducerTraffic(Traffic):
    """Of a producer.

    Attributes:
        records_per_s: that go out to each broker.
        queued_ms: for how long records wait to be sent.
        buffered_bytes: of those that wait.
        blocked: share of the time in which the application waits for memory.
        failed, retried: shares of the records.
    """

    records_per_s: Values
    queued_ms: Values
    buffered_bytes: Values
    blocked: Values
    failed: Values
    retried: Values


@dataclass(kw_only=True)
class _Pipe:
    """Of one instance, by tick and broker.

    Attributes:
        offered: records per second that the application has.
        batch: records per request.
        full_batch: the most of them.
        most: records per second that fit through.
        throttle_ms, held: see Traffic.
    """

    offered: Values
    batch: Values
    full_batch: float
    most: Values
    throttle_ms: Values
    held: Values


def simulate_producers(world: World, app: App) -> None:
    """Gives each slot of an application its traffic."""
    brokers = world.brokers[app.cluster]
    demand = _demand(world, app)
    count = brokers.count
    weights = np.full(count, 1 / count) if app.is_sync else world.random.dirichlet(np.full(count, 60.0))
    for slot in app.slots:
        slot.traffic = _traffic(world, slot, demand, weights)


def simulate_admin(world: World, app: App) -> None:
    for slot in app.slots:
        latency_ms, base_ms = world.links(slot)
        alive = slot.is_alive()
        slot.traffic = Traffic(
            latency_ms=latency_ms,
            base_ms=base_ms,
            requests_per_s=np.full(latency_ms.shape, 0.03) * alive[:, None],
            connects=np.zeros(TICKS),
            is_alive=alive,
            throttle_ms=np.zeros(TICKS),
            held=np.zeros(latency_ms.shape),
        )


def _demand(world: World, app: App) -> Values:
    """Records per second of one instance."""
    demand: Values = app.rate * world.load * np.exp(world.noise(TICKS, 0.12, 240))
    if "scale" in app.faults:  # the same work, done by more
        demand = demand / (np.stack([slot.is_alive() for slot in app.slots]).sum(0).clip(1) / 4.0)
    if surge := app.faults.get("demand"):
        demand = demand * np.where(surge.ticks, surge.size, 1)
    if release := _release(app, "throughput"):
        demand = demand * np.where(release.ticks, 1 / release.size, 1)
    return demand


def _release(app: App, how: str) -> Fault | None:
    release = app.faults.get("release")
    return release if release and release.how == how else None


def _latencies(world: World, slot: Slot, brokers: Brokers) -> tuple[Values, Values]:
    app = slot.app
    latency_ms, base_ms = world.links(slot)
    if app.acks_all:
        replicas_ms = 0.3 * (brokers.latency_ms.mean(1))
        latency_ms, base_ms = latency_ms + replicas_ms[:, None], base_ms + replicas_ms[:, None]
    if release := _release(app, "latency"):
        added_ms = np.where(release.ticks, (release.size - 1) * base_ms.mean(1) + 3, 0)
        latency_ms = latency_ms + added_ms[:, None]
    return latency_ms, base_ms


def _traffic(world: World, slot: Slot, demand: Values, weights: Values) -> ProducerTraffic:
    app, brokers = slot.app, world.brokers[slot.app.cluster]
    latency_ms, base_ms = _latencies(world, slot, brokers)
    alive = slot.is_alive()
    offered = np.where(brokers.is_up & alive[:, None], demand[:, None] * weights[None, :] * alive[:, None], 0)
    full_batch = BATCH_BYTES / app.sent_bytes * 2  # two partitions per broker and request
    if app.is_sync:
        batch, most = np.ones_like(offered), np.full_like(latency_ms, 1e9)
    else:
        batch = np.clip(1 + offered * (app.linger_ms + 0.3 * latency_ms) / 1000, 1, full_batch)
        most = app.in_flight * full_batch / (latency_ms / 1000)
    nothing = np.zeros(offered.shape)
    pipe = _Pipe(offered=offered, batch=batch, full_batch=full_batch, most=most, throttle_ms=nothing, held=nothing)
    if quota := app.faults.get("quota"):
        pipe = _held_back(pipe, quota, demand * weights.mean() * quota.size, latency_ms)
    sent, queued, blocked = _accumulate(pipe, brokers, slot)
    is_full = queued > 5
    batch = np.where(is_full, full_batch, pipe.batch)
    lingers_ms = app.linger_ms * 0.7 + 0.15 * latency_ms * (batch > 2) + 0.2
    queued_ms = np.where(is_full, queued / np.maximum(sent, 1e-3) * 1000, lingers_ms)
    failed, retried, connects = _failures(world, slot, brokers)
    return ProducerTraffic(
        latency_ms=latency_ms,
        base_ms=base_ms,
        requests_per_s=sent / batch,
        connects=connects * alive,
        is_alive=alive,
        throttle_ms=pipe.throttle_ms,
        held=pipe.held,
        records_per_s=sent,
        queued_ms=(queued_ms * sent).sum(1) / np.maximum(sent.sum(1), 1e-9),
        buffered_bytes=queued.sum(1) * app.record_bytes,
        blocked=blocked,
        failed=failed,
        retried=retried,
    )


def _held_back(pipe: _Pipe, quota: Fault, refill: Values, latency_ms: Values) -> _Pipe:
    """Each broker's token bucket is refilled more slowly than the application writes."""
    allowed = np.median(refill[quota.ticks]) * np.ones(TICKS)
    over = quota.ticks[:, None] & (pipe.offered > allowed[:, None])
    batch = np.where(over, pipe.full_batch, pipe.batch)
    cycle_ms = batch / allowed[:, None] * 1000  # from one request to the next
    return replace(
        pipe,
        batch=batch,
        most=np.where(over, allowed[:, None], pipe.most),
        held=np.where(over, np.clip(1 - latency_ms / np.maximum(cycle_ms, 1), 0, 1), 0),
        throttle_ms=np.where(over, np.maximum(0, cycle_ms - latency_ms), 0),
    )


def _accumulate(pipe: _Pipe, brokers: Brokers, slot: Slot) -> tuple[Values, Values, Values]:
    """Records sent per second, those that wait, and the share of the time blocked for want of memory."""
    queued, blocked = np.zeros(pipe.offered.shape), np.zeros(TICKS)
    if not (pipe.offered > pipe.most).any():
        return pipe.offered, queued, blocked
    alive, sent, waiting = slot.is_alive(), np.zeros_like(pipe.offered), np.zeros(brokers.count)
    room = MEMORY_BYTES / slot.app.record_bytes
    for tick in range(TICKS):
        if not alive[tick]:
            waiting[:] = 0
            continue
        have = waiting + pipe.offered[tick] * TICK_S
        out = np.minimum(have, pipe.most[tick] * TICK_S * brokers.is_up[tick])
        waiting = have - out
        if (total := waiting.sum()) > room:
            blocked[tick] = (total - room) / max(1e-9, pipe.offered[tick].sum() * TICK_S)
            waiting *= room / total
        sent[tick], queued[tick] = out / TICK_S, waiting
    return sent, queued, blocked


def _failures(world: World, slot: Slot, brokers: Brokers) -> tuple[Values, Values, Values]:
    """Shares of records failed and retried, and connections made."""
    app, count = slot.app, brokers.count
    failed, retried = np.zeros(TICKS), np.zeros(TICKS)
    if fault := app.faults.get("errors"):
        failed = np.where(fault.ticks, fault.size, 0)
    if fault := app.faults.get("retries"):
        retried = np.where(fault.ticks, fault.size, 0)
    if release := _release(app, "errors"):
        failed = np.where(release.ticks, 0.02 * release.size, 0)
    goes_down = np.zeros(TICKS, bool)
    for node in range(count):
        goes_down[np.flatnonzero(~brokers.is_up[:, node])[:1]] = True
    retried = retried + np.where(goes_down, 0.1 / count, 0)  # leaders move: a second of NOT_LEADER_OR_FOLLOWER
    # Of slow applications the idle ones lose connections.
    connects = (world.random.random(TICKS) < TICK_S / 540 * 0.3).astype(float) * (app.rate < 40) + goes_down * 1.0
    for life in slot.lives:
        connects[min(TICKS - 1, int(life.start_s / TICK_S))] += count + 1
    if churn := app.faults.get("churn"):
        connects = connects + np.where(churn.ticks, world.random.poisson(churn.size * TICK_S, TICKS), 0)
    return failed, retried, connects
