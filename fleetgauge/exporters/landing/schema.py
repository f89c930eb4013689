"""The schema of the landing zone: one row per push record, columns named and ordered as `PushRecord._fields`.

Spark reads it with its own explicit schema (`fleet.schemas`); Parquet's types are defined only here.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from fleetgauge.telemetry.push_record import PushRecord

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
"""Columns are nullable if the receiver may not know the value, see `PushRecord`."""

DICTIONARY_COLUMNS: Final = [
    name for name, kind, _ in _COLUMNS if kind == pa.string() and name != "push_id"
]  # `push_id` is unique and `metrics` nearly so: a dictionary would only cost
STATISTICS_COLUMNS: Final = ["received_at"]


def record_batch(records: Sequence[PushRecord]) -> pa.RecordBatch:
    """Converts the records to rows.

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
        raise pa.ArrowInvalid(f"{field.name} is missing: every push must have it")
    return array
