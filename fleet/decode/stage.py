"""The step on Spark's executors: CHECKED batches in, DECODED or COUNTED batches out (`DataFrame.mapInArrow`).

Where several tables come of the same pushes, they are decoded once: PACKED keeps a chunk's DECODED and COUNTED in
Arrow's own form, and `Unpack` hands them out again, a table at a time.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.arrow import Array, RecordBatch, Schema, pa, pc
from fleet.decode.attributes import TEXT_MAP_TYPE
from fleet.decode.distribution import DISTRIBUTIONS_TYPE
from fleet.decode.flat import Indices
from fleet.decode.payloads import CountedPayloads, DecodedPayloads, count, decode, decode_and_count
from fleet.decode.tally import RejectTally
from fleet.dialects import Sender
from fleet.schemas import COUNTED, DECODED, PACKED, REJECTS

MAX_CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Payload bytes that are decoded at once: enough to spread the fixed cost of a batch (0.4 ms) over thousands of
points, little enough to bound a worker's memory. A single larger payload is a chunk of its own."""

_DAY_US: Final = 86_400_000_000
_ARROW_TYPES: Final[dict[type[T.DataType], Any]] = {
    T.StringType: pa.string(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.DoubleType: pa.float64(),
    T.BooleanType: pa.bool_(),
    T.MapType: TEXT_MAP_TYPE,
    T.BinaryType: pa.binary(),
}
_ARROW_LISTS: Final[dict[str, Any]] = {
    "distribution": DISTRIBUTIONS_TYPE,
    "seen_at": pa.list_(_ARROW_TYPES[T.TimestampType]),
}


def _arrow_schema(schema: T.StructType) -> Schema:
    types = {field.name: _ARROW_LISTS.get(field.name) or _ARROW_TYPES[type(field.dataType)] for field in schema.fields}
    return pa.schema(list(types.items()))


_DECODED: Final = _arrow_schema(DECODED)
_COUNTED: Final = _arrow_schema(COUNTED)
_PACKED: Final = _arrow_schema(PACKED)
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True)
class DecodePoints:
    """CHECKED -> DECODED; with `metric_names` only the points of these metrics."""

    metric_names: frozenset[str] | None
    tally: RejectTally | None

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """One or more batches out for each chunk of pushes in."""
        rejects = 0
        for chunk in regroup(batches, MAX_CHUNK_BYTES):
            reasons = _given_reasons(chunk)
            good = np.flatnonzero([reason is None for reason in reasons])
            for part in decode(chunk.column("metrics").take(pa.array(good)).to_pylist(), self.metric_names):
                _add_reasons(reasons, good, part.reasons)
                if len(part.push_of):
                    yield _point_rows(chunk, good[part.push_of], part)
            yield from _reject_rows(chunk, reasons, _DECODED)
            rejects += _rejects(reasons)
        if self.tally:
            self.tally.add(rejects)


@dataclass(frozen=True, slots=True)
class CountPoints:
    """CHECKED -> COUNTED."""

    tally: RejectTally | None

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """One or two batches out for each chunk of pushes in."""
        rejects = 0
        for chunk in regroup(batches, MAX_CHUNK_BYTES):
            pushes = _Pushes(chunk)
            for part in count(pushes.payloads):
                pushes.add(part)
            yield from pushes.rows()
            rejects += pushes.rejects
        if self.tally:
            self.tally.add(rejects)


@dataclass(frozen=True, slots=True)
class PackPushes:
    """CHECKED -> PACKED: one row for each chunk of pushes."""

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """One batch of one row out for each chunk of pushes in."""
        for chunk in regroup(batches, MAX_CHUNK_BYTES):
            yield _pack(chunk)


