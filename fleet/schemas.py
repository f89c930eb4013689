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

_INSTANCE: Final = _schema(
    ("cluster_id", T.StringType()), ("principal", T.StringType()), ("client_instance_id", T.StringType())
)
INSTANCE: Final = tuple(_INSTANCE.names)
"""The columns that identify a client instance: clusters share ids, and any principal may send any id.

`cluster_id` is '' where the receiver did not know its cluster. Nodes, groups and topics are keyed by it, too.
"""

_SOFTWARE: Final = _schema(
    ("client_id", T.StringType()),
    ("client_software_name", T.StringType()),
    ("client_software_version", T.StringType()),
)

_PAYLOAD: Final = _schema(("payload", T.BinaryType()))
_DATE: Final = _schema(("date", T.DateType()))
_DIALECT: Final = _schema(("dialect", T.StringType()))

SENDER: Final = _schema(
    ("client_rack", T.StringType()),
    ("group_id", T.StringType()),
    ("group_instance_id", T.StringType()),
    ("group_member_id", T.StringType()),
    ("transactional_id", T.StringType()),
)
"""What a client says of itself in its payload (KIP-714, Client telemetry labels); null in a heartbeat."""

_ROLE: Final = _schema(("role", T.StringType()))

_COUNTED_PUSH: Final = T.StructType(
    [field for field in PUSH_RECORD.fields if field.name != "metrics"]
    + SENDER.fields
    + _ROLE.fields
    + _schema(("heartbeat", T.BooleanType()), ("points", T.LongType())).fields
)

PUSHES: Final = T.StructType(_COUNTED_PUSH.fields + _DIALECT.fields + _DATE.fields)
"""One row a push, heartbeats too, repeats dropped.

`points` counts its data points; `client_rack` to `transactional_id` are what its payload says of the client; `role` is
`producer`, `consumer`, `share-consumer`, `admin` or `streams` by its metrics' names, null where they tell none;
`dialect` is `java`, `librdkafka`, `franz-go`, or null where the software's name tells none; `date` is that of receipt
(UTC).
"""

COUNTED: Final = T.StructType(_COUNTED_PUSH.fields + _ORIGIN.fields + _REASON.fields + _PAYLOAD.fields)
"""The columns of PUSHES that are read from payloads, and the rows set aside, which have a reason, their payload, and
only what is known of them."""

DISTRIBUTION: Final = _schema(
    ("min", T.DoubleType()),
    ("max", T.DoubleType()),
    ("bounds", T.ArrayType(T.DoubleType(), containsNull=True)),
    ("bucket_counts", T.ArrayType(T.LongType(), containsNull=True)),
    ("scale", T.IntegerType()),
    ("zero_count", T.LongType()),
    ("zero_threshold", T.DoubleType()),
    ("positive_offset", T.IntegerType()),
    ("negative_offset", T.IntegerType()),
    ("negative_bucket_counts", T.ArrayType(T.LongType(), containsNull=True)),
    ("quantiles", T.ArrayType(T.DoubleType(), containsNull=True)),
    ("quantile_values", T.ArrayType(T.DoubleType(), containsNull=True)),
)
"""What a histogram, an exponential histogram or a summary holds beside `count` and `sum`, as OTLP has it.

A histogram has `bounds` and one more `bucket_counts`; an exponential histogram has `scale`, the zero bucket, and
`bucket_counts` of its positive range from `positive_offset` on; a summary has `quantiles` and their values.
"""

_POINT_PUSH: Final = T.StructType(
    _schema(("push_id", T.StringType()), ("point_index", T.IntegerType()), ("received_at", T.TimestampType())).fields
    + _INSTANCE.fields
    + _SOFTWARE.fields
    + _schema(("push_interval_ms", T.IntegerType())).fields
)

_POINT: Final = _schema(
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
    ("distribution", DISTRIBUTION),
    ("attributes", _TEXT_MAP),
    ("resource", _TEXT_MAP),
    ("node_id", T.IntegerType()),
    ("coordinator", T.BooleanType()),
    ("topic", T.StringType()),
    ("partition", T.IntegerType()),
    ("group_id", T.StringType()),
    ("group_member_id", T.StringType()),
    ("twin", T.BooleanType()),
    ("occurrence", T.IntegerType()),
)

SENT_POINTS: Final = T.StructType(_POINT_PUSH.fields + _POINT.fields + _DIALECT.fields + _DATE.fields)
"""One row a data point as its client sent it, unique by (`push_id`, `point_index`).

`metric_type` is `gauge`, `sum`, `histogram`, `exponential_histogram` or `summary`; `temporality` is `delta`,
`cumulative` or null; `value` is null where the client recorded nothing (NaN) and for the three last types, which have
`count`, `sum` and `distribution` instead; `attributes` and `resource` are what the client sent, values as text. From
`node_id` on, the columns are the normalised ones of `fleet.dialects`: `node_id` is -1 for a bootstrap or logical link;
`twin` marks the second copy of a dotted topic's point; `occurrence` is 0, and 1, 2, ... for further points of the same
metric and attributes in one push, as librdkafka sends them for its logical brokers; `dialect` is that of the client's
library; `date` is that of receipt (UTC).
"""

