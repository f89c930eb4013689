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
    """

    pushes: RecordBatch
    number_of: Indices
    instances: RecordBatch
    first_us: Numbers
    last_us: Numbers
    near_us: Numbers
    upto_us: Numbers
    kinds: Indices

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

    def __init__(self, points: Snapshot) -> None:
        self._points = points

    def groups(self, pushes: RecordBatch) -> Iterator[LateGroup]:
        """Groups of CHECKED rows of late instances, in the order of the instances."""
        everything = LateGroup.of(pushes)
        counts, kinds = self._survey(everything)
        upto = np.cumsum(counts)
        ends = np.searchsorted(everything.number_of, np.arange(len(upto) + 1))
        at = 0
        while at < len(upto):
            before = int(upto[at - 1]) if at else 0
            end = max(at + 1, int(np.searchsorted(upto, before + self.rows_at_once, side="right")))
            yield replace(LateGroup.of(pushes.slice(ends[at], ends[end] - ends[at])), kinds=kinds[at:end])
            at = end

    def near(self, group: LateGroup) -> Stored:
        """Points received from shortly before the first late push of each instance to shortly after the last."""
        numbers = np.arange(len(group.instances))
        return self._read(group, numbers, group.near_us, group.upto_us, pc.scalar(True))

    def before(self, group: LateGroup, numbers: Indices, metric_names: Array) -> Stored:
        """Points received longer before, of some instances and some metrics."""
        begin_us = group.first_us[numbers] - HORIZON_US
        is_named = pc.field("metric_name").isin(metric_names)
        return self._read(group, numbers, begin_us, group.near_us[numbers], is_named)

    def after(self, group: LateGroup, numbers: Indices, metric_names: Array) -> Stored:
        """Points received later, of some instances and some metrics."""
        end_us, is_named = np.full(len(numbers), _END_US), pc.field("metric_name").isin(metric_names)
        return self._read(group, numbers, group.upto_us[numbers], end_us, is_named)

    def _survey(self, group: LateGroup) -> tuple[Indices, Indices]:
        """For each instance, the approximate number of points to read that are not gauges, and the kinds of the stored
        ones.
        """
        ids: Array = group.instances.column("client_instance_id")
        first_of = pc.index_in(ids, value_set=ids).to_numpy()  # instances of other clusters may have the same id
        last_us = np.full(len(ids), _END_US)
        np.minimum.at(last_us, first_of, group.last_us)
        condition = _received(int(group.near_us.min()), _END_US) & pc.field("client_instance_id").isin(ids)
        near, everything, kinds = np.zeros((3, len(ids)), np.int64)
        for rows in self._points.scan(_SURVEYED, condition & _HAS_GROWTH):
            texts: Array = rows.column("client_instance_id")
            place = filled(pc.index_in(texts.dictionary, value_set=ids), -1)[texts.indices.to_numpy()]
            received_us = times(rows.column("received_at"))
            near += np.bincount(place[received_us <= group.upto_us[place]], minlength=len(ids))
            everything += np.bincount(place, minlength=len(ids))
            kinds |= kinds_of(rows, place, len(ids))
            kinds[place[received_us >= last_us[place] + HORIZON_US]] = BOTH
        return np.where(kinds == BOTH, everything, near)[first_of], kinds[first_of]

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


def _received(after_us: int, upto_us: int) -> Array:
    """Condition that points were received after the first time and at or before the second."""
    first, last = (pa.scalar(at, TIME) for at in (after_us, upto_us))
    condition = pc.field("received_at") > first
    condition &= pc.field("date") >= first.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return condition if upto_us == _END_US else condition & (pc.field("received_at") <= last)


def instance_keys(rows: RecordBatch) -> Array:
    """One text for each row's INSTANCE."""
    return pc.binary_join_element_wise(*(rows.column(name).cast(pa.string()) for name in INSTANCE), "\0")
