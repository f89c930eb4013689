"""Rebalances of consumer groups."""

from typing import Final, NamedTuple

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import BY_GATEWAY, BY_TELEMETRY, Finding, Threshold, Verdict, of_subjects
from fleetgauge.verdicts.memory import BY_NUMBER, Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import Window

_HOUR_US: Final = 3_600_000_000

_EXPECTED: Final = 2.0
"""Rebalances that the start of a member causes, with the end of the one that it replaces."""

_SEEN_LATER_US: Final = 300_000_000
"""Time after its first push within which a member's start shows in the counts of the others [us]."""

_Event = tuple[int, float, dict[str, tuple[float, float]]]
"""A window's beginning [us], the rebalances of a group that starts of members explain, and those that members count
with the time that they spent on them [s], by the number of their instance; by "" those that gateways count."""


class _Rebalances(NamedTuple):
    """Rebalances of each group of a window, as its members or gateways count them; NaN where neither do.

    Attributes:
        of_members: of each row.
        busy_s: time that each row's member spent on them [s]; 0 where a member of its group started.
        expected: that starts of members in the window explain.
        by_traffic: as gateways count them.
        is_seen: True where gateways count them and members do not.
        is_known: True where either do.
    """

    of_members: Numbers
    busy_s: Numbers
    expected: Numbers
    by_traffic: Numbers
    is_seen: Numbers
    is_known: Numbers


def _rebalances(window: Window, memory: Memory) -> _Rebalances:
    groups, rows, known = window.groups, window.rows, memory.instances
    began_us = known["first_us"][window.instance]
    # The members that there are when judging begins have not just started.
    from_us = memory.clusters.from_us[window.cluster]
    is_new = began_us >= np.where(from_us > 0, from_us, window.end_us) + _SEEN_LATER_US
    # A crash loop is not a rolling restart: nothing is subtracted for its lives.
    in_loop = (known["in_loop"] > 0) & (known["last_us"] >= window.begin_us - _HOUR_US)
    if in_loop.any():
        is_new &= ~np.isin(window.client, known["client"][in_loop])
    came = began_us >= window.begin_us - max(window.length_s * 1_000_000, _SEEN_LATER_US)
    total_ms, mean_ms = rows.number("rebalance_latency_total_ms"), rows.number("rebalance_latency_avg_ms")
    # librdkafka counts none, but sends their time and its mean
    counted = np.where(total_ms == 0, 0.0, np.rint(total_ms / np.maximum(mean_ms, 1.0)))
    of_members = np.fmax(rows.number("rebalances"), counted)
    is_sent = ~(np.isnan(groups.max(of_members)) & np.isnan(groups.max(total_ms)))
    by_traffic = np.full(len(groups), np.nan) if window.traffic is None else window.traffic.of_groups(groups.codes)
    is_seen = ~is_sent & ~np.isnan(by_traffic)
    return _Rebalances(
        of_members=of_members,
        busy_s=np.where(np.append(groups.count(came) > 0, False)[groups.of_row], 0.0, np.nan_to_num(total_ms) / 1000),
        expected=_EXPECTED * groups.count(is_new & (began_us >= window.begin_us)),
        by_traffic=by_traffic,
        is_seen=is_seen,
        is_known=is_sent | is_seen,
    )


