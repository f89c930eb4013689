"""Silver: stored points around late pushes, which are compared with the late points.

Of the instances that have late pushes alone, and no longer before these than points are compared. A client mostly sends
a series with every push, so that the points before and after late ones are near: what was received longer before, or
later, is read of series alone that have none there, and later also of instances whose running amounts are more than the
sum of all deltas, or the latest count. What a delta adds to the running amount that is remembered need not be read.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fleetgauge.base.presence import DEFAULT_PUSH_INTERVAL_MS
from fleetgauge.fleet.arrow import Array, RecordBatch, pa, pc
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import joined
from fleetgauge.fleet.measures.rows import Numbers, equals, filled, times
from fleetgauge.fleet.schemas import INSTANCE, POINTS, TIME, encoded
from fleetgauge.fleet.silver.running import HORIZON_US
from fleetgauge.fleet.silver.series import starts_run
from fleetgauge.fleet.tables.log import Snapshot

STORED: Final = encoded(POINTS.remove(POINTS.get_field_index("resource")))
"""Columns of POINTS that are read: all that comparisons and measures use."""

_NEAR_INTERVALS: Final = 3
"""Push intervals before the first and after the last late push of an instance, in which nearly all of its series have a
point."""

_DELTAS: Final = 1
_COUNTS: Final = 2
BOTH: Final = _DELTAS | _COUNTS

_END_US: Final = np.iinfo(np.int64).max
_SURVEYED: Final = ("client_instance_id", "received_at", "metric_type", "temporality")
_HAS_GROWTH: Final = pc.field("metric_type") != "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Stored points of some instances.

    Attributes:
        points: rows of STORED.
        points_of: for each the number of its instance.
    """

    points: RecordBatch
    points_of: Indices

    def part(self, begin: int, end: int) -> "Stored":
        """The points of the instances of some numbers, which count from 0 on."""
        is_own = (self.points_of >= begin) & (self.points_of < end)
        return Stored(points=self.points.filter(pa.array(is_own)), points_of=self.points_of[is_own] - begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateGroup:
    """Late pushes of some instances.

    Attributes:
        pushes: CHECKED, in the order of their instances.
        number_of: for each the number of its instance, from 0 on.
        instances: INSTANCE by number.
        first_us, last_us: when the first and the last late push of each were received [us].
        near_us, upto_us: from when on and up to when `near` has points of each [us].
        kinds: which series stand of each, as `kinds_of`; both of one with points a day after its last late push.
        is_mixed: whether stored points of each were received between its first and its last late push.
        near: points received from shortly before the first late push of each to shortly after the last.
    """

    pushes: RecordBatch
    number_of: Indices
    instances: RecordBatch
    first_us: Numbers
    last_us: Numbers
    near_us: Numbers
    upto_us: Numbers
    kinds: Indices
    is_mixed: Numbers
    near: Stored

    @classmethod
    def of(cls, pushes: RecordBatch) -> "LateGroup":
        """Late pushes in the order of their instances, before any stored points are known."""
        begins = np.flatnonzero(starts_run(instance_keys(pushes)))
        received_us = times(pushes.column("received_at"))
        first_us, last_us = (find.reduceat(received_us, begins) for find in (np.minimum, np.maximum))
        interval_ms = filled(pushes.column("push_interval_ms"), DEFAULT_PUSH_INTERVAL_MS).astype(np.int64)
        near_us = np.minimum(_NEAR_INTERVALS * 1000 * np.maximum.reduceat(interval_ms, begins), HORIZON_US)
        return cls(
            pushes=pushes,
            number_of=np.repeat(np.arange(len(begins)), np.diff(np.append(begins, len(pushes)))),
            instances=pushes.select(INSTANCE).take(begins),
            first_us=first_us,
            last_us=last_us,
            near_us=first_us - near_us,
            upto_us=last_us + near_us,
            kinds=np.zeros(len(begins), np.int64),
            is_mixed=np.zeros(len(begins), np.bool_),
            near=Stored(points=joined([], STORED), points_of=np.empty(0, np.int64)),
        )

    def part(self, begin: int, end: int) -> "LateGroup":
        """The instances of some numbers, which count from 0 on."""
        first, upto = np.searchsorted(self.number_of, (begin, end)).tolist()
        of_each = ("first_us", "last_us", "near_us", "upto_us", "kinds", "is_mixed")
        return LateGroup(
            pushes=self.pushes.slice(first, upto - first),
            number_of=self.number_of[first:upto] - begin,
            instances=self.instances.slice(begin, end - begin),
            near=self.near.part(begin, end),
            **{name: getattr(self, name)[begin:end] for name in of_each},
        )


def kinds_of(points: RecordBatch, instance_of: Indices, instances: int) -> Indices:
    """For each instance, whether its series are deltas, counts, or both. Histograms are both, since their buckets are
    running amounts.
    """
    metric_types = points.column("metric_type")
    kinds = np.where(equals(points.column("temporality"), "delta"), _DELTAS, _COUNTS)
    kinds[equals(metric_types, "histogram") | equals(metric_types, "exponential_histogram")] = BOTH
    kinds[equals(metric_types, "gauge")] = 0
    kinds_by_instance = np.zeros(instances, np.int64)
    np.bitwise_or.at(kinds_by_instance, instance_of, kinds)
    return kinds_by_instance


class Late:
    """Reads the stored points around late pushes, some instances at a time.

    Args:
        points: the table, in the columns of `encoded(POINTS)`.
    """

    rows_at_once: int = 1_000_000
    """Points near the pushes of instances that are read together, unless one has more: what bounds a task's memory."""
    bytes_at_once: int = 32 * 1024 * 1024
    """Late pushes of a group, unless those of one instance are more, about [B]: these are compared together."""

    def __init__(self, points: Snapshot) -> None:
        self._points = points

    def groups(self, pushes: RecordBatch) -> Iterator[LateGroup]:
        """Groups of CHECKED rows of late instances, in the order of the instances.

        What is near is read for as many as memory allows, since files are read that have little of it.
        """
        everything = LateGroup.of(pushes)
        counts, kinds, is_mixed = self._survey(everything)
        everything = replace(everything, kinds=kinds, is_mixed=is_mixed)
        for begin, end in _ranges(counts, self.rows_at_once):
            together = everything.part(begin, end)
            together = replace(together, near=self._near(together))
            sizes = filled(pc.binary_length(together.pushes.column("metrics")), 0)
            for first, upto in _ranges(np.bincount(together.number_of, sizes), self.bytes_at_once):
                yield together.part(first, upto)

    def _near(self, group: LateGroup) -> Stored:
        """Points that are near. Few instances have any between their late pushes: of these times no others are read."""
        numbers = np.arange(len(group.instances))
        first, last = (pa.scalar(int(at), TIME) for at in (group.first_us.max(), group.last_us.min()))
        is_possible = (pc.field("received_at") <= first) | (pc.field("received_at") > last)
        if group.is_mixed.any():
            mixed = group.instances.column("client_instance_id").filter(pa.array(group.is_mixed))
            is_possible |= pc.field("client_instance_id").isin(pc.unique(mixed))
        return self._read(group, numbers, group.near_us, group.upto_us, is_possible)

    def before(self, group: LateGroup, numbers: Indices, metric_names: Array) -> Stored:
        """Points received longer before, of some instances and some metrics."""
        begin_us = group.first_us[numbers] - HORIZON_US
        is_named = pc.field("metric_name").isin(metric_names)
        return self._read(group, numbers, begin_us, group.near_us[numbers], is_named)

    def after(self, group: LateGroup, numbers: Indices, metric_names: Array) -> Stored:
        """Points received later, of some instances and some metrics."""
        end_us, is_named = np.full(len(numbers), _END_US), pc.field("metric_name").isin(metric_names)
        return self._read(group, numbers, group.upto_us[numbers], end_us, is_named)

    def _survey(self, group: LateGroup) -> tuple[Indices, Indices, Numbers]:
        """For each instance, the approximate number of points to read that are not gauges, and of the stored ones the
        kinds, and whether some were received between its late pushes.
        """
        ids: Array = group.instances.column("client_instance_id")
        first_of = pc.index_in(ids, value_set=ids).to_numpy()  # instances of other clusters may have the same id
        first_us, last_us = np.full((2, len(ids)), _END_US)
        np.minimum.at(first_us, first_of, group.first_us)
        np.minimum.at(last_us, first_of, group.last_us)
        latest_us = np.zeros(len(ids), np.int64)
        np.maximum.at(latest_us, first_of, group.last_us)
        condition = _received(int(group.near_us.min()), _END_US) & pc.field("client_instance_id").isin(ids)
        near, between, everything, kinds = np.zeros((4, len(ids)), np.int64)
        for rows in self._points.scan(_SURVEYED, condition & _HAS_GROWTH):
            texts: Array = rows.column("client_instance_id")
            place = filled(pc.index_in(texts.dictionary, value_set=ids), -1)[texts.indices.to_numpy()]
            received_us = times(rows.column("received_at"))
            is_between = (received_us > first_us[place]) & (received_us <= latest_us[place])
            near += np.bincount(place[received_us <= group.upto_us[place]], minlength=len(ids))
            between += np.bincount(place[is_between], minlength=len(ids))
            everything += np.bincount(place, minlength=len(ids))
            kinds |= kinds_of(rows, place, len(ids))
            kinds[place[received_us >= last_us[place] + HORIZON_US]] = BOTH
        return np.where(kinds == BOTH, everything, near)[first_of], kinds[first_of], (between > 0)[first_of]

    def _read(self, group: LateGroup, numbers: Indices, after_us: Numbers, upto_us: Numbers, where: Any) -> Stored:
        """Points of instances, each with its own bounds of time."""
        instances = group.instances.take(numbers)
        keys, ids = instance_keys(instances), pc.unique(instances.column("client_instance_id"))
        condition = (
            _received(int(after_us.min()), int(upto_us.max()))
            & pc.field("client_instance_id").isin(ids)
            & _HAS_GROWTH
            & where
        )
        waiting: list[RecordBatch] = []
        of: list[Indices] = [np.empty(0, np.int64)]
        for rows in self._points.scan(STORED.names, condition):
            number = pc.index_in(instance_keys(rows), value_set=keys)
            rows, place = rows.filter(number.is_valid()), filled(number.drop_null(), -1).astype(np.int64)
            received_us = times(rows.column("received_at"))
            is_within = (received_us > after_us[place]) & (received_us <= upto_us[place])
            waiting.append(rows.filter(pa.array(is_within)))
            of.append(numbers[place[is_within]])
        return Stored(points=joined(waiting, STORED), points_of=np.concatenate(of))


def _ranges(sizes: Numbers, most: int) -> Iterator[tuple[int, int]]:
    """Begin and end of ranges that have so much at most, or one."""
    upto, at = np.cumsum(sizes), 0
    while at < len(upto):
        before = int(upto[at - 1]) if at else 0
        end = max(at + 1, int(np.searchsorted(upto, before + most, side="right")))
        yield at, end
        at = end


def _received(after_us: int, upto_us: int) -> Array:
    """Condition that points were received after the first time and at or before the second."""
    first, last = (pa.scalar(at, TIME) for at in (after_us, upto_us))
    condition = pc.field("received_at") > first
    condition &= pc.field("date") >= first.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return condition if upto_us == _END_US else condition & (pc.field("received_at") <= last)


def instance_keys(rows: RecordBatch) -> Array:
    """One text for each row's INSTANCE."""
    return pc.binary_join_element_wise(*(rows.column(name).cast(pa.string()) for name in INSTANCE), "\0")
