"""Consumer groups as brokers know them: samples of committed and end offsets, and the trend of each lag.

A trend covers the last ten samples and has no threshold of lag: a group may be a million records behind and catch up,
or ten behind and never read them.
"""

from dataclasses import dataclass
from typing import Final
from zlib import crc32

import numpy as np

from fleetgauge.verdicts.arrow import Numbers, Table, as_numpy, pa, pc, typed
from fleetgauge.verdicts.registry import Names, Registry, Span
from fleetgauge.verdicts.witnesses.timed import Rows, TimedRows

_TEXTS: Final = ("cluster_id", "group_id", "state", "member_id", "client_id", "topic", "error")
_NUMBERS: Final = ("partition", "committed_offset", "end_offset")
COLUMNS: Final = ("sampled_at", *_TEXTS, *_NUMBERS)
"""Columns of samples (`fleet.schemas.GROUP_OFFSETS`) that are read."""

LOOKBACK_S: Final = 1200
"""Time before the end of a window whose samples its trends may use [s]; at least the window's length."""

_SAMPLES: Final = 10
_LEAST: Final = 4
"""Samples that a trend needs."""
_RISES: Final = 0.6
"""Share of all pairs of samples by which those with a larger later lag have to exceed those with a smaller one: with
four of five pairs it is 0.8 - 0.2. Commits come in steps: a growing lag does not grow from each sample to the next."""

UNKNOWN, MOVING, GROWING, REWOUND, STOPPED, STALLED = range(6)
TRENDS: Final = ("unknown", "moving", "growing", "rewound", "stopped", "stalled")
"""`moving`: commits move, or all is read. `growing`: commits move, and the lag grows. `rewound`: a committed offset
went back. `stalled`: records wait, no commit moves, a member has the partition. `stopped`: the same, but no member."""

