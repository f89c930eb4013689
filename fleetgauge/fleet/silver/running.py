"""Silver: running amounts: totals of the points of a series, one after the other (`silver.deltas`)."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc, to_list
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of, joined
from fleetgauge.fleet.measures.rows import Numbers, equals, filled, is_valid
from fleetgauge.fleet.schemas import SERIES
from fleetgauge.fleet.silver.series import numbers, series_numbers, starts_run

HORIZON_US: Final = 86_400_000_000
"""A point is compared with a point received less than this before it [us]. This also bounds the points that are read
again for a late push.
"""

AMOUNTS: Final = {"delta": "amount", "delta_sum": "amount_sum"}
"""Marks of growth, with the SERIES columns of their running amounts."""


@dataclass(slots=True)
class Known:
    """Last points of series: rows of SERIES, the instance number of each, and whether it belongs to this batch."""

    rows: RecordBatch = field(default_factory=lambda: pa.RecordBatch.from_pylist([], schema=SERIES))
    instance: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    is_new: Numbers = field(default_factory=lambda: np.empty(0, np.bool_))

    def followed_by(self, other: "Known") -> "Known":
        """These points, followed by others."""
        return Known(
            joined([self.rows, other.rows], SERIES),
            np.concatenate([self.instance, other.instance]),
            np.concatenate([self.is_new, other.is_new]),
        )

    def take(self, indices: Numbers) -> "Known":
        """The rows with these numbers."""
        return Known(self.rows.take(indices), self.instance[indices], self.is_new[indices])


@dataclass(frozen=True, slots=True)
class Remembered:
    """Remembered series of late instances: SERIES, with the instance number of each."""

    series: RecordBatch
    instance_of: Indices

    @property
    def keys(self) -> Numbers:
        """Keys, as `series_numbers` computes them."""
        return series_numbers(self.instance_of, self.series.column("series"))

    def of(self, instance_of: Indices, series: Array) -> RecordBatch:
        """SERIES of these keys; a row of nulls for a series that is not remembered."""
        place = pc.index_in(pa.array(series_numbers(instance_of, series)), value_set=pa.array(self.keys))
        return self.series.take(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPoints:
    """Stored points around late ones, and their marks.

    Attributes:
        is_stored: for each point True if an earlier batch has written it; the others are late.
        delta, delta_sum: marks of each stored point, NaN where it has none, and where it was reset.
        remembered: the series of their instances.
    """

    is_stored: Numbers
    delta: Numbers
    delta_sum: Numbers
    remembered: Remembered


@dataclass(frozen=True, slots=True, kw_only=True)
class BySeries:
    """Rows grouped by series: `order` has their indices, `begin` the index of the first row of each row's series."""

    order: Numbers
    begin: Numbers

    @classmethod
    def of(cls, rows: Known) -> "BySeries":
        """Groups rows by series, each in the order of receipt, known points first."""
        key = numbers(rows.rows, "series")
        push = np.cumsum(starts_run(rows.rows.column("push_id")))
        order = np.lexsort((key, rows.instance))  # stable: what is known comes first in each series
        begins = _begin(key, rows.instance, order)
        if np.any(~begins[1:] & (np.diff(push[order]) == 0)):  # several points of a series in one push, which is rare
            order = np.lexsort((numbers(rows.rows, "time_unix_nano"), push, key, rows.instance))
        return cls(order=order, begin=np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0)))

    def before(self) -> Numbers:
        """For each row, the row before it in its series; -1 for none."""
        place = np.arange(len(self.order)) - 1
        before = np.empty(len(self.order), dtype=np.int64)
        before[self.order] = np.where(place >= self.begin, self.order[place], -1)
        return before

    def lasts(self) -> Numbers:
        """Last row of each series."""
        is_last = np.ones(len(self.order), dtype=np.bool_)
        is_last[:-1] = self.begin[1:] != self.begin[:-1]
        return self.order[is_last]


