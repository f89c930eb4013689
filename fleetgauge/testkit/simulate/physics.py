"""Physics of a fleet in ticks of ten seconds: queues in brokers, batches, buffers, quotas, polls and lags.

Nothing here is a metric: `testkit.simulate.measured` derives those. All arrays have time first.
"""

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from fleetgauge.testkit.simulate.groups import Rebalance, rebalances
from fleetgauge.testkit.simulate.pathologies import BUFFER_BYTES
from fleetgauge.testkit.simulate.plan import Plan, daily_load, held_s
from fleetgauge.testkit.simulate.world import MAX_POLL_RECORDS, Numbers

TICK_S: Final = 10.0
HISTORY: Final = 36
"""Ticks that are kept from one chunk of time to the next: six minutes, longer than any client looks back."""

_BUSIEST: Final = 0.93
"""Utilisation beyond which a broker's queue does not grow: its clients wait for responses before they send more."""
_OURS: Final = 0.2
_MOST_OF_OURS: Final = 2.0
"""Share of a broker's work that comes from the fleet's own clients, and how far that can rise above its mean."""
_IN_FLIGHT: Final = 5
_BATCH_BYTES: Final = 16_384
_FETCH_BYTES: Final = 1_048_576
_MISSING_DATA_MS: Final = 0.5
_JAVA_READS_EVERY_MS: Final = 100.0
"""While a Java application does not poll, its heartbeat thread reads responses, this often."""

QUANTITIES: Final = {
    "rate": (1.0, "times"),
    "cost": (1.0, "times"),
    "latency": (1.0, "times"),
    "arrival": (1.0, "times"),
    "disk_ms": (0.0, "plus"),
    "path_ms": (0.0, "plus"),
    "delay_ms": (0.0, "plus"),
    "breaks": (0.0, "plus"),
    "errors": (0.0, "plus"),
    "retries": (0.0, "plus"),
    "clock_s": (0.0, "plus"),
    "down": (0.0, "is"),
    "paused": (0.0, "is"),
    "singles": (0.0, "is"),
    "burst": (0.0, "is"),
    "quota": (np.inf, "is"),
    "capacity": (np.inf, "is"),
    "fetch_cap": (np.inf, "is"),
    "linger_s": (np.nan, "is"),
    "compression": (np.nan, "is"),
}
"""Quantities that a cause may change: usual value, and kind of change. NaN is the application's own value."""

SUMS: Final = (
    "records",
    "bytes",
    "raw_bytes",
    "errors",
    "retries",
    "exhausted",
    "queue_ms",
    "throttle_ms",
    "throttled",
    "blocked_s",
    "created",
    "closed",
    "consumed",
    "consumed_bytes",
    "polls",
    "idle",
    "tbp_ms",
    "commits",
    "commit_ms",
    "rebalances",
    "rebalance_ms",
    "buffered",
)
"""Per slot: amounts of a tick. Times are weighted with what they are times of: `queue_ms` with requests, for one."""
PEAKS: Final = ("queue_ms", "throttle_ms", "blocked", "tbp_ms", "commit_ms", "rebalance_ms")
"""Per slot: the largest of a tick."""
LINKS: Final = ("requests", "latency_ms", "sent_bytes", "received_bytes")
"""Per slot and node: amounts of a tick; `latency_ms` is weighted with requests."""


@dataclass(slots=True, kw_only=True)
class Ticks:
    """Events of some ticks.

    Attributes:
        begin_s: when the first one begins.
        sums: [tick, slot, SUMS].
        peaks: [tick, slot, PEAKS].
        links: [tick, slot, LINKS, node].
        slowest_ms: [tick, slot, node], of a request.
        backlog: [tick, slot], bytes in a producer's buffer.
        assigned: [tick, slot], partitions.
        lag, consumed: [tick, partition], records.
        clock_s: [tick, slot], how far the clock is ahead.
    """

    begin_s: float
    sums: Numbers
    peaks: Numbers
    links: Numbers
    slowest_ms: Numbers
    backlog: Numbers
    assigned: Numbers
    lag: Numbers
    consumed: Numbers
    clock_s: Numbers

    def then(self, later: "Ticks", keep: int) -> "Ticks":
        """The last `keep` of these, and then those."""
        names = [each.name for each in fields(self) if each.name != "begin_s"]
        kept = {name: np.concatenate([getattr(self, name)[-keep:], getattr(later, name)]) for name in names}
        return Ticks(begin_s=later.begin_s - keep * TICK_S, **kept)


