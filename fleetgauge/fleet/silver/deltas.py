"""Silver: what sums grew by, whatever their temporality, and where that is not the whole truth (docs/points.md).

Points of a series are compared in the order of their receipt (`received_at`, `push_id`): a client's pushes come one
after the other, while its clock may be set back or forth. Those of one push come by their time, then their place. A
point is compared with the one before it, if that was received less than a day earlier (`HORIZON_US`); a series that was
away for longer begins again. So the marks follow from the set of points alone, in whatever order and in however many
runs they are read: a point that comes late changes the marks of the next one in its series,
and of the next cumulative one, at most, and `Comparison` names these.

A cumulative point is compared with the running amount before it: the latest cumulative value and the deltas since. Rows
from one cumulative, remembered or first point to the next are a run, whose sum is the running amount at its end. After
deltas of 5 and 7 that is 12, and a count of 15 is growth of 3.

Each instance's points come to one task, which compares a chunk of them at a time (`fleet.silver.batch`).

- `delta`: of delta temporality the value as sent, always; of a cumulative sum, the growth since the point before.
- `reset`: a cumulative sum began again, so `delta` is its growth since then; the growth before is not known.
- `gap`: a push is missing before a delta, and the growth that it held is lost; or the running amount before a
  cumulative point is not known, so that its `delta` is 0.
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
from fleetgauge.telemetry.otlp.series import are_buckets

_SLACK_NANO: Final = 100_000_000
"""A delta begins where the one before ended, to the millisecond in all clients known; a clock may step a little."""

HORIZON_US: Final = 86_400_000_000
"""A point is compared with one that was received less than this before it [us]. So it bounds what is read again for a
late push."""

_ENTRIES: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_KEYS_AT_MOST: Final = 100_000
_TEXTS: Final = ("metric_name", "metric_type", "origin", "unit")

_OF_VALUES: Final = ("push_interval_ms", "is_monotonic", "value", "count", "sum", "distribution")

LOOKED_AT: Final = [name for name in POINTS.names if name in (*SERIES.names, *_OF_VALUES)]
"""The columns of DECODED and of POINTS that are compared."""

_AMOUNTS: Final = {"delta": "amount", "delta_sum": "amount_sum"}
"""Marks of growth, and the columns of SERIES with the running amounts."""

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
        moved: the standing points that a new one affects.
    """

    marks: dict[str, Array]
    settled: RecordBatch
    moved: Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingPoints:
    """What is known of the points around late ones.

    Attributes:
        is_standing: for each point True if an earlier batch has written it; the others are late.
        delta, delta_sum: marks of each standing point, NaN where it has none, and where it was reset.
        series: SERIES of their instances as they are remembered.
    """

    is_standing: Numbers
    delta: Numbers
    delta_sum: Numbers
    series: RecordBatch


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
        standing: "StandingPoints | None" = None,
    ) -> Compared:
        """Compares points with one another and with what is known, all of which was received before them.

        Args:
            points: rows of DECODED or POINTS with LOOKED_AT at least; at least one.
            instance_of: for each the number of its instance.
            set_of: for each the number of its attributes in `sets`.
            sets: distinct attributes.
            standing: which points an earlier batch has written; None if there is none.
        """
        own, taken, rows = _series_rows(points, set_of, sets, self._keys)
        known = len(self._known.instance)
        is_new = np.ones(len(own), dtype=np.bool_) if standing is None else ~standing.is_standing[own]
        everything = self._known.followed_by(_Known(rows, instance_of[own], is_new))
        series = _Series.of(everything)
        running = _Running(everything, series, known)
        if standing is not None:
            running.begin_as_in(standing, own)
        marks = _Judge(everything.rows, taken, running).marks()
        moved = np.flatnonzero(~is_new & running.comes_after_new()[known:])
        settled = self._go_on(running.remembered(series.lasts()), int(instance_of[-1]))
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


def _series_rows(
    points: RecordBatch, set_of: Indices, sets: Sequence[TextMap], keys: "SeriesKeys"
) -> tuple[Indices, RecordBatch, RecordBatch]:
    """The places of the points that are compared, these points, and SERIES of them."""
    amount = pc.coalesce(points.column("value"), points.column("count").cast(pa.float64()))
    amount, buckets, bounds = _distributions(points, amount)
    own = np.flatnonzero(_is_series(points, amount))
    places = pa.array(own)
    taken = points.select(LOOKED_AT).take(places)
    columns = {name: taken.column(name) for name in SERIES.names if name in taken.schema.names}
    columns |= {"amount": amount.take(places), "amount_sum": taken.column("sum")}
    columns |= {"buckets": buckets.take(places), "bounds": bounds.take(places)}
    columns["series"] = keys.of(taken, set_of[own], sets)
    return own, taken, batch_of(SERIES, len(own), columns)