_CHANGE: Final = _schema(
    ("delta", T.DoubleType()),
    ("delta_sum", T.DoubleType()),
    ("reset", T.BooleanType()),
    ("gap", T.BooleanType()),
    ("covers_gap", T.BooleanType()),
    ("before_subscription", T.BooleanType()),
)

POINTS: Final = T.StructType(SENT_POINTS.fields + _CHANGE.fields)
"""SENT_POINTS compared with the point before in their series; see `fleet.silver.deltas` for what each mark means.

`delta` is what a sum, or the `count` of a distribution, grew by; `delta_sum` what the `sum` of a distribution grew by.
All six are null for a gauge.
"""

SERIES: Final = T.StructType(
    _INSTANCE.fields
    + _schema(
        ("series_key", T.LongType()),
        ("metric_name", T.StringType()),
        ("metric_type", T.StringType()),
        ("temporality", T.StringType()),
        ("attributes", _TEXT_MAP),
        ("occurrence", T.IntegerType()),
        ("received_at", T.TimestampType()),
        ("push_id", T.StringType()),
        ("point_index", T.IntegerType()),
        ("start_time_unix_nano", T.LongType()),
        ("time_unix_nano", T.LongType()),
        ("amount", T.DoubleType()),
        ("amount_sum", T.DoubleType()),
    ).fields
)
"""What is remembered of each series between two runs: its point that was received last. No gauges.

Unique by INSTANCE and `series_key`, a hash of metric, type, temporality, attributes and occurrence. `amount` is the
point's value or count, `amount_sum` its sum.
"""

_DECODED_POINT: Final = [
    T.StructField(field.name, T.ArrayType(DISTRIBUTION)) if field.name == "distribution" else field
    for field in _POINT.fields
]

DECODED: Final = T.StructType(_POINT_PUSH.fields + _DECODED_POINT + _ORIGIN.fields + _REASON.fields + _PAYLOAD.fields)
"""The columns of SENT_POINTS that are read from payloads, and the rows set aside, in one frame, so that one pass over
the payloads gives and counts both. `distribution` is a list of one or none, which costs a number nothing."""

FILES: Final = _schema(
    ("path", T.StringType()),
    ("size_bytes", T.LongType()),
    ("modified_at_ms", T.LongType()),
    ("date", T.DateType()),
    ("rows", T.LongType()),
    ("statistics", T.StringType()),
)
"""One row a data file of a table that is written and not yet committed; see `fleet.tables.written_file`."""

PACKED: Final = _schema(
    ("pushes", T.LongType()),
    ("points", T.LongType()),
    ("rejects", T.LongType()),
    ("seen_at", T.ArrayType(T.TimestampType(), containsNull=True)),
    ("counted", T.BinaryType()),
    ("marked", T.BinaryType()),
    ("series", T.BinaryType()),
    ("files", T.ArrayType(FILES, containsNull=True)),
    ("late_pushes", T.LongType()),
    ("late", T.BinaryType()),
    ("corrected_points", T.LongType()),
    ("corrected_from", T.BinaryType()),
    ("corrected_to", T.BinaryType()),
)
"""Some thousands of pushes, decoded once for all the tables that come of them.

`pushes` and `rejects` count the good ones and those set aside, `seen_at` has the first and the last time of receipt of
each day (UTC) that the good ones and the corrected points have. `counted` is their COUNTED, `marked` their POINTS, and
`series` the SERIES of instances that no more pushes come of, in Arrow's own form, compressed; where the points went to
`files`, `marked` is null.

`late` is CHECKED of the `late_pushes` that were not read, since their instances have points that were received after
them: see `silver.batch.make_late`. `corrected_from` and `corrected_to` are POINTS of earlier batches whose marks these
pushes change: row by row as they are without them, and with them. A batch that runs again gives the same ones.
"""

REJECTS: Final = T.StructType(
    _schema(("push_id", T.StringType()), ("received_at", T.TimestampType())).fields
    + _INSTANCE.fields
    + _schema(
        ("client_id", T.StringType()),
        ("source_file", T.StringType()),
        ("source_row", T.LongType()),
        ("reason", T.StringType()),
        ("payload", T.BinaryType()),
        ("date", T.DateType()),
    ).fields
)
"""One row a push that was set aside, with where it lies (as in BRONZE), why, and the bytes that it brought.

`date` is null where the time of receipt is not known.
"""

