"""Silver: all rows computed from a batch's pushes, in one pass over their payloads.

A task has all pushes of some client instances, in `repeats.ORDER`. It decodes a chunk of them at a time, compares the
points with what is remembered of their series (`silver.deltas`), makes wide rows of them (`fleet.measures`), and writes
files of the tables where it is: to hand rows to somebody else takes longer than to make them. An instance of which a
push was received no later than what is remembered is late: its points are compared with those that stand in the table
(`silver.late`), which is not read for the others, nearly all.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, Table, pa, pc, to_list
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.rows import batch_of, day_of_receipt, joined, reject_rows
from fleetgauge.fleet.decode.stage import MAX_CHUNK_BYTES, CountedPushes, regroup
from fleetgauge.fleet.measures.aggregate import DEFAULT_WINDOW_S, aggregate, correction, presence
from fleetgauge.fleet.measures.rows import Numbers, filled, is_valid, times
from fleetgauge.fleet.schemas import COUNTED, INSTANCE, POINTS, PUSHES, REJECTS, SERIES
from fleetgauge.fleet.schemas import encoded as encoded_columns
from fleetgauge.fleet.shards import FEWEST_SHARDS, by_shard, parts, shards_of, within
from fleetgauge.fleet.silver.check import checked
from fleetgauge.fleet.silver.compare_late import compare_late
from fleetgauge.fleet.silver.correct import CORRECTED
from fleetgauge.fleet.silver.deltas import Comparison
from fleetgauge.fleet.silver.late import Late
from fleetgauge.fleet.silver.repeats import PUSH, WithoutRepeats
from fleetgauge.fleet.silver.sent import dialects_of, point_rows, sent_points
from fleetgauge.fleet.silver.series import changes, last_rows, with_keys
from fleetgauge.fleet.tables import catalog
from fleetgauge.fleet.tables.log import Snapshot
from fleetgauge.fleet.tables.parquet_files import FileWriter, WriteFiles
from fleetgauge.fleet.tables.written_file import WrittenFile
from fleetgauge.telemetry.catalogue.dialects import library_of

_POINTS: Final = encoded_columns(POINTS)
_LATE_BYTES: Final = 128 * 1024 * 1024
"""Late pushes that are collected before they are compared, about [B]."""
_AFTER_GAPS: Final = "points after gaps"
"""Name of separate files for the few points that late pushes may change, so that `Correct` rewrites little."""
_QUOTED: Final = re.compile(r"'[^']*'|\d{3,}")

Write = Callable[[str, RecordBatch], None]


@dataclass(slots=True, kw_only=True)
class SilverResult:
    """Result of one task.

    Attributes:
        pushes, points, repeats: how many.
        rejects: number of rejected rows by reason, without quoted values.
        schema_version: the newest of any row, or 0.
        days: of receipt of its pushes, from the epoch.
        windows: where the windows begin that have pushes or corrected points [us].
        files: of all tables.
        shards: that SERIES were written of, each as a whole.
        corrected: rows of CORRECTED.
    """

    pushes: int = 0
    points: int = 0
    repeats: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    schema_version: int = 0
    days: set[int] = field(default_factory=set)
    windows: set[int] = field(default_factory=set)
    files: list[WrittenFile] = field(default_factory=list)
    shards: set[int] = field(default_factory=set)
    corrected: list[RecordBatch] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeSilver:
    """Computes silver rows from pushes; a task.

    Attributes:
        write: the tables to write, by name, without those that an earlier try of the batch has written.
        stored: the tables before the batch, by name, without those that do not exist.
        window_s: length of the windows of wide rows [s].
        shards: into how many ranges instances are divided, each of which is one task's.
    """

    write: Mapping[str, WriteFiles]
    stored: Mapping[str, Snapshot]
    window_s: int = DEFAULT_WINDOW_S
    shards: int = FEWEST_SHARDS

    def __call__(self, batches: Iterable[RecordBatch]) -> SilverResult:
        """BRONZE of all pushes of some instances, in ORDER -> files and counts of the task."""
        with ExitStack() as stack:
            writers = {name: stack.enter_context(to.open()) for name, to in self.write.items()}
            if catalog.POINTS.name in writers:
                writers[_AFTER_GAPS] = stack.enter_context(self.write[catalog.POINTS.name].open())
            task = _Task(_to(writers), self.stored, self.window_s, self.shards)
            repeats = WithoutRepeats()
            for chunk in regroup(repeats(checked(batches)), MAX_CHUNK_BYTES):
                task.take(chunk)
            task.finish()
            task.result.repeats += repeats.repeats
            for writer in writers.values():
                writer.finish()
                task.result.files += writer.take_finished()
            return task.result


def _to(writers: Mapping[str, FileWriter]) -> Write:
    def write(table: str, rows: RecordBatch) -> None:
        if table in writers:
            if table == catalog.POINTS.name and (is_after := _are_after_gaps(rows)).any():
                writers[_AFTER_GAPS].write(rows.filter(pa.array(is_after)))
                rows = rows.filter(pa.array(~is_after))
            writers[table].write(rows)
            if table == catalog.SERIES.name:
                writers[table].finish()  # a file a shard

    return write


def _are_after_gaps(points: RecordBatch) -> Numbers:
    marked: Numbers = filled(points.column("gap"), False) | filled(points.column("covers_gap"), False)
    return marked


def points_of(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
    """CHECKED of all pushes of some instances, in ORDER and without repeats -> POINTS, compared with one another."""
    waiting: list[RecordBatch] = []

    def write(table: str, rows: RecordBatch) -> None:
        if table == catalog.POINTS.name:
            waiting.append(rows.cast(POINTS))

    task = _Task(write, {}, DEFAULT_WINDOW_S)
    for chunk in regroup(batches, MAX_CHUNK_BYTES):
        task.take(chunk)
        yield from waiting
        waiting.clear()


class _Task:
    """State of one task."""

    def __init__(
        self, write: Write, stored: Mapping[str, Snapshot], window_s: int, shards: int = FEWEST_SHARDS
    ) -> None:
        self.result = SilverResult()
        self._write = write
        self._stored = stored
        self._window_s = window_s
        self._comparison = Comparison()
        self._count = shards
        self._series = _Series(stored.get(catalog.SERIES.name), shards)
        self._late: dict[int, list[RecordBatch]] = {}  # pushes, by shard
        self._waiting: list[int] = []  # shards of these that have no more pushes
        self._shards: dict[int, int] = {}  # those not written yet, and the number of the last instance of each
        self._last: tuple[Any, ...] | None = None
        self._number = 0
        self._remembered_up_to = -1  # an instance
        self._remembered_until: dict[int, int] = {}  # of instances to come, in us
        self._of_late = (-1, False)  # an instance, and whether it is late

    def take(self, chunk: RecordBatch) -> None:
        """Processes CHECKED rows that follow the earlier ones."""
        newest = pc.max(chunk.column("schema_version")).as_py() or 0
        self.result.schema_version = max(self.result.schema_version, newest)
        chunk = self._without_known(chunk)
        if not len(chunk):
            return
        instance_of = self._numbered(chunk)
        good = np.flatnonzero(~is_valid(chunk.column("reason")))
        if len(good):
            pushes = chunk.select([*INSTANCE, "received_at"]).take(good)
            self._meet(pushes, instance_of[good])
            is_late = np.zeros(len(chunk), np.bool_)
            is_late[good] = self._are_late(pushes, instance_of[good])
            if is_late.any():
                self._put_aside(chunk.filter(pa.array(is_late)))
                chunk, instance_of = chunk.filter(pa.array(~is_late)), instance_of[~is_late]
        self._make(chunk, instance_of)
        self._write_shards(all_of_them=False)

    def finish(self) -> None:
        """Processes what is left at the end of the input."""
        self._series.take(self._comparison.finish())
        self._write_shards(all_of_them=True)

    def _write_shards(self, *, all_of_them: bool) -> None:
        """Writes the SERIES of finished shards: all but the last one, except shards that wait for late pushes.

        Shards with late pushes wait for one another: what stands around these is read for many at a time.
        """
        current, held = next(reversed(self._shards), None), self._comparison.held
        for shard, last in list(self._shards.items()):
            if all_of_them or (shard != current and (held is None or held > last)):
                del self._shards[shard]
                if shard in self._late:
                    self._waiting.append(shard)
                else:
                    self._write_series(shard)
        waiting_bytes = sum(rows.nbytes for shard in self._waiting for rows in self._late[shard])
        if self._waiting and (all_of_them or waiting_bytes > _LATE_BYTES):
            waiting = [rows for shard in self._waiting for rows in self._late.pop(shard)]
            self._make_late(joined(waiting, waiting[0].schema))
            for shard in self._waiting:
                self._write_series(shard)
            self._waiting.clear()

    def _write_series(self, shard: int) -> None:
        self._write(catalog.SERIES.name, self._series.merged(shard))
        self.result.shards.add(shard)

    def _numbered(self, chunk: RecordBatch) -> Indices:
        """Number of each row's instance, continued from the chunk before."""
        columns = [chunk.column(name) for name in INSTANCE]
        is_other = changes(columns)
        first = tuple(column[0].as_py() for column in columns)
        is_other[0] = self._last is not None and first != self._last
        numbered: Indices = self._number + np.cumsum(is_other)
        self._number = int(numbered[-1])
        self._last = tuple(column[-1].as_py() for column in columns)
        return numbered

    def _meet(self, pushes: RecordBatch, instance_of: Indices) -> None:
        """Loads the remembered series of instances that are new in these valid pushes."""
        numbers, first = np.unique(instance_of, return_index=True)
        is_new = numbers > self._remembered_up_to
        if not is_new.any():
            return
        numbers, first = numbers[is_new], first[is_new]
        instances = pushes.select(INSTANCE).take(first)
        self._remembered_up_to = int(instance_of[-1])
        of = shards_of(instances.column("client_instance_id"), self._count)
        self._shards |= dict(zip(of.tolist(), numbers.tolist(), strict=True))
        series, of = self._series.of(instances)
        if not len(series):
            return
        self._comparison.remember(int(instance_of[0]), numbers[of], series)
        until = np.full(len(numbers), -1, dtype=np.int64)
        np.maximum.at(until, of, times(series.column("received_at")))
        self._remembered_until |= dict(zip(numbers.tolist(), until.tolist(), strict=True))

    def _are_late(self, pushes: RecordBatch, instance_of: Indices) -> Numbers:
        """True for the valid pushes of late instances; an instance's first push decides."""
        if catalog.POINTS.name not in self._stored:
            return np.zeros(len(pushes), np.bool_)
        received_us = times(pushes.column("received_at"))
        numbers, first = np.unique(instance_of, return_index=True)
        of_instance = [self._is_late(*pair) for pair in zip(numbers.tolist(), received_us[first].tolist(), strict=True)]
        return np.repeat(np.array(of_instance, np.bool_), np.diff(np.append(first, len(pushes))))

    def _is_late(self, instance: int, received_us: int) -> bool:
        if instance != self._of_late[0]:
            # Of pushes of one moment the later id is later; they are rare enough to have both compared again.
            self._of_late = instance, received_us <= self._remembered_until.pop(instance, -1)
        return self._of_late[1]

    def _put_aside(self, pushes: RecordBatch) -> None:
        for shard, rows in by_shard(pushes, self._count):
            self._late.setdefault(shard, []).append(rows)

    def _without_known(self, chunk: RecordBatch) -> RecordBatch:
        """Rows without the pushes of earlier batches."""
        pushes, is_good = self._stored.get(catalog.PUSHES.name), chunk.column("reason").is_null()
        good = chunk.select(PUSH).filter(is_good)
        if pushes is None or not len(good):
            return chunk
        condition = pc.scalar(True)
        for name, values in (
            ("date", day_of_receipt(good)),
            *((name, good.column(name)) for name in ("received_at", "client_instance_id")),
        ):
            ends = pc.min_max(values)
            condition = condition & (pc.field(name) >= ends["min"]) & (pc.field(name) <= ends["max"])
        known_keys = [_push_keys(batch) for batch in pushes.scan(PUSH, condition)]
        if not sum(map(len, known_keys)):
            return chunk
        known = pc.is_in(_push_keys(chunk), value_set=pa.chunked_array(known_keys, pa.string()).combine_chunks())
        known = pc.and_(known, is_good)
        self.result.repeats += pc.sum(known).as_py()
        return chunk.filter(pc.invert(known))

    def _make(self, chunk: RecordBatch, instance_of: Indices) -> None:
        pushes = CountedPushes(chunk)
        sent, row_of = sent_points(chunk, pushes, instance_of)
        if len(sent.rows):
            compared = self._comparison.mark(sent.rows, sent.instance_of, sent.set_of, sent.sets)
            dialects = dialects_of(chunk, row_of, sent.rows)
            self._write_points(point_rows(sent.rows, compared.marks, dialects, _POINTS))
            self._series.take(compared.settled)
        self._write_pushes(pushes)

    def _make_late(self, waiting: RecordBatch) -> None:
        """Processes late pushes of whole shards."""
        late = Late(self._stored[catalog.POINTS.name])
        for group in late.groups(waiting):
            pushes = CountedPushes(group.pushes)
            sent, row_of = sent_points(group.pushes, pushes, group.number_of)
            if len(sent.rows):
                compared = compare_late(sent, late, group, *self._series.of(group.instances))
                dialects = dialects_of(group.pushes, row_of, sent.rows)
                self._write_points(point_rows(sent.rows, compared.marks, dialects, _POINTS))
                self._correct(compared.before, compared.after)
                for rows in compared.settled:
                    self._series.take(rows)
            self._write_pushes(pushes)

    def _correct(self, before: RecordBatch, after: RecordBatch) -> None:
        if not len(before):
            return
        self.result.corrected.append(after.select(CORRECTED.names).cast(CORRECTED))
        self._see(after.column("received_at"))
        was, is_now = (pa.Table.from_batches([each]) for each in (before, after))
        self._write_wide(correction(was, is_now, self._window_s))

    def _write_points(self, points: RecordBatch) -> None:
        """Writes the points of a chunk, which has all points of each push."""
        self.result.points += len(points)
        self._write(catalog.POINTS.name, points)
        self._write_wide(aggregate(pa.Table.from_batches([points]), self._window_s))

    def _write_wide(self, rows: Table) -> None:
        for batch in rows.to_batches():
            self._write(catalog.WINDOWS.name, batch)

    def _write_pushes(self, pushes: CountedPushes) -> None:
        good = pushes.good_rows()
        self.result.pushes += len(good)
        self._see(good.column("received_at"))
        rows = push_rows(good)
        self.result.days.update(pc.unique(rows.column("date").cast(pa.int32())).to_pylist())
        self._write(catalog.PUSHES.name, rows)
        empty = pa.Table.from_batches([rows.filter(pc.equal(rows.column("points"), 0))])
        self._write_wide(presence(empty, self._window_s))
        for bad in reject_rows(pushes.chunk, pushes.reasons, COUNTED):
            self.result.rejects.update(_QUOTED.sub("...", reason) for reason in to_list(bad.column("reason")))
            self._write(catalog.REJECTS.name, self._new_rejects(reject_rows_of(bad)))

    def _new_rejects(self, rejects: RecordBatch) -> RecordBatch:
        """Rejected rows, without those at a place that an earlier ledger already had rejected."""
        table = self._stored.get(catalog.REJECTS.name)
        if table is None:
            return rejects
        places = ["source_file", "source_row"]
        files = pc.unique(rejects.column("source_file"))
        known = {
            tuple(row.values())
            for batch in table.scan(places, pc.field("source_file").isin(files))
            for row in batch.to_pylist()
        }
        return rejects.filter(
            pa.array([tuple(row.values()) not in known for row in rejects.select(places).to_pylist()], pa.bool_())
        )

    def _see(self, received_at: Array) -> None:
        window_us = self._window_s * 1_000_000
        self.result.windows.update(np.unique(times(received_at) // window_us * window_us).tolist())


class _Series:
    """Remembered and new series, shard by shard; instances come in the order of their ids."""

    def __init__(self, table: Snapshot | None, shards: int) -> None:
        self._table = table
        self._count = shards
        self._known: dict[int, tuple[RecordBatch, dict[tuple[str, ...], tuple[int, int]]]] = {}
        self._new: dict[int, list[RecordBatch]] = {}

    def of(self, instances: RecordBatch) -> tuple[RecordBatch, Indices]:
        """SERIES of some instances, and for each row the index of its instance."""
        parts, of = [], []
        numbers = shards_of(instances.column("client_instance_id"), self._count).tolist()
        keys = zip(*(instances.column(name).to_pylist() for name in INSTANCE), strict=True)
        for place, (shard, instance) in enumerate(zip(numbers, keys, strict=True)):
            rows, places = self._load(shard)
            begin, end = places.get(instance, (0, 0))
            parts.append(rows.slice(begin, end - begin))
            of.append(np.full(end - begin, place))
        return joined(parts, SERIES), np.concatenate(of)

    def _load(self, shard: int) -> tuple[RecordBatch, dict[tuple[str, ...], tuple[int, int]]]:
        """SERIES rows in the order of their instances, and the range of rows of each instance."""
        if shard not in self._known:
            rows = self._read(shard)
            begins = np.flatnonzero(changes([rows.column(name) for name in INSTANCE]))
            keys = zip(*(rows.column(name).take(begins).to_pylist() for name in INSTANCE), strict=True)
            ends = np.append(begins[1:], len(rows))[: len(begins)]
            self._known[shard] = rows, dict(zip(keys, zip(begins.tolist(), ends.tolist(), strict=True), strict=True))
        return self._known[shard]

    def _read(self, shard: int) -> RecordBatch:
        if self._table is None:
            return pa.RecordBatch.from_pylist([], schema=SERIES)
        rows = with_keys(joined(list(self._table.scan(SERIES.names, within(parts(self._count)[shard]))), SERIES))
        return rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in INSTANCE]))

    def take(self, rows: RecordBatch) -> None:
        """Stores the new last points of series."""
        for shard, own in by_shard(rows, self._count):
            self._new.setdefault(shard, []).append(own)

    def merged(self, shard: int) -> RecordBatch:
        """All SERIES of a finished shard."""
        known, _ = self._load(shard)
        del self._known[shard]
        return last_rows([known, *self._new.pop(shard, [])])


def _push_keys(rows: RecordBatch) -> Array:
    """One text for each push."""
    return pc.binary_join_element_wise(*(rows.column(name).cast(pa.string()) for name in PUSH), "\0")


def push_rows(counted: RecordBatch) -> RecordBatch:
    """Good rows of COUNTED -> PUSHES: one row per push, heartbeats too."""
    names, versions = (counted.column(f"client_software_{name}").to_pylist() for name in ("name", "version"))
    known = {kind: library_of(*kind) for kind in set(zip(names, versions, strict=True))}
    dialects = pa.array([known[kind] for kind in zip(names, versions, strict=True)], pa.string())
    columns = {name: counted.column(name) for name in PUSHES.names if name in counted.schema.names}
    return batch_of(PUSHES, len(counted), columns | {"dialect": dialects, "date": day_of_receipt(counted)})


def reject_rows_of(counted: RecordBatch) -> RecordBatch:
    """Rows of COUNTED or DECODED that have a reason -> REJECTS."""
    columns = {name: counted.column(name) for name in REJECTS.names if name in counted.schema.names}
    return batch_of(REJECTS, len(counted), columns | {"date": day_of_receipt(counted)})
