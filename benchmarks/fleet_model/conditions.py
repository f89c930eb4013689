"""What is so in the fleet, by the definitions of the catalogue of verdicts, read off the history and not off metrics.

A fault counts only if its condition holds clearly (a fifth beyond the limit), and a row of another subject is its
consequence only if that condition holds (down to a fifth below the limit) in a run with this fault alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.fleet_model.fleet import Fleet
from benchmarks.fleet_model.levers import STEP_S, Array
from benchmarks.fleet_model.physics import History

MINUTE: Final = int(60 / STEP_S)
BEFORE: Final = 90 * MINUTE
"""What is usual is taken from so long before."""

Key = tuple[str, str, str]
"""Verdict, kind of subject, subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A history between two steps, compared with the time before `onset`; `margin` above 1 asks for clear cases."""

    fleet: Fleet
    history: History
    begin: int
    end: int
    margin: float
    onset: int

    def period(self) -> slice:
        """The steps that are looked at."""
        return slice(self.begin, self.end)

    def before(self) -> slice:
        """Steps of comparison."""
        return slice(max(self.onset - BEFORE, 2 * MINUTE), max(self.onset, 12 * MINUTE))

    def slots(self, client_id: str) -> list[int]:
        """Slots of a client that run in the period."""
        return [slot for slot in self.fleet.slots_of(client_id) if self.history.alive[self.period(), slot].any()]


def conditions(look: Look) -> set[Key]:
    """All conditions that hold in the period."""
    found: set[Key] = set()
    clients = sorted({app.client_id for app in look.fleet.apps})
    for verdict, holds in CLIENT.items():
        found |= {(verdict, "client", client) for client in clients if look.slots(client) and holds(look, client)}
    groups = sorted({app.group for app in look.fleet.apps if app.group})
    for verdict, holds in GROUP.items():
        found |= {(verdict, "group", group) for group in groups if holds(look, group)}
    found |= {("slow-node", "node", str(node)) for node in look.fleet.broker_ids if is_slow_node(look, node)}
    for client in clients:
        found |= {("slow-path", "path", f"{client}@{node}") for node in slow_paths(look, client)}
    return found


def is_regressed(look: Look, client: str) -> bool:
    """Latency, errors or throughput are 1.5 times worse: of a consumer, its lag grows."""
    app = look.fleet.app_of(look.fleet.slots_of(client)[0])
    if app.role == "consumer":
        return _lagging(look, app.group)
    ratios = _ratios(look, look.slots(client))
    ratios = ratios[~np.isnan(ratios)]
    is_slower = len(ratios) > 0 and float(np.min(ratios)) > 1.5 * look.margin
    return is_slower or CLIENT["record-errors"](look, client)


def _ratios(look: Look, slots: Iterable[int]) -> Array:
    """Mean latency of the period to that before, by slot and broker; NaN where there are no requests."""
    history, now, before = look.history, look.period(), look.before()
    rows = []
    for slot in slots:
        is_up = history.alive[now, slot]
        used = history.requests[now, slot].sum(axis=0) > 0
        late = history.true_latency[now, slot][is_up].mean(axis=0) if is_up.any() else np.nan
        usual = history.true_latency[before, slot].mean(axis=0)
        rows.append(np.where(used, late / np.maximum(usual, 0.1), np.nan))
    return np.array(rows)


def is_slow_node(look: Look, node: int) -> bool:
    """Requests to it take twice as long as before for most of its clients."""
    slots = [slot for slot in range(len(look.fleet.slot_app)) if look.history.alive[look.period(), slot].mean() > 0.5]
    own = _ratios(look, slots)[:, look.fleet.broker_ids.index(node)]
    own = own[~np.isnan(own)]
    return len(own) > 2 and float(np.mean(own > 2 * look.margin)) > 0.5


def _slow_client(look: Look, client: str) -> bool:
    ratios = _ratios(look, look.slots(client))
    ratios = ratios[~np.isnan(ratios)]
    return len(ratios) > 0 and float(np.min(ratios)) > 2 * look.margin


def slow_paths(look: Look, client: str) -> list[int]:
    """Nodes to which the client alone is slow while another of its paths is not."""
    mean = _ratios(look, look.slots(client))
    mean = np.array([row for row in mean if not np.isnan(row).all()])
    if not len(mean):
        return []
    own = np.nanmean(mean, axis=0)
    is_clean = bool((own < 1.3).any())
    nodes = zip(look.fleet.broker_ids, own, strict=True)
    return [node for node, ratio in nodes if ratio > 2 * look.margin and is_clean and not is_slow_node(look, node)]


def _any_slot(holds: Callable[[Look, int], bool]) -> Callable[[Look, str], bool]:
    return lambda look, client: any(holds(look, slot) for slot in look.slots(client))


def _mean(look: Look, table: Array, slot: int) -> float:
    is_up = look.history.alive[look.period(), slot]
    return float(table[look.period(), slot][is_up].mean()) if is_up.any() else 0.0


def _role(look: Look, slot: int) -> str:
    return look.fleet.app_of(slot).role


def _throttled(look: Look, slot: int) -> bool:
    return _mean(look, look.history.throttled_share, slot) > 0.1 * look.margin


def _slow_processing(look: Look, slot: int) -> bool:
    app, history = look.fleet.app_of(slot), look.history
    if app.role != "consumer" or app.library == "franz-go":
        return False
    if float(history.poll_max[look.period(), slot].max()) > 240_000 * look.margin:
        return True
    if app.library == "java":
        share = _mean(look, history.poll_share, slot)
        return share / (1 + share) < 0.1 / look.margin
    usual = float(history.call_ratio[look.before(), slot].mean())
    return _mean(look, history.call_ratio, slot) < 0.1 * usual / look.margin


def _buffer_full(look: Look, slot: int) -> bool:
    app, history = look.fleet.app_of(slot), look.history
    if app.role != "producer" or app.library == "franz-go":
        return False
    if _mean(look, history.wait_share, slot) > 0.05 * look.margin and app.library == "java":
        return True
    if app.library == "librdkafka":
        own, usual = _mean(look, history.outbuf, slot), float(history.outbuf[look.before(), slot].mean())
    else:
        total = history.batches[look.period(), slot].sum()
        own = float(history.queue_sum[look.period(), slot].sum() / max(total, 1))
        total = history.batches[look.before(), slot].sum()
        usual = float(history.queue_sum[look.before(), slot].sum() / max(total, 1))
    return own > 200 * look.margin and own > 10 * usual * look.margin


def _record_errors(look: Look, slot: int) -> bool:
    if look.fleet.app_of(slot).library != "java":
        return False
    history, now = look.history, look.period()
    records = max(float(history.records[now, slot].sum()), 1.0)
    failed, retried = (float(table[now, slot].sum()) for table in (history.errors, history.retries))
    return failed / records > 0.001 or retried / records > 0.05 * look.margin


def _small_batches(look: Look, slot: int) -> bool:
    if _role(look, slot) != "producer" or look.fleet.app_of(slot).library != "java":
        return False
    requests = float(look.history.requests[look.period(), slot].sum()) / ((look.end - look.begin) * STEP_S)
    records = _mean(look, look.history.records, slot) / STEP_S
    size = _mean(look, look.history.bytes, slot) / STEP_S
    per = max(requests, 0.01)
    return requests > 50 * look.margin and (records / per < 2 / look.margin or size / per < 1024 / look.margin)


def _tiny_fetches(look: Look, slot: int) -> bool:
    if _role(look, slot) != "consumer" or look.fleet.app_of(slot).library != "java":
        return False
    fetches = float(look.history.requests[look.period(), slot].sum()) / ((look.end - look.begin) * STEP_S)
    size = _mean(look, look.history.bytes, slot) / STEP_S
    return fetches > 50 * look.margin and size / max(fetches, 0.01) < 1024 / look.margin


def _uncompressed(look: Look, slot: int) -> bool:
    app = look.fleet.app_of(slot)
    size, records = _mean(look, look.history.bytes, slot) / STEP_S, _mean(look, look.history.records, slot) / STEP_S
    is_plain = size / max(records * app.record_bytes, 1) > 0.97
    return app.role == "producer" and app.library == "java" and is_plain and size > 1e6 * look.margin


def _churn(look: Look, slot: int) -> bool:
    return _mean(look, look.history.created, slot) * MINUTE > 6 * look.margin


def _idle(look: Look, slot: int) -> bool:
    app = look.fleet.app_of(slot)
    is_up = look.history.alive[look.period(), slot]
    without = is_up & (look.history.assigned[look.period(), slot] == 0)
    has_metric = app.role == "consumer" and (app.library != "franz-go" or look.fleet.samples_offsets)
    return has_metric and float(without.sum()) > 30 * MINUTE * look.margin


CLIENT: Final[dict[str, Callable[[Look, str], bool]]] = {
    "slow-client": _slow_client,
    "throttled": _any_slot(_throttled),
    "slow-processing": _any_slot(_slow_processing),
    "buffer-full": _any_slot(_buffer_full),
    "record-errors": _any_slot(_record_errors),
    "small-batches": _any_slot(_small_batches),
    "tiny-fetches": _any_slot(_tiny_fetches),
    "uncompressed": _any_slot(_uncompressed),
    "connection-churn": _any_slot(_churn),
    "idle-consumer": _any_slot(_idle),
}


def _members(look: Look, group: str) -> list[int]:
    return [
        slot
        for slot in range(len(look.fleet.slot_app))
        if look.fleet.app_of(slot).group == group and look.history.alive[look.period(), slot].mean() > 0.5
    ]


def _can_lag(look: Look, group: str) -> bool:
    """Java consumers send a lag; else the group's offsets must be sampled."""
    app = next(app for app in look.fleet.apps if app.group == group)
    return app.library == "java" or look.fleet.samples_offsets


