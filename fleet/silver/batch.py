"""Silver: everything that a batch's pushes give, in one pass over their payloads on Spark's executors.

The pushes of one client instance come to one task, in the order of their receipt, and before them what earlier runs
remembered of its series. The task decodes a chunk of them at a time and compares the points (`silver.deltas`). An
instance of which a push was received no later than what is remembered is late: its pushes are handed back unread, and
a second pass (`make_late`) compares them together with its points that stand in the table. So nothing is read for the
others, which are nearly all.

Points are written as files of their table on the spot where that can be, since Spark's own writer, a row at a time,
takes several times as long for a point as all else together; otherwise they go to Spark with the rest.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.arrow import Array, RecordBatch, pa, pc
from fleet.decode.attributes import TextMap
from fleet.decode.flat import Indices
from fleet.decode.payloads import decode_and_count
from fleet.decode.rows import (
    CHECKED_ROWS,
    COUNTED_ROWS,
    DECODED_ROWS,
    POINT_ROWS,
    SERIES_ROWS,
    arrow_schema,
    as_bytes,
    batch_of,
    decoded_rows,
    encoded,
)
from fleet.decode.stage import MAX_CHUNK_BYTES, CountedPushes, Unpack, regroup
from fleet.dialects import library_of
from fleet.schemas import CHECKED, COUNTED, INSTANCE, PACKED, POINTS, SERIES, conform
from fleet.silver.deltas import LABELS, LOOKED_AT, ORDER, Comparison, Numbers, changes, distinct_maps, joined
from fleet.tables.parquet_files import FileWriter, WriteFiles
from fleet.workers import forget_archives

_TASKS_AT_LEAST: Final = 8
_DAY_US: Final = 86_400_000_000
_PACKED: Final = arrow_schema(PACKED)
_REMEMBERED: Final = T.StructType([each for each in SERIES.fields if each.name not in (*INSTANCE, *LABELS)])
_TABLES: Final = {
    "counted": COUNTED,
    "marked": POINTS,
    "series": SERIES,
    "late": CHECKED,
    "corrected_from": POINTS,
    "corrected_to": POINTS,
}


@dataclass(frozen=True, slots=True)
class InRows:
    """Points go to Spark, in `marked`."""


@dataclass(frozen=True, slots=True)
class Nowhere:
    """Points are there already, from the same batch before it was cut off."""


PointsTo = WriteFiles | InRows | Nowhere


def make(checked: DataFrame, previous: DataFrame | None = None, points_to: PointsTo = InRows()) -> DataFrame:
    """CHECKED of one batch, without repeats, and the SERIES of earlier ones -> PACKED; see `unpack`.

    Args:
        checked: the pushes.
        previous: at least the series of the instances that have pushes here.
        points_to: where the points go.
    """
    rows = conform(checked, CHECKED)
    if previous is not None:
        rows = rows.unionByName(_by_instance(previous), allowMissingColumns=True)
    return _made(rows, points_to)


def make_late(late: DataFrame, previous: DataFrame, standing: DataFrame, points_to: PointsTo = InRows()) -> DataFrame:
    """CHECKED of late instances (`late` of PACKED), with what stands of these -> PACKED.

    Of each instance, with its pushes here received from `first` to `last`, that is:

    Args:
        late: the pushes.
        previous: SERIES that stood within HORIZON_US before `first`; of several of one series the last one counts.
        standing: POINTS from `first` on to HORIZON_US after `last`, without those of `late`; without gauges if need be.
        points_to: where the points go.
    """
    at = standing.select(*INSTANCE, "received_at", "push_id", F.struct(*POINTS.names).alias("standing"))
    rows = conform(late, CHECKED).unionByName(_by_instance(previous), allowMissingColumns=True)
    return _made(rows.unionByName(at, allowMissingColumns=True), points_to)


def _made(rows: DataFrame, points_to: PointsTo) -> DataFrame:
    # What is remembered has no time of receipt, and comes before the pushes.
    ordered = rows.repartition(_tasks(rows), *INSTANCE).sortWithinPartitions(*INSTANCE, "received_at", "push_id")
    return ordered.mapInArrow(MakeBatch(points_to), PACKED)


def _tasks(rows: DataFrame) -> int:
    """One for each core, and so many at least that each one's share is small; each writes files of its own.

    Spark's own choice on a cluster is 200, however few the pushes and cores: of a frame that is kept it joins none.
    """
    session = rows.sparkSession
    configured = int(session.conf.get("spark.sql.shuffle.partitions") or 0)
    return max(session.sparkContext.defaultParallelism, min(configured, _TASKS_AT_LEAST))


def _by_instance(series: DataFrame) -> DataFrame:
    one = F.struct(*_REMEMBERED.names)  # the key first and then what orders its points
    return conform(series, SERIES).groupBy(*INSTANCE).agg(F.sort_array(F.collect_list(one)).alias("remembered"))


Packed = Literal["counted", "marked", "series", "late", "corrected_from", "corrected_to"]


def unpack(packed: DataFrame, column: Packed) -> DataFrame:
    """What is in one of the columns: PACKED -> COUNTED with the rows set aside, -> POINTS, -> SERIES, or -> CHECKED.

    >>> from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, MetricsData
    >>> def total(value):
    ...     data = MetricsData()
    ...     metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="request.total")
    ...     metric.sum.is_monotonic = True
    ...     metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
    ...     metric.sum.data_points.add(as_double=value)
    ...     return data.SerializeToString()
    >>> columns = "push_id received_at metrics reason"
    >>> sent = table(spark, CHECKED, columns, ("a", "12:00:00", total(10), None), ("b", "12:01:00", total(15), None))
    >>> first = make(sent)
    >>> show(unpack(first, "marked"), "received_at value delta reset covers_gap before_subscription")
    received_at  value  delta  reset  covers_gap  before_subscription
    12:00:00     10     10     no     no          yes
    12:01:00     15     5      no     no          no
    >>> show(unpack(first, "series"), "metric_name received_at amount")
    metric_name    received_at  amount
    request.total  12:01:00     15

    In the next run the client had begun again:

    >>> later = table(spark, CHECKED, columns, ("d", "12:20:00", total(3), None))
    >>> second = make(later, unpack(first, "series"))
    >>> show(unpack(second, "marked"), "received_at value delta reset covers_gap")
    received_at  value  delta  reset  covers_gap
    12:20:00     3      3      yes    yes

    Then an old push came late. The point after it in its series is corrected:

    >>> late = table(spark, CHECKED, columns, ("c", "12:00:30", total(12), None))
    >>> handed_back = unpack(make(late, unpack(second, "series")), "late")
    >>> show(handed_back, "push_id received_at")
    push_id  received_at
    c        12:00:30
    >>> from fleet.silver.deltas import LastOfSeries
    >>> stood = unpack(first, "marked").union(unpack(second, "marked"))
    >>> before, after = stood.where("push_id = 'a'"), stood.where("push_id != 'a'")
    >>> third = make_late(handed_back, before.mapInArrow(LastOfSeries(), SERIES), after)
    >>> show(unpack(third, "marked"), "received_at value delta")
    received_at  value  delta
    12:00:30     12     2
    >>> show(unpack(third, "corrected_from"), "received_at value delta")
    received_at  value  delta
    12:01:00     15     5
    >>> show(unpack(third, "corrected_to"), "received_at value delta")
    received_at  value  delta
    12:01:00     15     3
    """
    schema = _TABLES[column]
    return packed.select(column).mapInArrow(Unpack(tuple(schema.names)), schema)


@dataclass(frozen=True, slots=True)
class MakeBatch:
    """The step of `make`: one row of PACKED a chunk, and one at the end with what had to wait for it."""

    points_to: PointsTo

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Of the pushes of any number of instances, in their order."""
        forget_archives()
        with ExitStack() as stack:
            to = self.points_to
            writer = stack.enter_context(to.open()) if isinstance(to, WriteFiles) else None
            maker = _Maker(writer, in_rows=isinstance(to, InRows))
            for chunk in regroup(batches, MAX_CHUNK_BYTES):
                yield maker.make(chunk)
            yield maker.finish()


