"""Events of every fleet without a fault: deploys, scaling, restarts, batch jobs, and near misses.

A near miss is too weak or too short for a verdict. The truth has none of these events.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from fleetgauge.testkit.simulate.pathologies import (
    BUFFER_BYTES,
    Times,
    crash,
    fitting_apps,
    heat_partition,
    link_latencies,
    scale_out,
    send_uncompressed,
    slow_down_node,
)
from fleetgauge.testkit.simulate.plan import Plan, daily_load
from fleetgauge.testkit.simulate.world import FAR, SOFTWARE, App

_HOUR_S: Final = 3600.0
_DEPLOYS_AN_HOUR: Final = 0.15
"""Per application."""
_CLIENTS_A_ROUND: Final = 400
"""A larger fleet has each near miss several times."""
_DOWN_S: Final = 75.0
_BETWEEN_RESTARTS_S: Final = 240.0


def add_healthy_complications(plan: Plan) -> None:
    """Adds them to applications that nothing concerns yet."""
    for app in plan.world.apps:
        if app.is_batch:
            _run_every_hour(plan, app)
    if plan.hours >= 1:
        _restart_brokers(plan)
        _near_misses_of_nodes(plan)
    changing, plan.free = plan.free[::2], plan.free[1::2]
    for _ in range(1 + len(plan.world.of_slot) // _CLIENTS_A_ROUND):
        for verdict, lasts_s, act in _NEAR_MISSES:
            begin = _begin(plan, lasts_s)
            chosen = plan.take(fitting_apps(plan, verdict)) if begin is not None else None
            if chosen is not None and begin is not None:
                act(plan, chosen, (begin, begin + lasts_s))
    for app in changing:
        _change(plan, app)


def _begin(plan: Plan, lasts_s: float) -> float | None:
    """A time at which something of this length may begin; None if the fleet's hours are too short for it."""
    room = plan.hours * _HOUR_S - lasts_s - 600
    return float(plan.random.uniform(300, 300 + room)) if room > 300 else None


def _run_every_hour(plan: Plan, app: App) -> None:
    """A job that a clock starts, and that ends by itself."""
    minute = float(plan.random.uniform(2, 40)) * 60
    for hour in range(int(plan.hours) + 1):
        for slot in app.slots:
            begin = hour * _HOUR_S + minute + float(plan.random.uniform(0, 3))
            plan.start(slot, begin)
            plan.stop(slot, begin + float(plan.random.uniform(240, 700)))


def _restart_brokers(plan: Plan) -> None:
    """One cluster's brokers, one after the other: what each led is led by the next while it is down."""
    cluster = int(plan.random.integers(len(plan.world.clusters)))
    nodes = len(plan.world.clusters[cluster].node_ids)
    begin = _begin(plan, nodes * _BETWEEN_RESTARTS_S)
    if begin is None:
        return
    for node in range(nodes):
        at = begin + node * _BETWEEN_RESTARTS_S
        plan.cause("down", [cluster * plan.world.nodes + node], (at, at + _DOWN_S), 1.0)


def _near_misses_of_nodes(plan: Plan) -> None:
    """A node is half as slow again for half an hour, another one several times as slow for seven minutes."""
    sick = {(row.cluster_id, row.subject) for row in plan.truth}
    near = [
        (cluster, node)
        for cluster, each in enumerate(plan.world.clusters)
        for node, region in enumerate(each.regions)
        if region != FAR and (each.cluster_id, str(each.node_ids[node])) not in sick
        if link_latencies(plan, cluster, node)  # a small fleet may have no clients there
    ]
    plan.random.shuffle(near)
    for (cluster, node), lasts_s in zip(near, (1_800, 420), strict=False):
        begin = _begin(plan, lasts_s)
        if begin is not None and lasts_s > 600:
            usual = float(np.quantile(link_latencies(plan, cluster, node, held=False), 0.15))
            plan.cause("disk_ms", [cluster * plan.world.nodes + node], (begin, begin + lasts_s), usual / 2)
        elif begin is not None:
            slow_down_node(plan, cluster, node, (begin, begin + lasts_s), 3.0)


def _change(plan: Plan, app: App) -> None:
    """Deploys, some with another version of the library, or a scale-out and a scale-in."""
    can_grow = app.spare > 0 and (app.role == "producer" or len(app.partitions) >= len(app.slots))
    if can_grow and (begin := _begin(plan, 2_400)) is not None:
        lasts_s = float(plan.random.uniform(2_400, max(2_500, plan.hours * _HOUR_S - begin)))
        scale_out(plan, app, (begin, begin + lasts_s))
        return
    at = float(plan.random.exponential(_HOUR_S / _DEPLOYS_AN_HOUR))
    while at < plan.hours * _HOUR_S:
        versions = SOFTWARE[app.software.library]
        software = versions[int(plan.random.integers(len(versions)))] if plan.random.random() < 0.5 else app.software
        if software.sends_consumer_latency != app.software.sends_consumer_latency:
            software = app.software
        done = plan.deploy(app, at, float(plan.random.uniform(20, 60)), software)
        at = done + 600 + float(plan.random.exponential(_HOUR_S / _DEPLOYS_AN_HOUR))


def _at_work(app: App) -> range:
    return app.slots[: app.size]


def _slow_client(plan: Plan, app: App, times: Times) -> None:
    plan.cause("latency", _at_work(app), times, 1.5)


