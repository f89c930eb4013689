"""Silver: what stands around late pushes: the points that theirs are compared with.

Of the instances that have late pushes alone, and no longer before these than points are compared; up to the latest
point, of which is remembered what the deltas before it add up to.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import joined
from fleetgauge.fleet.measures.rows import filled, times
from fleetgauge.fleet.schemas import INSTANCE, POINTS, SERIES, TIME
from fleetgauge.fleet.silver.deltas import HORIZON_US, LOOKED_AT, LastOfSeries, starts_run
from fleetgauge.fleet.tables.log import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What stands of the instances of late pushes, whose numbers are those of their places in `Late.groups`.

    Attributes:
        series: SERIES before the first late push of each; of several of one series the last one counts.
        series_of: for each the number of its instance.
        points: POINTS from then on.
        points_of: for each the number of its instance.
        remembered: SERIES of the instances as they are remembered.
    """

    series: RecordBatch
    series_of: Indices
    points: RecordBatch
    points_of: Indices
    remembered: RecordBatch


class Late:
    """Late pushes, some instances at a time.

    Args:
        points: the table.
        remembered: SERIES that are remembered, of these instances and of others.
    """

    rows_at_once: int = 2_000_000
    """Points that are read for some instances, about: what bounds the memory of a task."""

    first_instances: int = 16
    """Instances that are read together at first, before it is known how many points they have."""

    def __init__(self, points: Snapshot, remembered: RecordBatch) -> None:
        self._points = points
        self._remembered = remembered
        self._instances = self.first_instances

    def groups(self, pushes: RecordBatch) -> Iterator[tuple[RecordBatch, Indices, Standing]]:
        """CHECKED of late instances in the order of these -> some of them, the number of each one's instance, and what
        stands of these.

        An earlier try of the batch may have written points of these very pushes, which are left out.
        """
        keys = instance_keys(pushes)
        begins = np.flatnonzero(starts_run(keys))
        ends = np.append(begins, len(pushes))
        at = 0
        while at < len(begins):
            upto = min(at + self._instances, len(begins))
            rows = pushes.slice(ends[at], ends[upto] - ends[at])
            number_of = np.repeat(np.arange(upto - at), np.diff(ends[at : upto + 1]))
            found = self._around(rows, number_of)
            yield rows, number_of, found
            self._instances = max(1, (upto - at) * self.rows_at_once // max(1, len(found.points)))
            at = upto

    def _around(self, pushes: RecordBatch, number_of: Indices) -> Standing:
        received_us = times(pushes.column("received_at"))
        begins = np.flatnonzero(np.append(True, number_of[1:] != number_of[:-1]))
        first = np.minimum.reduceat(received_us, begins)
        keys = instance_keys(pushes).take(pa.array(begins))
        own = pushes.column("push_id")
        before = LastOfSeries()
        waiting: list[RecordBatch] = []
        of: list[Indices] = []
        for rows in self._points.scan(POINTS.names, self._condition(pushes, int(first.min()))):
            number = pc.index_in(instance_keys(rows), value_set=keys)
            is_other = pc.and_(number.is_valid(), pc.invert(pc.is_in(rows.column("push_id"), value_set=own)))
            rows, number = rows.filter(is_other), number.filter(is_other).to_numpy(zero_copy_only=False)
            at = times(rows.column("received_at"))
            is_before = (at < first[number]) & (at > first[number] - HORIZON_US)
            is_after = at >= first[number]
            before.add(rows.select(LOOKED_AT).filter(pa.array(is_before)))
            waiting.append(rows.filter(pa.array(is_after)))
            of.append(number[is_after].astype(np.int64))
        remembered = self._remembered
        number = pc.index_in(instance_keys(remembered), value_set=keys)
        remembered, number = remembered.filter(number.is_valid()), filled(number.drop_null(), -1)
        is_before = times(remembered.column("received_at")) < first[number]
        series = joined([before.rows(), remembered.filter(pa.array(is_before))], SERIES)
        return Standing(
            series=series,
            series_of=filled(pc.index_in(instance_keys(series), value_set=keys), -1).astype(np.int64),
            points=joined(waiting, POINTS),
            points_of=np.concatenate([np.empty(0, np.int64), *of]),
            remembered=remembered,
        )

    def _condition(self, pushes: RecordBatch, first_us: int) -> Array:
        begin = pa.scalar(first_us - HORIZON_US, TIME)
        first_day = begin.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
        ids = pc.unique(pushes.column("client_instance_id"))
        return (
            (pc.field("date") >= first_day)
            & (pc.field("received_at") > begin)
            & pc.field("client_instance_id").isin(ids)
            & (pc.field("metric_type") != "gauge")
        )


def instance_keys(rows: RecordBatch) -> Array:
    """One text for each row's INSTANCE."""
    return pc.binary_join_element_wise(*(rows.column(name).cast(pa.string()) for name in INSTANCE), "\0")
