"""What consumer groups do, tick by tick: who owns which partition, what is read and what is left, and fetches."""

from dataclasses import dataclass

import numpy as np

from benchmarks.fleet.second_fleet.clients import TICK_S, TICKS, TIMES_S, App, Fault, Mask, Slot, Traffic, Values
from benchmarks.fleet.second_fleet.world import Brokers, World

MAX_POLL_RECORDS = 500


@dataclass(kw_only=True)
class ConsumerTraffic(Traffic):
    """Of a member of a group.

    Attributes:
        plain_ms: latency of what does not wait for records, such as a commit.
        used: records per tick that its application had.
        idle: poll idle ratio; NaN while it does not poll.
        between_polls_ms: NaN while it does not poll.
        polls: whether it comes back to poll().
        rebalances, rebalances_ms: in a tick.
        lag: by partition, as the last fetch showed it.
        owns: by partition.
        fetch_bytes: per fetch.
        is_frozen: paused or blocked: its gauges stay.
    """

    plain_ms: Values
    used: Values
    idle: Values
    between_polls_ms: Values
    polls: Mask
    rebalances: Values
    rebalances_ms: Values
    lag: Values
    owns: Mask
    fetch_bytes: Values
    is_frozen: Mask


@dataclass(kw_only=True)
class GroupWork:
    """Of a group, by tick.

    Attributes:
        rate: records per second that come in.
        per_partition: the same by partition.
        record_s: work per record [s].
        most: records per second that a quota lets a member have.
        owner: member by partition, -1 for none.
        lag: by partition.
        used, busy: by member: records per tick, share of the time at work.
        polls, rebalances, rebalances_ms: by member.
    """

    rate: Values
    per_partition: Values
    record_s: Values
    most: Values
    owner: Values
    lag: Values
    used: Values
    busy: Values
    polls: Values
    rebalances: Values
    rebalances_ms: Values


def simulate_consumers(world: World, app: App) -> None:
    """Gives an application its group's work and each of its slots its traffic."""
    app.work = _group(world, app)
    _Run(world, app, app.work).run()
    for slot in app.slots:
        slot.traffic = _traffic(world, slot, app.work)


def _group(world: World, app: App) -> GroupWork:
    random, members, partitions = world.random, app.count, app.partitions
    weights = random.dirichlet(np.full(partitions, 80.0))
    if app.skewed_key:
        others = np.arange(partitions) != 1
        weights[1] = 0.5
        weights[others] *= 0.5 / weights[others].sum()
    rate = app.rate * members * world.load * np.exp(world.noise(TICKS, 0.12, 240))
    drawn = float(random.uniform(0.08, 0.45))
    utilization = drawn if app.utilization is None else app.utilization
    heaviest = np.max([np.bincount(np.arange(partitions) % members, weights, members)])
    if app.skewed_key:
        heaviest = 0.5 + 0.5 / members
    at_peak_s = utilization / (rate.max() * heaviest)  # so that the peak is carried
    if surge := app.faults.get("surge"):  # more comes in than can be done
        rate = np.where(surge.ticks, surge.size / (at_peak_s * heaviest), rate)
    record_s = np.full(TICKS, at_peak_s)
    if work := app.faults.get("work"):  # what the application calls has become slow
        record_s = np.where(work.ticks, work.size / (rate * heaviest), record_s)
    most = np.full(TICKS, 1e12)
    if quota := app.faults.get("quota"):
        most = np.where(quota.ticks, quota.size * np.median(rate[quota.ticks]) / members, 1e12)
    by_member = [np.zeros((TICKS, members)) for _ in range(4)]
    return GroupWork(
        rate=rate,
        per_partition=rate[:, None] * weights,
        record_s=record_s,
        most=most,
        owner=np.zeros((TICKS, partitions)),
        lag=np.zeros((TICKS, partitions)),
        used=by_member[0],
        busy=by_member[1],
        polls=np.ones((TICKS, members)),
        rebalances=by_member[2],
        rebalances_ms=by_member[3],
    )


