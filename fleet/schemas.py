"""The schema of every table, and `conform`, which holds a frame to one.

Columns carry their unit in their name; times are UTC. Parquet reads every column back as nullable, so all are.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812  # as Spark's own documentation abbreviates it

from fleet.errors import SchemaError

_TEXT_MAP: Final = T.MapType(T.StringType(), T.StringType(), valueContainsNull=True)


def _schema(*fields: tuple[str, T.DataType]) -> T.StructType:
    return T.StructType([T.StructField(name, kind, nullable=True) for name, kind in fields])


PUSH_RECORD: Final = _schema(
    ("push_id", T.StringType()),
    ("received_at", T.TimestampType()),
    ("receiver_node_id", T.IntegerType()),
    ("cluster_id", T.StringType()),
    ("listener", T.StringType()),
    ("client_instance_id", T.StringType()),
    ("client_id", T.StringType()),
    ("client_software_name", T.StringType()),
    ("client_software_version", T.StringType()),
    ("client_source_address", T.StringType()),
    ("client_source_port", T.IntegerType()),
    ("principal", T.StringType()),
    ("subscription_id", T.IntegerType()),
    ("push_interval_ms", T.IntegerType()),
    ("terminating", T.BooleanType()),
    ("compression_type", T.StringType()),
    ("payload_bytes", T.IntegerType()),
    ("schema_version", T.IntegerType()),
    ("metrics", T.BinaryType()),
)
"""`telemetry.push_record.PushRecord` as Spark has it: one row a push as received, repeats included."""

_ORIGIN: Final = _schema(("source_file", T.StringType()), ("source_row", T.LongType()))
_REASON: Final = _schema(("reason", T.StringType()))

_HEADER: Final = _schema(("key", T.StringType()), ("value", T.BinaryType()))

TOPIC_RECORDS: Final = _schema(
    ("key", T.BinaryType()),
    ("value", T.BinaryType()),
    ("topic", T.StringType()),
    ("partition", T.IntegerType()),
    ("offset", T.LongType()),
    ("timestamp", T.TimestampType()),
    ("headers", T.ArrayType(_HEADER)),
)
"""Records of a Kafka topic as Spark's connector gives them: whatever anyone has put there."""

BRONZE: Final = T.StructType(PUSH_RECORD.fields + _ORIGIN.fields + _schema(("fault", T.StringType())).fields)
"""PUSH_RECORD, the file and row that it came from (the partition `topic-0` and offset, if it came from a topic), and
what is wrong with its form: null in a landing zone, whose files are typed.
"""

CHECKED: Final = T.StructType(PUSH_RECORD.fields + _ORIGIN.fields + _REASON.fields)
"""PUSH_RECORD, where it came from, and why the row is set aside; null for a good one."""

PUSHES: Final = T.StructType(
    [field for field in PUSH_RECORD.fields if field.name != "metrics"]
    + _schema(("heartbeat", T.BooleanType()), ("points", T.LongType())).fields
)
"""One row a push, heartbeats too, repeats dropped; `points` counts its data points."""

COUNTED: Final = T.StructType(PUSHES.fields + _ORIGIN.fields + _REASON.fields)
"""PUSHES and the rows set aside, which have a reason, and only what is known of them."""

POINTS: Final = _schema(
    ("push_id", T.StringType()),
    ("point_index", T.IntegerType()),
    ("received_at", T.TimestampType()),
    ("client_instance_id", T.StringType()),
    ("client_id", T.StringType()),
    ("client_software_name", T.StringType()),
    ("client_software_version", T.StringType()),
    ("scope_name", T.StringType()),
    ("metric_name", T.StringType()),
    ("metric_type", T.StringType()),
    ("temporality", T.StringType()),
    ("is_monotonic", T.BooleanType()),
    ("unit", T.StringType()),
    ("start_time_unix_nano", T.LongType()),
    ("time_unix_nano", T.LongType()),
    ("value", T.DoubleType()),
    ("count", T.LongType()),
    ("sum", T.DoubleType()),
    ("attributes", _TEXT_MAP),
    ("resource", _TEXT_MAP),
    ("node_id", T.IntegerType()),
    ("coordinator", T.BooleanType()),
    ("topic", T.StringType()),
    ("partition", T.IntegerType()),
    ("group_id", T.StringType()),
    ("group_member_id", T.StringType()),
    ("twin", T.BooleanType()),
)
"""One row a data point, unique by (`push_id`, `point_index`).

`metric_type` is `gauge`, `sum`, `histogram`, `exponential_histogram` or `summary`; `temporality` is `delta`,
`cumulative` or null; `value` is null where the client recorded nothing (NaN) and for the three last types, which have
`count` and `sum` instead; `attributes` and `resource` are what the client sent, values as text. From `node_id` on,
the columns are the normalised ones of `fleet.dialects`; `node_id` is -1 for a bootstrap or logical link.
"""

DECODED: Final = T.StructType(POINTS.fields + _ORIGIN.fields + _REASON.fields)
"""POINTS and the rows set aside, in one frame, so that one pass over the payloads gives and counts both."""

REJECTS: Final = _schema(
    ("push_id", T.StringType()),
    ("received_at", T.TimestampType()),
    ("client_instance_id", T.StringType()),
    ("client_id", T.StringType()),
    ("source_file", T.StringType()),
    ("source_row", T.LongType()),
    ("reason", T.StringType()),
)
"""One row a push that was set aside, with where it lies (as in BRONZE) and why."""

INVENTORY: Final = _schema(
    ("client_instance_id", T.StringType()),
    ("client_id", T.StringType()),
    ("client_software_name", T.StringType()),
    ("client_software_version", T.StringType()),
    ("principal", T.StringType()),
    ("client_source_address", T.StringType()),
    ("client_source_port", T.IntegerType()),
    ("receiver_node_ids", T.ArrayType(T.IntegerType(), containsNull=False)),
    ("pushes", T.LongType()),
    ("heartbeats", T.LongType()),
    ("points", T.LongType()),
    ("first_seen", T.TimestampType()),
    ("last_seen", T.TimestampType()),
    ("terminated", T.BooleanType()),
)
"""One row a client instance (principal and instance id)."""

LATENCY: Final = _schema(
    ("client_instance_id", T.StringType()),
    ("client_id", T.StringType()),
    ("client_software_name", T.StringType()),
    ("client_software_version", T.StringType()),
    ("role", T.StringType()),
    ("node_id", T.IntegerType()),
    ("coordinator", T.BooleanType()),
    ("latency_avg_ms", T.DoubleType()),
    ("latency_max_ms", T.DoubleType()),
    ("samples", T.LongType()),
)
"""One row a client instance, role (`producer`, `consumer`) and broker link."""


def conform(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """`frame` with exactly the columns of `schema`, in its order and types.

    Spark fills a missing nullable column with NULL without a word, so missing ones are named first.

    Raises:
        SchemaError: columns are missing.
    """
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise SchemaError(f"columns are missing: {', '.join(missing)}")
    return frame.to(schema)
