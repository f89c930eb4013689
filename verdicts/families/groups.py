"""Consumer groups: rebalances, lag, and how work is divided among members."""

from typing import Any, Final

import numpy as np

from verdicts.arrow import Numbers
from verdicts.declare import Finding, Test, Verdict, of_clients, of_subjects
from verdicts.memory import Memory
from verdicts.rules import Figures
from verdicts.window import Window

_HOUR_US: Final = 3_600_000_000


def _rebalance_storm(window: Window, memory: Memory, figures: Figures) -> Finding:
    """Rebalances of the last hour, without two for each member that came in the same window or the one before."""
    groups, rows = window.groups, window.rows
    came = memory.instances["first_us"][window.instance] >= window.begin_us - window.length_s * 1_000_000
    allowed = 2.0 * groups.count(came)
    total_ms, mean_ms = rows.number("rebalance_latency_total_ms"), rows.number("rebalance_latency_avg_ms")
    # librdkafka counts none, but sends their time and its mean
    counted = np.where(total_ms == 0, 0.0, np.rint(total_ms / np.maximum(mean_ms, 1.0)))
    rebalances = groups.max(np.fmax(rows.number("rebalances"), counted))
    busy = groups.max(total_ms / 1000 / window.seconds)
    known = ~(np.isnan(rebalances) & np.isnan(busy))
    counted = np.maximum(np.nan_to_num(rebalances) - allowed, 0)
    busy = np.where(allowed > 0, 0.0, np.nan_to_num(busy)) * window.length_s
    past: dict[str, list[list[float]]] = memory.facts.setdefault("rebalance-storm", {})
    for place in np.flatnonzero((counted > 0) | (busy > 0)).tolist():
        past.setdefault(str(groups.codes[place]), []).append(
            [window.begin_us, float(counted[place]), float(busy[place])]
        )
    per_hour, share = (np.where(known, 0.0, np.nan) for _ in range(2))
    for code, events in list(past.items()):
        past[code] = events = [each for each in events if each[0] > window.begin_us - _HOUR_US]
        if not events:
            del past[code]
            continue
        place = int(np.searchsorted(groups.codes, int(code)))
        is_there = place < len(groups) and groups.codes[place] == int(code)
        is_lasting = len(events) >= figures["least_windows"]
        goes_on = events[-1][0] >= window.begin_us - figures["quiet_s"] * 1_000_000
        if is_there and is_lasting and goes_on:
            per_hour[place] = sum(each[1] for each in events)
            share[place] = sum(each[2] for each in events) / 3600
    return of_subjects(
        groups,
        [
            Test(
                metric="rebalances", unit="times", observed=per_hour, bound=figures["per_hour"],
                says="group {subject} rebalanced {observed} within an hour",
            ),
            Test(
                metric="rebalance_latency_total_ms", unit="ratio", observed=share, bound=figures["time_share"],
                says="group {subject} spent {observed} of an hour rebalancing",
            ),
        ],
    )  # fmt: skip


def lag_growth(window: Window, memory: Memory) -> tuple[Numbers, Numbers]:
    """The lag of each group, and by how much that of the members who pushed grew since their last word on it."""
    if "lag" not in window.shared:
        window.shared["lag"] = _lag_growth(window, memory)
    found: tuple[Numbers, Numbers] = window.shared["lag"]
    return found


def _lag_growth(window: Window, memory: Memory) -> tuple[Numbers, Numbers]:
    lag = window.rows.number("lag_records")
    last = memory.history("lag")
    grown = lag - last.expected(window.instance, 1)
    last.put(window.instance, lag)
    return window.groups.sum(lag), window.groups.sum(grown)


def _lagging(window: Window, memory: Memory, figures: Figures) -> Finding:
    groups = window.groups
    lag, grown = lag_growth(window, memory)
    consumed = np.nan_to_num(groups.sum(window.rows.number("records_consumed")))
    bound = np.maximum(figures["least_records"], figures["share"] * consumed)
    return of_subjects(
        groups,
        [
            Test(
                metric="lag_records", unit="records", observed=grown, bound=bound,
                says="the lag of group {subject} grows, by {observed} in one window to {lag:,.0f} records, while it "
                "reads {consumed:,.0f}",
                more={"lag": lag, "consumed": consumed},
            )
        ],
    )  # fmt: skip


def _stalled(window: Window, memory: Memory, figures: Figures) -> Finding:
    groups, rows = window.groups, window.rows
    lag, consumed = (groups.sum(rows.number(name)) for name in ("lag_records", "records_consumed"))
    commits, assigned = (np.nan_to_num(groups.sum(rows.number(name))) for name in ("commits", "assigned_partitions"))
    does_nothing = (consumed == 0) & (commits == 0) & (assigned > 0)
    return of_subjects(
        groups,
        [
            Test(
                metric="lag_records", unit="records", observed=np.where(does_nothing, lag, 0 * (lag + consumed)),
                bound=figures["least_records"],
                says="group {subject} reads and commits nothing of its {assigned:.0f} partitions, {observed} wait",
                more={"assigned": assigned},
            )
        ],
    )  # fmt: skip