class _Run:
    """Fills in what a group's members do from tick to tick."""

    def __init__(self, world: World, app: App, work: GroupWork) -> None:
        self._random, self._app, self._work = world.random, app, work
        self._storm = list(app.faults["storm"].times_s) if "storm" in app.faults else []
        self._stall, self._longpoll = app.faults.get("stall"), app.faults.get("longpoll")
        self._left = np.zeros(app.partitions)
        self._next_poll_s = np.zeros(app.count)
        self._members: tuple[object, ...] | None = None
        self._owner = np.full(app.partitions, -1)
        self._rebalancing_s = 0.0

    def run(self) -> None:
        app, work = self._app, self._work
        alive = np.stack([slot.is_alive() for slot in app.slots], 1)
        starts = [[life.start_s for life in slot.lives] for slot in app.slots]
        lives = [np.searchsorted(each, TIMES_S, "right") for each in starts]
        for tick in range(TICKS):
            present = [number for number in range(app.count) if alive[tick, number]]
            members = [number if app.is_static else (number, lives[number][tick]) for number in present]
            self._rebalance(tick, present, tuple(members))
            work.owner[tick] = self._owner
            self._left += self._random.poisson(work.per_partition[tick] * TICK_S)
            free_s = max(0.0, TICK_S - self._rebalancing_s)
            self._rebalancing_s = max(0.0, self._rebalancing_s - TICK_S)
            for number in present:
                self._consume(tick, number, self._owner == number, free_s)
            work.lag[tick] = self._left

    def _rebalance(self, tick: int, present: list[int], members: tuple[object, ...]) -> None:
        strikes = bool(self._storm) and self._storm[0] <= TIMES_S[tick]
        if members == self._members and not strikes:
            return
        while self._storm and self._storm[0] <= TIMES_S[tick]:
            self._storm.pop(0)
        shown_ms = 3000.0
        if self._members is not None:
            lasts_s = self._random.uniform(3, 20) if "work" in self._app.faults else self._random.uniform(2, 9)
            shown_ms = lasts_s * 1000
            if present:
                self._rebalancing_s = max(self._rebalancing_s, lasts_s)
        self._work.rebalances[tick, present] += 1
        self._work.rebalances_ms[tick, present] += shown_ms
        self._members = members
        partitions = range(self._app.partitions)
        self._owner = np.array([present[each % len(present)] if present else -1 for each in partitions])

    def _consume(self, tick: int, number: int, mine: Mask, free_s: float) -> None:
        work = self._work
        if not mine.any():
            return
        if self._stall and self._stall.ticks[tick]:
            work.polls[tick, number] = self._stall.how == "pause"
            return
        if self._longpoll and self._longpoll.ticks[tick]:
            self._poll_for_minutes(tick, number, mine, self._longpoll.size)
            return
        most = min(free_s / work.record_s[tick], work.most[tick] * TICK_S)
        have = self._left[mine].sum()
        got = self._left[mine] * min(1.0, most / max(have, 1e-9))
        self._left[mine] -= got
        work.used[tick, number] = got.sum()
        if free_s > 0:
            work.busy[tick, number] = min(1.0, got.sum() * work.record_s[tick] / max(free_s, 1e-9))

    def _poll_for_minutes(self, tick: int, number: int, mine: Mask, lasts_s: float) -> None:
        """A poll brings what has gathered, and its work takes minutes."""
        work, now_s = self._work, TIMES_S[tick]
        work.busy[tick, number] = 1
        work.polls[tick, number] = now_s >= self._next_poll_s[number]
        if now_s >= self._next_poll_s[number]:
            self._next_poll_s[number] = now_s + lasts_s * self._random.uniform(0.97, 1.03)
            have = self._left[mine].sum()
            got = self._left[mine] * min(1, min(have, 30 * lasts_s) / max(have, 1e-9))
            self._left[mine] -= got
            work.used[tick, number] = got.sum()


@dataclass(kw_only=True)
class _Fetches:
    """Of one member, by tick and broker.

    Attributes:
        on: whether it fetches from there.
        arrivals: per second, of as many records as come at once.
        is_behind: fetches find records at once.
        is_busy: by tick: its application has no time left.
        wait_s: how long a broker waits for records.
    """

    on: Mask
    arrivals: Values
    is_behind: Mask
    is_busy: Mask
    wait_s: float


def _fetches(slot: Slot, work: GroupWork, brokers: Brokers, alive: Mask, owns: Mask) -> _Fetches:
    app, shape = slot.app, (TICKS, brokers.count)
    incoming, partitions, waiting = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for partition in range(app.partitions):
        leader, mine = partition % brokers.count, owns[:, partition]
        incoming[:, leader] += work.per_partition[:, partition] * mine
        partitions[:, leader] += mine
        waiting[:, leader] += work.lag[:, partition] * mine
    is_busy = work.busy[:, slot.number] > 0.97
    return _Fetches(
        on=(partitions > 0) & brokers.is_up & alive[:, None],
        arrivals=incoming / app.burst,
        is_behind=(waiting > 50 * np.maximum(incoming, 0.1)) | is_busy[:, None],
        is_busy=is_busy,
        wait_s=5.0 if app.is_go else 0.5,
    )