def group_shares(fleet: Fleet, group: str) -> slice:
    """The columns of `History.lag` that belong to a group; groups are in the order of their names."""
    at = 0
    for name in sorted({app.group for app in fleet.apps if app.group}):
        topic = next(app.topic for app in fleet.apps if app.group == name)
        count = len(fleet.topics[topic].leaders)
        if name == group:
            return slice(at, at + count)
        at += count
    raise KeyError(group)


def _group_lag(look: Look, group: str, steps: slice) -> Array:
    lag: Array = look.history.lag[steps, group_shares(look.fleet, group)].sum(axis=1)
    return lag


def _lagging(look: Look, group: str) -> bool:
    if not _can_lag(look, group):
        return False
    lag = _group_lag(look, group, look.period())[:: 5 * MINUTE]
    usual = float(_group_lag(look, group, look.before()).max())
    grows = np.diff(lag) > 0
    longest = max((len(run) for run in "".join("x" if up else " " for up in grows).split()), default=0)
    return longest >= 3 * look.margin and float(lag.max()) > 3 * usual + 100


def _stalled(look: Look, group: str) -> bool:
    shares, history = group_shares(look.fleet, group), look.history
    moved: Array = np.diff(history.committed[look.period(), shares], axis=0).sum(axis=1) > 0
    waits: Array = _group_lag(look, group, look.period())[1:] > 10
    owner: Array = history.owner[look.period(), shares]
    is_owned = np.any(owner >= 0, axis=1)[1:]
    still = "".join("x" if so else " " for so in ~moved & waits & is_owned).split()
    return _can_lag(look, group) and max((len(run) for run in still), default=0) > 10 * MINUTE * look.margin