SCHEMA: Final = pa.schema(
    [
        ("date", pa.date32()),
        ("window_start", pa.timestamp("us", tz="UTC")),
        ("window_s", pa.int32()),
        *typed(pa.string(), "cluster_id", "group_id", "state"),
        *typed(pa.int64(), "members", "idle_members", "partitions"),
        ("lag_records", pa.float64()),
        ("trend", pa.string()),
        ("since", pa.timestamp("us", tz="UTC")),
        ("committed_per_s", pa.float64()),
        ("written_per_s", pa.float64()),
        *((f"{name}_partitions", pa.int64()) for name in TRENDS[GROWING:]),
        ("error", pa.string()),
    ]
)
"""One row per group and window, created when the window is judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lags:
    """The last ten samples of partitions, or of whole groups: sums over their partitions.

    Attributes:
        trend: a place in TRENDS.
        lag: of the last sample [records]; NaN where it is not known.
        grown: growth of the lag from the first sample to the last [records].
        committed, written: growth of the offsets from the first sample to the last [records].
        seconds: time between these [s].
    """

    trend: Numbers
    lag: Numbers
    grown: Numbers
    committed: Numbers
    written: Numbers
    seconds: Numbers


def lags(times_us: Numbers, committed: Numbers, end: Numbers, is_assigned: Numbers) -> Lags:
    """The lags of each row of samples, which are in the order of time; NaN is a missing one.

    Samples before an end offset that went back are left out: the topic was created again, or lost records.

    >>> hours = np.arange(4.0)[None, :] * 3.6e9
    >>> def trend(committed, end, assigned=True):
    ...     return TRENDS[lags(hours, np.array([committed]), np.array([end]), np.array([assigned])).trend[0]]
    >>> trend([10., 20, 30, 40], [15., 25, 35, 45]), trend([10., 10, 10, 10], [15., 25, 35, 45])
    ('moving', 'stalled')
    >>> trend([10., 11, 12, 13], [15., 25, 35, 45]), trend([10., 20, 5, 10], [20., 25, 30, 35])
    ('growing', 'rewound')
    >>> trend([10., 10, 10, 10], [15., 25, 35, 45], False), trend([9., 9, 0, 1], [9., 9, 1, 1])
    ('stopped', 'unknown')
    """
    known = ~(np.isnan(committed) | np.isnan(end))
    end_ = _filled(end, known)
    went_back = np.zeros_like(known)
    went_back[:, 1:] = end_[:, 1:] < end_[:, :-1]
    resets_after: Numbers = np.flip(np.cumsum(np.flip(went_back, 1), 1), 1) - went_back
    known = np.logical_and(known, resets_after == 0)
    count = known.sum(axis=1)
    first, last = known.argmax(axis=1), known.shape[1] - 1 - np.flip(known, 1).argmax(axis=1)
    rows = np.arange(len(known))
    lag = np.where(known, np.maximum(end - committed, 0), np.nan)
    steps = _filled(committed, known)
    is_back = ((steps[:, 1:] < steps[:, :-1]) & known[:, :-1]).any(axis=1)
    none = np.where(count > 0, 0.0, np.nan)
    grew = {
        name: each[rows, last] - each[rows, first] + none
        for name, each in (("committed", committed), ("written", end), ("grown", lag), ("seconds", times_us / 1e6))
    }
    waits = (lag > 0) | ~known
    pairs = np.maximum(count * (count - 1) / 2, 1)
    rises = sum(np.nan_to_num(np.sign(lag[:, by:] - lag[:, :-by])).sum(axis=1) for by in range(1, known.shape[1]))
    is_growing = (rises >= _RISES * pairs) & (grew["grown"] > 0)
    trend = np.select(
        [count < _LEAST, is_back, ~waits.all(axis=1), grew["committed"] == 0, is_growing],
        [UNKNOWN, REWOUND, MOVING, np.where(is_assigned, STALLED, STOPPED), GROWING],
        MOVING,
    )
    return Lags(trend=trend, lag=lag[rows, last] + none, **grew)


def _filled(values: Numbers, known: Numbers) -> Numbers:
    """Values with each gap filled by the value before it, and a gap at the beginning by the first known value."""
    at = np.maximum.accumulate(np.where(known, np.arange(values.shape[1]), 0), axis=1)
    filled = np.take_along_axis(values, at, axis=1)
    first = np.take_along_axis(values, known.argmax(axis=1)[:, None], axis=1)
    return np.where(np.isnan(filled), first, filled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Members of groups in the last sample of each.

    Attributes:
        group: place of its group in `SampledGroups`.
        client: number of its client id in the registry.
        of: number of the member, the same in each window; below 0.
        partitions: number of partitions that it has.
        lag, rate: sums over these [records, records per s].
    """

    group: Numbers
    client: Numbers
    of: Numbers
    partitions: Numbers
    lag: Numbers
    rate: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledGroups:
    """Samples of groups up to the end of a window, in which each group has one.

    Attributes:
        codes: numbers in the registry, ascending.
        whole: lags of all partitions of a group together.
        partitions: lags of each; `group` is the place of its group, `is_assigned` True if a member has it.
        state: Kafka's name; "" where it is not known.
        members: see `Members`.
        error: Kafka's name of the error of a failed sample; "" if none failed.
    """

    codes: Numbers
    whole: Lags
    partitions: Lags
    group: Numbers
    is_assigned: Numbers
    state: list[str]
    members: Members
    error: list[str]

    def sum(self, values: Numbers) -> Numbers:
        """Sum over the partitions of each group; NaN counts as 0."""
        return np.bincount(self.group, np.nan_to_num(values), minlength=len(self.codes))

    @property
    def assigned(self) -> Numbers:
        """Number of partitions of each group that a member has."""
        return self.sum(self.is_assigned.astype(np.float64))

    @property
    def trend(self) -> Numbers:
        """Trend of each group: rewound if a partition is, stalled if one is while records arrive, else of its sums."""
        stuck = self.sum(self.stuck)
        rewound = self.sum(self.partitions.trend == REWOUND)
        of_all = np.where(rewound > 0, REWOUND, self.whole.trend)
        return np.where((stuck > 0) & (of_all <= GROWING), STALLED, of_all)

    @property
    def stuck(self) -> Numbers:
        """True for partitions that stall while records arrive."""
        is_stuck: Numbers = (self.partitions.trend == STALLED) & (self.partitions.written > 0)
        return is_stuck