class Physics:
    """The fleet's state, which `advance` moves on.

    Args:
        plan: what happens.
        begin_s: when the first tick begins.
    """

    def __init__(self, plan: Plan, begin_s: float) -> None:
        world = plan.world
        self._plan, self._world, self._now_s = plan, world, begin_s
        self._slots, self._nodes = len(world.of_slot), world.nodes
        self._partitions = sum(len(app.partitions) for app in world.apps)
        apps = world.of_slot
        self._cluster = np.array([app.cluster for app in apps])
        self._is_producer = np.array([app.role == "producer" for app in apps])
        self._is_consumer = np.array([app.role == "consumer" for app in apps])
        self._is_java = np.array([app.software.library == "java" for app in apps])
        self._holds_s = np.array([5.0 if app.software.library == "franz-go" else 0.5 for app in apps])
        self._rate = np.array([app.rate if app.role == "producer" else 0.0 for app in apps])
        self._cost_s = np.array([app.cost_s or 1e-6 for app in apps])
        self._record_bytes = np.array([app.record_bytes or 1.0 for app in apps])
        self._linger_s = np.array([app.linger_s for app in apps])
        self._compression = np.array([app.compression for app in apps])
        self._batch_records = np.array([app.batch_records for app in apps])
        counts = np.array([len(world.clusters[app.cluster].node_ids) for app in apps])
        self._node_count = counts
        self._there = ~np.isnan(world.rtt_ms)
        random = plan.random
        share = np.where(self._there, random.uniform(0.8, 1.2, world.rtt_ms.shape), 0.0)
        self._share = share / share.sum(axis=1, keepdims=True)
        self._coordinator = np.array([sum(map(ord, app.name)) % count for app, count in zip(apps, counts, strict=True)])
        self._of_partition = [(app, index) for app in world.apps for index in range(len(app.partitions))]
        self._arrival = np.array([app.rate for app, _ in self._of_partition]) * random.uniform(
            0.9, 1.1, self._partitions
        )
        self._leader = np.array(
            [app.leader_of(index, len(world.clusters[app.cluster].node_ids)) for app, index in self._of_partition]
        )
        self._leader_cluster = np.array([app.cluster for app, _ in self._of_partition])
        self._service_ms, self._utilisation = (
            np.array([np.pad(getattr(each, name), (0, world.nodes - len(each.node_ids))) for each in world.clusters])
            for name in ("service_ms", "utilisation")
        )
        self._base_load = self._load(self._rate[None, :])
        self._owner = np.full(self._partitions, -1)
        self._lag = np.zeros(self._partitions)
        self._backlog = np.zeros(self._slots)
        self.rebalances: list[Rebalance] = rebalances(plan)
        self._next = 0
        self._was_up = self._there.astype(float)

    def advance(self, ticks: int) -> Ticks:
        """The next ticks."""
        times = self._now_s + TICK_S * (np.arange(ticks) + 0.5)
        random = self._plan.random
        alive = self._alive(times)
        load = daily_load(times)
        rate = self._rate * load[:, None] * random.lognormal(0, 0.06, (ticks, self._slots)) * alive
        rate = rate * self._quantity("rate", times, self._slots)
        bursts = np.where((np.floor(times / 20) % 2 == 0)[:, None], 1.9, 0.1)
        rate = np.where(self._quantity("burst", times, self._slots) > 0, rate * bursts, rate)
        latency_ms, slowest = self._latencies(times, rate, load)
        sums = np.zeros((ticks, self._slots, len(SUMS)))
        peaks = np.zeros((ticks, self._slots, len(PEAKS)))
        links = np.zeros((ticks, self._slots, len(LINKS), self._nodes))
        done = Ticks(
            begin_s=self._now_s,
            sums=sums,
            peaks=peaks,
            links=links,
            slowest_ms=slowest,
            backlog=np.zeros((ticks, self._slots)),
            assigned=np.zeros((ticks, self._slots)),
            lag=np.zeros((ticks, self._partitions)),
            consumed=np.zeros((ticks, self._partitions)),
            clock_s=self._quantity("clock_s", times, self._slots),
        )
        up = 1 - self._quantity("down", times, len(self._service_ms) * self._nodes)
        self._produce(times, rate, latency_ms, up, done)
        self._consume(times, load, latency_ms, up, alive, done)
        self._connect(times, alive, up, done)
        requests = links[:, :, 0]
        mean_ms = np.divide(links[:, :, 1], requests, out=np.zeros_like(requests), where=requests > 0)
        done.slowest_ms = np.where(requests > 0, np.maximum(done.slowest_ms, np.ceil(mean_ms)), 0)
        self._now_s += ticks * TICK_S
        return done

    def _quantity(self, name: str, times: Numbers, size: int) -> Numbers:
        """[tick, what it concerns]: the quantity, with the causes that are at work."""
        usual, how = QUANTITIES[name]
        values = np.full((len(times), size), usual)
        for cause in self._plan.causes:
            if cause.quantity == name and cause.from_s < times[-1] and times[0] < cause.to_s:
                rows = np.flatnonzero((times >= cause.from_s) & (times < cause.to_s))
                at = cause.at if cause.node is None else cause.at * self._nodes + cause.node
                where = np.ix_(rows, at)
                changed = {"times": values[where] * cause.value, "plus": values[where] + cause.value, "is": cause.value}
                values[where] = changed[how]
        return values

    def _of_app(self, name: str, times: Numbers, own: Numbers) -> Numbers:
        values = self._quantity(name, times, self._slots)
        return np.where(np.isnan(values), own, values)

    def _alive(self, times: Numbers) -> Numbers:
        """[tick, slot]: 1 while an instance works there."""
        alive = np.zeros((len(times), self._slots))
        for slot, processes in enumerate(self._plan.processes):
            for process in processes:
                if process.start_s < times[-1] and process.end_s > times[0]:
                    alive[(times >= process.start_s) & (times < process.end_s), slot] = 1
                    for begin, end in process.hung:
                        alive[(times >= begin) & (times < end), slot] = 0
        return alive

    def _load(self, rate: Numbers) -> Numbers:
        """[tick, cluster, node]: requests that the fleet's producers put on brokers, relative to each other."""
        work = rate[:, :, None] * self._share
        return np.stack(
            [work[:, self._cluster == cluster].sum(axis=1) for cluster in range(len(self._service_ms))], axis=1
        )

    def _latencies(self, times: Numbers, rate: Numbers, load: Numbers) -> tuple[Numbers, Numbers]:
        """[tick, slot, node]: what a request takes [ms] on average and at most, but for what a fetch is held.

        A broker is a queue with one server: it takes `service / (1 - utilisation)`. Most of its work comes from clients
        that are not simulated, so that no application overloads a cluster; what a restarting broker led is work of the
        others.
        """
        random = self._plan.random
        shape = (len(times), len(self._service_ms), self._nodes)
        disk_ms = self._quantity("disk_ms", times, shape[1] * shape[2]).reshape(shape)
        down = self._quantity("down", times, shape[1] * shape[2]).reshape(shape)
        nodes = (self._service_ms > 0).sum(axis=1)
        moved = nodes[None, :, None] / np.maximum(1, nodes[None, :, None] - down.sum(axis=2, keepdims=True))
        ours = np.minimum(self._load(rate) / np.maximum(self._base_load, 1e-9), _MOST_OF_OURS)
        relative = (1 - _OURS) * load[:, None, None] + _OURS * ours
        busy = np.clip(self._utilisation * relative * moved, 0.02, _BUSIEST)
        queue_ms = self._service_ms / (1 - busy) + disk_ms
        of_slot = queue_ms[:, self._cluster]
        path_ms = self._quantity("path_ms", times, self._slots * self._nodes).reshape(-1, self._slots, self._nodes)
        noise = random.lognormal(0, 0.08, of_slot.shape)
        mean_ms = self._world.rtt_ms * random.lognormal(0, 0.02, of_slot.shape) + of_slot * noise + path_ms
        mean_ms = mean_ms + self._quantity("delay_ms", times, self._slots)[:, :, None]
        mean_ms = mean_ms * self._quantity("latency", times, self._slots)[:, :, None]
        mean_ms = np.where(self._there, mean_ms, 0.0)
        return mean_ms, np.ceil(mean_ms * (1 + random.lognormal(0.2, 0.5, mean_ms.shape)))

    def _produce(self, times: Numbers, rate: Numbers, latency_ms: Numbers, up: Numbers, done: Ticks) -> None:
        compression = self._of_app("compression", times, self._compression)
        linger_s = self._of_app("linger_s", times, self._linger_s)
        quota = self._quantity("quota", times, self._slots)
        share = self._share_up(up)
        wire_bytes = self._record_bytes * compression
        usual_ms = (latency_ms * share).sum(axis=2) + 1e-9
        room = _IN_FLIGHT * 8 * _BATCH_BYTES * self._node_count / (usual_ms / 1000)
        capacity = np.minimum(np.minimum(quota, self._quantity("capacity", times, self._slots)), room) * TICK_S
        demand = rate * wire_bytes * TICK_S
        sent, wanted, blocked = np.zeros_like(demand), np.zeros_like(demand), np.zeros_like(demand)
        for tick in range(len(times)):
            want = np.where(rate[tick] > 0, self._backlog + demand[tick], 0.0)
            sent[tick] = np.minimum(want, capacity[tick])
            backlog = want - sent[tick]
            over = np.maximum(0, backlog - BUFFER_BYTES)
            blocked[tick] = np.divide(over, demand[tick], out=np.zeros_like(over), where=demand[tick] > 0)
            self._backlog = backlog - over
            wanted[tick] = want
            done.backlog[tick] = self._backlog
        records = sent / np.maximum(wire_bytes, 1e-9)
        per_link = records[:, :, None] / TICK_S * share
        requests = per_link / (1 + per_link * linger_s[:, :, None])
        waits = done.backlog > _BATCH_BYTES * self._node_count  # what waits to be sent goes in full batches
        full = per_link * wire_bytes[:, :, None] / _BATCH_BYTES
        requests = np.where(waits[:, :, None], np.minimum(requests, full), requests)
        most = _IN_FLIGHT / np.maximum(latency_ms / 1000, 1e-6)
        least = per_link * wire_bytes[:, :, None] / (8 * _BATCH_BYTES)
        requests = np.where(self._is_producer[:, None], np.maximum(np.minimum(requests, most), least), 0) * TICK_S
        total = requests.sum(axis=2)
        held_back = np.where(np.isfinite(quota), np.clip(1 - quota * TICK_S / np.maximum(wanted, 1e-9), 0, 0.95), 0)
        busiest = np.maximum(requests.max(axis=2), 1e-9)
        throttle_ms = np.where(held_back > 0, 1000 * TICK_S * held_back / busiest, 0)
        in_buffer_ms = 1000 * TICK_S * done.backlog / np.maximum(sent, 1)
        queue_ms = np.where(total > 0, 500 * linger_s + 0.1 + in_buffer_ms + throttle_ms / 2, 0)
        random = self._plan.random
        errors = random.poisson(records * self._quantity("errors", times, self._slots))
        retries = random.poisson(records * self._quantity("retries", times, self._slots))
        self._put(
            done,
            records=records,
            bytes=sent,
            raw_bytes=records * self._record_bytes,
            errors=errors,
            retries=retries,
            exhausted=np.where(blocked > 0.9, rate * TICK_S * 0.01, 0),
            queue_ms=queue_ms * total,
            throttle_ms=throttle_ms * total,
            throttled=np.where(throttle_ms >= 1, total, 0),
            blocked_s=blocked * TICK_S,
            buffered=done.backlog * TICK_S,
        )
        done.peaks[:, :, 0] = queue_ms * 2 + 1
        done.peaks[:, :, 1] = np.ceil(throttle_ms * random.uniform(1.2, 2.2, throttle_ms.shape))
        done.peaks[:, :, 2] = blocked
        done.links[:, :, 0] += requests
        done.links[:, :, 1] += requests * latency_ms
        done.links[:, :, 2] += requests * 90 + sent[:, :, None] * share * self._is_producer[:, None]
        done.links[:, :, 3] += requests * 60

    def _share_up(self, up: Numbers) -> Numbers:
        """[tick, slot, node]: shares of a producer's records while some brokers are down."""
        there = up.reshape(len(up), -1, self._nodes)[:, self._cluster] * self._share
        shares: Numbers = there / np.maximum(there.sum(axis=2, keepdims=True), 1e-9)
        return shares

    def _consume(
        self, times: Numbers, load: Numbers, latency_ms: Numbers, up: Numbers, alive: Numbers, done: Ticks
    ) -> None:
        random = self._plan.random
        arrival = self._arrival * load[:, None] * random.lognormal(0, 0.08, (len(times), self._partitions))
        arrival = arrival * self._quantity("arrival", times, self._partitions)
        cost_s = self._cost_s * self._quantity("cost", times, self._slots)
        intake = self._quantity("fetch_cap", times, self._slots)
        paused = self._quantity("paused", times, self._slots)
        capacity = np.minimum(1 / cost_s, intake) * alive * (1 - paused) * TICK_S
        shape = (len(times), self._slots, self._nodes)
        arrives, consumed = np.zeros(shape), np.zeros(shape)
        lagging = np.zeros((len(times), self._slots))
        rebalancing = np.zeros((len(times), self._slots, 2))
        for tick in range(len(times)):
            self._rebalance(times[tick], rebalancing[tick])
            pause = np.minimum(rebalancing[tick, :, 1] / 1000 / TICK_S, 1)
            owned = self._owner >= 0
            slot = self._owner[owned]
            work = self._lag + arrival[tick] * TICK_S
            asked = np.bincount(slot, work[owned], self._slots)
            taken = np.minimum(asked, capacity[tick] * (1 - pause))
            part = np.divide(taken, asked, out=np.zeros_like(taken), where=asked > 0)
            eaten = np.zeros(self._partitions)
            eaten[owned] = work[owned] * part[slot]
            self._lag = work - eaten
            link = slot * self._nodes + self._leaders(up[tick])[owned]
            arrives[tick] = np.bincount(link, arrival[tick][owned], shape[1] * shape[2]).reshape(shape[1:])
            consumed[tick] = np.bincount(link, eaten[owned], shape[1] * shape[2]).reshape(shape[1:])
            lagging[tick] = part
            done.assigned[tick] = np.bincount(slot, minlength=self._slots)
            done.lag[tick], done.consumed[tick] = self._lag, eaten
        behind = (lagging < 0.999) & (done.assigned > 0)
        self._fetch(times, latency_ms, alive * (1 - paused), behind, arrives, consumed, cost_s, done)
        self._coordinate(latency_ms, alive, rebalancing, done)

    def _leaders(self, up: Numbers) -> Numbers:
        """The index of each partition's leader; the next node while it is down."""
        there = up.reshape(-1, self._nodes)[self._leader_cluster]
        nodes = (self._service_ms > 0).sum(axis=1)[self._leader_cluster]
        is_up = there[np.arange(self._partitions), self._leader] > 0
        return np.where(is_up, self._leader, (self._leader + 1) % nodes)

    def _rebalance(self, now_s: float, of_slot: Numbers) -> None:
        """Applies rebalances until now; counts them and their time [ms] for each member."""
        while self._next < len(self.rebalances) and self.rebalances[self._next].at_s <= now_s + TICK_S / 2:
            each = self.rebalances[self._next]
            self._next += 1
            self._owner[each.app.partitions.start : each.app.partitions.stop] = each.owners
            if each.at_s >= 0:
                members = list(each.members)
                of_slot[members, 0] += 1
                of_slot[members, 1] += each.takes_ms

    def _fetch(
        self,
        times: Numbers,
        latency_ms: Numbers,
        at_work: Numbers,
        behind: Numbers,
        arrives: Numbers,
        consumed: Numbers,
        cost_s: Numbers,
        done: Ticks,
    ) -> None:
        """Fetches wait in the broker for data, and applications for fetches."""
        singles = self._quantity("singles", times, self._slots)
        batches = arrives / np.where(singles > 0, 1.0, self._batch_records)[:, :, None]
        held_ms = np.where(behind[:, :, None], 0, 1000 * held_s(batches, self._holds_s[:, None]))
        eaten = consumed.sum(axis=2)
        busy = np.clip(eaten * cost_s / TICK_S, 0, 1)
        waits_ms = (latency_ms + held_ms).sum(axis=2, where=arrives > 0) / np.maximum((arrives > 0).sum(axis=2), 1)
        per_poll_ms = np.where(behind, 1000 * MAX_POLL_RECORDS * cost_s, waits_ms * busy / np.maximum(1 - busy, 0.02))
        reads_late_ms = np.where(
            self._is_java & (busy > 0.5) & (per_poll_ms > _JAVA_READS_EVERY_MS), busy * _JAVA_READS_EVERY_MS / 2, 0
        )
        took_ms = latency_ms + held_ms + reads_late_ms[:, :, None]
        fetches = (1 - np.minimum(busy, 0.98))[:, :, None] * 1000 * TICK_S / np.maximum(took_ms, _MISSING_DATA_MS)
        largest = _FETCH_BYTES / self._record_bytes
        enough = np.maximum(consumed / largest[:, None], (consumed.sum(2) / MAX_POLL_RECORDS)[:, :, None])
        fetches = np.where(behind[:, :, None], np.minimum(fetches, np.maximum(enough, 0.05)), fetches)
        fetches = np.where((arrives > 0) & (at_work > 0)[:, :, None], fetches, 0)
        idle = np.clip(1 - busy, 0.004, 0.995)
        least = np.where(idle > 0.02, 1.0 * TICK_S, 1e-3)
        polls = np.maximum(np.where(behind & (busy > 0.9), 0, fetches.sum(axis=2)), eaten / MAX_POLL_RECORDS)
        polls = np.maximum(polls, least) * at_work * self._is_consumer
        paused_polls = self._is_consumer * np.where(self._quantity("paused", times, self._slots) > 0, 10 * TICK_S, 0)
        polls = polls + paused_polls
        tbp_ms = np.divide(1000 * TICK_S, polls, out=np.zeros_like(polls), where=polls > 0)
        random = self._plan.random
        idle = np.clip(idle * random.lognormal(0, 0.03, idle.shape), 0.002, 0.999)
        idle = np.where(self._is_java, idle / (1 + idle), idle)  # see `away_from_poll_ms`
        self._put(
            done,
            consumed=eaten,
            consumed_bytes=eaten * self._record_bytes * 0.5,
            polls=polls,
            idle=idle * polls,
            tbp_ms=tbp_ms * polls,
        )
        done.peaks[:, :, 3] = np.ceil(tbp_ms * (1 + random.lognormal(-0.8, 0.5, tbp_ms.shape)))
        done.links[:, :, 0] += fetches
        done.links[:, :, 1] += fetches * took_ms
        done.links[:, :, 2] += fetches * 110
        done.links[:, :, 3] += consumed * self._record_bytes[:, None] * 0.5 + fetches * 70
        wait = np.where(self._is_consumer[:, None], held_ms + reads_late_ms[:, :, None], 0)
        done.slowest_ms += np.ceil(np.where(wait > 0, np.minimum(wait * 2.5, self._holds_s[:, None] * 1000), 0))

    def _coordinate(self, latency_ms: Numbers, alive: Numbers, rebalancing: Numbers, done: Ticks) -> None:
        """Offsets are committed every five seconds while records come; see `auto.commit.interval.ms`."""
        coordinator_ms = np.take_along_axis(latency_ms, self._coordinator[None, :, None], axis=2)[:, :, 0]
        commit_ms = coordinator_ms + 0.8
        is_reading = (done.sums[:, :, SUMS.index("consumed")] > 0) & (alive > 0)
        commits = np.where(is_reading, TICK_S / 5, 0)
        self._put(
            done,
            commits=commits,
            commit_ms=commits * commit_ms,
            rebalances=rebalancing[:, :, 0] * alive,
            rebalance_ms=rebalancing[:, :, 1] * alive,
        )
        random = self._plan.random
        done.peaks[:, :, 4] = np.ceil(np.where(commits > 0, commit_ms * random.uniform(1.1, 2.5, commit_ms.shape), 0))
        done.peaks[:, :, 5] = np.ceil(rebalancing[:, :, 1] * alive)

    def _connect(self, times: Numbers, alive: Numbers, up: Numbers, done: Ticks) -> None:
        """Connections that break are made again; one to each node and to the bootstrap server at the start."""
        broken = self._plan.random.poisson(self._quantity("breaks", times, self._slots) * TICK_S / 60 * alive)
        is_up = up.reshape(len(times), -1, self._nodes)[:, self._cluster] * self._there
        before = np.concatenate([self._was_up[None], is_up[:-1]])
        self._was_up = is_up[-1]
        back = np.maximum(is_up - before, 0).sum(axis=2)
        starts = np.zeros_like(alive)
        for slot, processes in enumerate(self._plan.processes):
            for process in processes:
                tick = round((process.start_s - times[0]) / TICK_S + 0.5)
                if 0 <= tick < len(times):
                    starts[tick, slot] = self._node_count[slot] + 1
        self._put(done, created=broken + back * alive + starts, closed=broken + back * alive)

    def _put(self, done: Ticks, **amounts: Numbers) -> None:
        for name, amount in amounts.items():
            done.sums[:, :, SUMS.index(name)] += amount
