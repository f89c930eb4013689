"""Live pushes in memory: their partial wide rows, computed by the functions that `fleet run` uses."""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fleetgauge.fleet.arrow import RecordBatch, Table, pa, pc
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of, joined
from fleetgauge.fleet.decode.stage import CountedPushes
from fleetgauge.fleet.measures.aggregate import aggregate, presence
from fleetgauge.fleet.measures.rows import ROWS, equals
from fleetgauge.fleet.schemas import BRONZE, INSTANCE, POINTS, PUSH_RECORD, SERIES
from fleetgauge.fleet.silver.batch import push_rows
from fleetgauge.fleet.silver.check import check
from fleetgauge.fleet.silver.deltas import Comparison
from fleetgauge.fleet.silver.repeats import ORDER
from fleetgauge.fleet.silver.sent import dialects_of, point_rows, sent_points
from fleetgauge.fleet.silver.series import SeriesKeys, changes
from fleetgauge.telemetry.push_record import PushRecord

_Instance = tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """Result of decoding some pushes.

    Attributes:
        rows: partial ROWS, topics' left out.
        points: those POINTS that are kept.
        pushes: good rows of COUNTED.
        rejects: how many pushes are malformed.
    """

    rows: Table
    points: Table
    pushes: RecordBatch
    rejects: int


class LivePushes:
    """Decodes pushes. Remembers the last points of totals of each client instance; deltas need none.

    Args:
        window_s: length of the windows of wide rows [s].
        metric_names: only the points of these metrics are read; None for all.
        instances_max: most instances whose totals are remembered.
        kept: metrics whose points are returned besides the rows.
    """

    def __init__(
        self, window_s: int, metric_names: Collection[str] | None, instances_max: int, kept: Collection[str] = ()
    ) -> None:
        self._window_s = window_s
        self._metric_names = metric_names
        self._instances_max = instances_max
        self._kept = pa.array(sorted(kept), pa.string())
        self._totals: OrderedDict[_Instance, RecordBatch] = OrderedDict()
        self._keys = SeriesKeys()

    def take(self, records: Sequence[PushRecord]) -> Taken:
        """Decodes some pushes, at least one, whose `metrics` are decompressed. Those of an instance come in order."""
        chunk = check(bronze_of(records))
        chunk = chunk.take(pc.sort_indices(chunk, sort_keys=[(name, "ascending") for name in ORDER]))
        instance_of = np.cumsum(changes([chunk.column(name) for name in INSTANCE])) - 1
        pushes = CountedPushes(chunk)
        sent, row_of = sent_points(chunk, pushes, instance_of, self._metric_names)
        rows, kept = ROWS.empty_table(), POINTS.empty_table()
        if len(sent.rows):
            comparison = Comparison(self._keys)
            self._remind(comparison, chunk, instance_of)
            compared = comparison.mark(sent.rows, sent.instance_of, sent.set_of, sent.sets)
            batch = point_rows(sent.rows, compared.marks, dialects_of(chunk, row_of, sent.rows))
            points = pa.Table.from_batches([batch])
            self._remember(joined([compared.settled, comparison.finish()], SERIES))
            rows = aggregate(points, self._window_s)
            rows = rows.filter(pc.is_null(rows["topic"]))
            if len(self._kept):
                kept = points.filter(pc.is_in(points["metric_name"], value_set=self._kept))
        good = pushes.good_rows()
        is_good = np.array([reason is None for reason in pushes.reasons], np.bool_)
        is_empty = np.bincount(row_of, minlength=len(chunk))[is_good] == 0
        empty = pa.Table.from_batches([push_rows(good.filter(pa.array(is_empty)))])
        rows = pa.concat_tables([rows, presence(empty, self._window_s)])
        return Taken(rows=rows, points=kept, pushes=good, rejects=pushes.rejects)

    def _remind(self, comparison: Comparison, chunk: RecordBatch, instance_of: Indices) -> None:
        """Adds the remembered totals of a chunk's instances to the comparison."""
        if not self._totals:
            return
        _, first = np.unique(instance_of, return_index=True)
        remembered = [(number, self._totals.get(key)) for number, key in enumerate(_instances(chunk.take(first)))]
        known = [(number, rows) for number, rows in remembered if rows is not None]
        if known:
            of = np.repeat([number for number, _ in known], [len(rows) for _, rows in known])
            comparison.remember(0, of, joined([rows for _, rows in known], SERIES))

    def _remember(self, series: RecordBatch) -> None:
        """Keeps the series of instances that have totals; an instance's series are adjacent."""
        if not len(series):
            return
        begins = np.flatnonzero(changes([series.column(name) for name in INSTANCE]))
        ends = np.append(begins[1:], len(series))
        is_total = equals(series.column("temporality"), "cumulative")
        keys = _instances(series.take(begins))
        for key, begin, end in zip(keys, begins.tolist(), ends.tolist(), strict=True):
            if key in self._totals or is_total[begin:end].any():
                self._totals[key] = series.slice(begin, end - begin)
                self._totals.move_to_end(key)
        while len(self._totals) > self._instances_max:
            self._totals.popitem(last=False)


def _instances(rows: RecordBatch) -> list[_Instance]:
    return list(zip(*(rows.column(name).to_pylist() for name in INSTANCE), strict=True))


def bronze_of(records: Sequence[PushRecord]) -> RecordBatch:
    """BRONZE of push records; null where a column cannot hold the value."""
    columns: dict[str, Any] = {}
    for field, values in zip(PUSH_RECORD, zip(*records, strict=True), strict=True):
        columns[field.name] = pa.array(values, field.type)
    return batch_of(BRONZE, len(records), columns)
