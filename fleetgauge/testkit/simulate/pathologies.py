"""Pathologies: the events in a fleet that make each verdict of the contract true."""

from collections.abc import Callable
from typing import Final

import numpy as np

from fleetgauge.testkit.simulate.plan import Plan, Truth, daily_load, no_subject
from fleetgauge.testkit.simulate.request import SUBJECT_KINDS, Pathology
from fleetgauge.testkit.simulate.world import FAR, FAULTY, SOFTWARE, App

BUFFER_BYTES: Final = 32 * 1024 * 1024
"""Kafka's default of `buffer.memory`."""

Times = tuple[float, float]


def add_pathology(plan: Plan, asked: Pathology) -> None:
    """Adds what makes the verdict right, and its row of the truth.

    Raises:
        FleetError: the subject is not in the fleet, or cannot have this verdict.
    """
    times = asked.from_s, asked.to_s
    if asked.verdict == "slow-node":
        _slow_node(plan, asked, times)
        return
    fitting = fitting_apps(plan, asked.verdict)
    if asked.verdict == "slow-client" and asked.from_s == 0:  # slow from its start: only its peers can tell
        fitting = [app for app in fitting if _has_peers(plan, app)]
        times = -_LONG_AGO_S, asked.to_s
    if asked.subject is None:
        app = plan.take(fitting)
    else:
        app = next((app for app in fitting if _names(plan, app, asked)), None)
        if app in plan.free:
            plan.free.remove(app)
    if app is None:
        raise no_subject(asked.verdict, asked.subject, [app.name for app in fitting])
    subject = _ACTS[asked.verdict](plan, app, times, asked.subject)
    _told(plan, asked.verdict, subject, app.cluster, (asked.from_s, asked.to_s), app)


def can_add(plan: Plan, asked: Pathology) -> bool:
    """False where a verdict takes an application that nothing concerns yet, and there is none that fits."""
    is_of_node = SUBJECT_KINDS[asked.verdict] == "node"
    return is_of_node or any(app in plan.free for app in fitting_apps(plan, asked.verdict))


def fitting_apps(plan: Plan, verdict: str) -> list[App]:
    """The applications that can have a verdict; all of them for one about a node."""
    return [app for app in plan.world.apps if SUBJECT_KINDS[verdict] == "node" or _fits(verdict, app)]


def _told(plan: Plan, verdict: str, subject: str, cluster: int, times: Times, app: App | None = None) -> None:
    row = Truth(
        verdict=verdict,
        subject_kind=SUBJECT_KINDS[verdict],
        subject=subject,
        cluster_id=plan.world.clusters[cluster].cluster_id,
        client_id=app.name if app else None,
        from_s=times[0],
        to_s=times[1],
    )
    plan.truth.append(row)


def _fits(verdict: str, app: App) -> bool:
    """True if this application's library sends enough for the verdict, and its shape allows it."""
    if app.role == "admin" or app.is_batch:
        return False
    library, is_producer = app.software.library, app.role == "producer"
    # A fetch of franz-go may wait 5 s for data: a link or a client would have to be slower than that to be seen.
    sends_latency = is_producer or (app.software.sends_consumer_latency and library != "franz-go")
    rules: dict[str, bool] = {
        "slow-client": sends_latency,
        "slow-path": sends_latency and (is_producer or len(app.partitions) > 1),
        "throttled": is_producer,
        "rebalance-storm": not is_producer and library != "franz-go" and app.size >= 2,
        "slow-processing": not is_producer and library != "franz-go",
        "lagging": not is_producer and library == "java",
        "stalled": not is_producer and library == "java",
        "idle-consumer": not is_producer
        and library != "franz-go"
        and app.spare > 0
        and len(app.partitions) == app.size,
        "uneven-group": not is_producer and library == "java" and app.size >= 4,
        "small-batches": is_producer and library == "java" and app.region != FAR,
        "uncompressed": is_producer and library == "java",
        "buffer-full": is_producer and library != "franz-go" and app.compression < 1,
        "record-errors": is_producer and library == "java",
        "tiny-fetches": not is_producer and library == "java" and app.region != FAR and app.record_bytes < 500,
        "connection-churn": True,
        "crash-loop": True,
        "silent": not (is_producer and library == "java"),
        "clock-skew": True,
        "outdated": bool(FAULTY[library]),
        "deploy-regression": is_producer,
    }
    return rules[verdict]