class Running:
    """Running amounts of rows by series; known points come first.

    Args:
        everything: the rows.
        series: the rows by series.
        known: number of rows of known points.

    Attributes:
        known: as given.
        before: for each row the one before it in its series; -1 for none.
        is_first: True for each row that is compared with none.
        is_delta: True for each row of delta temporality.
        buckets_fell: True for each cumulative histogram with a smaller bucket, or other ones, than before it.
    """

    def __init__(self, everything: Known, series: BySeries, known: int) -> None:
        rows = everything.rows
        self._everything, self._series, self.known = everything, series, known
        self.before = series.before()
        received_at = numbers(rows, "received_at")
        self.is_first = (self.before < 0) | (received_at - received_at[self.before] >= HORIZON_US)
        self.is_delta = equals(rows.column("temporality"), "delta")
        self.amounts = {mark: numbers(rows, name, np.nan) for mark, name in AMOUNTS.items()}
        self._summed = dict(self.amounts)
        begins = ~self.is_delta | self.is_first
        begins[:known] = True
        self._begins = np.flatnonzero(begins[series.order])
        self._run_of = np.empty(len(begins), np.int64)
        self._run_of[series.order] = np.cumsum(begins[series.order]) - 1
        self._buckets, self.buckets_fell = self._compare_buckets()

    def at_end(self, mark: str, row: Numbers) -> Numbers:
        """Running amount at the end of each row's run; NaN if unknown."""
        sums: Numbers = np.add.reduceat(self._summed[mark][self._series.order], self._begins)
        return sums[self._run_of[row]]

    def comes_after_new(self) -> Numbers:
        """True for each row directly after a new one, and for a cumulative one with a new one in the run before it."""
        is_after = self._everything.is_new[self.before] | (self._is_run_new(self.before) & ~self.is_delta)
        return is_after & (self.before >= 0)

    def _is_run_new(self, row: Numbers) -> Numbers:
        """True for each row with a new one in its run."""
        is_new = np.logical_or.reduceat(self._everything.is_new[self._series.order], self._begins)
        return is_new[self._run_of[row]]

    def begin_as_in(self, stored: StoredPoints, own: Indices) -> None:
        """Adds the amount before the first points of series, which is not read again, from a later point.

        That is the first cumulative one that stands, or the remembered one. With deltas of 4 and 6, and a count of 30
        that grew by 3, it was 30 - 3 - 6 - 4 = 17. Before a reset it is not known: 0, as if the series began there.
        Where the remembered point is not read again either, what it adds up to counts as if it came before, too: a late
        delta of 5 makes 35 of a remembered 30, wherever it comes.
        """
        order, begin = self._series.order, self._series.begin
        is_old = np.append(np.zeros(self.known, np.bool_), stored.is_stored[own])[order]
        order, begin = order[is_old], begin[is_old]
        if not len(order):
            return
        received_at = numbers(self._everything.rows, "received_at")[order]
        is_other = np.append(True, begin[1:] != begin[:-1])
        begins = np.flatnonzero(is_other | np.append(True, np.diff(received_at) >= HORIZON_US))
        lengths = np.diff(np.append(begins, len(order)))
        place, last = np.arange(len(order)), begins + lengths - 1
        is_count = ~self.is_delta[order]
        counts_at = np.minimum(np.minimum.reduceat(np.where(is_count, place, len(order)), begins), last)
        first = self._series.order[begin[begins]]
        is_cut = is_other[begins] & self.is_delta[first] & (first >= self.known)
        ends = order[last]
        remembered = stored.remembered.of(
            self._everything.instance[ends], self._everything.rows.column("series").take(ends)
        )
        is_end = np.append(is_other[begins][1:], True)
        for mark, name in AMOUNTS.items():
            amounts = self.amounts[mark]
            grown = np.append(np.zeros(self.known), getattr(stored, mark)[own])[order]
            grown = np.add.reduceat(np.where(place <= np.repeat(counts_at, lengths), grown, 0), begins)
            amount = np.where(is_end, filled(remembered.column(name), np.nan), np.nan)
            before = np.where(is_count[counts_at], amounts[order[counts_at]], amount) - grown
            self._summed[mark] = amounts.copy()
            self._summed[mark][first[is_cut]] += np.where(np.isfinite(before), before, 0)[is_cut]

    def remembered(self, last: Numbers) -> Known:
        """The last row of each series with its running amounts; marked as new where these changed."""
        lasts = self._everything.take(last)
        columns = {name: lasts.rows.column(name) for name in SERIES.names}
        for mark, name in AMOUNTS.items():
            amount = self.at_end(mark, last)
            columns[name] = pa.array(amount, mask=np.isnan(amount))
        if self._buckets:
            columns["buckets"] = pa.array(map(self._buckets.get, last.tolist()), SERIES.field("buckets").type)
        return Known(batch_of(SERIES, len(last), columns), lasts.instance, lasts.is_new | self._is_run_new(last))

    def _compare_buckets(self) -> tuple[dict[int, list[float]], Numbers]:
        """Running amounts of buckets by row, and `buckets_fell`."""
        fell, running = np.zeros(len(self.before), np.bool_), dict[int, list[float]]()
        has_buckets = is_valid(self._everything.rows.column("buckets"))
        if not has_buckets.any():
            return running, fell
        order = self._series.order[has_buckets[self._series.order]]
        buckets, bounds = (to_list(self._everything.rows.column(name).take(order)) for name in ("buckets", "bounds"))
        bounds_of = dict(zip(order.tolist(), bounds, strict=True))
        for row, counts in zip(order.tolist(), buckets, strict=True):
            before = int(self.before[row])
            known, same = running.get(before), bounds_of.get(before) == bounds_of[row]
            if known and same and self.is_delta[row] and row >= self.known:
                counts = [old + new for old, new in zip(known, counts, strict=True)]
            elif known and not self.is_delta[row]:
                fell[row] = not same or any(new < old for old, new in zip(known, counts, strict=True))
            running[row] = counts
        return running, fell


def _begin(key: Numbers, instance: Numbers, order: Numbers) -> Numbers:
    """True for the first row of each series in that order."""
    begins = np.ones(len(order), dtype=np.bool_)
    key, instance = key[order], instance[order]
    begins[1:] = (key[1:] != key[:-1]) | (instance[1:] != instance[:-1])
    return begins
