"""Silver: what sums grew by, whatever their temporality, and where that is not the whole truth.

Points of a series are compared in the order of their receipt (`received_at`, `push_id`): a client's pushes come one
after the other, while its clock may be set back or forth. Those of one push come by their time, then their place. A
point is compared with the one before it, if that was received less than a day earlier (`HORIZON_US`); a series that was
away for longer begins again. So the marks follow from the set of points alone, in whatever order and in however many
runs they are read: a point that comes late changes the marks of the next one in its series at most, and `Comparison`
names that one.

Each instance's points come to one task, which compares a chunk of them at a time (`fleet.silver.batch`).

- `delta`: of delta temporality the value as sent, always; of a cumulative sum, the growth since the point before.
- `reset`: a cumulative sum began again, so `delta` is its growth since then; the growth before is not known.
- `gap`: deltas only: a push is missing before the point, and the growth that it held is lost.
- `covers_gap`: cumulative sums only: a push is missing before the point. No growth is lost, `delta` has it; but part of
  it may belong to an earlier window.
- `before_subscription`: the delta reaches back before the time that its client was asked about: a first delta (Java
  counts from the client's start), or one that covers again what was counted already.

Gauges have none of them, and neither has a sum of unknown temporality.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from fleetgauge.base.presence import DEFAULT_PUSH_INTERVAL_MS
from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.attributes import TextMap
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of, encoded, joined
from fleetgauge.fleet.measures.rows import Numbers, equals, filled, is_valid
from fleetgauge.fleet.schemas import INSTANCE, POINTS, SERIES
from fleetgauge.fleet.silver.intervals import LONGEST_INTERVALS

_SLACK_NANO: Final = 100_000_000
"""A delta begins where the one before ended, to the millisecond in all clients known; a clock may step a little."""

HORIZON_US: Final = 86_400_000_000
"""A point is compared with one that was received less than this before it [us]. So it bounds what is read again for a
late push."""

_ENTRIES: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_KEYS_AT_MOST: Final = 100_000
_TEXTS: Final = ("metric_name", "metric_type", "temporality")

_LABELS: Final = (*_TEXTS, "attributes", "occurrence")
"""What tells one series of an instance from another: `series_key` is a hash of them."""

LOOKED_AT: Final = [
    name
    for name in POINTS.names
    if name in (*SERIES.names, *_LABELS, "push_interval_ms", "is_monotonic", "value", "count", "sum")
]
"""The columns of DECODED and of POINTS that are compared."""

ORDER: Final = ("received_at", "push_id", "point_index")
"""The columns that order points by their receipt."""


@dataclass(slots=True)
class _Known:
    """Last points of series: rows of SERIES, the number of the instance of each, and whether it is of this batch."""

    rows: RecordBatch = field(default_factory=lambda: pa.RecordBatch.from_pylist([], schema=SERIES))
    instance: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    is_new: Numbers = field(default_factory=lambda: np.empty(0, np.bool_))

    def followed_by(self, other: "_Known") -> "_Known":
        return _Known(
            joined([self.rows, other.rows], SERIES),
            np.concatenate([self.instance, other.instance]),
            np.concatenate([self.is_new, other.is_new]),
        )

    def take(self, indices: Numbers) -> "_Known":
        return _Known(self.rows.take(pa.array(indices)), self.instance[indices], self.is_new[indices])


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Result of one comparison.

    Attributes:
        marks: by name, the columns of POINTS that tell how each point compares.
        settled: SERIES of the instances that no more points come of.
        moved: the standing points that a new one comes right before.
    """

    marks: dict[str, Array]
    settled: RecordBatch
    moved: Numbers