def _traffic(world: World, slot: Slot, work: GroupWork) -> ConsumerTraffic:
    app, number = slot.app, slot.number
    brokers, stall, longpoll = world.brokers[app.cluster], app.faults.get("stall"), app.faults.get("longpoll")
    plain_ms, base_ms = world.links(slot)
    alive, owns = slot.is_alive(), work.owner == number
    fetches = _fetches(slot, work, brokers, alive, owns)
    arrivals, on, is_behind = fetches.arrivals, fetches.on, fetches.is_behind
    frozen = stall.ticks if stall else np.zeros(TICKS, bool)
    share = 1 - np.exp(-fetches.wait_s * arrivals)
    wait_ms = np.where(arrivals > 0, share / np.maximum(arrivals, 1e-9), fetches.wait_s) * 1000
    wait_ms = np.where(is_behind, 0, wait_ms)
    latency_ms = plain_ms + wait_ms
    with_data = np.where(on, 1000 / latency_ms * np.where(is_behind, 1, 1 - np.exp(-arrivals * fetches.wait_s)), 0)
    polls_per_s = np.maximum(with_data.sum(1), 1e-3)
    rate = work.used[:, number] / TICK_S
    records = np.minimum(rate / polls_per_s, MAX_POLL_RECORDS)
    records = np.where(fetches.is_busy, MAX_POLL_RECORDS, np.maximum(records, 0))
    work_ms = records * work.record_s * 1000  # between two polls
    if app.is_java and not app.reads_async:  # responses are read in poll() alone
        is_late = (work_ms > 1.5 * latency_ms.mean(1))[:, None]
        read_ms = 0.8 * work_ms[:, None] * 0.5 + latency_ms
        latency_ms = np.where(is_late, np.maximum(latency_ms, read_ms), latency_ms)
    if longpoll:
        latency_ms = np.where(longpoll.ticks[:, None], plain_ms + 500, latency_ms)
    cycle_ms = np.where(fetches.is_busy, work_ms + 1, np.maximum(1000 / polls_per_s, work_ms + 0.3))
    idle, between_ms = _polling(app, records, work.record_s, cycle_ms, work_ms)
    spaced_ms = np.maximum(latency_ms, np.where(is_behind, cycle_ms[:, None], 0))
    per_s = np.where(on, 1000 / spaced_ms, 0)
    if longpoll:
        per_s = np.where(longpoll.ticks[:, None], on * 0.02, per_s)
    per_s = np.where(frozen[:, None], 0, per_s)
    throttle_ms, held = np.zeros(TICKS), np.zeros((TICKS, brokers.count))
    if quota := app.faults.get("quota"):
        over = quota.ticks & (rate > 0.9 * work.most)
        told_ms = 1000 * np.maximum(0, (1 - quota.size)) * np.exp(world.noise(TICKS, 0.3, 60))
        throttle_ms = np.where(over, told_ms, 0)
        held = np.where(over, 1 - quota.size, 0)[:, None] * np.ones(brokers.count)
        per_s = np.where(over[:, None], on * 1.0, per_s)
        latency_ms = np.where(over[:, None], plain_ms + 3, latency_ms)
    polls = work.polls[:, number] > 0
    return ConsumerTraffic(
        latency_ms=latency_ms,
        base_ms=base_ms + wait_ms,
        requests_per_s=per_s,
        connects=_connects(slot, brokers),
        is_alive=alive,
        throttle_ms=throttle_ms,
        held=held,
        plain_ms=plain_ms,
        used=work.used[:, number],
        idle=np.where(polls & alive, idle, np.nan),
        between_polls_ms=np.where(polls, between_ms, np.nan),
        polls=polls,
        rebalances=work.rebalances[:, number],
        rebalances_ms=work.rebalances_ms[:, number],
        lag=_shown_lag(world, app, work, stall),
        owns=owns,
        fetch_bytes=rate * app.record_bytes * app.compression / np.maximum(per_s.sum(1), 1e-3),
        is_frozen=frozen,
    )


def _polling(app: App, records: Values, record_s: Values, cycle_ms: Values, work_ms: Values) -> tuple[Values, Values]:
    """Poll idle ratio, and time between polls [ms], of an application that polls for 100 ms each time."""
    polled_ms = np.maximum(cycle_ms - work_ms, 0.3)
    empty = np.floor(np.maximum(polled_ms - 100, 0) / 100)
    last_ms = np.minimum(polled_ms, 100)
    if app.is_java:
        idle = (empty * 0.5 + (last_ms / (2 * last_ms + work_ms))) / (empty + 1)
    elif app.polls == "batch":
        idle = (empty + last_ms / (last_ms + work_ms)) / (empty + 1)
    else:  # a record that is there already is returned in 5 us
        got, one_ms = np.maximum(records, 1), record_s * 1000
        idle = (empty + polled_ms / (polled_ms + one_ms) + (got - 1) * 0.005 / (0.005 + one_ms)) / (empty + got)
    between_ms = cycle_ms / (empty + 1)
    if longpoll := app.faults.get("longpoll"):
        idle = np.where(longpoll.ticks, 0.5 / (longpoll.size * 1000), idle)
        between_ms = np.where(longpoll.ticks, longpoll.size * 1000, between_ms)
    return idle, between_ms


def _connects(slot: Slot, brokers: Brokers) -> Values:
    found = np.zeros(TICKS)
    for life in slot.lives:
        found[min(TICKS - 1, int(life.start_s / TICK_S))] += brokers.count + 2
    for node in range(brokers.count):
        found[np.flatnonzero(~brokers.is_up[:, node])[:1]] += 1
    return found


def _shown_lag(world: World, app: App, work: GroupWork, stall: Fault | None) -> Values:
    found = np.zeros((TICKS, app.partitions))
    for partition in range(app.partitions):
        fresh = world.random.poisson(np.minimum(work.per_partition[:, partition] * 0.03, 1e6))
        shown = work.lag[:, partition] + fresh
        if stall and len(at := np.flatnonzero(stall.ticks)):
            shown[at] = shown[max(0, at[0] - 1)]
        found[:, partition] = shown
    return found
