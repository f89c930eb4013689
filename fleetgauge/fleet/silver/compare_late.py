"""Silver: late points compared with those that stand around them, some of which get other marks by that."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of
from fleetgauge.fleet.measures.rows import Numbers, equals, filled, times
from fleetgauge.fleet.silver.correct import MARKS
from fleetgauge.fleet.silver.deltas import Comparison, differ
from fleetgauge.fleet.silver.late import STANDING, Late, LateGroup, Standing
from fleetgauge.fleet.silver.running import StandingPoints
from fleetgauge.fleet.silver.sent import SentPoints
from fleetgauge.fleet.silver.series import SeriesKeys, distinct_maps


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCompared:
    """Result of one comparison.

    Attributes:
        marks: by name, the columns of POINTS that tell how each late point compares.
        settled: SERIES of the instances.
        before, after: STANDING points whose marks are others now, with the old and the new ones.
    """

    marks: dict[str, Array]
    settled: Sequence[RecordBatch]
    before: RecordBatch
    after: RecordBatch


def compare_late(
    sent: SentPoints, late: Late, group: LateGroup, series: RecordBatch, series_of: Indices
) -> LateCompared:
    """Compares the points of late pushes.

    Args:
        sent: the points.
        late: reads what stands.
        group: the pushes.
        series: SERIES of their instances as they are remembered.
        series_of: for each the number of its instance.
    """
    standing = _sent(late.near(group))
    lacking = _lacking(sent, standing, group.first_us, series, series_of)
    if len(lacking):
        names = pc.unique(sent.rows.column("metric_name").take(lacking).cast(pa.string()))
        standing = standing.followed_by(_sent(late.before(group, np.unique(sent.instance_of[lacking]), names)))
    comparison = Comparison()
    count = len(sent.rows)
    both = sent.looked_at().followed_by(standing.looked_at())
    order = both.order()
    compared = comparison.mark(
        both.rows.take(order),
        both.instance_of[order],
        both.set_of[order],
        both.sets,
        _standing_points(standing.rows, series, order - count),
    )
    of_sent = pa.array(np.argsort(order)[:count])
    moved = standing.rows.take(order[compared.moved] - count)
    marks = {name: column.take(pa.array(compared.moved)) for name, column in compared.marks.items()}
    after = batch_of(STANDING, len(moved), {name: moved.column(name) for name in STANDING.names} | marks)
    is_other = pa.array(differ(moved.select(MARKS), after.select(MARKS)))
    return LateCompared(
        marks={name: column.take(of_sent) for name, column in compared.marks.items()},
        settled=[compared.settled, comparison.finish()],
        before=moved.filter(is_other),
        after=after.filter(is_other),
    )


def _sent(standing: Standing) -> SentPoints:
    return SentPoints(standing.points, standing.points_of, *distinct_maps(standing.points.column("attributes")))


def _lacking(sent: SentPoints, near: SentPoints, first_us: Numbers, series: RecordBatch, series_of: Indices) -> Indices:
    """The late points of remembered series that have no standing point shortly before the late ones of their instance.

    Series of both temporalities are among them, and histograms: what they ran up to a cumulative point alone tells.
    """
    keys = SeriesKeys()
    near_series = _told_apart(near.instance_of, keys.of(near.rows, near.set_of, near.sets))
    sent_series = _told_apart(sent.instance_of, keys.of(sent.rows, sent.set_of, sent.sets))
    is_before = times(near.rows.column("received_at")) < first_us[near.instance_of]
    near_delta, sent_delta = (equals(each.rows.column("temporality"), "delta") for each in (near, sent))
    both = np.intersect1d(
        np.concatenate([near_series[near_delta], sent_series[sent_delta]]),
        np.concatenate([near_series[~near_delta], sent_series[~sent_delta]]),
    )
    is_told = np.isin(sent_series, near_series[is_before]) & ~np.isin(sent_series, both)
    is_histogram = equals(sent.rows.column("metric_type"), "histogram")
    is_remembered = np.isin(sent_series, _told_apart(series_of, series.column("series")))
    return np.flatnonzero(is_remembered & (is_histogram | ~is_told))


def _told_apart(instance_of: Indices, keys: Array) -> Numbers:
    """One number for each instance's series."""
    numbers: Numbers = filled(keys, 0) ^ (instance_of * np.int64(0x1E3779B97F4A7C15))
    return numbers


def _standing_points(points: RecordBatch, series: RecordBatch, place: Indices) -> StandingPoints:
    """Of points, for each of which its place among the standing ones is given, below 0 if it is a late one."""
    places: Array = pa.array(place, mask=place < 0)
    was_reset = filled(points.column("reset").take(places), False)
    grown = {name: filled(points.column(name).take(places), np.nan) for name in ("delta", "delta_sum")}
    return StandingPoints(
        is_standing=place >= 0,
        **{name: np.where(was_reset, np.nan, each) for name, each in grown.items()},
        series=series,
    )