class Comparison:
    """Compares the points of client instances that come one after the other, each one's in the order of receipt.

    Instances have numbers, which never fall. No more is held than the series of the instance whose points came last,
    and what is remembered of those to come.

    Args:
        keys: hashes of series that are known already; None for none.
    """

    def __init__(self, keys: "SeriesKeys | None" = None) -> None:
        self._known = _Known()
        self._keys = keys or SeriesKeys()

    def remember(self, current: int, instance_of: Indices, series: RecordBatch) -> None:
        """What earlier runs left of instances, before their first points.

        Args:
            current: the number of the first instance that more points may come of.
            instance_of: for each series the number of its instance.
            series: rows of SERIES, at least one. Of several of one series the last one counts.
        """
        new = _Known(series, instance_of, np.zeros(len(series), dtype=np.bool_))
        # Some may have had no points after all, only heartbeats.
        is_over = ~self._known.is_new & (self._known.instance < current)
        self._known = self._known.take(np.flatnonzero(~is_over)).followed_by(new)

    def mark(
        self,
        points: RecordBatch,
        instance_of: Indices,
        set_of: Indices,
        sets: Sequence[TextMap],
        is_standing: Numbers | None = None,
    ) -> Compared:
        """Compares points with one another and with what is known, all of which was received before them.

        Args:
            points: rows of DECODED or POINTS with LOOKED_AT at least; at least one.
            instance_of: for each the number of its instance.
            set_of: for each the number of its attributes in `sets`.
            sets: distinct attributes.
            is_standing: True for each point that an earlier batch has written; None if there is none.
        """
        own, taken, rows = _series_rows(points, set_of, sets, self._keys)
        known = len(self._known.instance)
        is_new = np.ones(len(own), dtype=np.bool_) if is_standing is None else ~is_standing[own]
        everything = self._known.followed_by(_Known(rows, instance_of[own], is_new))
        series = _Series.of(everything)
        row_before = series.before()[known:]
        marks = _Judge(everything.rows, known, taken).marks(np.arange(len(own)), row_before)
        moved = np.flatnonzero(~is_new & everything.is_new[row_before] & (row_before >= 0))
        settled = self._go_on(everything.take(series.lasts()), int(instance_of[-1]))
        return Compared(marks=_columns(len(points), own, marks), settled=settled, moved=own[moved])

    @property
    def held(self) -> int | None:
        """The first instance that points came of and whose SERIES are not told yet."""
        held = self._known.instance[self._known.is_new]
        return int(held.min()) if len(held) else None

    def finish(self) -> RecordBatch:
        """SERIES of the instance that came last."""
        known, self._known = self._known, _Known()
        return known.take(np.flatnonzero(known.is_new)).rows

    def _go_on(self, last: _Known, current: int) -> RecordBatch:
        is_done = last.instance < current
        self._known = last.take(np.flatnonzero(~is_done))
        return last.take(np.flatnonzero(is_done & last.is_new)).rows


class LastOfSeries:
    """Finds the last point of each series among POINTS of any instances, in any order."""

    rows_at_once: int = 100_000
    """Points that wait in memory before all but the last of each series are dropped."""

    def __init__(self) -> None:
        self._keys = SeriesKeys()
        self._waiting: list[RecordBatch] = []
        self._enough = self.rows_at_once

    def add(self, points: RecordBatch) -> None:
        """Takes LOOKED_AT of some points."""
        self._waiting.append(_series_rows(points, *distinct_maps(points.column("attributes")), self._keys)[2])
        if sum(map(len, self._waiting)) >= self._enough:
            self._waiting = [last_rows(self._waiting)]
            self._enough = 2 * len(self._waiting[0]) + self.rows_at_once

    def rows(self) -> RecordBatch:
        """SERIES of the points that were taken, whose INSTANCE are those of the points."""
        return last_rows(self._waiting)


def _series_rows(
    points: RecordBatch, set_of: Indices, sets: Sequence[TextMap], keys: "SeriesKeys"
) -> tuple[Indices, RecordBatch, RecordBatch]:
    """The places of the points that are compared, these points, and SERIES of them."""
    amount = pc.coalesce(points.column("value"), points.column("count").cast(pa.float64()))
    own = np.flatnonzero(_is_series(points, amount))
    taken = points.select(LOOKED_AT).take(pa.array(own))
    columns = {name: taken.column(name) for name in SERIES.names if name in taken.schema.names}
    columns["amount"], columns["amount_sum"] = amount.take(pa.array(own)), taken.column("sum")
    columns["series_key"] = keys.of(taken, set_of[own], sets)
    return own, taken, batch_of(SERIES, len(own), columns)


def last_rows(batches: Sequence[RecordBatch]) -> RecordBatch:
    """SERIES -> the last row of each series, by INSTANCE; of rows of the same point the last one."""
    rows = joined(batches, SERIES)
    series = (*INSTANCE, "series_key")
    by = (*series, "received_at", "push_id", "time_unix_nano", "point_index")
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending", "at_start") for name in by])
    rows = rows.take(order)
    is_last = np.ones(len(rows), dtype=np.bool_)
    is_last[:-1] = changes([rows.column(name) for name in series])[1:]
    return rows.filter(pa.array(is_last))


def starts_run(column: Array) -> Numbers:
    """True for each value that differs from the one before it, and for the first; none is null."""
    return np.append(True, pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False))


def changes(columns: Sequence[Array]) -> Numbers:
    """True for each row that differs from the one before it; for the first one."""
    found = np.ones(len(columns[0]), dtype=np.bool_)
    found[1:] = False
    for column in columns:
        numbers = filled(column.dictionary_encode().indices, -1)
        found[1:] |= numbers[1:] != numbers[:-1]
    return found