def _of_the_hour(window: Window, memory: Memory, now: _Rebalances, figures: Figures) -> tuple[Numbers, Numbers]:
    """Rebalances of each group in the last hour, and the share of it spent on them; 0 where they do not last.

    Each member's are added up, and at least half of the members count so many: in a short window not all members push,
    and one that pushes before a rebalance at the end of a window has it in the next one. Less those that are expected.
    The share is that of the busiest member.
    Adds the window to the remembered hour.
    """
    groups = window.groups
    past: dict[str, list[_Event]] = memory.facts.setdefault(BY_NUMBER, {})
    _remember(window, now, past)
    per_hour, share = (np.where(now.is_known, 0.0, np.nan) for _ in range(2))
    after_us = window.begin_us - _HOUR_US
    for code, events in list(past.items()):
        past[code] = events = [each for each in events if each[0] > after_us - _SEEN_LATER_US]
        if not events:
            del past[code]
            continue
        place = int(np.searchsorted(groups.codes, int(code)))
        if place == len(groups) or groups.codes[place] != int(code):
            continue
        expected, events = sum(each[1] for each in events), [each for each in events if each[0] > after_us]
        of_most = [each[0] for each in events if each[2]]
        is_lasting = len(of_most) >= figures["least_windows"]
        if is_lasting and of_most[-1] >= window.begin_us - figures["quiet_s"] * 1_000_000:
            own = groups.rows_of(place)
            names = [""] if now.is_seen[place] else map(str, window.instance[own[~np.isnan(now.of_members[own])]])
            counts = sorted(sum(each[2].get(name, (0.0, 0.0))[0] for each in events) for name in names)
            per_hour[place] = max(counts[len(counts) // 2] - expected, 0.0) if counts else 0.0
            members = {name for each in events for name in each[2]}
            busy_s = (sum(each[2].get(name, (0.0, 0.0))[1] for each in events) for name in members)
            share[place] = max(busy_s, default=0.0) / 3600
    return per_hour, share


def _remember(window: Window, now: _Rebalances, past: dict[str, list[_Event]]) -> None:
    """Adds a window to the remembered hour of each group."""
    groups = window.groups
    counts = (groups.of_row >= 0) & ((now.of_members > 0) | (now.busy_s > 0))
    seen = np.where(now.is_seen, np.nan_to_num(now.by_traffic), 0.0)
    has_any = (seen > 0) | (now.expected > 0) | (groups.count(counts) > 0)
    each_of = np.stack([np.nan_to_num(now.of_members), now.busy_s], axis=1)
    for place in np.flatnonzero(has_any).tolist():
        own = groups.rows_of(place)
        own = own[counts[own]]
        names = map(str, window.instance[own].tolist())
        of_members = dict(zip(names, map(tuple, each_of[own].tolist()), strict=True))
        if seen[place] > 0:
            of_members[""] = (float(seen[place]), 0.0)
        event = (window.begin_us, float(now.expected[place]), of_members)
        past.setdefault(str(groups.codes[place]), []).append(event)


def _rebalance_storm(window: Window, memory: Memory, figures: Figures) -> Finding:
    """Rebalances of the last hour; by the counts of gateways for groups whose members send none."""
    groups, now = window.groups, _rebalances(window, memory)
    per_hour, share = _of_the_hour(window, memory, now, figures)
    is_seen = now.is_seen
    tests = [
        Threshold(
            metric="rebalances", unit="times", observed=np.where(is_seen, np.nan, per_hour),
            bound=figures["per_hour"], says="group {subject} rebalanced {observed} in an hour (limit {bound})",
        ),
        Threshold(
            metric="rebalance_latency_total_ms", unit="ratio", observed=share, bound=figures["time_share"],
            says="group {subject} spent {observed} of an hour rebalancing (limit {bound})",
        ),
    ]  # fmt: skip
    if window.traffic is None:
        return of_subjects(groups, tests)
    seen = Threshold(
        metric="traffic.rebalances", unit="times", observed=np.where(is_seen, per_hour, np.nan),
        bound=figures["per_hour"],
        says="group {subject} rebalanced at least {observed} in an hour (limit {bound}), counted by a gateway",
    )  # fmt: skip
    agrees = np.nan_to_num(now.by_traffic) > 0
    sources = np.where(is_seen, BY_GATEWAY, BY_TELEMETRY + BY_GATEWAY * agrees)
    return of_subjects(groups, [*tests, seen], sources=sources)


VERDICTS: Final = (
    Verdict(
        id="rebalance-storm", kind="group", find=_rebalance_storm, roles=("consumer", "share-consumer"),
        needs={
            "java": ("rebalances", "rebalance_latency_total_ms"),
            "librdkafka": ("rebalance_latency_total_ms",),
        },
        by_traffic=("group",),
        action="Find why members of {subject} leave; raise session.timeout.ms or max.poll.interval.ms, use static "
        "membership or the new consumer protocol.",
        explains=("stalled", "lagging", "uneven-group"),
    ),
)  # fmt: skip
