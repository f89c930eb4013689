"""Silver: everything that a batch's pushes give, in one pass over their payloads on Spark's executors.

The pushes of one client instance come to one task, in the order of their receipt, and before them what earlier runs
remembered of its series. The task decodes a chunk of them at a time and compares the points (`silver.deltas`). Points
are written as files of their table on the spot where that can be, since Spark's own writer, a row at a time, takes
several times as long for a point as all else together; otherwise they go to Spark with the rest.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.arrow import Array, RecordBatch, pa, pc
from fleet.decode.flat import Indices
from fleet.decode.payloads import DecodedPayloads, decode_and_count
from fleet.decode.rows import (
    COUNTED_ROWS,
    POINT_ROWS,
    SERIES_ROWS,
    as_bytes,
    batch_of,
    decoded_rows,
    encoded,
)
from fleet.decode.stage import MAX_CHUNK_BYTES, CountedPushes, Unpack, regroup
from fleet.dialects import library_of
from fleet.measures.aggregate import DEFAULT_WINDOW_S, aggregate
from fleet.measures.rows import ROWS
from fleet.schemas import CHECKED, COUNTED, INSTANCE, PACKED, POINTS, SERIES, conform
from fleet.silver.deltas import LABELS, Comparison
from fleet.spark_schema import spark_schema
from fleet.tables.parquet_files import FileWriter, WriteFiles
from fleet.workers import forget_archives

_TASKS_AT_LEAST: Final = 8
_DAY_US: Final = 86_400_000_000
_REMEMBERED: Final = pa.schema([each for each in SERIES if each.name not in (*INSTANCE, *LABELS)])
_TABLES: Final = {"counted": COUNTED, "marked": POINTS, "windows": ROWS, "series": SERIES}


@dataclass(frozen=True, slots=True)
class InRows:
    """Points go to Spark, in `marked`."""


@dataclass(frozen=True, slots=True)
class Nowhere:
    """Points are there already, from the same batch before it was cut off."""


PointsTo = WriteFiles | InRows | Nowhere


def make(
    checked: DataFrame,
    previous: DataFrame | None = None,
    points_to: PointsTo = InRows(),
    window_s: int = DEFAULT_WINDOW_S,
) -> DataFrame:
    """CHECKED of one batch, without repeats, and the SERIES of earlier ones -> PACKED; see `unpack`.

    Args:
        checked: the pushes.
        previous: at least the series of the instances that have pushes here.
        points_to: where the points go.
        window_s: length of the windows of wide rows [s].
    """
    rows = conform(checked, CHECKED).withColumn("remembered", F.lit(None).cast(T.ArrayType(spark_schema(_REMEMBERED))))
    if previous is not None:
        rows = rows.unionByName(_by_instance(previous), allowMissingColumns=True)
    # What is remembered has no time of receipt, and comes before the pushes.
    ordered = rows.repartition(_tasks(rows), *INSTANCE).sortWithinPartitions(*INSTANCE, "received_at", "push_id")
    return ordered.mapInArrow(MakeBatch(points_to, window_s), spark_schema(PACKED))


def _tasks(rows: DataFrame) -> int:
    """One for each core, and so many at least that each one's share is small; each writes files of its own.

    Spark's own choice on a cluster is 200, however few the pushes and cores: of a frame that is kept it joins none.
    """
    session = rows.sparkSession
    configured = int(session.conf.get("spark.sql.shuffle.partitions") or 0)
    return max(session.sparkContext.defaultParallelism, min(configured, _TASKS_AT_LEAST))


def _by_instance(series: DataFrame) -> DataFrame:
    one = F.struct(*_REMEMBERED.names)
    return conform(series, SERIES).groupBy(*INSTANCE).agg(F.collect_list(one).alias("remembered"))


def unpack(packed: DataFrame, column: Literal["counted", "marked", "windows", "series"]) -> DataFrame:
    """What is in one of the columns of PACKED.

    PACKED -> COUNTED with the rows set aside, -> POINTS, -> partial wide rows, or -> SERIES.

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
    >>> show(unpack(first, "marked"), "received_at value delta reset gap before_subscription late")
    received_at  value  delta  reset  gap  before_subscription  late
    12:00:00     10     10     no     no   yes                  no
    12:01:00     15     5      no     no   no                   no
    >>> show(unpack(first, "series"), "metric_name received_at amount")
    metric_name    received_at  amount
    request.total  12:01:00     15

    In the next run the client had begun anew, and an old push came late:

    >>> later = table(spark, CHECKED, columns, ("d", "12:20:00", total(3), None), ("c", "12:00:30", total(12), None))
    >>> show(unpack(make(later, unpack(first, "series")), "marked"), "received_at value delta reset gap late")
    received_at  value  delta  reset  gap  late
    12:00:30     12     -      -      -    yes
    12:20:00     3      3      yes    yes  no
    """
    schema = _TABLES[column]
    return packed.select(column).mapInArrow(Unpack(tuple(schema.names)), spark_schema(schema))


@dataclass(frozen=True, slots=True)
class MakeBatch:
    """The step of `make`: one row of PACKED a chunk, and one at the end with what had to wait for it."""

    points_to: PointsTo
    window_s: int = DEFAULT_WINDOW_S

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """Of the pushes of any number of instances, in their order."""
        forget_archives()
        with ExitStack() as stack:
            to = self.points_to
            writer = stack.enter_context(to.open()) if isinstance(to, WriteFiles) else None
            maker = _Maker(writer, in_rows=isinstance(to, InRows), window_s=self.window_s)
            for chunk in regroup(batches, MAX_CHUNK_BYTES):
                yield maker.make(chunk)
            yield maker.finish()


class _Maker:
    """What one task knows."""

    def __init__(self, writer: FileWriter | None, *, in_rows: bool, window_s: int) -> None:
        self._writer = writer
        self._in_rows = in_rows
        self._window_s = window_s
        self._comparison = Comparison()
        self._last: tuple[Any, ...] | None = None
        self._number = 0

    def make(self, chunk: RecordBatch) -> RecordBatch:
        """A row of PACKED of the next rows, pushes or what is remembered."""
        instance_of = self._numbered(chunk)
        is_remembered = chunk.column("remembered").is_valid().to_numpy(zero_copy_only=False)
        if is_remembered.any():
            self._remember(chunk, instance_of, np.flatnonzero(is_remembered))
            is_push = np.flatnonzero(~is_remembered)
            chunk, instance_of = chunk.take(pa.array(is_push)), instance_of[is_push]
        pushes = CountedPushes(chunk)
        points: list[RecordBatch] = []
        series: list[RecordBatch] = []
        for decoded, counted in decode_and_count(pushes.payloads):
            pushes.add(counted)
            if len(decoded.push_of):
                row_of = pushes.good[decoded.push_of]
                rows, settled = self._compared(chunk, row_of, instance_of[row_of], decoded)
                points.append(rows)
                series.append(settled)
        return self._row(pushes, points, series)

    def _compared(
        self, chunk: RecordBatch, row_of: Indices, instance_of: Indices, decoded: DecodedPayloads
    ) -> tuple[RecordBatch, RecordBatch]:
        rows = decoded_rows(chunk, row_of, decoded)
        marks, settled = self._comparison.mark(rows, instance_of, decoded.set_of, decoded.sets)
        return _point_rows(rows, marks, _dialects(chunk, row_of, rows)), settled

    def _row(self, pushes: CountedPushes, points: list[RecordBatch], series: list[RecordBatch]) -> RecordBatch:
        if self._writer is not None:
            for rows in points:
                self._writer.write(rows)
        values = {
            "pushes": pushes.chunk.num_rows - pushes.rejects,
            "points": int(pushes.points.sum()),
            "rejects": pushes.rejects,
            "seen_at": _seen_at(pushes),
            "counted": as_bytes(COUNTED_ROWS, pushes.rows()),
            "marked": as_bytes(POINT_ROWS, points) if self._in_rows else None,
            "windows": as_bytes(ROWS, self._wide(points)),
            "series": as_bytes(SERIES_ROWS, series),
            "files": self._finished(),
        }
        return pa.RecordBatch.from_pylist([values], schema=PACKED)

    def _wide(self, points: list[RecordBatch]) -> list[RecordBatch]:
        """Partial wide rows of the points of a chunk, which has all points of each of its pushes."""
        rows: list[RecordBatch] = aggregate(pa.Table.from_batches(points, POINT_ROWS), self._window_s).to_batches()
        return rows

    def finish(self) -> RecordBatch:
        """The last row, once there are no more."""
        if self._writer is not None:
            self._writer.finish()
        series = as_bytes(SERIES_ROWS, [self._comparison.finish()])
        values = {"pushes": 0, "points": 0, "rejects": 0, "series": series, "files": self._finished()}
        return pa.RecordBatch.from_pylist([values], schema=PACKED)

    def _finished(self) -> list[dict[str, Any]]:
        return [asdict(file) for file in self._writer.take_finished()] if self._writer is not None else []

    def _remember(self, chunk: RecordBatch, instance_of: Indices, rows: Indices) -> None:
        lists = chunk.column("remembered").take(pa.array(rows))
        of_list = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        series = pa.RecordBatch.from_struct_array(lists.flatten())
        self._comparison.remember(instance_of[rows][of_list], series)

    def _numbered(self, chunk: RecordBatch) -> Indices:
        """The number of each row's instance, which goes on from the chunk before."""
        columns = [chunk.column(name) for name in INSTANCE]
        changes = np.zeros(len(chunk), dtype=np.int64)
        for column in columns:
            numbers = column.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
            changes[1:] |= numbers[1:] != numbers[:-1]
        first = tuple(column[0].as_py() for column in columns)
        changes[0] = self._last is not None and first != self._last
        numbered: Indices = self._number + np.cumsum(changes)
        self._number = int(numbered[-1])
        self._last = tuple(column[-1].as_py() for column in columns)
        return numbered


def _point_rows(decoded: RecordBatch, marks: dict[str, Array], dialects: Array) -> RecordBatch:
    """POINTS of rows of DECODED."""
    columns = {name: decoded.column(name) for name in POINT_ROWS.names if name in decoded.schema.names}
    columns["distribution"] = _only(columns["distribution"])
    columns["date"] = decoded.column("received_at").cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    return batch_of(POINT_ROWS, len(decoded), columns | marks | {"dialect": dialects})


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


def _seen_at(pushes: CountedPushes) -> list[int]:
    """First and last time of receipt of each day [us]."""
    is_good = pa.array([reason is None for reason in pushes.reasons], pa.bool_())
    times = np.sort(pushes.chunk.column("received_at").filter(is_good).cast(pa.int64()).to_numpy(zero_copy_only=False))
    _, begins = np.unique(times // _DAY_US, return_index=True)
    of_days = np.split(times, begins[1:]) if len(times) else []
    return [int(time) for of_day in of_days for time in (of_day[0], of_day[-1])]