class _Maker:
    """What one task knows."""

    def __init__(self, writer: FileWriter | None, *, in_rows: bool) -> None:
        self._writer = writer
        self._in_rows = in_rows
        self._comparison = Comparison()
        self._last: tuple[Any, ...] | None = None
        self._number = 0
        self._remembered_until: dict[int, int] = {}  # of instances to come, in us
        self._late = (-1, False)  # an instance, and whether it is late

    def make(self, chunk: RecordBatch) -> RecordBatch:
        """A row of PACKED of the next rows: pushes, what is remembered, and points that stand."""
        instance_of = self._numbered(chunk)
        remembered, standing = (_given(chunk, name) for name in ("remembered", "standing"))
        if len(remembered):
            lists = chunk.column("remembered").take(pa.array(remembered))
            self._remember(int(instance_of[0]), lists, instance_of[remembered])
        stood = _standing(chunk, standing, instance_of)
        is_push = np.ones(len(chunk), dtype=np.bool_)
        is_push[remembered] = is_push[standing] = False
        is_late = self._are_late(chunk, instance_of, is_push)
        late = chunk.filter(pa.array(is_late)) if is_late.any() else None
        is_push &= ~is_late
        if not is_push.all():
            chunk, instance_of = chunk.filter(pa.array(is_push)), instance_of[is_push]
        pushes = CountedPushes(chunk)
        sent, row_of = _sent(chunk, pushes, instance_of)
        return self._row(pushes, late, self._compared(sent, stood, _dialects(chunk, row_of, sent.rows)))

    def _compared(self, sent: "_Points", standing: "_Points", dialects: Array) -> "_Compared":
        count = len(sent.rows)
        if not count and not len(standing.rows):
            return _Compared()
        if not len(standing.rows):
            compared = self._comparison.mark(sent.rows, sent.instance_of, sent.set_of, sent.sets)
            return _Compared([_point_rows(sent.rows, compared.marks, dialects)], [compared.settled])
        both = sent.looked_at().followed_by(standing.looked_at())
        order = both.order()
        compared = self._comparison.mark(
            both.rows.take(pa.array(order)), both.instance_of[order], both.set_of[order], both.sets, order >= count
        )
        of_sent = pa.array(np.argsort(order)[:count])
        marks = {name: column.take(of_sent) for name, column in compared.marks.items()}
        corrected = standing.rows.take(pa.array(order[compared.corrected] - count))
        marks_after = {name: column.take(pa.array(compared.corrected)) for name, column in compared.marks.items()}
        return _Compared(
            [_point_rows(sent.rows, marks, dialects)],
            [compared.settled],
            _with_marks(corrected, compared.marks_before),
            _with_marks(corrected, marks_after),
        )

    def _row(self, pushes: CountedPushes, late: RecordBatch | None, compared: "_Compared") -> RecordBatch:
        if self._writer is not None:
            for rows in compared.points:
                self._writer.write(rows)
        corrected = compared.corrected_to
        values = {
            "pushes": pushes.chunk.num_rows - pushes.rejects,
            "points": int(pushes.points.sum()),
            "rejects": pushes.rejects,
            "seen_at": _seen_at(pushes, corrected),
            "counted": as_bytes(COUNTED_ROWS, pushes.rows()),
            "marked": as_bytes(POINT_ROWS, compared.points) if self._in_rows else None,
            "series": as_bytes(SERIES_ROWS, compared.series),
            "files": self._finished(),
        }
        if late is not None:
            columns = {name: late.column(name) for name in CHECKED_ROWS.names}
            values |= {
                "late_pushes": len(late),
                "late": as_bytes(CHECKED_ROWS, [batch_of(CHECKED_ROWS, len(late), columns)]),
            }
        if corrected is not None and compared.corrected_from is not None:
            values |= {
                "corrected_points": len(corrected),
                "corrected_from": as_bytes(POINT_ROWS, [compared.corrected_from]),
                "corrected_to": as_bytes(POINT_ROWS, [corrected]),
            }
        return pa.RecordBatch.from_pylist([values], schema=_PACKED)

    def finish(self) -> RecordBatch:
        """The last row, once there are no more."""
        if self._writer is not None:
            self._writer.finish()
        series = as_bytes(SERIES_ROWS, [self._comparison.finish()])
        values = {"pushes": 0, "points": 0, "rejects": 0, "series": series, "files": self._finished()}
        return pa.RecordBatch.from_pylist([values], schema=_PACKED)

    def _finished(self) -> list[dict[str, Any]]:
        return [asdict(file) for file in self._writer.take_finished()] if self._writer is not None else []

    def _remember(self, current: int, lists: Array, instance_of: Indices) -> None:
        of_list = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        series = pa.RecordBatch.from_struct_array(lists.flatten())
        self._comparison.remember(current, instance_of[of_list], series)
        received_us = series.column("received_at").cast(pa.int64()).to_numpy(zero_copy_only=False)
        until = np.zeros(len(lists), dtype=np.int64)
        np.maximum.at(until, of_list, received_us)
        self._remembered_until |= dict(zip(instance_of.tolist(), until.tolist(), strict=True))

    def _are_late(self, chunk: RecordBatch, instance_of: Indices, is_push: Numbers) -> Numbers:
        """True for the good pushes of late instances, each of which its first good push tells."""
        is_late = np.zeros(len(chunk), dtype=np.bool_)
        if not self._remembered_until and not self._late[1]:
            return is_late
        good = np.flatnonzero(is_push & chunk.column("reason").is_null().to_numpy(zero_copy_only=False))
        received_us = chunk.column("received_at").take(pa.array(good)).cast(pa.int64()).to_numpy(zero_copy_only=False)
        numbers, first = np.unique(instance_of[good], return_index=True)
        of_instance = [self._is_late(*pair) for pair in zip(numbers.tolist(), received_us[first].tolist(), strict=True)]
        is_late[good] = np.repeat(np.array(of_instance, np.bool_), np.diff(np.append(first, len(good))))
        return is_late

    def _is_late(self, instance: int, received_us: int) -> bool:
        if instance != self._late[0]:
            # Of pushes of one moment the later id is later; they are rare enough to have both compared again.
            self._late = instance, received_us <= self._remembered_until.pop(instance, -1)
        return self._late[1]

    def _numbered(self, chunk: RecordBatch) -> Indices:
        """The number of each row's instance, which goes on from the chunk before."""
        columns = [chunk.column(name) for name in INSTANCE]
        is_other = changes(columns)
        first = tuple(column[0].as_py() for column in columns)
        is_other[0] = self._last is not None and first != self._last
        numbered: Indices = self._number + np.cumsum(is_other)
        self._number = int(numbered[-1])
        self._last = tuple(column[-1].as_py() for column in columns)
        return numbered