def _distributions(points: RecordBatch, amount: Array) -> tuple[Array, Array, Array]:
    """The amounts of points, null for malformed histograms, and the buckets and bounds of histograms."""
    type_ = SERIES.field("buckets").type
    distribution, kinds = points.column("distribution"), points.column("metric_type")
    has_buckets = pc.or_(*(pc.equal(kinds, kind) for kind in ("histogram", "exponential_histogram")))
    rows = np.flatnonzero(filled(pc.and_(distribution.is_valid(), has_buckets), False))
    if not len(rows):
        return amount, pa.nulls(len(points), type_), pa.nulls(len(points), type_)
    places = pa.array(rows)
    amounts = amount.to_numpy(zero_copy_only=False).copy()
    buckets: list[Sequence[float] | None] = [None] * len(points)
    bounds = buckets.copy()
    kinds_of = kinds.take(places).to_pylist()
    for row, kind, found in zip(rows.tolist(), kinds_of, distribution.take(places).to_pylist(), strict=True):
        found = found[0] if isinstance(found, list) else found
        counts = [float(count or 0) for count in found["bucket_counts"] or ()]
        if kind == "exponential_histogram":
            # Their buckets are not compared: a client that lowers the scale moves counts to larger ones.
            amounts[row] = sum(counts, found["zero_count"] or 0) + sum(found["negative_bucket_counts"] or ())
            continue
        counts, ends = counts or [float(amounts[row])], found["bounds"] or ()
        is_sound = are_buckets(counts, ends)
        amounts[row], buckets[row], bounds[row] = (sum(counts), counts, ends) if is_sound else (np.nan, None, None)
    return pa.array(amounts, mask=np.isnan(amounts)), pa.array(buckets, type_), pa.array(bounds, type_)


def with_keys(series: RecordBatch) -> RecordBatch:
    """SERIES, those of an earlier form by their present keys.

    That form remembered deltas apart from counts, and not what they add up to.
    """
    is_old = series.column("series").is_null()
    old = series.filter(is_old)
    if not len(old):
        return series
    columns = {name: old.column(name) for name in SERIES.names}
    columns["series"] = SeriesKeys().of(old, *distinct_maps(old.column("attributes")))
    is_delta = pc.equal(old.column("temporality"), "delta").fill_null(False)
    for name in ("amount", "amount_sum"):
        columns[name] = pc.if_else(is_delta, pa.scalar(None, pa.float64()), columns[name])
    return last_rows([series.filter(pc.invert(is_old)), batch_of(SERIES, len(old), columns)])


def last_rows(batches: Sequence[RecordBatch]) -> RecordBatch:
    """SERIES -> the last row of each series, by INSTANCE; of rows of the same point the last one."""
    rows = joined(batches, SERIES)
    series = (*INSTANCE, "series")
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
    """Hashes of metric, type, origin, unit, attributes by their names, and occurrence."""

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
            *texts_of, attributes, occurrence = (int(digit[row]) for digit in digits)
            if attributes not in texts:
                texts[attributes] = repr(sorted(sets[attributes].items()))
            named = [known[place] for known, place in zip(values, texts_of, strict=True)]
            keys[at] = self._key((*named, texts[attributes], occurrence))
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
    """What is remembered: no gauges, nothing without a value or a malformed one, and no sum of unknown temporality."""
    kind = points.column("metric_type")
    # A summary is cumulative, without saying so.
    has_growth = pc.or_(pc.equal(kind, "summary"), points.column("temporality").is_valid())
    is_sound = pc.and_(pc.is_finite(amount), pc.or_(pc.greater_equal(amount, 0), pc.invert(_are_monotonic(points))))
    return filled(pc.and_(pc.and_(pc.not_equal(kind, "gauge"), has_growth), is_sound), False)


