"""Silver: comparison of late points with the stored points around them, some of which get other marks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of, joined
from fleetgauge.fleet.measures.rows import Numbers, equals, filled, times
from fleetgauge.fleet.schemas import SERIES
from fleetgauge.fleet.silver.correct import MARKS
from fleetgauge.fleet.silver.deltas import Comparison, differ
from fleetgauge.fleet.silver.late import BOTH, STORED, Late, LateGroup, Stored, instance_keys, kinds_of
from fleetgauge.fleet.silver.running import AMOUNTS, Remembered, StoredPoints
from fleetgauge.fleet.silver.sent import SentPoints
from fleetgauge.fleet.silver.series import SeriesKeys, distinct_maps, series_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCompared:
    """Result of one comparison.

    Attributes:
        marks: by name, the columns of POINTS that tell how each late point compares.
        settled: SERIES of the instances.
        before, after: STORED points whose marks changed, with the old and the new marks.
    """

    marks: dict[str, Array]
    settled: Sequence[RecordBatch]
    before: RecordBatch
    after: RecordBatch


def compare_late(
    sent: SentPoints, late: Late, group: LateGroup, series: RecordBatch, series_of: Indices
) -> LateCompared:
    """Compares the points of late pushes with stored points.

    Args:
        sent: the points.
        late: reads what stands.
        group: the pushes.
        series: SERIES of their instances as they are remembered.
        series_of: for each the number of its instance.
    """
    remembered = Remembered(series, series_of)
    stored = _sent(group.near)
    for read, lacking in ((late.after, _lacking_after), (late.before, _lacking_before)):
        places = lacking(sent, stored, group, remembered)
        if len(places):
            names = pc.unique(sent.rows.column("metric_name").take(places).cast(pa.string()))
            stored = stored.followed_by(_sent(read(group, np.unique(sent.instance_of[places]), names)))
    comparison = Comparison()
    count = len(sent.rows)
    both = sent.looked_at().followed_by(stored.looked_at())
    order = both.order()
    compared = comparison.mark(
        both.rows.take(order),
        both.instance_of[order],
        both.set_of[order],
        both.sets,
        _stored_points(stored.rows, remembered, order - count),
    )
    of_sent = pa.array(np.argsort(order)[:count])
    moved = stored.rows.take(order[compared.moved] - count)
    marks = {name: column.take(pa.array(compared.moved)) for name, column in compared.marks.items()}
    after = batch_of(STORED, len(moved), {name: moved.column(name) for name in STORED.names} | marks)
    is_other = pa.array(differ(moved.select(MARKS), after.select(MARKS)))
    return LateCompared(
        marks={name: column.take(of_sent) for name, column in compared.marks.items()},
        settled=[_up_to_date(rows, group, remembered) for rows in (compared.settled, comparison.finish())],
        before=moved.filter(is_other),
        after=after.filter(is_other),
    )


def _sent(stored: Stored) -> SentPoints:
    return SentPoints(stored.points, stored.points_of, *distinct_maps(stored.points.column("attributes")))


def _lacking_after(sent: SentPoints, near: SentPoints, group: LateGroup, remembered: Remembered) -> Indices:
    """Late points of series that continue later but have no stored point shortly after their instance's late points,
    and all points of instances with deltas and counts, since one may change the next.
    """
    near_series, sent_series = _series(near), _series(sent)
    is_after = _is_compared(near) & (times(near.rows.column("received_at")) > group.last_us[near.instance_of])
    goes_on = remembered.keys[times(remembered.series.column("received_at")) > group.upto_us[remembered.instance_of]]
    is_told = np.isin(sent_series, near_series[is_after]) | ~np.isin(sent_series, goes_on)
    kinds = group.kinds | kinds_of(sent.rows, sent.instance_of, len(group.kinds))
    return np.flatnonzero(~is_told | (kinds == BOTH)[sent.instance_of])


def _lacking_before(sent: SentPoints, near: SentPoints, group: LateGroup, remembered: Remembered) -> Indices:
    """Late points of remembered series that have no stored point shortly before their instance's late points.

    Series of both temporalities are among them, and histograms: what they ran up to a cumulative point alone tells.
    """
    near_series, sent_series = _series(near), _series(sent)
    is_before = _is_compared(near) & (times(near.rows.column("received_at")) < group.first_us[near.instance_of])
    near_delta, sent_delta = (equals(each.rows.column("temporality"), "delta") for each in (near, sent))
    both = np.intersect1d(
        np.concatenate([near_series[near_delta], sent_series[sent_delta]]),
        np.concatenate([near_series[~near_delta], sent_series[~sent_delta]]),
    )
    is_told = np.isin(sent_series, near_series[is_before]) & ~np.isin(sent_series, both)
    is_histogram = equals(sent.rows.column("metric_type"), "histogram")
    is_remembered = np.isin(sent_series, remembered.keys)
    return np.flatnonzero(is_remembered & (is_histogram | ~is_told))


def _is_compared(stored: SentPoints) -> Numbers:
    """False for points that are not compared: without a value, or of a metric that is not a sum."""
    is_sum: Numbers = stored.rows.column("delta").is_valid().to_numpy(zero_copy_only=False)
    return is_sum


def _series(points: SentPoints) -> Numbers:
    """The series of each point, as `series_numbers`."""
    return series_numbers(points.instance_of, SeriesKeys().of(points.rows, points.set_of, points.sets))


def _up_to_date(settled: RecordBatch, group: LateGroup, remembered: Remembered) -> RecordBatch:
    """SERIES settled by nearby points, updated by the points stored later.

    The last point of a series is the remembered one, if that is later; a late delta adds to its running amount, and a
    late count does not.
    """
    instance_of = pc.index_in(instance_keys(settled), value_set=instance_keys(group.instances))
    known = remembered.of(filled(instance_of, 0), settled.column("series"))
    is_later = pc.greater(known.column("received_at"), settled.column("received_at")).fill_null(False)
    is_delta = pc.equal(settled.column("temporality"), "delta").fill_null(False)
    amounts = {name: settled.column(name) for name in AMOUNTS.values()}
    moved = batch_of(SERIES, len(known), {name: known.column(name) for name in SERIES.names} | amounts)
    return joined([settled.filter(pc.invert(is_later)), moved.filter(pc.and_(is_later, is_delta))], SERIES)


def _stored_points(points: RecordBatch, remembered: Remembered, place: Indices) -> StoredPoints:
    """Marks of stored points around late ones; `place` is the index of each point among the stored ones, below 0 for a
    late one.
    """
    places: Array = pa.array(place, mask=place < 0)
    was_reset = filled(points.column("reset").take(places), False)
    grown = {name: filled(points.column(name).take(places), np.nan) for name in ("delta", "delta_sum")}
    return StoredPoints(
        is_stored=place >= 0,
        **{name: np.where(was_reset, np.nan, each) for name, each in grown.items()},
        remembered=remembered,
    )
