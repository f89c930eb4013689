"""Effect of limits on groups of clients: replays at every broker, one row per group."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Final

import numpy as np

from fleetgauge.fleet.arrow import Schema, Table, pa, pc, to_list
from fleetgauge.fleet.measures.rows import Numbers, filled
from fleetgauge.fleet.whatif.rates import BY, NO_NODE, added
from fleetgauge.fleet.whatif.replay import Held, peak_rate, replay
from fleetgauge.verdicts.arrow import typed

OUTCOMES: Final[Schema] = pa.schema(
    [
        ("quota", pa.string()),
        ("quota_key", pa.string()),
        ("limit_bytes_per_s", pa.float64()),
        ("suggested_limit_bytes_per_s", pa.float64()),
        *typed(pa.string(), "cluster_id", "user", "client_id"),
        ("throttled", pa.bool_()),
        ("throttled_share", pa.float64()),
        ("throttled_s", pa.float64()),
        ("episodes", pa.int64()),
        *typed(pa.float64(), "longest_s", "mean_delay_ms", "waiting_max_bytes", "peak_bytes_per_s", "peak_ratio"),
        *typed(pa.float64(), "mean_bytes_per_s", "recorded_s"),
        ("broker", pa.string()),
        ("brokers", pa.int32()),
        ("brokers_throttled", pa.int32()),
        ("by_broker", pa.string()),
        ("instances", pa.int64()),
        ("instances_without_bytes", pa.int64()),
    ]
)
"""One row per limit and those who share it. `user` and `client_id` are null where the limit looks at the other alone.
Figures are those of `broker`, the one that would have held them longest; null where nothing is recorded. Times of a
hold [s]: `throttled_s` is the sum of Kafka's throttle times, `throttled_share` that of `recorded_s`, `longest_s` the
longest time in which something waited; `mean_delay_ms` is the mean throttle time of a request meanwhile, null where the
number of requests is not known. `peak_ratio` is the peak over the limit, `by_broker` how bytes were known by broker."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Finds the highest rate at any broker [bytes/s]; a task for one group of RATES."""

    cell_s: int
    stage: ClassVar[str] = "finding peaks"

    def __call__(self, sharers: int, rates: Table) -> float:
        """The least limit that would never have throttled the group."""
        return max(peak_rate(each.rates, self.cell_s * 1_000) for each in _brokers(rates, self.cell_s))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Replays the rates of one group of RATES under their limit; a task.

    Attributes:
        cell_s: length of a cell [s].
        limits: by number of the sharers [bytes/s].
    """

    cell_s: int
    limits: dict[int, float]
    stage: ClassVar[str] = "replaying"

    def __call__(self, sharers: int, rates: Table) -> dict[str, Any]:
        """Figures of OUTCOMES for the broker with the longest throttling."""
        if sharers not in self.limits:  # none is given, and none could be suggested
            return {}
        limit, brokers = self.limits[sharers], list(_brokers(rates, self.cell_s))
        held = [replay(each.rates, self.cell_s * 1_000, limit) for each in brokers]
        peaks = [peak_rate(each.rates, self.cell_s * 1_000) for each in brokers]
        worst = max(range(len(brokers)), key=lambda at: (held[at].held_ms, peaks[at]))
        broker, longest = brokers[worst], held[worst]
        recorded_s = float(np.count_nonzero(~np.isnan(broker.rates)) * self.cell_s)
        return {
            "throttled": longest.held_ms > 0,
            "throttled_share": min(longest.held_ms / 1_000 / recorded_s, 1.0),
            "throttled_s": longest.held_ms / 1_000,
            "episodes": longest.episodes,
            "longest_s": longest.longest_ms / 1_000,
            "mean_delay_ms": broker.mean_delay_ms(longest, limit),
            "waiting_max_bytes": longest.waiting_max_bytes,
            "peak_bytes_per_s": peaks[worst],
            "peak_ratio": peaks[worst] / limit,
            "mean_bytes_per_s": float(np.nanmean(broker.rates)),
            "recorded_s": recorded_s,
            "broker": None if broker.node_id == NO_NODE else str(broker.node_id),
            "brokers": len(brokers),
            "brokers_throttled": sum(each.held_ms > 0 for each in held),
            "by_broker": BY[max(each.by for each in brokers)],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broker:
    """Rates at one broker.

    Attributes:
        node_id: of the broker, or `NO_NODE`.
        rates: [bytes/s] per cell; NaN where no client was there.
        requests: per cell, NaN where unknown; `instances` how many clients.
        by: place in `BY`.
    """

    node_id: int
    rates: Numbers
    requests: Numbers
    instances: Numbers
    cell_s: int
    by: int

    def mean_delay_ms(self, held: Held, limit: float) -> float | None:
        """Mean throttle time of a request while something waited [ms]; None if unknown.

        Channels are muted side by side: three clients that share a limit and are held for 60 s are muted for 180 s
        together, and that divided by the number of their requests in this time is the delay of one.
        """
        hot = self.rates > limit
        request_bytes = (self.rates[hot] * self.cell_s).sum() / max(self.requests[hot].sum(), 1e-9)
        if not held.held_ms or not request_bytes > 0:
            return None
        requests = max(held.sent_held_bytes / request_bytes, 1.0)
        delay_ms = held.held_ms * max(float(self.instances[hot].mean()), 1.0) / requests
        return delay_ms if math.isfinite(delay_ms) else None


def _brokers(rates: Table, cell_s: int) -> Iterator[_Broker]:
    """Rates of a group, by broker."""
    rates = added(rates)
    for node in pc.unique(rates["node_id"]).to_pylist():
        own = rates.filter(pc.equal(rates["node_id"], node))
        cell = filled(own["cell"], 0)
        place = cell - cell.min()
        columns = {}
        for name in ("bytes", "requests", "instances"):
            columns[name] = np.full(int(place.max()) + 1, np.nan)
            columns[name][place] = filled(own[name], np.nan)
        yield _Broker(
            node_id=node,
            rates=columns["bytes"] / cell_s,
            requests=columns["requests"],
            instances=columns["instances"],
            cell_s=cell_s,
            by=max(to_list(own["by"])),
        )


def groups(rates: Table) -> Iterator[tuple[int, Table]]:
    """RATES by group."""
    if not rates.num_rows:
        return
    rates = rates.combine_chunks().take(pc.sort_indices(rates["sharers"]))
    number = filled(rates["sharers"], 0)
    begins = [0, *(np.flatnonzero(number[1:] != number[:-1]) + 1).tolist()]
    for begin, end in pairwise([*begins, len(number)]):
        yield int(number[begin]), rates.slice(begin, end - begin)