def _are_monotonic(points: RecordBatch) -> Array:
    is_sum = pc.equal(points.column("metric_type"), "sum")
    return pc.coalesce(points.column("is_monotonic"), pc.invert(is_sum)).fill_null(False)


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
        key = _numbers(rows.rows, "series")
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


class _Running:
    """Running amounts: of rows by series, of which those of what is known come first.

    Args:
        everything: the rows.
        series: the rows by series.
        known: number of rows of what is known.

    Attributes:
        known: as given.
        before: for each row the one before it in its series; -1 for none.
        is_first: True for each row that is compared with none.
        is_delta: True for each row of delta temporality.
        buckets_fell: True for each cumulative histogram with a smaller bucket, or other ones, than before it.
    """

    def __init__(self, everything: _Known, series: "_Series", known: int) -> None:
        rows = everything.rows
        self._everything, self._series, self.known = everything, series, known
        self.before = series.before()
        received_at = _numbers(rows, "received_at")
        self.is_first = (self.before < 0) | (received_at - received_at[self.before] >= HORIZON_US)
        self.is_delta = equals(rows.column("temporality"), "delta")
        self.amounts = {mark: _numbers(rows, name, np.nan) for mark, name in _AMOUNTS.items()}
        self._summed = dict(self.amounts)
        begins = ~self.is_delta | self.is_first
        begins[:known] = True
        self._begins = np.flatnonzero(begins[series.order])
        self._run_of = np.empty(len(begins), np.int64)
        self._run_of[series.order] = np.cumsum(begins[series.order]) - 1
        self._buckets, self.buckets_fell = self._compare_buckets()

    def at_end(self, mark: str, row: Numbers) -> Numbers:
        """The running amount at the end of each row's run; NaN if it is not known."""
        sums: Numbers = np.add.reduceat(self._summed[mark][self._series.order], self._begins)
        return sums[self._run_of[row]]

    def comes_after_new(self) -> Numbers:
        """True for each row right after a new one, and for a cumulative one with a new one in the run before it."""
        is_after = self._everything.is_new[self.before] | (self._is_run_new(self.before) & ~self.is_delta)
        return is_after & (self.before >= 0)

    def _is_run_new(self, row: Numbers) -> Numbers:
        """True for each row with a new one in its run."""
        is_new = np.logical_or.reduceat(self._everything.is_new[self._series.order], self._begins)
        return is_new[self._run_of[row]]

    def begin_as_in(self, standing: StandingPoints, own: Indices) -> None:
        """Adds to the first points of series what came before them and is not read again, by a later point.

        That is the first cumulative one that stands, or the remembered one. With deltas of 4 and 6, and a count of 30
        that grew by 3, it was 30 - 3 - 6 - 4 = 17. Before a reset it is not known: 0, as if the series began there.
        """
        order, begin = self._series.order, self._series.begin
        is_old = np.append(np.zeros(self.known, np.bool_), standing.is_standing[own])[order]
        order, begin = order[is_old], begin[is_old]
        if not len(order):
            return
        received_at = _numbers(self._everything.rows, "received_at")[order]
        is_other = np.append(True, begin[1:] != begin[:-1])
        begins = np.flatnonzero(is_other | np.append(True, np.diff(received_at) >= HORIZON_US))
        lengths = np.diff(np.append(begins, len(order)))
        place, last = np.arange(len(order)), begins + lengths - 1
        is_count = ~self.is_delta[order]
        found = np.minimum(np.minimum.reduceat(np.where(is_count, place, len(order)), begins), last)
        first = self._series.order[begin[begins]]
        is_cut = is_other[begins] & self.is_delta[first] & (first >= self.known)
        remembered = pc.index_in(_point_keys(self._everything.rows), value_set=_point_keys(standing.series))
        for mark, name in _AMOUNTS.items():
            amounts = self.amounts[mark]
            grown = np.append(np.zeros(self.known), getattr(standing, mark)[own])[order]
            grown = np.add.reduceat(np.where(place <= np.repeat(found, lengths), grown, 0), begins)
            amount = filled(standing.series.column(name).take(remembered), np.nan)
            before = np.where(is_count[found], amounts[order[found]], amount[order[found]]) - grown
            self._summed[mark] = amounts.copy()
            self._summed[mark][first[is_cut]] += np.where(np.isfinite(before), before, 0)[is_cut]

    def remembered(self, last: Numbers) -> _Known:
        """The last row of each series, with the running amounts; a new one where these changed."""
        found = self._everything.take(last)
        columns = {name: found.rows.column(name) for name in SERIES.names}
        for mark, name in _AMOUNTS.items():
            amount = self.at_end(mark, last)
            columns[name] = pa.array(amount, mask=np.isnan(amount))
        if self._buckets:
            columns["buckets"] = pa.array(map(self._buckets.get, last.tolist()), SERIES.field("buckets").type)
        return _Known(batch_of(SERIES, len(last), columns), found.instance, found.is_new | self._is_run_new(last))

    def _compare_buckets(self) -> tuple[dict[int, list[float]], Numbers]:
        """The running amounts of buckets by row, and `buckets_fell`."""
        fell, running = np.zeros(len(self.before), np.bool_), dict[int, list[float]]()
        has_buckets = is_valid(self._everything.rows.column("buckets"))
        if not has_buckets.any():
            return running, fell
        order = self._series.order[has_buckets[self._series.order]]
        buckets, bounds = (
            self._everything.rows.column(name).take(pa.array(order)).to_pylist() for name in ("buckets", "bounds")
        )
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


