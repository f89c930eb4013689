"""Rows in Arrow's form of the tables that Python makes on Spark's executors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields

import numpy as np

from fleetgauge.fleet.arrow import Array, RecordBatch, Schema, pa, pc
from fleetgauge.fleet.decode.dialects import Sender
from fleetgauge.fleet.decode.flat import Indices
from fleetgauge.fleet.decode.payloads import DecodedPayloads, dictionary_of
from fleetgauge.fleet.schemas import COUNTED, DECODED, REJECTS


def batch_of(schema: Schema, rows: int, columns: dict[str, Array]) -> RecordBatch:
    """A batch of `schema`; columns that are not given are null."""
    return _batch(schema, rows, columns.get)


def _batch(schema: Schema, rows: int, column: Callable[[str], Array | None]) -> RecordBatch:
    arrays = []
    for field in schema:
        array = column(field.name)
        arrays.append(pa.nulls(rows, field.type) if array is None else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def joined(batches: Sequence[RecordBatch], schema: Schema) -> RecordBatch:
    """The rows of all batches as one."""
    if len(batches) == 1:
        return batches[0]
    whole = pa.Table.from_batches(batches, schema=schema).combine_chunks().to_batches()
    return whole[0] if whole else pa.RecordBatch.from_pylist([], schema=schema)


def encoded(texts: Array) -> tuple[list[str | None], Indices]:
    """Distinct texts, None the last of them, and for each text its place."""
    dictionary = texts.dictionary_encode()
    values = [*dictionary.dictionary.to_pylist(), None]
    place_of: Indices = dictionary.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
    return values, place_of


def decoded_rows(chunk: RecordBatch, row_of: Indices, part: DecodedPayloads, schema: Schema = DECODED) -> RecordBatch:
    """DECODED rows of the points of a part; `row_of` has for each point the row of `chunk` that is its push.

    With `schemas.encoded(DECODED)` texts are places in dictionaries.
    """
    rows = pa.array(row_of)
    # A point has a place in its push, not in a file: the columns of origin are for what is set aside.
    of_push = set(chunk.schema.names) - {"source_file", "source_row", "reason"}

    def column(name: str) -> Array | None:
        if name in part.columns:
            return part.columns[name]
        return dictionary_of(chunk.column(name)).take(rows) if name in of_push else None

    return _batch(schema, len(row_of), column)


def counted_rows(
    chunk: RecordBatch, reasons: list[str | None], points: Indices, sender_of: Indices, senders: list[Sender | None]
) -> RecordBatch:
    """COUNTED of the good rows of a chunk, each of which has the number of its sender."""
    rows: Array = pa.array(np.flatnonzero([reason is None for reason in reasons]))
    own = {"points": pa.array(points), "heartbeat": pc.equal(pc.binary_length(chunk.column("metrics")), 0)}
    for name in (field.name for field in fields(Sender)):
        texts = pa.array([getattr(sender, name) if sender else None for sender in senders], pa.string())
        own[name] = texts.take(sender_of)

    def column(name: str) -> Array | None:
        if name == "payload":
            return None
        return own[name].take(rows) if name in own else chunk.column(name).take(rows)

    return _batch(COUNTED, len(rows), column)


def reject_rows(chunk: RecordBatch, reasons: list[str | None], schema: Schema) -> Iterator[RecordBatch]:
    """The rows of a chunk that have a reason, as `schema`: at most one batch."""
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


def day_of_receipt(rows: RecordBatch) -> Array:
    """The day (UTC) of `received_at` of each row."""
    return rows.column("received_at").cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