@dataclass(frozen=True, slots=True)
class _Compared:
    """What the points of a chunk give: POINTS, SERIES, and the standing POINTS that change, before and after."""

    points: Sequence[RecordBatch] = ()
    series: Sequence[RecordBatch] = ()
    corrected_from: RecordBatch | None = None
    corrected_to: RecordBatch | None = None


@dataclass(frozen=True, slots=True)
class _Points:
    """Points, for each the number of its instance and that of its attributes, and the distinct attributes."""

    rows: RecordBatch
    instance_of: Indices
    set_of: Indices
    sets: Sequence[TextMap]

    def looked_at(self) -> "_Points":
        return replace(self, rows=self.rows.select(LOOKED_AT))

    def followed_by(self, other: "_Points") -> "_Points":
        if not len(self.rows):
            return other
        return _Points(
            joined([self.rows, other.rows], other.rows.schema),
            np.concatenate([self.instance_of, other.instance_of]),
            np.concatenate([self.set_of, other.set_of + len(self.sets)]),
            [*self.sets, *other.sets],
        )

    def order(self) -> Indices:
        """Their numbers by instance and receipt."""
        keys = {"instance": pa.array(self.instance_of), **{name: self.rows.column(name) for name in ORDER}}
        found: Indices = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys]).to_numpy(
            zero_copy_only=False
        )
        return found.astype(np.int64)