def distinct_maps(maps: Array) -> tuple[Indices, list[TextMap]]:
    """Numbers equal text maps alike: for each map its number, and the maps by number."""
    lists = maps.cast(_ENTRIES)
    entries = lists.flatten()
    digits = [encoded(entries.field(name)) for name in ("key", "value")]
    item_of = digits[0][1] * len(digits[1][0]) + digits[1][1] + 1
    base = len(digits[0][0]) * len(digits[1][0]) + 1
    lengths = filled(lists.value_lengths(), 0).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    number_of = np.zeros(len(maps), dtype=np.int64)
    for position in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > position)
        number_of *= base
        number_of[rows] += item_of[starts[rows] + position]
        number_of = np.unique(number_of, return_inverse=True)[1].astype(np.int64)  # before they overflow
    _, example, number_of = np.unique(number_of, return_index=True, return_inverse=True)
    return number_of, [dict(found or ()) for found in maps.take(pa.array(example)).to_pylist()]


class SeriesKeys:
    """Hashes of metric, type, temporality, attributes by their names, and occurrence."""

    def __init__(self) -> None:
        self._keys: dict[tuple[Any, ...], int] = {}

    def of(self, points: RecordBatch, set_of: Indices, sets: Sequence[TextMap]) -> Array:
        """Of each point, whose attributes have the number `set_of` in `sets`."""
        texts: dict[int, str] = {}
        values, places = zip(*(encoded(points.column(name)) for name in _TEXTS), strict=True)
        digits = [*places, set_of, _numbers(points, "occurrence").astype(np.int64)]
        number = np.zeros(len(points), dtype=np.int64)
        for digit in digits:
            number = number * (int(digit.max(initial=0)) + 1) + digit
        _, first, number_of = np.unique(number, return_index=True, return_inverse=True)
        keys = np.empty(len(first), dtype=np.int64)
        for at, row in enumerate(first.tolist()):
            name, kind, temporality, attributes, occurrence = (int(digit[row]) for digit in digits)
            if attributes not in texts:
                texts[attributes] = repr(sorted(sets[attributes].items()))
            labels = (values[0][name], values[1][kind], values[2][temporality], texts[attributes], occurrence)
            keys[at] = self._key(labels)
        return pa.array(keys[number_of])

    def _key(self, labels: tuple[Any, ...]) -> int:
        key = self._keys.get(labels)
        if key is None:
            if len(self._keys) >= _KEYS_AT_MOST:
                self._keys.clear()
            digest = blake2b(repr(labels).encode(), digest_size=8).digest()
            key = self._keys[labels] = int.from_bytes(digest, "little", signed=True)
        return key


def _is_series(points: RecordBatch, amount: Array) -> Numbers:
    """What is remembered: no gauges, nothing without a value, and no sum of unknown temporality."""
    kind = points.column("metric_type")
    # A summary is cumulative, without saying so.
    has_growth = pc.or_(pc.equal(kind, "summary"), points.column("temporality").is_valid())
    return filled(pc.and_(pc.and_(pc.not_equal(kind, "gauge"), has_growth), amount.is_valid()), False)


def _numbers(rows: RecordBatch, name: str, null: float = 0) -> Numbers:
    column = rows.column(name)
    column = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    return filled(column, null)


def _begin(key: Numbers, instance: Numbers, order: Numbers) -> Numbers:
    """True for the first row of each series, in that order."""
    begins = np.ones(len(order), dtype=np.bool_)
    key, instance = key[order], instance[order]
    begins[1:] = (key[1:] != key[:-1]) | (instance[1:] != instance[:-1])
    return begins


@dataclass(frozen=True, slots=True, kw_only=True)
class _Series:
    """Rows by series: `order` has their numbers, `begin` for each place that of the first row of its series."""

    order: Numbers
    begin: Numbers

    @classmethod
    def of(cls, rows: _Known) -> "_Series":
        key = _numbers(rows.rows, "series_key")
        push = np.cumsum(starts_run(rows.rows.column("push_id")))
        order = np.lexsort((key, rows.instance))  # stable: what is known comes first in each series
        begins = _begin(key, rows.instance, order)
        if np.any(~begins[1:] & (np.diff(push[order]) == 0)):  # several points of a series in one push, which is rare
            order = np.lexsort((_numbers(rows.rows, "time_unix_nano"), push, key, rows.instance))
        return cls(order=order, begin=np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0)))

    def before(self) -> Numbers:
        """For each row the one before it in its series, -1 for none."""
        place = np.arange(len(self.order)) - 1
        before = np.empty(len(self.order), dtype=np.int64)
        before[self.order] = np.where(place >= self.begin, self.order[place], -1)
        return before

    def lasts(self) -> Numbers:
        """The last row of each series."""
        is_last = np.ones(len(self.order), dtype=np.bool_)
        is_last[:-1] = self.begin[1:] != self.begin[:-1]
        return self.order[is_last]


