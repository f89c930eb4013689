"""Consumer groups: rebalances, lag, and how work is divided among members."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import BY_GATEWAY, BY_OFFSETS, BY_TELEMETRY, Finding, Threshold, Verdict, of_subjects
from fleetgauge.verdicts.evidence import base_s
from fleetgauge.verdicts.memory import BY_NUMBER, Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import LONGEST_COVERED_S, Subjects, Window, medians
from fleetgauge.verdicts.witnesses.offsets import GROWING, STALLED, UNKNOWN, SampledGroups

_HOUR_US: Final = 3_600_000_000

_POLLS_WITHIN_S: Final = 30
"""Longest time since its last poll() for a consumer to be judged by its fetches [s]."""


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


def _of_samples(window: Window, values: Numbers) -> Numbers:
    """Values of sampled groups at their places among all; NaN for the others."""
    of_groups = np.full(len(window.groups), np.nan)
    if window.offsets is not None:
        of_groups[np.searchsorted(window.groups.codes, window.offsets.codes)] = values
    return of_groups


def _is_sampled(window: Window) -> Numbers:
    """True for groups with members and enough samples: these are judged by samples, not by their telemetry."""
    if window.offsets is None:
        return np.zeros(len(window.groups), np.bool_)
    is_known = (window.offsets.whole.trend != UNKNOWN) & (window.offsets.assigned > 0)
    is_sampled: Numbers = _of_samples(window, np.where(is_known, 1.0, 0.0)) == 1
    return is_sampled


def _by_either(window: Window, telemetry: Sequence[Threshold], offsets: Threshold) -> Finding:
    """A finding about groups: by samples where there are some, else by telemetry."""
    agrees = np.logical_or.reduce([test.is_known & test.is_bad for test in telemetry])
    is_sampled = offsets.is_known
    left = [replace(test, observed=np.where(is_sampled, np.nan, test.observed)) for test in telemetry]
    sources = np.where(is_sampled, BY_OFFSETS + BY_TELEMETRY * agrees, BY_TELEMETRY)
    return of_subjects(window.groups, [*left, offsets], sources=sources)


def lag_growth(window: Window, memory: Memory) -> tuple[Numbers, Numbers]:
    """Lag of each group and its growth: by samples, or else by members with a lag, each since its last one."""
    lag, grown = window.once("lag", lambda: _lag_of_members(window, memory))
    if window.offsets is not None:
        whole, is_sampled = window.offsets.whole, _is_sampled(window)
        lag = np.where(is_sampled, _of_samples(window, whole.lag), lag)
        grown = np.where(is_sampled, _of_samples(window, whole.grown), grown)
    return lag, grown


def _lag_of_members(window: Window, memory: Memory) -> tuple[Numbers, Numbers]:
    """Lag of each group by its members, and its growth; to be called once per window, since it updates a history."""
    lag, last = window.rows.number("lag_records"), memory.history("lag")
    grown = lag - last.expected(window.instance, 0)
    last.put(window.instance, lag)
    return window.groups.sum(lag), window.groups.sum(grown)


def _lagging(window: Window, memory: Memory, figures: Figures) -> Finding:
    groups = window.groups
    lag, grown = window.once("lag", lambda: _lag_of_members(window, memory))
    consumed = np.nan_to_num(groups.sum(window.rows.number("records_consumed")))
    telemetry = Threshold(
        metric="lag_records", unit="records", observed=grown,
        bound=np.maximum(_least_records(window, figures), figures["share"] * consumed),
        says="the lag of group {subject} grew by {observed} in one window to {lag:,.0f}, while it read {consumed:,.0f}",
        more={"lag": lag, "consumed": consumed}, adds_up=True,
    )  # fmt: skip
    if window.offsets is None:
        return of_subjects(groups, [telemetry])
    whole = window.offsets.whole
    committed = _of_samples(window, whole.committed)
    offsets = Threshold(
        metric="group_offsets.lag_records", unit="records",
        observed=_growing(window), bound=figures["share"] * committed,
        says="the lag of group {subject} grew by {observed} in {lasts} to {lag:,.0f}, while it committed "
        "{committed:,.0f}",
        more={
            "lag": _of_samples(window, whole.lag), "committed": committed,
            "lasts": _durations(_of_samples(window, whole.seconds)),
        },
    )  # fmt: skip
    return _by_either(window, [telemetry], offsets)


def _least_records(window: Window, figures: Figures) -> float:
    """Least growth of a lag in a window: `least_records`, or a part of it in less than five minutes."""
    return figures["least_records"] * min(1.0, window.length_s / base_s(figures["for_s"]))


def _growing(window: Window) -> Numbers:
    """Growth of the lag of sampled groups over their samples, 0 without the trend; NaN for the others."""
    if window.offsets is None:
        return np.full(len(window.groups), np.nan)
    whole = window.offsets.whole
    grown = _of_samples(window, np.where(whole.trend == GROWING, whole.grown, 0.0))
    return np.where(_is_sampled(window), grown, np.nan)


def lag_trend(window: Window, memory: Memory, figures: Figures) -> Numbers:
    """Trend of each group: 1 if its lag grows enough for `lagging`, -1 if it falls by that share of its reads, else 0.

    NaN where the lag is not known. If a group reads 60,000 records in a window and its lag falls by 40, it is not
    working off a backlog: that takes 600 (1 %). Where it is not known, as in a short window without a sample or after
    a lost push, the last one of five minutes before the window counts.

    Args:
        window: what is judged.
        memory: of the windows before.
        figures: of lagging.
    """
    return window.once("lag trend", lambda: _lag_trend(window, memory, figures))


def _lag_trend(window: Window, memory: Memory, figures: Figures) -> Numbers:
    _, grown = lag_growth(window, memory)
    read = window.groups.sum(window.rows.number("records_consumed"))
    grown = np.where((grown < 0) & np.isnan(read), np.nan, grown)  # as after a lost push: it may fall, or be trimmed
    read = np.nan_to_num(read)
    least = np.full(len(read), _least_records(window, figures))
    if window.offsets is not None:
        is_sampled = _is_sampled(window)
        read = np.where(is_sampled, _of_samples(window, window.offsets.whole.committed), read)
        grown = np.where(is_sampled, _steady(window, grown), grown)
        least[is_sampled] = 0.0
    bound = figures["share"] * read
    falls = (grown < -bound) & (read > 0)  # Java's lag falls within a fetch that counts as consumed at its end
    trend = np.where(grown > np.maximum(bound, least), 1.0, np.where(falls, -1.0, 0.0))
    trend = np.where(np.isnan(grown), np.nan, trend)
    codes, end_s, history = window.groups.codes, window.end_us // 1_000_000, memory.history("lag trend")
    history.put(codes, trend, end_s)
    keys, latest = history.put_after(end_s - LONGEST_COVERED_S - window.length_s)
    is_known = np.isin(codes, keys)
    trend[is_known] = latest[np.searchsorted(keys, codes[is_known])]
    return trend


def _steady(window: Window, grown: Numbers) -> Numbers:
    """Growth of sampled groups, 0 where it is not a trend: commits come in steps."""
    return np.where((grown > 0) & ~(_growing(window) > 0), 0.0, grown)


def _durations(seconds: Numbers) -> Numbers:
    texts = [f"{each:.0f} s" if each < 120 else f"{each / 60:.0f} minutes" for each in seconds.tolist()]
    return np.array(texts, object)


def _stalled(window: Window, memory: Memory, figures: Figures) -> Finding:
    groups, rows = window.groups, window.rows
    lag, consumed = (groups.sum(rows.number(name)) for name in ("lag_records", "records_consumed"))
    commits, assigned = (np.nan_to_num(groups.sum(rows.number(name))) for name in ("commits", "assigned_partitions"))
    does_nothing = (consumed == 0) & (commits == 0) & (assigned > 0)
    telemetry = Threshold(
        metric="lag_records", unit="records", observed=np.where(does_nothing, lag, 0 * (lag + consumed)),
        bound=figures["least_records"],
        says="group {subject} reads and commits nothing from its {assigned:.0f} partitions, while {observed} wait",
        more={"assigned": assigned},
    )  # fmt: skip
    # Java commits the position of paused partitions again and again, and their lag stays as it was, often 0. But a
    # consumer with partitions that polls sends fetches, also where nothing is written. One that does not poll, or has
    # no time to spare, may work on what it has: a fetch of 1 MiB has 4,400 small records, of 50 ms each 220 s of work,
    # and counts as consumed at its end.
    polls = rows.number("last_poll_seconds_ago") < _POLLS_WITHIN_S
    polls &= ~(rows.number("poll_idle_ratio_avg") < figures.of["slow-processing"]["idle_ratio"])
    fetches = groups.sum(np.where(polls, rows.number("fetch_rate_per_s"), np.nan))
    is_idle = (consumed == 0) & (groups.sum(np.where(polls, rows.number("assigned_partitions"), np.nan)) > 0)
    fetching = Threshold(
        metric="fetch_rate_per_s", unit="per s", observed=np.where(is_idle, fetches, np.inf + fetches),
        bound=figures["fetches_per_s"], is_upper=False,
        says="group {subject} polls but fetches nothing from its {assigned:.0f} partitions: they are paused or have no "
        "leader",
        more={"assigned": assigned},
    )  # fmt: skip
    # One that polls every four minutes reads nothing in three of four windows of 60 s: it was at work.
    reads = consumed > 0
    if window.offsets is None:
        return of_subjects(groups, [telemetry, fetching], disproved=reads)
    finding = _by_either(window, [telemetry, fetching], _stalled_by_samples(window, window.offsets, figures))
    return replace(finding, disproved=reads & ~_is_sampled(window))


def _stalled_by_samples(window: Window, offsets: SampledGroups, figures: Figures) -> Threshold:
    """Test of the records that wait: in all stalled partitions of a group that commits nothing, else in those where
    records arrive.
    """
    stands = offsets.whole.trend == STALLED
    is_stuck = np.where(stands[offsets.group], offsets.partitions.trend == STALLED, offsets.stuck)
    waiting, stuck = offsets.sum(np.where(is_stuck, offsets.partitions.lag, 0)), offsets.sum(is_stuck)
    return Threshold(
        metric="group_offsets.lag_records", unit="records",
        observed=np.where(_is_sampled(window), _of_samples(window, waiting), np.nan), bound=figures["least_records"],
        says="group {subject} commits nothing for {stuck:.0f} of its {assigned:.0f} partitions, while {observed} wait",
        more={"stuck": _of_samples(window, stuck), "assigned": _of_samples(window, offsets.assigned)},
    )  # fmt: skip


def _row_of_member(window: Window, offsets: SampledGroups) -> Numbers:
    """Row of each sampled member: the only one with its client id and group, else -1."""
    most = int(max(window.client.max(initial=0), offsets.members.client.max(initial=0))) + 1
    of_rows = np.where(window.group >= 0, window.group * most + window.client, -1)
    of_members = offsets.codes[offsets.members.group] * most + offsets.members.client
    keys, first, count = np.unique(of_rows, return_index=True, return_counts=True)
    if not len(keys):
        return np.full(len(of_members), -1)
    at = np.minimum(np.searchsorted(keys, of_members), len(keys) - 1)
    return np.where((keys[at] == of_members) & (count[at] == 1), first[at], -1)


def _has_sampled_members(window: Window, offsets: SampledGroups) -> Numbers:
    """True for rows of a group whose members were sampled; a group that could not be described has telemetry only."""
    sampled = np.isin(window.groups.codes, offsets.codes[np.unique(offsets.members.group)])
    return np.append(sampled, False)[window.groups.of_row]


def _idle_consumer(window: Window, memory: Memory, figures: Figures) -> Finding:
    """Members without a partition, new ones included: no rebalance takes as long as half an hour."""
    assigned = np.where(window.group >= 0, window.rows.number("assigned_partitions"), np.nan)
    rows = np.arange(len(window))
    clients, sources = window.client, np.full(len(window), BY_TELEMETRY)
    if (offsets := window.offsets) is not None:
        is_stable = np.array([state.upper() == "STABLE" for state in offsets.state], np.bool_)[offsets.members.group]
        own = _row_of_member(window, offsets)
        agrees = np.append(assigned < 1, False)[own]
        of_members = np.where(is_stable, offsets.members.partitions, np.nan)
        covered = _has_sampled_members(window, offsets)
        assigned = np.concatenate([np.where(covered, np.nan, assigned), of_members])
        rows, clients = np.concatenate([rows, own]), np.concatenate([clients, offsets.members.client])
        sources = np.concatenate([sources, BY_OFFSETS + BY_TELEMETRY * agrees])
    subjects = Subjects.by("client", clients)
    tests = [
        Threshold(
            metric="assigned_partitions", unit="partitions", observed=assigned, bound=0.5, is_upper=False,
            expected=np.ones(len(assigned)), says="a member of {subject} has no partition",
        )
    ]  # fmt: skip
    return Finding(subjects=subjects, tests=tests, unit_of=subjects.of_row, rows=rows, sources=sources)


def has_most_work(window: Window, memory: Memory, figures: Figures) -> Numbers:
    """True for members whose rate is above half of `factor` times the median of their group.

    A member with hot partitions may not keep up and read less than is written to them, but it reads more than the
    others: its application is not slower.

    Args:
        window: what is judged.
        memory: of the windows before.
        figures: of uneven-group.
    """
    groups, rate = window.groups, window.rows.number("records_consumed") / window.seconds
    others = _between_pushes(window, memory)
    count, median = _of_members(groups, (groups.of_row, rate), (others.group_of, others.rate))
    bound = np.maximum(figures["factor"] / 2 * median, figures["least_per_s"])
    return (count >= figures["least_members"]) & (rate > bound)


def _uneven_group(window: Window, memory: Memory, figures: Figures) -> Finding:
    groups, rows = window.groups, window.rows
    has_work = ~(rows.number("assigned_partitions") < 1) & (window.group >= 0)
    rate = np.where(has_work, rows.number("records_consumed") / window.seconds, np.nan)
    lag = np.where(has_work, rows.number("lag_records"), np.nan)
    others = _between_pushes(window, memory)
    finding = Finding(
        subjects=groups, tests=_uneven(groups, _Members(groups.of_row, rate, lag), others, figures),
        unit_of=groups.of_row, rows=np.arange(len(window)), of=window.instance,
    )  # fmt: skip
    if window.offsets is None:
        return finding
    members, own = window.offsets.members, _row_of_member(window, window.offsets)
    is_bad = np.logical_or.reduce([test.is_known & test.is_bad for test in finding.tests])
    is_covered = _has_sampled_members(window, window.offsets)
    place = np.searchsorted(groups.codes, window.offsets.codes)[members.group]
    unit_of = np.concatenate([np.where(is_covered, -1, groups.of_row), place])
    rate, lag = (
        np.concatenate([each, np.where(members.partitions > 0, of_member, np.nan)])
        for each, of_member in ((rate, members.rate), (lag, members.lag))
    )
    agrees = np.append(is_bad, False)[own]
    others = others._replace(group_of=np.where(np.isin(others.group_of, place), -1, others.group_of))
    return Finding(
        subjects=groups,
        tests=_uneven(groups, _Members(unit_of, rate, lag), others, figures),
        unit_of=unit_of,
        rows=np.concatenate([np.arange(len(window)), own]),
        of=np.concatenate([window.instance, members.of]),
        sources=np.concatenate([np.full(len(window), BY_TELEMETRY), BY_OFFSETS + BY_TELEMETRY * agrees]),
    )


class _Members(NamedTuple):
    """Members of groups: the place of the group of each, or -1, its rate [records per s] and its lag [records]."""

    group_of: Numbers
    rate: Numbers
    lag: Numbers


def _between_pushes(window: Window, memory: Memory) -> _Members:
    """Members that push in another window, by what they read when they last pushed, and their lag then. One that reads
    less than a record per second may have no partition.
    """
    return window.once("members between pushes", lambda: _members_between_pushes(window, memory))


def _members_between_pushes(window: Window, memory: Memory) -> _Members:
    groups, known = window.groups, memory.instances
    others = known.between_pushes(window)
    rate, lag = known["last_read"][others], memory.history("lag").expected(others, 0.0)
    known["last_read"][window.instance] = np.nan_to_num(window.rows.number("records_consumed") / window.seconds)
    place = np.minimum(np.searchsorted(groups.codes, known["group"][others]), len(groups) - 1)
    is_member = (rate >= 1.0) & (len(groups) > 0)
    is_member[is_member] = groups.codes[place[is_member]] == known["group"][others[is_member]]
    return _Members(np.where(is_member, place, -1), rate, lag)


_Values: TypeAlias = tuple[Numbers, Numbers]
"""Place of the group of each member, or -1, and a value of it."""


def _of_members(groups: Subjects, own: _Values, others: _Values) -> _Values:
    """The number of those that have a value, and their median, in the group of each of its own members."""
    group_of, values = (np.concatenate(each) for each in zip(own, others, strict=True))
    has = (group_of >= 0) & ~np.isnan(values)
    counts = np.append(np.bincount(group_of[has], minlength=len(groups)), 0)
    return counts[own[0]], np.append(medians(group_of, values, len(groups)), np.nan)[own[0]]


def _uneven(groups: Subjects, members: _Members, others: _Members, figures: Figures) -> list[Threshold]:
    """Tests of members against the median of their group, which others have a part in."""
    least_lag = np.fmax(figures["least_lag"], np.nan_to_num(members.rate) * figures["least_lag_s"])
    tests = []
    for metric, unit, own, of_others, least in (
        ("records_consumed", "records per s", members.rate, others.rate, figures["least_per_s"]),
        ("lag_records", "records", members.lag, others.lag, least_lag),
    ):
        does = "has a lag of" if unit == "records" else "reads"
        count, median = _of_members(groups, (members.group_of, own), (others.group_of, of_others))
        tests.append(
            Threshold(
                metric=metric, unit=unit, observed=np.where(count >= figures["least_members"], own, np.nan),
                bound=np.maximum(figures["factor"] * median, least), expected=median,
                says=f"one member of group {{subject}} {does} {{observed}} (median of {{members}}: {{expected}})",
                more={"members": count},
            )
        )  # fmt: skip
    return tests


_REBALANCES: Final = {
    "java": ("rebalances", "rebalance_latency_total_ms"),
    "librdkafka": ("rebalance_latency_total_ms",),
}
_LAG: Final = {"java": ("lag_records",)}
_MEMBERS: Final = ("consumer", "share-consumer")

VERDICTS: Final = (
    Verdict(
        id="rebalance-storm", kind="group", find=_rebalance_storm, needs=_REBALANCES, roles=_MEMBERS,
        by_traffic=("group",),
        action="Find why members of {subject} leave; raise session.timeout.ms or max.poll.interval.ms, use static "
        "membership or the new consumer protocol.",
        explains=("stalled", "lagging", "uneven-group"),
    ),
    Verdict(
        id="stalled", kind="group", find=_stalled, needs=_LAG, roles=("consumer",),
        by_offsets=True,
        action="Check the application of {subject}, which holds partitions and reads nothing; restart it if it hangs.",
        explains=("lagging", "uneven-group"),
    ),
    Verdict(
        id="uneven-group", kind="group", find=_uneven_group, needs={"java": ("records_consumed",)},
        roles=("consumer",),
        by_offsets=True,
        action="Distribute the keys or partitions of the topics of {subject} evenly, or check the slowest member.",
        explains=("lagging",),
    ),
    Verdict(
        id="lagging", kind="group", find=_lagging, needs=_LAG, roles=("consumer",),
        by_offsets=True,
        action="Raise the read rate of {subject} above the write rate: more members and partitions, or less work per "
        "record.",
    ),
    Verdict(
        id="idle-consumer", find=_idle_consumer, roles=("consumer",),
        needs=dict.fromkeys(("java", "librdkafka"), ("assigned_partitions",)),
        by_offsets=True,
        action="Stop the members of {subject} without partitions, or add partitions.",
    ),
)  # fmt: skip