_NOTHING: Final = np.empty(0, np.int64)


def _given(chunk: RecordBatch, name: str) -> Indices:
    """The rows that have a value in a column that may be missing."""
    if name not in chunk.schema.names:
        return _NOTHING
    return np.flatnonzero(chunk.column(name).is_valid().to_numpy(zero_copy_only=False))


def _standing(chunk: RecordBatch, rows: Indices, instance_of: Indices) -> _Points:
    if not len(rows):
        return _Points(pa.RecordBatch.from_pylist([], schema=POINT_ROWS), _NOTHING, _NOTHING, ())
    found = pa.RecordBatch.from_struct_array(chunk.column("standing").take(pa.array(rows)))
    points = batch_of(POINT_ROWS, len(found), {name: found.column(name) for name in POINT_ROWS.names})
    return _Points(points, instance_of[rows], *distinct_maps(points.column("attributes")))


def _sent(chunk: RecordBatch, pushes: CountedPushes, instance_of: Indices) -> tuple[_Points, Indices]:
    """DECODED of the pushes of a chunk, which are counted too, and for each point the row of its push."""
    sent = _Points(pa.RecordBatch.from_pylist([], schema=DECODED_ROWS), _NOTHING, _NOTHING, ())
    row_of = _NOTHING
    for decoded, counted in decode_and_count(pushes.payloads):
        pushes.add(counted)
        if len(decoded.push_of):
            rows = pushes.good[decoded.push_of]
            points = _Points(decoded_rows(chunk, rows, decoded), instance_of[rows], decoded.set_of, decoded.sets)
            sent, row_of = sent.followed_by(points), np.concatenate([row_of, rows])
    return sent, row_of


