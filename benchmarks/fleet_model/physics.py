"""The fleet step by step: requests wait for brokers, batches for requests, records for batches, consumers for records.

Nothing here knows metrics. `simulate` returns what happened in each step, and `java`, `librdkafka` and `franz_go`
compute of it what their clients would send.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.fleet_model.fleet import ZONES, Fleet
from benchmarks.fleet_model.levers import STEP_S, Array, Levers, step_count

IN_FLIGHT: Final = 5
REQUEST_BYTES: Final = 1_048_576.0
"""`max.request.size`, and `max.partition.fetch.bytes` [B]."""
BUFFER_BYTES: Final = 33_554_432.0
"""`buffer.memory` [B]."""
DELIVERY_TIMEOUT_S: Final = 120.0
SESSION_STEPS: Final = 4
"""A killed member is noticed after some 45 s."""
IO_THREADS: Final = 8
REPLICATION_MS: Final = 1.5
COMMITS_A_STEP: Final = STEP_S / 5
_LATENCY_SPREAD: Final = 0.45
"""Of the logarithm of a request's time."""


@dataclass(slots=True, kw_only=True)
class History:
    """What happened in each step. Shapes [steps, slots, brokers], [steps, slots] and [steps, partitions]; times in ms.

    Attributes:
        requests, latency_sum, latency_max: produce requests of producers, fetches of consumers, by broker.
        sent_bytes, received_bytes: by broker.
        records, bytes: sent by producers, consumed by consumers.
        batches, queue_sum, queue_max: of a producer's batches, from their first record to their request.
        outbuf: how long a request of librdkafka waits for its connection.
        wait_share: of the time that `send()` waits for memory.
        throttle_sum, throttle_max: over the requests.
        poll_share: of the time that the consumer waits in poll().
        polls, poll_max: calls and the longest gap between two [ms].
        call_ratio: mean idle ratio over calls that return one record each (librdkafka).
        alive: a process runs in the slot.
        owner: slot that a partition is assigned to, -1 for none.
        uptime: steps since the process began.
    """

    requests: Array
    latency_sum: Array
    latency_max: Array
    sent_bytes: Array
    received_bytes: Array
    true_latency: Array
    records: Array
    bytes: Array
    errors: Array
    retries: Array
    batches: Array
    queue_sum: Array
    queue_max: Array
    outbuf: Array
    wait_share: Array
    buffered: Array
    throttle_sum: Array
    throttle_max: Array
    throttled_share: Array
    created: Array
    commits: Array
    commit_sum: Array
    commit_max: Array
    heartbeat_max: Array
    polls: Array
    poll_share: Array
    poll_max: Array
    call_ratio: Array
    rebalances: Array
    rebalance_ms: Array
    assigned: Array
    alive: Array
    lag: Array
    end_offset: Array
    committed: Array
    owner: Array
    coordinator: Array


def simulate(fleet: Fleet, levers: Levers) -> History:
    """Runs the fleet. The same fleet and levers give the same history."""
    return _Run(fleet, levers).run()


