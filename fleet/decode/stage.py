"""The step on Spark's executors: CHECKED batches in, DECODED or COUNTED batches out (`DataFrame.mapInArrow`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.arrow import Array, RecordBatch, Schema, pa, pc
from fleet.decode.attributes import TEXT_MAP_TYPE
from fleet.decode.distribution import DISTRIBUTIONS_TYPE
from fleet.decode.flat import Indices
from fleet.decode.payloads import DecodedPayloads, count, decode
from fleet.decode.tally import RejectTally
from fleet.dialects import Sender
from fleet.schemas import COUNTED, DECODED, REJECTS

MAX_CHUNK_BYTES: Final = 4 * 1024 * 1024
"""Payload bytes that are decoded at once: enough to spread the fixed cost of a batch (0.4 ms) over thousands of
points, little enough to bound a worker's memory. A single larger payload is a chunk of its own."""

_ARROW_TYPES: Final[dict[type[T.DataType], Any]] = {
    T.StringType: pa.string(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.DoubleType: pa.float64(),
    T.BooleanType: pa.bool_(),
    T.MapType: TEXT_MAP_TYPE,
    T.ArrayType: DISTRIBUTIONS_TYPE,
    T.BinaryType: pa.binary(),
}


def _arrow_schema(schema: T.StructType) -> Schema:
    return pa.schema([pa.field(field.name, _ARROW_TYPES[type(field.dataType)]) for field in schema.fields])


_DECODED: Final = _arrow_schema(DECODED)
_COUNTED: Final = _arrow_schema(COUNTED)


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
            reasons = _given_reasons(chunk)
            good = np.flatnonzero([reason is None for reason in reasons])
            points = np.zeros(chunk.num_rows, dtype=np.int64)
            senders: list[Sender | None] = [None] * chunk.num_rows
            for part in count(chunk.column("metrics").take(pa.array(good)).to_pylist()):
                _add_reasons(reasons, good, part.reasons)
                points[good[part.payloads]] = part.points
                for push, sender in zip(good[part.payloads].tolist(), part.senders, strict=True):
                    senders[push] = sender
            yield _count_rows(chunk, reasons, points, senders)
            yield from _reject_rows(chunk, reasons, _COUNTED)
            rejects += _rejects(reasons)
        if self.tally:
            self.tally.add(rejects)


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
    sizes = pc.fill_null(pc.binary_length(batch.column("metrics")), 0).to_pylist()
    start = total = 0
    for row, size in enumerate(sizes):
        if row > start and total + size > max_bytes:
            yield batch.slice(start, row - start), total
            start, total = row, 0
        total += size
    if len(sizes) > start:
        yield batch.slice(start), total


def _join(batches: list[RecordBatch]) -> RecordBatch:
    return batches[0] if len(batches) == 1 else pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