def _point_rows(decoded: RecordBatch, marks: dict[str, Array], dialects: Array) -> RecordBatch:
    """POINTS of rows of DECODED."""
    columns = {name: decoded.column(name) for name in POINT_ROWS.names if name in decoded.schema.names}
    columns["distribution"] = _only(columns["distribution"])
    columns["date"] = decoded.column("received_at").cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return batch_of(POINT_ROWS, len(decoded), columns | marks | {"dialect": dialects})


def _with_marks(points: RecordBatch, marks: dict[str, Array]) -> RecordBatch:
    """POINTS with other marks."""
    columns = {name: points.column(name) for name in POINT_ROWS.names}
    return batch_of(POINT_ROWS, len(points), columns | marks)


def _only(lists: Array) -> Array | None:
    """The one item of each list; null for null."""
    if lists.null_count == len(lists):
        return pa.nulls(len(lists), lists.type.value_type)
    is_valid = lists.is_valid().to_numpy(zero_copy_only=False)
    return lists.flatten().take(pa.array(np.cumsum(is_valid) - 1, mask=~is_valid))


def _dialects(chunk: RecordBatch, row_of: Indices, points: RecordBatch) -> Array:
    """The library of each point's client."""
    names, name_of = encoded(chunk.column("client_software_name"))
    versions, version_of = encoded(chunk.column("client_software_version"))
    scopes, scope_of = encoded(points.column("scope_name"))
    kind_of = (name_of * len(versions) + version_of)[row_of] * len(scopes) + scope_of
    kinds, number_of = np.unique(kind_of, return_inverse=True)
    shape = (len(names), len(versions), len(scopes))
    places = zip(*(digits.tolist() for digits in np.unravel_index(kinds, shape)), strict=True)
    found = [library_of(names[name], versions[version], scopes[scope]) for name, version, scope in places]
    return pa.array(found, pa.string()).take(pa.array(number_of))


def _seen_at(pushes: CountedPushes, corrected: RecordBatch | None) -> list[int]:
    """First and last time of receipt of each day, of pushes and corrected points [us]."""
    is_good = pa.array([reason is None for reason in pushes.reasons], pa.bool_())
    times = pushes.chunk.column("received_at").filter(is_good).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if corrected is not None:
        times = np.append(times, corrected.column("received_at").cast(pa.int64()).to_numpy(zero_copy_only=False))
    times = np.sort(times)
    _, begins = np.unique(times // _DAY_US, return_index=True)
    of_days = np.split(times, begins[1:]) if len(times) else []
    return [int(time) for of_day in of_days for time in (of_day[0], of_day[-1])]
