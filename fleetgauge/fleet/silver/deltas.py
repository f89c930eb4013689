"""Silver: increases of sums in either temporality, and where they are incomplete (docs/reference/points.md).

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
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetgauge.base.presence import DEFAULT_PUSH_INTERVAL_MS
from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc, to_list
from fleetgauge.fleet.decode.attributes import TextMap
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of
from fleetgauge.fleet.measures.rows import Numbers, filled, is_valid
from fleetgauge.fleet.schemas import POINTS, SERIES
from fleetgauge.fleet.silver.intervals import LONGEST_INTERVALS
from fleetgauge.fleet.silver.running import BySeries, Known, Running, StoredPoints
from fleetgauge.fleet.silver.series import SeriesKeys, numbers
from fleetgauge.telemetry.otlp.series import are_buckets

_SLACK_NANO: Final = 100_000_000
"""A delta begins where the one before ended, to the millisecond in all known clients; a clock may step slightly."""

_OF_VALUES: Final = ("push_interval_ms", "is_monotonic", "value", "count", "sum", "distribution")

LOOKED_AT: Final = [name for name in POINTS.names if name in (*SERIES.names, *_OF_VALUES)]
"""The columns of DECODED and of POINTS that are compared."""

ORDER: Final = ("received_at", "push_id", "point_index")
"""The columns that order points by their receipt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Result of one comparison.

    Attributes:
        marks: by name, the columns of POINTS that tell how each point compares.
        settled: SERIES of the instances that no more points come of.
        moved: the stored points that a new one affects.
    """

    marks: dict[str, Array]
    settled: RecordBatch
    moved: Numbers


class Comparison:
    """Compares the points of client instances, one instance after the other, in the order of receipt.

    Instances have numbers, which never fall. No more is held than the series of the instance whose points came last,
    and what is remembered of those to come.

    Args:
        keys: hashes of series that are known already; None for none.
    """

    def __init__(self, keys: SeriesKeys | None = None) -> None:
        self._known = Known()
        self._keys = keys or SeriesKeys()

    def remember(self, current: int, instance_of: Indices, series: RecordBatch) -> None:
        """Adds series remembered from earlier runs, before the first points of their instances.

        Args:
            current: the number of the first instance that more points may come of.
            instance_of: for each series the number of its instance.
            series: rows of SERIES, at least one. Of several of one series the last one counts.
        """
        new = Known(series, instance_of, np.zeros(len(series), dtype=np.bool_))
        # Some may have had no points after all, only heartbeats.
        is_over = ~self._known.is_new & (self._known.instance < current)
        self._known = self._known.take(np.flatnonzero(~is_over)).followed_by(new)

    def mark(
        self,
        points: RecordBatch,
        instance_of: Indices,
        set_of: Indices,
        sets: Sequence[TextMap],
        stored: StoredPoints | None = None,
    ) -> Compared:
        """Compares points with one another and with the known points, which were all received before them.

        Args:
            points: rows of DECODED or POINTS with LOOKED_AT at least; at least one.
            instance_of: for each the number of its instance.
            set_of: for each the number of its attributes in `sets`.
            sets: distinct attributes.
            stored: which points an earlier batch has written; None if there is none.
        """
        own, taken, rows = _series_rows(points, set_of, sets, self._keys)
        known = len(self._known.instance)
        is_new = np.ones(len(own), dtype=np.bool_) if stored is None else ~stored.is_stored[own]
        everything = self._known.followed_by(Known(rows, instance_of[own], is_new))
        series = BySeries.of(everything)
        running = Running(everything, series, known)
        if stored is not None:
            running.begin_as_in(stored, own)
        marks = _Judge(everything.rows, taken, running).marks()
        moved = np.flatnonzero(~is_new & running.comes_after_new()[known:])
        settled = self._go_on(running.remembered(series.lasts()), int(instance_of[-1]))
        return Compared(marks=_columns(len(points), own, marks), settled=settled, moved=own[moved])

    @property
    def held(self) -> int | None:
        """First instance with points whose SERIES were not returned yet."""
        held = self._known.instance[self._known.is_new]
        return int(held.min()) if len(held) else None

    def finish(self) -> RecordBatch:
        """SERIES of the last instance."""
        known, self._known = self._known, Known()
        return known.take(np.flatnonzero(known.is_new)).rows

    def _go_on(self, last: Known, current: int) -> RecordBatch:
        is_done = last.instance < current
        self._known = last.take(np.flatnonzero(~is_done))
        return last.take(np.flatnonzero(is_done & last.is_new)).rows


def _series_rows(
    points: RecordBatch, set_of: Indices, sets: Sequence[TextMap], keys: SeriesKeys
) -> tuple[Indices, RecordBatch, RecordBatch]:
    """Indices of the compared points, these points, and SERIES of them."""
    amount = pc.coalesce(points.column("value"), points.column("count").cast(pa.float64()))
    amount, buckets, bounds = _distributions(points, amount)
    own = np.flatnonzero(_is_series(points, amount))
    places: Array = pa.array(own)
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
    places: Array = pa.array(rows)
    amounts = amount.to_numpy(zero_copy_only=False).copy()
    buckets: list[Sequence[float] | None] = [None] * len(points)
    bounds = buckets.copy()
    kinds_of = to_list(kinds.take(places))
    for row, kind, value in zip(rows.tolist(), kinds_of, to_list(distribution.take(places)), strict=True):
        value = value[0] if isinstance(value, list) else value
        counts = [float(count or 0) for count in value["bucket_counts"] or ()]
        if kind == "exponential_histogram":
            # Their buckets are not compared: a client that lowers the scale moves counts to larger ones.
            amounts[row] = sum(counts, value["zero_count"] or 0) + sum(value["negative_bucket_counts"] or ())
            continue
        counts, ends = counts or [float(amounts[row])], value["bounds"] or ()
        is_sound = are_buckets(counts, ends)
        amounts[row], buckets[row], bounds[row] = (sum(counts), counts, ends) if is_sound else (np.nan, None, None)
    return pa.array(amounts, mask=np.isnan(amounts)), pa.array(buckets, type_), pa.array(bounds, type_)


def _is_series(points: RecordBatch, amount: Array) -> Numbers:
    """True for points that are remembered: not gauges, points without a value, malformed ones, or sums of unknown
    temporality.
    """
    kind = points.column("metric_type")
    # A summary is cumulative, without saying so.
    has_growth = pc.or_(pc.equal(kind, "summary"), points.column("temporality").is_valid())
    is_sound = pc.and_(pc.is_finite(amount), pc.or_(pc.greater_equal(amount, 0), pc.invert(_are_monotonic(points))))
    return filled(pc.and_(pc.and_(pc.not_equal(kind, "gauge"), has_growth), is_sound), False)


def _are_monotonic(points: RecordBatch) -> Array:
    is_sum = pc.equal(points.column("metric_type"), "sum")
    return pc.coalesce(points.column("is_monotonic"), pc.invert(is_sum)).fill_null(False)


class _Judge:
    """Computes the marks of points.

    Args:
        rows: SERIES of the known points, followed by those of the points.
        points: LOOKED_AT of the points.
        running: the running amounts of the rows.
    """

    def __init__(self, rows: RecordBatch, points: RecordBatch, running: Running) -> None:
        self._running = running
        self._start, self._end, self._received_at = (
            numbers(rows, name) for name in ("start_time_unix_nano", "time_unix_nano", "received_at")
        )
        self._has_start, self._has_end = (
            is_valid(rows.column(name)) for name in ("start_time_unix_nano", "time_unix_nano")
        )
        self._is_monotonic = filled(_are_monotonic(points), False)
        self._interval_ms = numbers(points, "push_interval_ms", DEFAULT_PUSH_INTERVAL_MS).astype(np.int64)

    def marks(self) -> dict[str, Numbers]:
        """Columns of marks by name, one value per point; NaN for no value."""
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


def differ(marks: RecordBatch, others: RecordBatch) -> Numbers:
    """True for each row in which any mark differs; both batches have the same columns."""
    differs = np.zeros(len(marks), dtype=np.bool_)
    for name in marks.schema.names:
        same = pc.equal(marks.column(name), others.column(name)).fill_null(False)
        both_null = pc.and_(marks.column(name).is_null(), others.column(name).is_null())
        differs |= ~pc.or_(same, both_null).to_numpy(zero_copy_only=False)
    return differs


def _columns(count: int, own: Numbers, marks: dict[str, Numbers]) -> dict[str, Array]:
    """Columns over all points, with the marks of the points `own`."""
    columns = {}
    for name, said in marks.items():
        values = np.zeros(count, dtype=said.dtype)
        is_null = np.ones(count, dtype=np.bool_)
        values[own], is_null[own] = said, np.isnan(said) if said.dtype == np.float64 else False
        columns[name] = pa.array(values, POINTS.field(name).type, mask=is_null)
    return columns
