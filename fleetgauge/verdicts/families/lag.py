"""Lag of consumer groups: whether it grows, or nothing is read at all."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import BY_OFFSETS, BY_TELEMETRY, Finding, Threshold, Verdict, of_subjects
from fleetgauge.verdicts.evidence import base_s
from fleetgauge.verdicts.memory import Memory
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import LONGEST_COVERED_S, Window, once
from fleetgauge.verdicts.witnesses.offsets import GROWING, STALLED, UNKNOWN, SampledGroups

_POLLS_WITHIN_S: Final = 30
"""Longest time since its last poll() for a consumer to be judged by its fetches [s]."""


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
    lag, grown = _lag_of_members(window, memory)
    if window.offsets is not None:
        whole, is_sampled = window.offsets.whole, _is_sampled(window)
        lag = np.where(is_sampled, _of_samples(window, whole.lag), lag)
        grown = np.where(is_sampled, _of_samples(window, whole.grown), grown)
    return lag, grown


@once
def _lag_of_members(window: Window, memory: Memory) -> tuple[Numbers, Numbers]:
    """Lag of each group by its members, and its growth."""
    lag, last = window.rows.number("lag_records"), memory.history("lag")
    grown = lag - last.expected(window.instance, 0)
    last.put(window.instance, lag)
    return window.groups.sum(lag), window.groups.sum(grown)


def _lagging(window: Window, memory: Memory, figures: Figures) -> Finding:
    groups = window.groups
    lag, grown = _lag_of_members(window, memory)
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


@once
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


_LAG: Final = {"java": ("lag_records",)}

VERDICTS: Final = (
    Verdict(
        id="stalled", kind="group", find=_stalled, needs=_LAG, roles=("consumer",),
        by_offsets=True,
        action="Check the application of {subject}, which holds partitions and reads nothing; restart it if it hangs.",
        explains=("lagging", "uneven-group"),
    ),
    Verdict(
        id="lagging", kind="group", find=_lagging, needs=_LAG, roles=("consumer",),
        by_offsets=True,
        action="Raise the read rate of {subject} above the write rate: more members and partitions, or less work per "
        "record.",
    ),
)  # fmt: skip