def _idle_consumer(window: Window, memory: Memory, figures: Figures) -> Finding:
    is_old = window.begin_us - memory.instances["first_us"][window.instance] > figures["young_s"] * 1_000_000
    return of_clients(
        window,
        [
            Test(
                metric="assigned_partitions", unit="partitions",
                observed=window.rows.number("assigned_partitions"), bound=0.5, is_upper=False,
                expected=np.ones(len(window)),
                says="a member of {subject} has no partition",
            )
        ],
        judged=is_old & (window.group >= 0),
    )  # fmt: skip


def has_most_work(window: Window, figures: Figures) -> Numbers:
    """True for members that read half as many times as much as the median of their group as makes it uneven, or more.

    One whose partitions are hot may not keep up, and reads less than is written for it; but more than the others, so
    that its application is not slower.

    Args:
        window: what is judged.
        figures: of uneven-group.
    """
    groups, rate = window.groups, window.rows.number("records_consumed") / window.seconds
    members = np.append(groups.count(~np.isnan(rate)), 0)[groups.of_row]
    is_judged = members >= figures["least_members"]
    median = np.append(groups.median(np.where(is_judged, rate, np.nan)), np.nan)[groups.of_row]
    bound = np.maximum(figures["factor"] / 2 * median, figures["least_per_s"])
    found: Numbers = is_judged & (rate > bound)
    return found


def _uneven_group(window: Window, memory: Memory, figures: Figures) -> Finding:
    groups, rows = window.groups, window.rows
    has_work = ~(rows.number("assigned_partitions") < 1) & (window.group >= 0)
    rate = np.where(has_work, rows.number("records_consumed") / window.seconds, np.nan)
    lag = np.where(has_work, rows.number("lag_records"), np.nan)
    tests = []
    for metric, unit, values, least in (
        ("records_consumed", "records per s", rate, figures["least_per_s"]),
        ("lag_records", "records", lag, np.fmax(figures["least_lag"], np.nan_to_num(rate) * figures["least_lag_s"])),
    ):
        members = np.append(groups.count(~np.isnan(values)), 0)[groups.of_row]
        is_judged = members >= figures["least_members"]
        median = np.append(groups.median(np.where(is_judged, values, np.nan)), np.nan)[groups.of_row]
        tests.append(
            Test(
                metric=metric, unit=unit, observed=np.where(is_judged, values, np.nan),
                bound=np.maximum(figures["factor"] * median, least), expected=median,
                says="one member of group {subject} has {observed}, half of the {members} have {expected} or less"
                + (" to read" if unit == "records" else ""),
                more={"members": members},
            )
        )  # fmt: skip
    every: dict[str, Any] = {"unit_of": groups.of_row, "rows": np.arange(len(window)), "of": window.instance}
    return Finding(subjects=groups, tests=tests, **every)


_REBALANCES: Final = {
    "java": ("rebalances", "rebalance_latency_total_ms"),
    "librdkafka": ("rebalance_latency_total_ms",),
}
_LAG: Final = {"java": ("lag_records",)}
_MEMBERS: Final = ("consumer", "share-consumer")

VERDICTS: Final = (
    Verdict(
        id="rebalance-storm", kind="group", side="client", find=_rebalance_storm, needs=_REBALANCES, roles=_MEMBERS,
        action="Find what makes members of {subject} leave: raise session.timeout.ms or max.poll.interval.ms, use "
        "static membership or the new consumer protocol.",
        explains=("stalled", "lagging", "uneven-group"),
    ),
    Verdict(
        id="stalled", kind="group", side="client", find=_stalled, needs=_LAG, roles=("consumer",),
        action="Look at the application of {subject}: it holds partitions and reads nothing; restart it if it hangs.",
        explains=("lagging",),
    ),
    Verdict(
        id="uneven-group", kind="group", side="client", find=_uneven_group, needs={"java": ("records_consumed",)},
        roles=("consumer",),
        action="Spread the keys or partitions of the topics of {subject} evenly, or look at the slowest member.",
        explains=("lagging",),
    ),
    Verdict(
        id="lagging", kind="group", side="client", find=_lagging, needs=_LAG, roles=("consumer",),
        action="Have {subject} read faster than is written: more members and partitions, or less work per record.",
    ),
    Verdict(
        id="idle-consumer", kind="client", side="client", find=_idle_consumer, roles=("consumer",),
        needs=dict.fromkeys(("java", "librdkafka"), ("assigned_partitions",)),
        action="Stop members of {subject} that have nothing to do, or add partitions.",
    ),
)  # fmt: skip
