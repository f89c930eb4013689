"""Silver: what stands around late pushes: the points that theirs are compared with.

Of the instances that have late pushes alone, and no longer before these than points are compared; up to the latest
point, for which the running amount is remembered.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import joined
from fleetgauge.fleet.measures.rows import filled, times
from fleetgauge.fleet.schemas import INSTANCE, POINTS, TIME
from fleetgauge.fleet.silver.running import HORIZON_US
from fleetgauge.fleet.silver.series import starts_run
from fleetgauge.fleet.tables.log import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What stands of the instances of late pushes, whose numbers are those of their places in `Late.groups`.

    Attributes:
        points: POINTS from `HORIZON_US` before the first late push of each.
        points_of: for each the number of its instance.
        remembered: SERIES of the instances as they are remembered.
    """

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
        begin_us = np.minimum.reduceat(received_us, begins) - HORIZON_US
        keys = instance_keys(pushes).take(pa.array(begins))
        waiting: list[RecordBatch] = []
        of: list[Indices] = []
        for rows in self._points.scan(POINTS.names, self._condition(pushes, int(begin_us.min()))):
            number = pc.index_in(instance_keys(rows), value_set=keys)
            rows, number = rows.filter(number.is_valid()), filled(number.drop_null(), -1).astype(np.int64)
            is_near = times(rows.column("received_at")) > begin_us[number]
            waiting.append(rows.filter(pa.array(is_near)))
            of.append(number[is_near])
        is_of_these = pc.is_in(instance_keys(self._remembered), value_set=keys)
        return Standing(
            points=joined(waiting, POINTS),
            points_of=np.concatenate([np.empty(0, np.int64), *of]),
            remembered=self._remembered.filter(is_of_these),
        )

    def _condition(self, pushes: RecordBatch, begin_us: int) -> Array:
        begin = pa.scalar(begin_us, TIME)
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
