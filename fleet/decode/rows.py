"""Rows in Arrow's form of the tables that Python makes on Spark's executors."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any, Final

import numpy as np
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.arrow import Array, RecordBatch, Schema, pa, pc
from fleet.decode.distribution import DISTRIBUTION_TYPE, DISTRIBUTIONS_TYPE
from fleet.decode.flat import Indices
from fleet.decode.payloads import DecodedPayloads
from fleet.dialects import Sender
from fleet.schemas import CHECKED, COUNTED, DECODED, DISTRIBUTION, POINTS, REJECTS, SERIES

_ARROW_TYPES: Final[dict[type[T.DataType], Any]] = {
    T.StringType: pa.string(),
    T.TimestampType: pa.timestamp("us", tz="UTC"),
    T.DateType: pa.date32(),
    T.IntegerType: pa.int32(),
    T.LongType: pa.int64(),
    T.DoubleType: pa.float64(),
    T.BooleanType: pa.bool_(),
    T.BinaryType: pa.binary(),
}


def arrow_type(kind: T.DataType) -> Any:
    """A type of `fleet.schemas` in Arrow."""
    if kind == DISTRIBUTION:
        return DISTRIBUTION_TYPE
    if isinstance(kind, T.StructType):
        return pa.struct([(field.name, arrow_type(field.dataType)) for field in kind.fields])
    if isinstance(kind, T.MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, T.ArrayType):
        return DISTRIBUTIONS_TYPE if kind.elementType == DISTRIBUTION else pa.list_(arrow_type(kind.elementType))
    return _ARROW_TYPES[type(kind)]


def arrow_schema(schema: T.StructType) -> Schema:
    """A schema of `fleet.schemas` in Arrow."""
    return pa.schema([(field.name, arrow_type(field.dataType)) for field in schema.fields])


CHECKED_ROWS: Final = arrow_schema(CHECKED)
DECODED_ROWS: Final = arrow_schema(DECODED)
COUNTED_ROWS: Final = arrow_schema(COUNTED)
POINT_ROWS: Final = arrow_schema(POINTS)
SERIES_ROWS: Final = arrow_schema(SERIES)


def batch_of(schema: Schema, rows: int, columns: dict[str, Array]) -> RecordBatch:
    """A batch of `schema`; columns that are not given are null."""
    return _batch(schema, rows, columns.get)


def _batch(schema: Schema, rows: int, column: Callable[[str], Array | None]) -> RecordBatch:
    arrays = []
    for field in schema:
        array = column(field.name)
        arrays.append(pa.nulls(rows, field.type) if array is None else array.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def encoded(texts: Array) -> tuple[list[str | None], Indices]:
    """Distinct texts, None the last of them, and for each text its place."""
    found = texts.dictionary_encode()
    values = [*found.dictionary.to_pylist(), None]
    place_of: Indices = found.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
    return values, place_of


def decoded_rows(chunk: RecordBatch, row_of: Indices, part: DecodedPayloads) -> RecordBatch:
    """DECODED of the points of a part; `row_of` names for each the row of `chunk` that is its push."""
    rows = pa.array(row_of)
    # A point has a place in its push, not in a file: the columns of origin are for what is set aside.
    of_push = set(chunk.schema.names) - {"source_file", "source_row", "reason"}

    def column(name: str) -> Array | None:
        if name in part.columns:
            return part.columns[name]
        return chunk.column(name).take(rows) if name in of_push else None

    return _batch(DECODED_ROWS, len(row_of), column)


def counted_rows(
    chunk: RecordBatch, reasons: list[str | None], points: Indices, senders: list[Sender | None]
) -> RecordBatch:
    """COUNTED of the good rows of a chunk."""
    rows = pa.array(np.flatnonzero([reason is None for reason in reasons]))
    own = {"points": pa.array(points), "heartbeat": pc.equal(pc.binary_length(chunk.column("metrics")), 0)}
    for name in (field.name for field in fields(Sender)):
        own[name] = pa.array([getattr(sender, name) if sender else None for sender in senders], pa.string())

    def column(name: str) -> Array | None:
        if name == "payload":
            return None
        return own[name].take(rows) if name in own else chunk.column(name).take(rows)

    return _batch(COUNTED_ROWS, len(rows), column)


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


_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")


def as_bytes(schema: Schema, batches: Iterable[RecordBatch]) -> bytes:
    """Rows in one value, for `Unpack`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_COMPRESSED) as stream:
        for batch in batches:
            if batch.num_rows:
                stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