def _names(plan: Plan, app: App, asked: Pathology) -> bool:
    subject = asked.subject or ""
    kind = SUBJECT_KINDS[asked.verdict]
    if kind == "path":
        return subject.rpartition("@")[0] == app.name
    if kind == "version":
        return subject in (app.name, *(f"{each.name}/{each.version}" for each in FAULTY[app.software.library]))
    if kind == "instance" and any(plan.processes[slot][-1].instance_id == subject for slot in _at_work(app)):
        return True
    return subject in (app.name, app.group_id)


_LEAST_PEERS: Final = 8
_LONG_AGO_S: Final = 1e6


def _has_peers(plan: Plan, app: App) -> bool:
    """True where eight instances or more of several others have its principal, role, library and region."""
    alike = [
        each
        for each in plan.world.apps
        if each is not app
        and not each.is_batch
        and (each.cluster, each.principal, each.role) == (app.cluster, app.principal, app.role)
        and each.software.library == app.software.library
        and each.region != FAR
    ]
    return app.region != FAR and len(alike) >= 3 and sum(each.size for each in alike) >= _LEAST_PEERS


def _at_work(app: App) -> range:
    return app.slots[: app.size]


def link_latencies(plan: Plan, cluster: int, node: int, *, held: bool = True) -> list[float]:
    """Usual latencies of requests to a node [ms], one per link; see `Plan.base_latency_ms`."""
    return [
        plan.base_latency_ms(slot, node, held=held)
        for app in plan.world.apps
        if app.cluster == cluster and app.role != "admin"
        for slot in _at_work(app)
    ]


def slow_down_node(plan: Plan, cluster: int, node: int, times: Times, factor: float) -> None:
    """A failing disk: every request to a broker waits for it. Most of its clients wait `factor` times as long."""
    usual = float(np.quantile(link_latencies(plan, cluster, node), 0.6))
    plan.cause("disk_ms", [cluster * plan.world.nodes + node], times, (factor - 1) * usual)


def _slow_node(plan: Plan, asked: Pathology, times: Times) -> None:
    nodes = {
        (cluster, node): str(node_id)
        for cluster, each in enumerate(plan.world.clusters)
        for node, node_id in enumerate(each.node_ids)
    }
    # Of a node that only consumers use nothing is known: their fetches may wait for data.
    of_producers = {app.cluster for app in plan.world.apps if app.role == "producer"}
    near = [key for key in nodes if key[0] in of_producers and plan.world.clusters[key[0]].regions[key[1]] != FAR]
    if asked.subject is None:
        cluster, node = near[int(plan.random.integers(len(near)))]
    else:
        named = [key for key, text in nodes.items() if text == asked.subject]
        if not named:
            raise no_subject(asked.verdict, asked.subject, sorted(set(nodes.values())))
        cluster, node = named[0]
    slow_down_node(plan, cluster, node, times, float(plan.random.uniform(2.6, 4.0)))
    _told(plan, "slow-node", nodes[cluster, node], cluster, times)


def _usual_ms(plan: Plan, app: App) -> float:
    nodes = range(len(plan.world.clusters[app.cluster].node_ids))
    return float(np.median([plan.base_latency_ms(slot, node) for slot in _at_work(app) for node in nodes]))


def _seen_ms(app: App) -> float:
    """Additional latency of fetches [ms] that no lack of data explains; see `held_s`."""
    return 1_000.0 if app.role == "consumer" else 0.0