def _storm(look: Look, group: str) -> bool:
    members = _members(look, group)
    if not members or look.fleet.app_of(members[0]).library == "franz-go":
        return False
    hours = (look.end - look.begin) * STEP_S / 3600
    counts = look.history.rebalances[look.period()][:, members].sum(axis=0) / hours
    spent = look.history.rebalance_ms[look.period()][:, members].sum(axis=0) / (hours * 3_600_000)
    return bool(counts.max() > 6 * look.margin or spent.max() > 0.05 * look.margin)


def _uneven(look: Look, group: str) -> bool:
    members = _members(look, group)
    if len(members) < 4:
        return False
    is_java = look.fleet.app_of(members[0]).library == "java"
    read = np.array([_mean(look, look.history.records, slot) for slot in members])
    shares = group_shares(look.fleet, group)
    owner, lag = look.history.owner[look.period(), shares], look.history.lag[look.period(), shares]
    behind = np.array([np.where(owner == slot, lag, 0).sum(axis=1).mean() for slot in members])
    reads = is_java and read.max() > 3 * look.margin * max(float(np.median(read)), 0.1)
    lags = _can_lag(look, group) and behind.max() > 3 * look.margin * max(float(np.median(behind)), 300.0)
    return bool(reads or lags)


GROUP: Final[dict[str, Callable[[Look, str], bool]]] = {
    "lagging": _lagging,
    "stalled": _stalled,
    "rebalance-storm": _storm,
    "uneven-group": _uneven,
}