class _Run:
    def __init__(self, fleet: Fleet, levers: Levers) -> None:
        self.fleet, self.levers = fleet, levers
        self.random = np.random.default_rng(fleet.seed + 7)
        steps, slots, brokers = step_count(fleet), len(fleet.slot_app), len(fleet.broker_ids)
        apps = [fleet.app_of(slot) for slot in range(slots)]
        self.steps, self.slots, self.brokers = steps, slots, brokers
        self.is_producer = np.array([app.role == "producer" for app in apps])
        self.is_librdkafka = np.array([app.library == "librdkafka" for app in apps])
        self.topic = np.array([app.topic for app in apps])
        self.rate = np.array([app.rate for app in apps])
        self.record_bytes = np.array([app.record_bytes for app in apps])
        self.linger_s = np.array([app.linger_ms for app in apps]) / 1000
        self.batch_bytes = np.array([app.batch_bytes for app in apps])
        self.compression = np.array([app.compression for app in apps])
        self.processing_s = np.array([app.processing_ms for app in apps]) / 1000
        self.fetch_min_bytes = np.array([app.fetch_min_bytes for app in apps])
        self.fetch_wait_s = np.where([app.library == "franz-go" for app in apps], 5.0, 0.5)
        self.rtt = np.array([[app.rtt_ms[broker % ZONES] for broker in range(brokers)] for app in apps])
        self.append = np.array(fleet.append_ms)
        self.part_topic = np.concatenate([np.full(len(t.leaders), n) for n, t in enumerate(fleet.topics)])
        self.part_leader = np.concatenate([np.array(t.leaders) for t in fleet.topics])
        self.part_weight = np.concatenate([np.array(t.weights) for t in fleet.topics])
        groups = sorted({app.group for app in apps if app.group})
        self.group = np.array([groups.index(app.group) if app.group else -1 for app in apps])
        self.group_topic = [next(app.topic for app in apps if app.group == name) for name in groups]
        coordinators = np.array([sum(name.encode()) % brokers for name in groups] or [0])
        self.coordinator = coordinators[np.maximum(self.group, 0)]
        # A partition is consumed by every group of its topic: consumption is by (group, partition), a "share".
        self.share_group = np.concatenate(
            [np.full(int((self.part_topic == t).sum()), g) for g, t in enumerate(self.group_topic)]
            or [np.empty(0, int)]
        )
        self.share_part = np.concatenate(
            [np.flatnonzero(self.part_topic == t) for t in self.group_topic] or [np.empty(0, int)]
        ).astype(int)

    def run(self) -> History:
        steps, slots, brokers, shares = self.steps, self.slots, self.brokers, len(self.share_part)

        def cube() -> Array:
            return np.zeros((steps, slots, brokers), np.float32)

        def table() -> Array:
            return np.zeros((steps, slots), np.float32)

        history = self.history = History(
            requests=cube(), latency_sum=cube(), latency_max=cube(), sent_bytes=cube(), received_bytes=cube(),
            true_latency=cube(), records=table(), bytes=table(), errors=table(), retries=table(), batches=table(),
            queue_sum=table(), queue_max=table(), outbuf=table(), wait_share=table(), buffered=table(),
            throttle_sum=table(), throttle_max=table(), throttled_share=table(), created=table(), commits=table(),
            commit_sum=table(), commit_max=table(), heartbeat_max=table(), polls=table(), poll_share=table(),
            poll_max=table(), call_ratio=table(), rebalances=table(), rebalance_ms=table(), assigned=table(),
            alive=np.zeros((steps, slots), bool), lag=np.zeros((steps, shares), np.float32),
            end_offset=np.zeros((steps, len(self.part_topic))), committed=np.zeros((steps, shares)),
            owner=np.full((steps, shares), -1, np.int16), coordinator=self.coordinator,
        )  # fmt: skip
        uptime = self._lives(history.alive)
        self.queued = np.zeros((slots, brokers))
        self.waiting = np.zeros(shares)
        self.end_offset = np.full(len(self.part_topic), 100_000.0)
        self.load_before = np.zeros(brokers)
        self.wander_slot = np.zeros(slots)
        self.wander_broker = np.zeros(brokers)
        self.members = np.zeros(slots, bool)
        self.owner = np.full(shares, -1)
        for step in range(steps):
            self._step(step, history.alive[step], uptime[step])
        return history

    def _lives(self, alive: Array) -> Array:
        uptime = np.full(alive.shape, -1, np.int32)
        self.is_member = np.zeros(alive.shape, bool)
        for process in self.levers.processes:
            start, end = max(process.start, 0), min(process.end, self.steps)
            if end <= start:
                continue
            alive[start:end, process.slot] = True
            uptime[start:end, process.slot] = np.arange(start, end) - process.start
            left = end if process.is_clean else min(end + SESSION_STEPS, self.steps)
            self.is_member[start:left, process.slot] = True
        return uptime

    def _step(self, step: int, alive: Array, uptime: Array) -> None:
        levers, random = self.levers, self.random
        self.wander_slot = 0.9 * self.wander_slot + random.normal(0, 0.03, self.slots)
        self.wander_broker = 0.9 * self.wander_broker + random.normal(0, 0.03, self.brokers)
        is_down = levers.broker_is_down[step]
        leader = self.part_leader
        for _ in range(2):
            leader = np.where(is_down[leader], (leader + 1) % self.brokers, leader)
        latency = self._latency(step, uptime)
        self._connections(step, alive, uptime, is_down)
        weight = self.part_weight * levers.skew[step]
        by_topic = np.bincount(self.part_topic, weight, minlength=len(self.fleet.topics))
        weight = weight / by_topic[self.part_topic]
        arrivals, batch_rate = self._produce(step, alive, latency, leader, weight)
        self.end_offset += arrivals
        self._consume(step, alive, uptime, latency, leader, arrivals, batch_rate)
        self.history.end_offset[step] = self.end_offset
        self.load_before = self.history.requests[step].sum(axis=0)

    def _latency(self, step: int, uptime: Array) -> Array:
        """Mean time of a request [ms] by slot and broker: network, queue for the broker's threads, append."""
        levers = self.levers
        append = self.append + levers.broker_ms[step]
        busy = np.minimum(self.load_before / STEP_S * self.append / 1000 / IO_THREADS, 0.97)
        queue = append * busy**2 / (1 - busy)
        broker = (append + queue) * np.exp(self.wander_broker)
        warm_up = np.where((uptime >= 0) & (uptime < 12), 1.4, 1.0)
        network = (self.rtt + levers.net_ms[step]) * np.exp(self.wander_slot)[:, None]
        latency: Array = (network + broker[None, :]) * warm_up[:, None]
        self.history.true_latency[step] = latency
        return latency

    def _connections(self, step: int, alive: Array, uptime: Array, is_down: Array) -> None:
        """A new process connects to a bootstrap server and all brokers; a broker that restarts costs a connection."""
        new = np.where(alive & (uptime == 0), self.brokers + 1 + (~self.is_producer), 0)
        broken = self.random.poisson(self.levers.reconnects_min[step] * STEP_S / 60) * alive
        closed = (is_down & ~self.levers.broker_is_down[step - 1]).sum() if step else 0
        self.history.created[step] = new + broken + alive * closed

    def _produce(self, step: int, alive: Array, latency: Array, leader: Array, weight: Array) -> tuple[Array, Array]:
        """Records that arrive in each partition, and batches a second by topic and broker."""
        levers, history, random = self.levers, self.history, self.random
        on = np.zeros((len(self.fleet.topics), self.brokers))
        np.add.at(on, (self.part_topic, leader), weight)
        parts = np.zeros_like(on)
        np.add.at(parts, (self.part_topic, leader), 1.0)
        share, parts_of = on[self.topic], parts[self.topic]
        is_active = (alive & self.is_producer)[:, None] & (share > 0)

        hour = (self.fleet.start + step * STEP_S) / 3600 % 24
        daily = 1 + 0.4 * np.sin((hour - 8) / 24 * 2 * np.pi)
        rate = self.rate * daily * levers.load[step] * np.exp(random.normal(0, 0.05, self.slots) + self.wander_slot)
        compression = np.where(np.isnan(levers.compression[step]), self.compression, levers.compression[step])
        wire = self.record_bytes * compression
        offered = rate[:, None] * share * wire[:, None] * is_active  # B/s by broker
        offered_all = offered.sum(axis=1)

        linger = (self.linger_s * levers.linger[step])[:, None]
        batch = np.maximum(self.batch_bytes * levers.linger[step], wire * 1.0)[:, None]
        records_part = np.where(parts_of > 0, rate[:, None] * share / np.maximum(parts_of, 1), 0)
        fill_s = batch / np.maximum(records_part * wire[:, None], 1e-9)
        open_s = np.minimum(linger, fill_s)
        batches_s = np.where(records_part > 0, parts_of / (open_s + 1 / np.maximum(records_part, 1e-9)), 0)
        request_max = np.minimum(parts_of * batch, REQUEST_BYTES)
        link = levers.link_bytes_s[step]
        is_linked = np.isfinite(link)
        # A request that waits for the network is in flight, too: so its latency grows when the link is full.
        full = np.clip((offered_all + self.queued.sum(axis=1) / STEP_S) / np.where(is_linked, link, np.inf), 0, 1)
        transmit = np.where(is_linked, full**8 * IN_FLIGHT * request_max.max(axis=1) / np.where(is_linked, link, 1), 0)
        took = latency + REPLICATION_MS + 1000 * transmit[:, None] * (share > 0)
        history.true_latency[step] += 1000 * transmit[:, None]
        turns_s = IN_FLIGHT / (took / 1000)
        requests_s = np.minimum(batches_s, turns_s) * is_active

        quota = np.minimum(levers.quota_bytes_s[step], link)
        allowed = np.minimum(1.0, quota / np.maximum(offered_all + self.queued.sum(axis=1) / STEP_S, 1e-9))
        room = np.minimum(turns_s * request_max * STEP_S, (self.queued + offered * STEP_S) * allowed[:, None])
        sent = np.minimum(self.queued + offered * STEP_S, room) * is_active
        queued = np.where(is_active, self.queued + offered * STEP_S - sent, 0)

        memory = np.where(self.is_librdkafka, 100_000 * wire, BUFFER_BYTES)
        over = np.maximum(queued.sum(axis=1) - memory, 0)
        wait_share = np.clip(over / np.maximum(offered_all * STEP_S, 1e-9), 0, 1)
        queued *= (1 - over / np.maximum(queued.sum(axis=1), 1e-9))[:, None]
        drain_s = queued / np.maximum(sent / STEP_S, 1e-9) * (queued > 1)
        kept = np.where(drain_s > DELIVERY_TIMEOUT_S, queued * DELIVERY_TIMEOUT_S / np.maximum(drain_s, 1), queued)
        expired = (queued - kept).sum(axis=1) / wire
        self.queued = kept
        drain_s = np.minimum(drain_s, DELIVERY_TIMEOUT_S)

        is_held = sent >= turns_s * request_max * STEP_S * 0.98
        requests_s = np.maximum(requests_s, sent / STEP_S / np.maximum(request_max, 1)) * (sent > 0)
        requests_s *= np.where(allowed < 1, np.maximum(allowed, 0.02), 1.0)[:, None]
        requests = requests_s * STEP_S
        self._record(step, requests, took)
        requests = history.requests[step]
        records = sent / wire[:, None]
        batches = np.minimum(np.maximum(batches_s * STEP_S * is_active, sent / batch), np.maximum(records, requests))
        batches = np.where(
            is_held | (allowed < 1)[:, None], np.minimum(batches, requests * np.maximum(parts_of, 1)), batches
        )
        batches = np.maximum(batches, requests)
        queue_ms = 1000 * (open_s * is_active + drain_s)
        total = batches.sum(axis=1)
        history.records[step] += records.sum(axis=1)
        history.bytes[step] += sent.sum(axis=1)
        history.sent_bytes[step] += sent + 90 * requests
        history.received_bytes[step] += 60 * requests
        history.batches[step] += total
        history.queue_sum[step] += (queue_ms * batches).sum(axis=1) * np.exp(random.normal(0, 0.05, self.slots))
        history.queue_max[step] += np.where(total > 0, queue_ms.max(axis=1) * random.uniform(1.05, 1.6, self.slots), 0)
        slot_wait = np.where(is_held, took / IN_FLIGHT, 0).max(axis=1) + 1000 * transmit / IN_FLIGHT
        history.outbuf[step] += np.where(total > 0, 0.08 + slot_wait, 0)
        history.wait_share[step] += wait_share
        history.buffered[step] += kept.sum(axis=1)
        history.errors[step] += records.sum(axis=1) * levers.error_share[step] + expired
        history.retries[step] += records.sum(axis=1) * levers.retry_share[step]
        is_quota = levers.quota_bytes_s[step] < np.inf
        held = np.where(is_quota & self.is_producer, 1 - allowed, 0)
        self._throttle(step, held, requests)

        by_broker = np.zeros_like(on)
        np.add.at(by_broker, self.topic, records)
        rate_batches = np.zeros_like(on)
        np.add.at(rate_batches, self.topic, batches / STEP_S)
        within = weight / np.maximum(on[self.part_topic, leader], 1e-12)
        return by_broker[self.part_topic, leader] * within, rate_batches

    def _throttle(self, step: int, held: Array, requests: Array) -> None:
        """A broker that holds a client back for a share of the time says so in each response, for that long."""
        counts = requests.sum(axis=1)
        connections = (requests > 0).sum(axis=1)
        total = held * STEP_S * 1000 * connections
        mean = total / np.maximum(counts, 1)
        self.history.throttled_share[step] += held
        self.history.throttle_sum[step] += total
        self.history.throttle_max[step] += np.where(held > 0, mean * self.random.uniform(1.2, 2.5, self.slots), 0)

    def _record(self, step: int, expected: Array, took: Array) -> None:
        """Whole requests, their summed and longest time [ms]."""
        history, random = self.history, self.random
        requests: Array = random.poisson(np.minimum(expected, 1e6))
        noise = 1 + 0.4 * random.normal(0, 1, took.shape) / np.sqrt(np.maximum(requests, 1))
        total: Array = requests * took * np.maximum(noise, 0.4)
        tail = np.exp(_LATENCY_SPREAD * np.sqrt(2 * np.log(requests + 1.0)) - _LATENCY_SPREAD**2 / 2)
        longest = took * tail * np.exp(random.normal(0, 0.1, took.shape))
        pause = self._pauses(step)[:, None]
        total += np.minimum(requests, 1 + requests * pause / 10_000) * pause * 0.5
        longest = np.maximum(longest, longest + pause * random.uniform(0.2, 1, took.shape))
        is_any = requests > 0
        history.requests[step] += requests
        history.latency_sum[step] += total * is_any
        history.latency_max[step] = np.maximum(
            history.latency_max[step], np.maximum(longest, total / np.maximum(requests, 1)) * is_any
        )

    def _pauses(self, step: int) -> Array:
        """Garbage collections of this step [ms], by slot."""
        usual = np.where(self.random.random(self.slots) < 0.1, self.random.uniform(10, 80, self.slots), 0)
        pauses: Array = np.maximum(usual, self.levers.gc_ms[step])
        return pauses

    def _consume(
        self, step: int, alive: Array, uptime: Array, latency: Array, leader: Array, arrivals: Array, batch_rate: Array
    ) -> None:
        levers, history, random = self.levers, self.history, self.random
        pause_s = self._rebalance(step)
        owner = self.owner
        has_owner = owner >= 0
        who = np.maximum(owner, 0)
        broker = leader[self.share_part]
        self.waiting += arrivals[self.share_part]
        works = has_owner & alive[who] & ~levers.is_stuck[step][who]

        held = np.zeros(self.slots)
        capacity = np.maximum(STEP_S - pause_s - levers.gc_ms[step] / 1000, 0)
        each_s = self.processing_s * levers.processing[step] * np.where((uptime >= 0) & (uptime < 12), 1.3, 1.0)
        most = capacity / np.maximum(each_s, 1e-9)
        # One fetch at a time per broker, of at most 1 MiB per partition.
        by_fetch = REQUEST_BYTES / np.maximum(self.record_bytes[who], 1) * STEP_S * 1000 / latency[who, broker]
        wanted = np.where(works, np.minimum(self.waiting, by_fetch), 0)
        asked = np.bincount(who, wanted, minlength=self.slots)
        quota = levers.quota_bytes_s[step]
        by_quota = np.where(self.is_producer, np.inf, quota * STEP_S / np.maximum(self.record_bytes, 1))
        takes = np.minimum(np.minimum(asked, most), by_quota)
        held = np.where((by_quota < np.minimum(asked, most)) & (asked > 0), 1 - by_quota / np.maximum(asked, 1), 0)
        held = np.clip(held, 0, 0.95)
        consumed = wanted * (takes / np.maximum(asked, 1e-9))[who]
        self.waiting -= consumed
        busy = np.clip(takes * each_s / STEP_S, 0, 1)

        # Fetches wait for the next batch of their partitions, unless records are left.
        slot_parts = np.zeros((self.slots, self.brokers))
        np.add.at(slot_parts, (who, broker), works * 1.0)
        consumed_at = np.zeros_like(slot_parts)
        np.add.at(consumed_at, (who, broker), consumed)
        left_at = np.zeros_like(slot_parts)
        np.add.at(left_at, (who, broker), np.where(works, self.waiting, 0))
        parts = np.zeros_like(batch_rate)
        np.add.at(parts, (self.part_topic, leader), 1.0)
        news = batch_rate[self.topic] * slot_parts / np.maximum(parts[self.topic], 1)
        limit = self.fetch_wait_s[:, None]
        wait_s = np.where(news > 1e-6, (1 - np.exp(-news * limit)) / np.maximum(news, 1e-6), limit)
        news_bytes = (consumed_at + left_at) * self.record_bytes[:, None] / STEP_S
        least = (self.fetch_min_bytes * levers.linger[step])[:, None] / np.maximum(news_bytes, 1e-6)
        wait_s = np.minimum(np.maximum(wait_s, least), limit)
        is_behind = left_at > 0.2 * np.maximum(consumed_at, 1)
        wait_s = np.where(is_behind, 0, wait_s)
        took = latency + 1000 * wait_s
        by_size = consumed_at * self.record_bytes[:, None] / np.maximum(slot_parts * REQUEST_BYTES, 1)
        cycle_s = np.maximum(took / 1000, 0.0005)
        fetches = np.where(is_behind, np.maximum(by_size, consumed_at / 5000), STEP_S / cycle_s * (1 - busy[:, None]))
        fetches = np.where(
            (slot_parts > 0) & alive[:, None], np.minimum(np.maximum(fetches, 0.05), STEP_S / cycle_s), 0
        )
        fetches *= (1 - held)[:, None]
        self._record(step, fetches, took)
        fetched = history.requests[step] * (~self.is_producer)[:, None]
        self._throttle(step, held, fetched)
        history.records[step] += takes
        history.bytes[step] += takes * self.record_bytes
        history.received_bytes[step] += consumed_at * self.record_bytes[:, None] + 70 * fetched
        history.sent_bytes[step] += 110 * fetched
        self._polls(step, alive, takes, busy, fetched.sum(axis=1), each_s, pause_s)

        is_in = np.bincount(who, has_owner, minlength=self.slots) > 0
        commits = np.where(alive & is_in & (levers.poll_max_s[step] < 60), COMMITS_A_STEP, 0)
        at = np.arange(self.slots)
        usual = latency[at, self.coordinator] + REPLICATION_MS
        jitter = np.exp(random.normal(0, 0.2, self.slots))
        history.commits[step] = commits
        history.commit_sum[step] = commits * usual * jitter
        history.commit_max[step] = np.where(commits > 0, usual * jitter * random.uniform(1.0, 1.5, self.slots), 0)
        is_heartbeating = alive & ~self.is_producer
        history.heartbeat_max[step] = is_heartbeating * latency[at, self.coordinator] * random.uniform(1, 2, self.slots)
        position = self.end_offset[self.share_part] - self.waiting
        last = history.committed[step - 1] if step else position
        history.committed[step] = np.where(works & (commits[who] > 0), position, last)
        history.lag[step] = self.waiting
        history.owner[step] = owner
        history.assigned[step] = np.bincount(who, has_owner, minlength=self.slots)

    def _polls(
        self, step: int, alive: Array, takes: Array, busy: Array, fetches: Array, each_s: Array, pause_s: Array
    ) -> None:
        """Calls of poll(): one per response or 500 records, at least one a second."""
        history, random, levers = self.history, self.random, self.levers
        is_here = alive & ~self.is_producer
        calls = np.maximum(np.maximum(takes / 500, np.minimum(fetches, takes)), STEP_S * (1 - busy))
        gap = levers.poll_max_s[step]
        calls = np.where(gap > STEP_S, STEP_S / np.maximum(gap, 1), calls)
        history.polls[step] = calls * is_here
        share = np.clip(1 - busy - (gap > STEP_S) * 1.0, 0.0005, 1)
        history.poll_share[step] = share * is_here
        usual_ms = 1000 * STEP_S / np.maximum(calls, 0.01)
        longest = np.maximum(usual_ms * random.uniform(1.2, 2.0, self.slots), 1000 * pause_s + self._pauses(step))
        history.poll_max[step] = np.maximum(longest, gap * 1000) * is_here
        each_call = np.maximum(takes, 0.01)
        waits = np.minimum(np.maximum(fetches, 0.01), each_call)
        wait_s = share * STEP_S / waits
        ratio_of_wait = wait_s / (wait_s + each_s)
        timeouts = STEP_S * share * (takes < 1)
        mean = (waits * ratio_of_wait + timeouts * 0.999) / (each_call + timeouts)
        history.call_ratio[step] = np.clip(mean, 0, 1) * is_here

    def _rebalance(self, step: int) -> Array:
        """Assigns partitions anew in groups whose members changed; returns the pause of each slot [s]."""
        pause_s = np.zeros(self.slots)
        now = self.is_member[step] & (self.group >= 0)
        changed = {int(group) for group in self.group[now != self.members]}
        flapping = {int(group) for group in self.group[(self.levers.flaps[step] > 0) & now]}
        for group in changed | flapping:
            of_group = (self.group == group) & now
            members = np.flatnonzero(of_group)
            mine = self.share_group == group
            if not len(members):
                self.owner[mine] = -1
                continue
            count = max(1.0, float(self.levers.flaps[step][members].max()))
            if step:
                length = self.random.uniform(0.4, 3.0) + min(float(self.levers.poll_max_s[step][members].max()), 60.0)
                pause_s[members] = min(length * count, STEP_S)
                self.history.rebalances[step, members] = count
                self.history.rebalance_ms[step, members] = 1000 * length
            if group in changed or (self.owner[mine] < 0).any():
                self.owner[mine] = members[np.arange(int(mine.sum())) % len(members)]
        self.members = now
        return pause_s