@dataclass(frozen=True, slots=True)
class Unpack:
    """`counted`, `gauges` or `others` of PACKED -> these columns of COUNTED or DECODED."""

    columns: tuple[str, ...]

    def __call__(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """The batches as they were packed."""
        for batch in batches:
            for packed in batch.column(0):
                for rows in pa.ipc.open_stream(packed.as_buffer()):
                    yield rows.select(list(self.columns))


class _Pushes:
    """A chunk's pushes while they are counted."""

    def __init__(self, chunk: RecordBatch) -> None:
        self.chunk = chunk
        self.reasons = _given_reasons(chunk)
        self.good = np.flatnonzero([reason is None for reason in self.reasons])
        self.points = np.zeros(chunk.num_rows, dtype=np.int64)
        self._senders: list[Sender | None] = [None] * chunk.num_rows

    @property
    def payloads(self) -> list[bytes]:
        """Of the rows that were good when they came."""
        found: list[bytes] = self.chunk.column("metrics").take(pa.array(self.good)).to_pylist()
        return found

    @property
    def rejects(self) -> int:
        """Rows set aside so far."""
        return _rejects(self.reasons)

    def add(self, part: CountedPayloads) -> None:
        """What some of the payloads hold."""
        _add_reasons(self.reasons, self.good, part.reasons)
        self.points[self.good[part.payloads]] = part.points
        for push, sender in zip(self.good[part.payloads].tolist(), part.senders, strict=True):
            self._senders[push] = sender

    def rows(self) -> Iterator[RecordBatch]:
        """COUNTED, once all parts are there."""
        yield _count_rows(self.chunk, self.reasons, self.points, self._senders)
        yield from _reject_rows(self.chunk, self.reasons, _COUNTED)


def _pack(chunk: RecordBatch) -> RecordBatch:
    pushes = _Pushes(chunk)
    gauges: list[RecordBatch] = []
    others: list[RecordBatch] = []
    for decoded, counted in decode_and_count(pushes.payloads):
        pushes.add(counted)
        if len(decoded.push_of):
            rows = _point_rows(chunk, pushes.good[decoded.push_of], decoded)
            gauges.append(rows.slice(0, decoded.gauges))
            others.append(rows.slice(decoded.gauges))
    values = {
        "pushes": chunk.num_rows - pushes.rejects,
        "points": int(pushes.points.sum()),
        "rejects": pushes.rejects,
        "seen_at": _seen_at(chunk, pushes.reasons),
        "counted": _as_bytes(_COUNTED, pushes.rows()),
        "gauges": _as_bytes(_DECODED, gauges),
        "others": _as_bytes(_DECODED, others),
    }
    return pa.RecordBatch.from_pylist([values], schema=_PACKED)


def _seen_at(chunk: RecordBatch, reasons: list[str | None]) -> list[int]:
    """First and last time of receipt of each day [us]."""
    is_good = pa.array([reason is None for reason in reasons], pa.bool_())
    times = np.sort(chunk.column("received_at").filter(is_good).cast(pa.int64()).to_numpy(zero_copy_only=False))
    _, begins = np.unique(times // _DAY_US, return_index=True)
    of_days = np.split(times, begins[1:]) if len(times) else []
    return [int(time) for of_day in of_days for time in (of_day[0], of_day[-1])]


def _as_bytes(schema: Schema, batches: Iterable[RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED) as stream:
        for batch in batches:
            if batch.num_rows:
                stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _given_reasons(chunk: RecordBatch) -> list[str | None]:
    reasons: list[str | None] = chunk.column("reason").to_pylist()
    return reasons


def _rejects(reasons: list[str | None]) -> int:
    return len(reasons) - reasons.count(None)


def _add_reasons(reasons: list[str | None], good: Indices, found: Mapping[int, str]) -> None:
    for push, reason in found.items():
        reasons[good[push]] = reason


def _batch(schema: Schema, rows: int, column: Callable[[str], Array | None]) -> RecordBatch:
    """A batch of `schema`; columns that are not given are null."""
    arrays = []
    for field in schema:
        array = column(field.name)
        arrays.append(pa.nulls(rows, field.type) if array is None else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _point_rows(chunk: RecordBatch, row_of: Indices, part: DecodedPayloads) -> RecordBatch:
    rows = pa.array(row_of)
    # A point has a place in its push, not in a file: the columns of origin are for what is set aside.
    of_push = set(chunk.schema.names) - {"source_file", "source_row", "reason"}

    def column(name: str) -> Array | None:
        if name in part.columns:
            return part.columns[name]
        return chunk.column(name).take(rows) if name in of_push else None

    return _batch(_DECODED, len(row_of), column)


def _count_rows(
    chunk: RecordBatch, reasons: list[str | None], points: Indices, senders: list[Sender | None]
) -> RecordBatch:
    rows = pa.array(np.flatnonzero([reason is None for reason in reasons]))
    own = {"points": pa.array(points), "heartbeat": pc.equal(pc.binary_length(chunk.column("metrics")), 0)}
    for name in (field.name for field in fields(Sender)):
        own[name] = pa.array([getattr(sender, name) if sender else None for sender in senders], pa.string())

    def column(name: str) -> Array | None:
        if name == "payload":
            return None
        return own[name].take(rows) if name in own else chunk.column(name).take(rows)

    return _batch(_COUNTED, len(rows), column)


def _reject_rows(chunk: RecordBatch, reasons: list[str | None], schema: Schema) -> Iterator[RecordBatch]:
    bad = [row for row, reason in enumerate(reasons) if reason is not None]
    if not bad:
        return
    rows = pa.array(bad)
    given = pa.array([reasons[row] for row in bad], pa.string())

    def column(name: str) -> Array | None:
        if name == "reason":
            return given
        if name == "payload":
            return chunk.column("metrics").take(rows)
        return chunk.column(name).take(rows) if name in REJECTS.names else None

    yield _batch(schema, len(bad), column)


def regroup(batches: Iterable[RecordBatch], max_bytes: int) -> Iterator[RecordBatch]:
    """The same rows in chunks of at most `max_bytes` of payload: small batches joined, large ones divided."""
    waiting: list[RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        for piece, piece_bytes in _divide(batch, max_bytes):
            if waiting and waiting_bytes + piece_bytes > max_bytes:
                yield _join(waiting)
                waiting, waiting_bytes = [], 0
            waiting.append(piece)
            waiting_bytes += piece_bytes
    if waiting:
        yield _join(waiting)


def _divide(batch: RecordBatch, max_bytes: int) -> Iterator[tuple[RecordBatch, int]]:
    sizes = pc.fill_null(pc.binary_length(batch.column("metrics")), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes, dtype=np.int64)
    start = before = 0
    while start < len(ends):
        end = max(start + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
        upto = int(ends[end - 1])
        yield batch.slice(start, end - start), upto - before
        start, before = end, upto


def _join(batches: list[RecordBatch]) -> RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
