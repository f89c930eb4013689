"""Members of consumer groups: those with more work than others, and those with none."""

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from fleetgauge.verdicts.arrow import Numbers
from fleetgauge.verdicts.declare import BY_OFFSETS, BY_TELEMETRY, Finding, Threshold, Verdict
from fleetgauge.verdicts.memory import Memory, between_pushes
from fleetgauge.verdicts.rules import Figures
from fleetgauge.verdicts.window import Subjects, Window, medians, once
from fleetgauge.verdicts.witnesses.offsets import SampledGroups


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


@once
def _between_pushes(window: Window, memory: Memory) -> _Members:
    """Members that push in another window, by what they read when they last pushed, and their lag then. One that reads
    less than a record per second may have no partition.
    """
    groups, known = window.groups, memory.instances
    others = between_pushes(window, known)
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


VERDICTS: Final = (
    Verdict(
        id="uneven-group", kind="group", find=_uneven_group, needs={"java": ("records_consumed",)},
        roles=("consumer",),
        by_offsets=True,
        action="Distribute the keys or partitions of the topics of {subject} evenly, or check the slowest member.",
        explains=("lagging",),
    ),
    Verdict(
        id="idle-consumer", find=_idle_consumer, roles=("consumer",),
        needs=dict.fromkeys(("java", "librdkafka"), ("assigned_partitions",)),
        by_offsets=True,
        action="Stop the members of {subject} without partitions, or add partitions.",
    ),
)  # fmt: skip