class _Judge:
    """Marks of points.

    Args:
        rows: SERIES of what is known, and after `known` rows those of the points.
        points: rows with LOOKED_AT.
    """

    def __init__(self, rows: RecordBatch, known: int, points: RecordBatch) -> None:
        self._known = known
        self._start, self._end, self._received_at = (
            _numbers(rows, name) for name in ("start_time_unix_nano", "time_unix_nano", "received_at")
        )
        self._has_start, self._has_end = (
            is_valid(rows.column(name)) for name in ("start_time_unix_nano", "time_unix_nano")
        )
        self._amounts = {"delta": _numbers(rows, "amount", np.nan), "delta_sum": _numbers(rows, "amount_sum", np.nan)}
        self._is_delta = equals(points.column("temporality"), "delta")
        is_monotonic = pc.coalesce(points.column("is_monotonic"), pc.not_equal(points.column("metric_type"), "sum"))
        self._is_monotonic = filled(is_monotonic, False)
        self._interval_ms = _numbers(points, "push_interval_ms", DEFAULT_PUSH_INTERVAL_MS).astype(np.int64)

    def marks(self, point: Numbers, before: Numbers) -> dict[str, Numbers]:
        """By mark, of each point if the row `before` comes before it, -1 for none; NaN for no value."""
        row = point + self._known
        start, end, received_at = self._start, self._end, self._received_at
        silence_us = received_at[row] - received_at[before]
        is_first = (before < 0) | (silence_us >= HORIZON_US)
        is_delta = self._is_delta[point]
        # Clients may say any time, and a difference of two such is beyond 64 bits.
        exact = np.float64
        # From the end of the point before to the beginning of this one.
        not_covered = start[row].astype(exact) - end[before].astype(exact)
        not_covered[~(self._has_start[row] & self._has_end[before]) | is_first] = np.nan
        longest_nano = self._interval_ms[point] * int(LONGEST_INTERVALS * 1_000_000)

        amount = self._amounts["delta"]
        fell = self._is_monotonic[point] & (amount[row] < amount[before])
        began_again = self._has_start[row] & self._has_start[before] & (start[row] > start[before]) & (not_covered >= 0)
        reset = ~is_delta & ~is_first & (fell | began_again)

        is_missing = ~is_first & (silence_us * 1000 > longest_nano)
        gap = is_delta & ((not_covered > _SLACK_NANO) | (np.isnan(not_covered) & is_missing))

        reach = end[row].astype(exact) - start[row].astype(exact)
        first_reaches_back = ~(self._has_start[row] & self._has_end[row]) | (reach > longest_nano)
        before_subscription = np.where(is_first, first_reaches_back, is_delta & (not_covered < -_SLACK_NANO))

        # A first cumulative value is what was counted since its start, and `before_subscription` says so.
        is_whole = is_delta | is_first | reset
        marks = {
            "reset": reset,
            "gap": gap,
            "covers_gap": ~is_delta & is_missing,
            "before_subscription": before_subscription,
        }
        for name, amount in self._amounts.items():
            with np.errstate(invalid="ignore"):  # infinity less infinity: nothing can be said
                marks[name] = np.where(is_whole, amount[row], amount[row] - amount[before])
        return marks


def differ(marks: RecordBatch, others: RecordBatch) -> Numbers:
    """True for each row of which any mark differs; they have the same columns."""
    differs = np.zeros(len(marks), dtype=np.bool_)
    for name in marks.schema.names:
        same = pc.equal(marks.column(name), others.column(name)).fill_null(False)
        both_null = pc.and_(marks.column(name).is_null(), others.column(name).is_null())
        differs |= ~pc.or_(same, both_null).to_numpy(zero_copy_only=False)
    return differs


def _columns(count: int, own: Numbers, marks: dict[str, Numbers]) -> dict[str, Array]:
    """The marks, of the points `own`, as columns over all points."""
    columns = {}
    for name, said in marks.items():
        values = np.zeros(count, dtype=said.dtype)
        is_null = np.ones(count, dtype=np.bool_)
        values[own], is_null[own] = said, np.isnan(said) if said.dtype == np.float64 else False
        columns[name] = pa.array(values, POINTS.field(name).type, mask=is_null)
    return columns
