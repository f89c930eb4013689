"""The landing zone's form: a push record a row, columns named and ordered as `PushRecord._fields`.

Spark reads it with an explicit schema of its own (`fleet.schemas`), Parquet's types are said here alone.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from telemetry.push_record import PushRecord

_COLUMNS: Final[tuple[tuple[str, pa.DataType, bool], ...]] = (
    ("push_id", pa.string(), False),
    ("received_at", pa.timestamp("us", tz="UTC"), False),
    ("receiver_node_id", pa.int32(), False),
    ("cluster_id", pa.string(), False),
    ("listener", pa.string(), False),
    ("client_instance_id", pa.string(), False),
    ("client_id", pa.string(), False),
    ("client_software_name", pa.string(), False),
    ("client_software_version", pa.string(), False),
    ("client_source_address", pa.string(), False),
    ("client_source_port", pa.int32(), True),
    ("principal", pa.string(), False),
    ("subscription_id", pa.int32(), True),
    ("push_interval_ms", pa.int32(), True),
    ("terminating", pa.bool_(), False),
    ("compression_type", pa.string(), True),
    ("payload_bytes", pa.int32(), True),
    ("schema_version", pa.int32(), False),
    ("metrics", pa.binary(), False),
)

LANDING_SCHEMA: Final = pa.schema([pa.field(name, kind, nullable=nullable) for name, kind, nullable in _COLUMNS])
"""Nullable is what a receiver may not know, as `PushRecord` says."""

DICTIONARY_COLUMNS: Final = [
    name for name, kind, _ in _COLUMNS if kind == pa.string() and name != "push_id"
]  # `push_id` is unique and `metrics` nearly so: a dictionary would only be in the way
STATISTICS_COLUMNS: Final = ["received_at"]


def record_batch(records: Sequence[PushRecord]) -> pa.RecordBatch:
    """The records as rows.

    Raises:
        pyarrow.ArrowInvalid: a value does not fit its column, for example a number beyond int32.
        pyarrow.ArrowTypeError: a value is of another type.
    """
    columns = zip(*records, strict=True) if records else ((),) * len(LANDING_SCHEMA)
    arrays = [_array(column, field) for column, field in zip(columns, LANDING_SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=LANDING_SCHEMA)


def _array(values: Sequence[object], field: "pa.Field[Any]") -> "pa.Array[Any]":
    array: pa.Array[Any] = pa.array(values, type=field.type)
    if array.null_count and not field.nullable:
        raise pa.ArrowInvalid(f"{field.name} is missing, and no push is without it")
    return array