CLIENTS: Final = T.StructType(
    _INSTANCE.fields
    + _SOFTWARE.fields
    + _DIALECT.fields
    + _schema(("client_source_address", T.StringType()), ("client_source_port", T.IntegerType())).fields
    + SENDER.fields
    + _ROLE.fields
    + _schema(
        ("sender_seen_at", T.TimestampType()),
        ("sender_push_id", T.StringType()),
        ("push_interval_ms", T.IntegerType()),
        ("first_seen", T.TimestampType()),
        ("last_seen", T.TimestampType()),
        ("last_push_id", T.StringType()),
        ("terminated", T.BooleanType()),
        ("state", T.StringType()),
    ).fields
)
"""One row a client instance, with what its latest push said.

The labels are of the latest push that has any, `sender_push_id`; `role` is told by all its pushes
(`silver.dialect.role_of_all`). `state` is `ended` after a terminating push; when nothing came for three intervals and a
minute at least, `gone` for a kind of client that may end without a terminating push (`dialects.says_when_it_ends`) and
`silent` for the others; else `live`.
"""

ACTIVITY: Final = T.StructType(
    _DATE.fields
    + _INSTANCE.fields
    + _SOFTWARE.fields
    + _schema(
        ("client_source_address", T.StringType()),
        ("client_source_port", T.IntegerType()),
        ("push_interval_ms", T.IntegerType()),
        ("terminated", T.BooleanType()),
        ("group_id", T.StringType()),
        ("role", T.StringType()),
        ("receiver_node_ids", T.ArrayType(T.IntegerType(), containsNull=True)),
        ("pushes", T.LongType()),
        ("heartbeats", T.LongType()),
        ("points", T.LongType()),
        ("first_seen", T.TimestampType()),
        ("last_seen", T.TimestampType()),
    ).fields
)
"""One row a client instance and day of receipt: what INVENTORY adds up, so that it need not read every push again."""

INVENTORY: Final = T.StructType(
    _INSTANCE.fields
    + _SOFTWARE.fields
    + _schema(
        ("client_source_address", T.StringType()),
        ("client_source_port", T.IntegerType()),
        ("receiver_node_ids", T.ArrayType(T.IntegerType(), containsNull=False)),
        ("pushes", T.LongType()),
        ("heartbeats", T.LongType()),
        ("points", T.LongType()),
        ("first_seen", T.TimestampType()),
        ("last_seen", T.TimestampType()),
        ("terminated", T.BooleanType()),
        ("group_id", T.StringType()),
        ("role", T.StringType()),
        ("push_interval_ms", T.IntegerType()),
        ("state", T.StringType()),
    ).fields
)
"""One row a client instance. `state` as in CLIENTS; null when it was not asked for."""

VERSIONS: Final = _schema(
    ("cluster_id", T.StringType()),
    ("client_software_name", T.StringType()),
    ("client_software_version", T.StringType()),
    ("dialect", T.StringType()),
    ("instances", T.LongType()),
    ("clients", T.LongType()),
    ("live", T.LongType()),
    ("silent", T.LongType()),
    ("gone", T.LongType()),
    ("ended", T.LongType()),
    ("first_seen", T.TimestampType()),
    ("last_seen", T.TimestampType()),
)
"""One row a cluster and version of a client's software; `clients` counts distinct client ids."""

LATENCY_OVERALL: Final = T.StructType(
    _INSTANCE.fields
    + _SOFTWARE.fields
    + _schema(
        ("role", T.StringType()),
        ("node_id", T.IntegerType()),
        ("coordinator", T.BooleanType()),
        ("latency_avg_ms", T.DoubleType()),
        ("latency_max_ms", T.DoubleType()),
        ("samples", T.LongType()),
        ("poll_idle_ratio_avg", T.DoubleType()),
        ("time_between_poll_avg_ms", T.DoubleType()),
        ("time_between_poll_max_ms", T.DoubleType()),
        ("waits_for_poll", T.BooleanType()),
    ).fields
)
"""One row a client instance, role (`producer`, `consumer`, `admin`) and broker link, over the whole time.

The three about `poll()` are the consumer's, the same in all its rows; null where it did not send them.
`waits_for_poll`: see `fleet.gold.latency.overall`.
"""

_WINDOW: Final = T.StructType(
    _DATE.fields + _schema(("window_start", T.TimestampType()), ("window_s", T.IntegerType())).fields
)
_WINDOWED: Final = T.StructType(_WINDOW.fields + _INSTANCE.fields + _SOFTWARE.fields + _DIALECT.fields)
_MEANING: Final = _schema(("unit", T.StringType()), ("meaning", T.StringType()))
_UNKNOWN: Final = _schema(("unknown", T.ArrayType(T.StringType(), containsNull=True)))