def _slow_client(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """The client's own host is short of CPU: its network thread is late for every response.

    A consumer's fetches show it where they take longer than one that waits for data.
    """
    nodes = range(len(plan.world.clusters[app.cluster].node_ids))
    slowest = max(plan.base_latency_ms(app.slots[0], node) for node in nodes)
    wanted = max(slowest * 1.6, _usual_ms(plan, app) * 2.2, _seen_ms(app))
    plan.cause("delay_ms", _at_work(app), times, wanted)
    return app.name


def _slow_path(plan: Plan, app: App, times: Times, subject: str | None) -> str:
    """A link loses packets: requests of one client to one node wait for what is sent again."""
    cluster = plan.world.clusters[app.cluster]
    near = [node for node in app.used_nodes(len(cluster.node_ids)) if cluster.regions[node] != FAR]
    node = near[int(plan.random.integers(len(near)))]
    if subject is not None:
        given = subject.rpartition("@")[2]
        ids = {str(cluster.node_ids[node]): node for node in app.used_nodes(len(cluster.node_ids))}
        if given not in ids:
            raise no_subject("slow-path", subject, [f"{app.name}@{node_id}" for node_id in ids])
        node = ids[given]
    plan.cause("path_ms", _at_work(app), times, max(3.0 * max(_usual_ms(plan, app), 4.0), _seen_ms(app)), node)
    return f"{app.name}@{cluster.node_ids[node]}"


def _throttled(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """A byte rate quota just above the mean, and records that come in bursts."""
    usual = app.rate * app.record_bytes * app.compression * float(np.max(daily_load(np.array(times))))
    plan.cause("burst", _at_work(app), times, 1.0)
    plan.cause("quota", _at_work(app), times, usual * float(plan.random.uniform(1.02, 1.15)))
    return app.name


def _rebalance_storm(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """One member loses its session again and again, and joins again."""
    assert app.group_id is not None
    slot, at = app.slots[0], times[0]
    while at < times[1] - 60:
        plan.away[slot].append((at, at + float(plan.random.uniform(12, 30))))
        at += float(plan.random.uniform(150, 320))
    return app.group_id


def _slow_processing(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """Each record takes the application longer, so that it is at work all the time."""
    load = app.cost_s * app.rate * len(app.partitions) / app.size * float(np.min(daily_load(np.array(times))))
    plan.cause("cost", _at_work(app), times, float(plan.random.uniform(1.05, 1.4)) / load)
    return app.name


def _lagging(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """Fetches bring less than arrives: the consumers' bandwidth is used up."""
    assert app.group_id is not None
    arrives = app.rate * len(app.partitions) / app.size * float(np.min(daily_load(np.array(times))))
    plan.cause("fetch_cap", _at_work(app), times, arrives * float(plan.random.uniform(0.45, 0.7)))
    return app.group_id


def _stalled(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """The application has paused all its partitions, and goes on polling."""
    assert app.group_id is not None
    plan.cause("paused", app.slots, times, 1.0)
    return app.group_id


def _idle_consumer(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """Scaled out beyond the number of partitions."""
    scale_out(plan, app, times)
    return app.name


def scale_out(plan: Plan, app: App, times: Times) -> None:
    """Starts an application's spare instances, and stops them in the end."""
    for number, slot in enumerate(app.slots[app.size :]):
        plan.start(slot, times[0] + 5.0 * number)
        plan.stop(slot, times[1] + 5.0 * number)


def _uneven_group(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """A hot key: one partition takes several members' load."""
    assert app.group_id is not None
    heat_partition(plan, app, times, float(plan.random.uniform(4.0, 6.0)))
    return app.group_id


def heat_partition(plan: Plan, app: App, times: Times, share: float) -> None:
    """One member has to consume `share` times as much as the others."""
    each = len(app.partitions) / app.size
    plan.cause("arrival", [app.partitions[0]], times, 1 + each * (share - 1))


def _small_batches(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """`linger.ms` is 0, and records come one by one."""
    plan.cause("linger_s", _at_work(app), times, 0.0)
    plan.cause("rate", _at_work(app), times, max(1.0, float(plan.random.uniform(110, 200)) / (app.rate * 0.8)))
    return app.name


def _uncompressed(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """`compression.type` is none, and much is sent."""
    send_uncompressed(plan, app, times, float(plan.random.uniform(1.6e6, 3e6)) / 0.8)
    return app.name


def send_uncompressed(plan: Plan, app: App, times: Times, bytes_per_s: float) -> None:
    """Each instance sends so much without compression, in batches of several records as busy producers do."""
    surge = max(1.0, bytes_per_s / (app.rate * app.record_bytes))
    of_link = app.rate * surge / len(plan.world.clusters[app.cluster].node_ids)
    plan.cause("compression", _at_work(app), times, 1.0)
    plan.cause("rate", _at_work(app), times, surge)
    plan.cause("linger_s", _at_work(app), times, min(0.1, max(app.linger_s, 9 / of_link)))


def _buffer_full(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """More is produced than can be sent: a surge over a narrow uplink."""
    usual = app.rate * app.record_bytes * app.compression * float(np.min(daily_load(np.array(times))))
    surge = max(3.0, BUFFER_BYTES / 100 / (0.4 * usual))
    plan.cause("rate", _at_work(app), times, surge)
    plan.cause("capacity", _at_work(app), times, 0.6 * surge * usual)
    return app.name


def _record_errors(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """Brokers refuse some records for good, and some for a time."""
    plan.cause("errors", _at_work(app), times, float(plan.random.uniform(0.01, 0.05)))
    plan.cause("retries", _at_work(app), times, float(plan.random.uniform(0.08, 0.2)))
    return app.name


def _tiny_fetches(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """Records trickle in one by one, and `fetch.min.bytes` is 1."""
    wanted = float(plan.random.uniform(200, 280)) * app.size / len(app.partitions)
    surge = max(1.0, wanted / (app.rate * 0.8))
    load = app.cost_s * app.rate * app.most_partitions
    plan.cause("singles", _at_work(app), times, 1.0)
    plan.cause("arrival", app.partitions, times, surge)
    plan.cause("cost", _at_work(app), times, min(1.0, 0.12 / load) / surge)
    return app.name


def _connection_churn(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """A firewall between the client and its brokers cuts connections."""
    plan.cause("breaks", _at_work(app), times, float(plan.random.uniform(10, 20)))
    return app.name


def _crash_loop(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """Its process dies of its own fault some minutes after each start."""
    for slot in _at_work(app)[: 1 + app.size // 4]:
        crash(plan, slot, times)
    return app.name


def crash(plan: Plan, slot: int, times: Times, times_most: int = 10_000) -> None:
    """Kills an instance again and again between these times; the last one lives on."""
    at = times[0]
    while at < times[1] and times_most > 0:
        plan.stop(slot, at, is_graceful=False)
        begin = at + float(plan.random.uniform(8, 50))
        plan.start(slot, begin)
        at = begin + float(plan.random.uniform(130, 330))
        times_most -= 1


def _silent(plan: Plan, app: App, times: Times, subject: str | None) -> str:
    """The process hangs (a debugger, a stopped container), and later goes on or is killed with the fleet's end."""
    process = plan.processes[_instance(plan, app, subject)][-1]
    process.hung.append(times)
    return process.instance_id


def _clock_skew(plan: Plan, app: App, times: Times, subject: str | None) -> str:
    """The host's clock is off."""
    slot = _instance(plan, app, subject)
    off = float(plan.random.uniform(60, 400)) * float(plan.random.choice((-1, 1)))
    plan.cause("clock_s", [slot], times, off)
    return plan.processes[slot][-1].instance_id


def _instance(plan: Plan, app: App, subject: str | None) -> int:
    named = [slot for slot in _at_work(app) if plan.processes[slot][-1].instance_id == subject]
    return named[0] if named else int(plan.random.choice(list(_at_work(app))))


def _outdated(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """A deploy brings a library with a known fault; another one takes it back."""
    faulty = FAULTY[app.software.library][0]
    gap = min(30.0, 200 / app.size)
    plan.deploy(app, times[0], gap, faulty)
    plan.deploy(app, times[1], gap)
    return f"{faulty.name}/{faulty.version}"


def _deploy_regression(plan: Plan, app: App, times: Times, _: str | None) -> str:
    """A deploy brings `acks=all` with a slow follower, say: each produce request takes longer than before."""
    gap = min(20.0, 120 / app.size)
    others = [each for each in SOFTWARE[app.software.library] if each != app.software]
    plan.deploy(app, times[0], gap, others[0] if others else None)
    plan.cause("latency", _at_work(app), times, float(plan.random.uniform(2.3, 3.5)))
    plan.deploy(app, times[1], gap)
    return app.name


_ACTS: Final[dict[str, Callable[[Plan, App, Times, str | None], str]]] = {
    "slow-client": _slow_client,
    "slow-path": _slow_path,
    "throttled": _throttled,
    "rebalance-storm": _rebalance_storm,
    "slow-processing": _slow_processing,
    "lagging": _lagging,
    "stalled": _stalled,
    "idle-consumer": _idle_consumer,
    "uneven-group": _uneven_group,
    "small-batches": _small_batches,
    "uncompressed": _uncompressed,
    "buffer-full": _buffer_full,
    "record-errors": _record_errors,
    "tiny-fetches": _tiny_fetches,
    "connection-churn": _connection_churn,
    "crash-loop": _crash_loop,
    "silent": _silent,
    "clock-skew": _clock_skew,
    "outdated": _outdated,
    "deploy-regression": _deploy_regression,
}