class Samples(TimedRows):
    """The samples of some windows, and of the time before that their trends need.

    Args:
        table: COLUMNS.
        window_s: length of the windows [s].
        begin_us: beginning of the first of them [us]; earlier samples serve trends only.
    """

    def __init__(self, table: Table, window_s: int, begin_us: int) -> None:
        super().__init__(table, "sampled_at", _TEXTS, window_s, begin_us)
        self._numbers = {name: table[name].take(self.at).cast(pa.float64()).to_numpy() for name in _NUMBERS}

    def within(self, window: Span, registry: Registry) -> SampledGroups | None:
        """The groups that have a sample in the window; None without any."""
        first, own, last = self.places(min(window.begin_us, window.end_us - LOOKBACK_S * 1_000_000), window)
        if own == last:
            return None
        text, texts = self.codes(first, last), self.texts
        kept = np.flatnonzero(as_numpy(pc.not_equal(texts["group_id"], ""))[text["group_id"]])
        if not (kept >= own - first).any():
            return None
        rows = _Rows(
            times=self.times[first:last][kept],
            text={name: each[kept] for name, each in text.items()},
            number={name: each[first:last][kept] for name, each in self._numbers.items()},
            texts=texts,
        )
        return rows.groups(window, registry)


class _Rows(Rows):
    """Samples of groups in the order of their times."""

    __slots__ = ()

    def groups(self, window: Span, registry: Registry) -> SampledGroups:
        group = self._codes(registry.groups, ("cluster_id", "group_id"), window.end_us)
        is_own = self.times >= window.begin_us
        codes = np.unique(group[is_own])
        place = np.minimum(np.searchsorted(codes, group), len(codes) - 1)
        place = np.where(codes[place] == group, place, -1)
        is_last = self._is_of_last_round(place, len(codes))
        at, matrix = self._partitions(place, window.begin_us)
        held = self._held(at, is_last, place)
        is_assigned = self.has("member_id")[held]
        partitions = lags(matrix["times"], matrix["committed_offset"], matrix["end_offset"], is_assigned)
        group_of = place[at]
        whole = self._whole(group_of, matrix, len(codes), is_assigned)
        return SampledGroups(
            codes=codes,
            whole=whole,
            partitions=partitions,
            group=group_of,
            is_assigned=is_assigned,
            state=self._latest_text("state", is_last, place, len(codes)),
            members=self._members(is_last, place, held, partitions, registry, window.end_us),
            error=self._latest_text("error", is_own & (place >= 0), place, len(codes)),
        )

    def _is_of_last_round(self, place: Numbers, count: int) -> Numbers:
        """True for samples of a group's latest round: the latest in which it could be described, if there is one."""
        latest = np.zeros((2, count), np.int64)
        for of_round, chosen in zip(latest, (place >= 0, (place >= 0) & self.has("state")), strict=True):
            np.maximum.at(of_round, place[chosen], self.times[chosen])
        is_last: Numbers = (place >= 0) & (self.times == np.where(latest[1], latest[1], latest[0])[place])
        return is_last

    def _held(self, at: Numbers, is_last: Numbers, place: Numbers) -> Numbers:
        """Rows of the partitions of `at` in the latest round, which have their member; `at` where there is none."""
        key = self._partition_key(place)
        rows = np.flatnonzero(is_last & ~np.isnan(self.number["partition"]))
        if not len(rows):
            return at
        rows = rows[np.argsort(key[rows], kind="stable")]
        latest = rows[np.minimum(np.searchsorted(key[rows], key[at]), len(rows) - 1)]
        return np.where(key[latest] == key[at], latest, at)

    def _partition_key(self, place: Numbers) -> Numbers:
        """A number for each row's group, topic and partition."""
        key = place * max(len(self.texts["topic"]), 1) + self.text["topic"]
        return key << 24 | np.nan_to_num(self.number["partition"]).astype(np.int64) & 0xFFFFFF

    def _codes(self, names: Names, columns: tuple[str, ...], at_us: int) -> Numbers:
        """Numbers in the registry; only distinct texts are looked up."""
        key = self.key(np.arange(len(self.times)), *columns)
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        return names.codes(*self.texts_of(first, *columns), at_us=at_us)[place]

    def _partitions(self, place: Numbers, begin_us: int) -> tuple[Numbers, dict[str, Numbers]]:
        """Last row of each partition that has a sample in the window, and its last samples as a matrix."""
        rows = np.flatnonzero((place >= 0) & ~np.isnan(self.number["partition"]))
        key = self._partition_key(place)[rows]
        order = np.lexsort((self.times[rows], key))
        rows, key = rows[order], key[order]
        is_end = np.ones(len(rows), np.bool_)
        is_end[:-1] = key[1:] != key[:-1]
        ends = np.flatnonzero(is_end)
        of_row: Numbers = np.cumsum(is_end) - is_end
        back = ends[of_row] - np.arange(len(rows)) if len(ends) else np.zeros(0, np.int64)
        is_here = self.times[rows[ends]] >= begin_us
        number = np.where(is_here, np.cumsum(is_here) - 1, -1)
        taken = (back < _SAMPLES) & (number[of_row] >= 0)
        matrix = {}
        values = {"times": self.times.astype(np.float64), **self.number}
        for name in ("times", "committed_offset", "end_offset"):
            samples = np.full((int(is_here.sum()), _SAMPLES), np.nan)
            samples[number[of_row[taken]], _SAMPLES - 1 - back[taken]] = values[name][rows[taken]]
            matrix[name] = samples
        return rows[ends[is_here]], matrix

    def _whole(self, group: Numbers, matrix: dict[str, Numbers], count: int, is_assigned: Numbers) -> Lags:
        """Lags of whole groups: sums over partitions with more than half as many samples as the group's fullest one.

        A sample that one of these lacks is left out, so that all sums are over the same partitions.
        """
        known = ~np.isnan(matrix["committed_offset"] + matrix["end_offset"])
        depth = np.zeros(count, np.int64)
        np.maximum.at(depth, group, known.sum(axis=1))
        full = 2 * known.sum(axis=1) > depth[group]
        sums = {}
        for name in ("committed_offset", "end_offset"):
            totals = np.zeros((count, _SAMPLES))
            np.add.at(totals, group[full], matrix[name][full])
            sums[name] = totals
        times = np.full((count, _SAMPLES), np.nan)
        times[group[full]] = matrix["times"][full]
        has = np.bincount(group[full & is_assigned], minlength=count) > 0
        for totals in sums.values():
            totals[np.bincount(group[full], minlength=count) == 0] = np.nan
        return lags(times, sums["committed_offset"], sums["end_offset"], has)

    def _latest_text(self, name: str, chosen: Numbers, place: Numbers, count: int) -> list[str]:
        """Last text of each group that is not empty."""
        texts = self.texts[name].to_pylist()
        latest = [""] * count
        rows = np.flatnonzero(chosen)
        pairs, last = np.unique((place[rows] * max(len(texts), 1) + self.text[name][rows])[::-1], return_index=True)
        for pair, _ in sorted(zip(pairs.tolist(), last.tolist(), strict=True), key=lambda each: -each[1]):
            group, text = divmod(pair, max(len(texts), 1))
            latest[group] = texts[text] or latest[group]
        return latest

    def _members(
        self, is_last: Numbers, place: Numbers, at: Numbers, partitions: Lags, registry: Registry, end_us: int
    ) -> Members:
        rows = np.flatnonzero(is_last & self.has("member_id"))
        key = place * max(len(self.texts["member_id"]), 1) + self.text["member_id"]
        distinct, first, which = np.unique(key[rows], return_index=True, return_inverse=True)
        has_topic = ~np.isnan(self.number["partition"][rows])
        client = self._codes(registry.clients, ("cluster_id", "client_id"), end_us)
        owner = np.minimum(np.searchsorted(distinct, key[at]), max(len(distinct) - 1, 0))
        owned = is_last[at] & (distinct[owner] == key[at]) if len(distinct) else np.zeros(len(at), np.bool_)
        rate = partitions.committed / np.maximum(partitions.seconds, 1e-9)
        lag, per_s = (
            np.bincount(owner[owned], np.nan_to_num(each[owned]), minlength=len(distinct))
            for each in (partitions.lag, rate)
        )
        (names,) = self.texts_of(rows[first], "member_id")
        return Members(
            group=place[rows[first]],
            client=client[rows[first]],
            of=np.array([-2 - crc32(each.encode()) for each in names.to_pylist()], np.int64),
            partitions=np.bincount(which, has_topic, minlength=len(distinct)),
            lag=lag,
            rate=per_s,
        )