class _Judge:
    """Marks of points.

    Args:
        rows: SERIES of what is known, and behind them of the points.
        points: LOOKED_AT of the points.
        running: the running amounts of the rows.
    """

    def __init__(self, rows: RecordBatch, points: RecordBatch, running: _Running) -> None:
        self._running = running
        self._start, self._end, self._received_at = (
            _numbers(rows, name) for name in ("start_time_unix_nano", "time_unix_nano", "received_at")
        )
        self._has_start, self._has_end = (
            is_valid(rows.column(name)) for name in ("start_time_unix_nano", "time_unix_nano")
        )
        self._is_monotonic = filled(_are_monotonic(points), False)
        self._interval_ms = _numbers(points, "push_interval_ms", DEFAULT_PUSH_INTERVAL_MS).astype(np.int64)

    def marks(self) -> dict[str, Numbers]:
        """By mark, of each point; NaN for no value."""
        running = self._running
        row = np.arange(running.known, len(self._start))
        before, is_first, is_delta = running.before[row], running.is_first[row], running.is_delta[row]
        start, end, received_at = self._start, self._end, self._received_at
        silence_us = received_at[row] - received_at[before]
        # Clients may say any time, and a difference of two such is beyond 64 bits.
        exact = np.float64
        # From the end of the point before to the beginning of this one.
        not_covered = start[row].astype(exact) - end[before].astype(exact)
        not_covered[~(self._has_start[row] & self._has_end[before]) | is_first] = np.nan
        longest_nano = self._interval_ms * int(LONGEST_INTERVALS * 1_000_000)

        amount, amount_before = running.amounts["delta"][row], running.at_end("delta", before)
        fell = (self._is_monotonic & (amount < amount_before)) | running.buckets_fell[row]
        starts_later = ~self._has_start[before] | (start[row] > start[before])
        began_again = self._has_start[row] & starts_later & (not_covered >= 0)
        reset = ~is_delta & ~is_first & (fell | began_again)

        is_missing = ~is_first & (silence_us * 1000 > longest_nano)
        gap = is_delta & ((not_covered > _SLACK_NANO) | (np.isnan(not_covered) & is_missing))

        reach = end[row].astype(exact) - start[row].astype(exact)
        first_reaches_back = ~(self._has_start[row] & self._has_end[row]) | (reach > longest_nano)
        before_subscription = np.where(is_first, first_reaches_back, is_delta & (not_covered < -_SLACK_NANO))

        # A first cumulative value is what was counted since its start, and `before_subscription` says so.
        is_whole = is_delta | is_first | reset
        is_unknown = ~is_whole & np.isnan(amount_before)
        marks = {
            "reset": reset,
            "gap": gap | is_unknown,
            "covers_gap": ~is_delta & is_missing,
            "before_subscription": before_subscription,
        }
        for name, amounts in running.amounts.items():
            with np.errstate(invalid="ignore"):  # infinity less infinity: nothing can be said
                marks[name] = np.where(is_whole, amounts[row], amounts[row] - running.at_end(name, before))
        marks["delta"][is_unknown] = 0.0
        return marks


def _point_keys(rows: RecordBatch) -> Array:
    """One text for each row's point."""
    return pc.binary_join_element_wise(rows.column("push_id"), rows.column("point_index").cast(pa.string()), " ")


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