def _slow_path(plan: Plan, app: App, times: Times) -> None:
    node = int(plan.random.integers(len(plan.world.clusters[app.cluster].node_ids) - 1))
    plan.cause("path_ms", _at_work(app), times, plan.base_latency_ms(app.slots[0], node) / 2, node)


def _throttled(plan: Plan, app: App, times: Times) -> None:
    """At its quota for 20 s, every seven minutes: held back a little now and then."""
    usual = app.rate * app.record_bytes * app.compression * float(daily_load(times[0]))
    at = times[0]
    while at < times[1]:
        plan.cause("rate", _at_work(app), (at, at + 20), 1.08)
        plan.cause("quota", _at_work(app), (at, at + 20), usual * 1.1)
        at += 420


def _rebalances(plan: Plan, app: App, times: Times) -> None:
    """A member leaves and comes back each half hour: four rebalances an hour."""
    for at in np.arange(times[0], times[1] - 60, 1_800).tolist():
        plan.away[app.slots[0]].append((at, at + 25))


def _slow_processing(plan: Plan, app: App, times: Times) -> None:
    """Three quarters of the time are at work."""
    load = app.cost_s * app.rate * app.most_partitions * float(np.max(daily_load(np.array(times))))
    plan.cause("cost", _at_work(app), times, 0.75 / load)


def _lagging(plan: Plan, app: App, times: Times) -> None:
    arrives = app.rate * len(app.partitions) / app.size * float(daily_load(times[0]))
    plan.cause("fetch_cap", _at_work(app), times, arrives * 0.6)


def _paused(plan: Plan, app: App, times: Times) -> None:
    plan.cause("paused", app.slots, times, 1.0)


def _uneven(plan: Plan, app: App, times: Times) -> None:
    """One member has nearly twice as much to do as the others, and can do it."""
    heat_partition(plan, app, times, 1.9)
    load = app.cost_s * app.rate * app.most_partitions
    plan.cause("cost", _at_work(app), times, min(1.0, 0.3 / load))


def _small_batches(plan: Plan, app: App, times: Times) -> None:
    """Single records, but forty requests a second of the whole client."""
    plan.cause("linger_s", _at_work(app), times, 0.0)
    plan.cause("rate", _at_work(app), times, 30 / (app.rate * app.size))


def _uncompressed(plan: Plan, app: App, times: Times) -> None:
    send_uncompressed(plan, app, times, 0.55e6 / app.size)


def _buffer_full(plan: Plan, app: App, times: Times) -> None:
    """A surge that fills the buffer for a moment."""
    usual = app.rate * app.record_bytes * app.compression * float(daily_load(times[0]))
    surge = max(3.0, BUFFER_BYTES / 70 / (0.4 * usual))
    plan.cause("rate", _at_work(app), times, surge)
    plan.cause("capacity", _at_work(app), times, 0.6 * surge * usual)


def _record_errors(plan: Plan, app: App, times: Times) -> None:
    """Some records are sent again all the time, and for a moment some fail."""
    plan.cause("retries", _at_work(app), times, 0.015)
    plan.cause("errors", _at_work(app), (times[0] + 600, times[0] + 690), 0.02)


def _tiny_fetches(plan: Plan, app: App, times: Times) -> None:
    wanted = 30 / (app.rate * len(app.partitions))
    plan.cause("singles", _at_work(app), times, 1.0)
    plan.cause("arrival", app.partitions, times, wanted)
    plan.cause("cost", _at_work(app), times, 1 / wanted)


def _churn(plan: Plan, app: App, times: Times) -> None:
    plan.cause("breaks", _at_work(app), times, 3.5)


def _crash(plan: Plan, app: App, times: Times) -> None:
    """Two instances die, the third one lives."""
    crash(plan, app.slots[0], times, times_most=2)


def _silent(plan: Plan, app: App, times: Times) -> None:
    """Two pushes are missing in a row."""
    plan.processes[app.slots[0]][-1].hung.append((times[0], times[0] + 2.4 * app.interval_s))


def _clock(plan: Plan, app: App, times: Times) -> None:
    plan.cause("clock_s", _at_work(app), (-1_000, times[1]), float(plan.random.uniform(-14, 14)))


def _deploy(plan: Plan, app: App, times: Times) -> None:
    plan.deploy(app, times[0], min(20.0, 120 / app.size))
    plan.cause("latency", _at_work(app), times, 1.15)


_NEAR_MISSES: Final[tuple[tuple[str, float, Callable[[Plan, App, Times], None]], ...]] = (
    ("slow-client", 1_800, _slow_client),
    ("slow-path", 1_800, _slow_path),
    ("throttled", 3_000, _throttled),
    ("rebalance-storm", 5_400, _rebalances),
    ("slow-processing", 2_700, _slow_processing),
    ("lagging", 480, _lagging),
    ("stalled", 360, _paused),
    ("idle-consumer", 1_200, scale_out),
    ("uneven-group", 2_700, _uneven),
    ("small-batches", 2_700, _small_batches),
    ("uncompressed", 2_700, _uncompressed),
    ("buffer-full", 110, _buffer_full),
    ("record-errors", 2_700, _record_errors),
    ("tiny-fetches", 2_700, _tiny_fetches),
    ("connection-churn", 2_700, _churn),
    ("crash-loop", 900, _crash),
    ("silent", 300, _silent),
    ("clock-skew", 2_700, _clock),
    ("deploy-regression", 2_400, _deploy),
)
"""The verdict that it is not, how long it lasts [s], and what happens."""