LATENCY: Final = T.StructType(
    _WINDOWED.fields
    + _schema(
        ("role", T.StringType()),
        ("metric", T.StringType()),
        ("node_id", T.IntegerType()),
        ("coordinator", T.BooleanType()),
        ("latency_avg_ms", T.DoubleType()),
        ("latency_max_ms", T.DoubleType()),
        ("samples", T.LongType()),
    ).fields
    + _MEANING.fields
)
"""One row a client instance, metric, broker link and window of receipt; `node_id` is null for a metric that is not by
broker. `metric` is the metric's name without `.avg` and `.max`.
"""

THROTTLING: Final = T.StructType(
    _WINDOWED.fields
    + _schema(
        ("request", T.StringType()),
        ("metric", T.StringType()),
        ("throttle_avg_ms", T.DoubleType()),
        ("throttle_max_ms", T.DoubleType()),
        ("samples", T.LongType()),
        ("throttled", T.LongType()),
    ).fields
    + _MEANING.fields
)
"""One row a client instance, request (`produce`, `fetch`) and window: how long brokers had it wait, by their answers.

`samples` counts pushes with a maximum, `throttled` those of them with one above 0. A client without a row does not send
the metric or was not asked for it: nothing is known of its throttling.
"""

_CONSUMER: Final = T.StructType(
    _WINDOWED.fields + _schema(("group_id", T.StringType()), ("group_member_id", T.StringType())).fields
)

REBALANCES: Final = T.StructType(
    _CONSUMER.fields
    + _schema(
        ("pushes", T.LongType()),
        ("rebalances", T.DoubleType()),
        ("rebalance_rate_per_hour", T.DoubleType()),
        ("failed_rebalances", T.DoubleType()),
        ("failed_rebalance_rate_per_hour", T.DoubleType()),
        ("rebalance_latency_avg_ms", T.DoubleType()),
        ("rebalance_latency_max_ms", T.DoubleType()),
        ("rebalance_latency_total_ms", T.DoubleType()),
        ("last_rebalance_seconds_ago", T.DoubleType()),
        ("assigned_partitions", T.DoubleType()),
        ("gap", T.BooleanType()),
        ("covers_gap", T.BooleanType()),
    ).fields
    + _UNKNOWN.fields
)
"""One row a consumer instance and window; see `fleet.gold.rebalances` for the metric behind each column.

A null says that nothing came, or nothing was recorded; `unknown` names the columns that this client's library never
sends. `gap` says that a push is missing or the first delta is, so that sums may be low; `covers_gap` that a push is
missing whose growth the next total holds, so that part of a sum may belong to an earlier window.
"""

CONSUMERS: Final = T.StructType(
    _CONSUMER.fields
    + _schema(
        ("pushes", T.LongType()),
        ("lag_records", T.DoubleType()),
        ("lag_max_records", T.DoubleType()),
        ("lag_partition_max_records", T.DoubleType()),
        ("records_consumed", T.DoubleType()),
        ("bytes_consumed", T.DoubleType()),
        ("poll_idle_ratio_avg", T.DoubleType()),
        ("last_poll_seconds_ago", T.DoubleType()),
        ("commit_latency_avg_ms", T.DoubleType()),
        ("commit_latency_max_ms", T.DoubleType()),
        ("fetch_latency_avg_ms", T.DoubleType()),
        ("fetch_latency_max_ms", T.DoubleType()),
        ("assigned_partitions", T.DoubleType()),
        ("gap", T.BooleanType()),
        ("covers_gap", T.BooleanType()),
    ).fields
    + _UNKNOWN.fields
)
"""One row a consumer instance and window; see `fleet.gold.consumers` for the metric behind each column.

Nulls, `unknown`, `gap` and `covers_gap` as in REBALANCES: what a library does not send is unknown, never fine.
"""

METRICS: Final = T.StructType(
    _schema(("metric_name", T.StringType()), ("metric_type", T.StringType())).fields
    + _MEANING.fields
    + _schema(
        ("is_standard", T.BooleanType()),
        ("is_required", T.BooleanType()),
        ("roles", T.ArrayType(T.StringType(), containsNull=True)),
        ("clients", T.ArrayType(T.StringType(), containsNull=True)),
    ).fields
)
"""One row a metric that clients are known to send (`telemetry.catalogue.standard_metrics`)."""


def conform(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """`frame` with exactly the columns of `schema`, in its order and types.

    Spark fills a missing nullable column with NULL without a word, so missing ones are named first.

    Raises:
        SchemaError: columns are missing.
    """
    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise SchemaError(f"columns are missing: {', '.join(missing)}")
    types = {field.name: field.dataType for field in frame.schema.fields}
    if all(types[field.name] == field.dataType for field in schema.fields):
        return frame.select(*schema.names)  # `to` would take every map apart and put it together again
    return frame.to(schema)
