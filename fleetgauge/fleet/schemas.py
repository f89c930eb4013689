"""The schema of every table in Arrow, and `conform`, which holds a frame of Spark to one (`fleet.spark_schema`).

Columns carry their unit in their name; times are UTC. Parquet reads every column back as nullable, so all are.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from fleetgauge.fleet.arrow import Schema, pa
from fleetgauge.fleet.errors import SchemaError
from fleetgauge.verdicts.arrow import typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIME: Final = pa.timestamp("us", tz="UTC")

TEXT_MAP: Final = pa.map_(pa.string(), pa.string())


def _joined(*parts: Iterable[Any]) -> Schema:
    return pa.schema([field for part in parts for field in part])


def schema_of(*fields: tuple[str, Any]) -> Schema:
    """A schema of names and types."""
    return pa.schema(fields)


def encoded(schema: Schema) -> Schema:
    """The same columns with text as dictionaries: points have few distinct texts, and each is copied once."""
    texts = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([field.with_type(texts) if field.type == pa.string() else field for field in schema])


PUSH_RECORD: Final = schema_of(
    ("push_id", pa.string()),
    ("received_at", TIME),
    ("receiver_node_id", pa.int32()),
    *typed(pa.string(), "cluster_id", "listener", "client_instance_id", "client_id", "client_software_name"),
    *typed(pa.string(), "client_software_version", "client_source_address"),
    ("client_source_port", pa.int32()),
    ("principal", pa.string()),
    ("subscription_id", pa.int32()),
    ("push_interval_ms", pa.int32()),
    ("terminating", pa.bool_()),
    ("compression_type", pa.string()),
    ("payload_bytes", pa.int32()),
    ("schema_version", pa.int32()),
    ("metrics", pa.binary()),
)
"""`telemetry.push_record.PushRecord` as Spark has it: one row a push as received, repeats included."""

_ORIGIN: Final = schema_of(("source_file", pa.string()), ("source_row", pa.int64()))
_REASON: Final = schema_of(("reason", pa.string()))

_HEADER: Final = schema_of(("key", pa.string()), ("value", pa.binary()))

TOPIC_RECORDS: Final = schema_of(
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("topic", pa.string()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", TIME),
    ("headers", pa.list_(pa.struct(list(_HEADER)))),
)
"""Records of a Kafka topic as Spark's connector returns them; their content is not validated."""

BRONZE: Final = _joined(PUSH_RECORD, _ORIGIN, schema_of(("fault", pa.string())))
"""PUSH_RECORD, the file and row that it came from (the partition `topic-0` and offset, if it came from a topic), and
what is wrong with its form: null in a landing zone, whose files are typed.
"""

CHECKED: Final = _joined(PUSH_RECORD, _ORIGIN, _REASON)
"""PUSH_RECORD, where it came from, and why the row is set aside; null for a good one."""

_INSTANCE: Final = schema_of(*typed(pa.string(), "cluster_id", "principal", "client_instance_id"))
INSTANCE: Final = tuple(_INSTANCE.names)
"""The columns that identify a client instance: clusters share ids, and any principal may send any id.

`cluster_id` is '' where the receiver did not know its cluster, as `principal` is where the record has none. Nodes,
groups and topics are keyed by `cluster_id`, too.
"""

_SOFTWARE: Final = schema_of(*typed(pa.string(), "client_id", "client_software_name", "client_software_version"))

_PAYLOAD: Final = schema_of(("payload", pa.binary()))
_DATE: Final = schema_of(("date", pa.date32()))
_DIALECT: Final = schema_of(("dialect", pa.string()))
_ADDRESS: Final = schema_of(("client_source_address", pa.string()), ("client_source_port", pa.int32()))
_SEEN: Final = schema_of(("first_seen", TIME), ("last_seen", TIME))
_TOTALS: Final = _joined(schema_of(*typed(pa.int64(), "pushes", "heartbeats", "points")), _SEEN)
_LINK: Final = schema_of(("node_id", pa.int32()), ("coordinator", pa.bool_()))
_LATENCY: Final = schema_of(*typed(pa.float64(), "latency_avg_ms", "latency_max_ms"), ("samples", pa.int64()))
_MEMBER: Final = schema_of(*typed(pa.string(), "group_id", "group_member_id"))
_GAPS: Final = schema_of(*typed(pa.bool_(), "gap", "covers_gap"))

SENDER: Final = schema_of(
    *typed(pa.string(), "client_rack", "group_id", "group_instance_id", "group_member_id", "transactional_id"),
)
"""Labels of a client in its payload (KIP-714, Client telemetry labels); null in a heartbeat."""

_ROLE: Final = schema_of(("role", pa.string()))

_COUNTED_PUSH: Final = _joined(
    [field for field in PUSH_RECORD if field.name != "metrics"],
    SENDER,
    _ROLE,
    schema_of(("heartbeat", pa.bool_()), ("points", pa.int64())),
)

PUSHES: Final = _joined(_COUNTED_PUSH, _DIALECT, _DATE)
"""One row a push, heartbeats too, repeats dropped.

`points` counts its data points; `client_rack` to `transactional_id` are what its payload says of the client; `role` is
`producer`, `consumer`, `share-consumer`, `admin` or `streams` by its metrics' names, null where they tell none;
`dialect` is `java`, `librdkafka`, `franz-go`, or null where the software's name tells none; `date` is that of receipt
(UTC).
"""

COUNTED: Final = _joined(_COUNTED_PUSH, _ORIGIN, _REASON, _PAYLOAD)
"""Columns of PUSHES that are read from payloads, and rejected rows with a reason, their payload and the columns known
of them.
"""

DISTRIBUTION: Final = schema_of(
    ("min", pa.float64()),
    ("max", pa.float64()),
    ("bounds", pa.list_(pa.float64())),
    ("bucket_counts", pa.list_(pa.int64())),
    ("scale", pa.int32()),
    ("zero_count", pa.int64()),
    ("zero_threshold", pa.float64()),
    ("positive_offset", pa.int32()),
    ("negative_offset", pa.int32()),
    ("negative_bucket_counts", pa.list_(pa.int64())),
    ("quantiles", pa.list_(pa.float64())),
    ("quantile_values", pa.list_(pa.float64())),
)
"""Content of a histogram, an exponential histogram or a summary besides `count` and `sum`, in OTLP's form.

A histogram has `bounds` and one more `bucket_counts`; an exponential histogram has `scale`, the zero bucket, and
`bucket_counts` of its positive range from `positive_offset` on; a summary has `quantiles` and their values.
"""

_POINT_PUSH: Final = _joined(
    schema_of(("push_id", pa.string()), ("point_index", pa.int32()), ("received_at", TIME)),
    _INSTANCE,
    _SOFTWARE,
    schema_of(("push_interval_ms", pa.int32())),
)

_POINT: Final = schema_of(
    *typed(pa.string(), "scope_name", "origin", "metric_name", "metric_type", "temporality"),
    ("is_monotonic", pa.bool_()),
    ("unit", pa.string()),
    ("start_time_unix_nano", pa.int64()),
    ("time_unix_nano", pa.int64()),
    ("value", pa.float64()),
    ("count", pa.int64()),
    ("sum", pa.float64()),
    ("distribution", pa.struct(list(DISTRIBUTION))),
    ("attributes", TEXT_MAP),
    ("resource", TEXT_MAP),
    *_LINK,
    ("topic", pa.string()),
    ("partition", pa.int32()),
    *_MEMBER,
    ("twin", pa.bool_()),
    ("occurrence", pa.int32()),
)

SENT_POINTS: Final = _joined(_POINT_PUSH, _POINT, _DIALECT, _DATE)
"""One row a data point as its client sent it, unique by (`push_id`, `point_index`).

`metric_type` is `gauge`, `sum`, `histogram`, `exponential_histogram` or `summary`; `temporality` is `delta`,
`cumulative` or null; `value` is null where the client recorded nothing (NaN, or OTLP's flag) and for the three last
types, which have `count`, `sum` and `distribution` instead, null with that flag; `attributes` and `resource` are what
the client sent, values as text; `unit` is null for the catalogue's unit, which values are converted to, and for none;
`origin` is the scope and the service of a point as JSON, null for known clients (docs/reference/points.md). From
`node_id` on, the columns are the normalised ones of `fleet.decode.dialects`: `node_id` is -1 for a bootstrap or logical
link; `twin` marks the second copy of a dotted topic's point; `occurrence` is 0, and 1, 2, ... for further points of the
same series and time in one push, as librdkafka sends them for its logical brokers; `dialect` is that of the client's
library; `date` is that of receipt (UTC).
"""

_CHANGE: Final = schema_of(
    ("delta", pa.float64()),
    ("delta_sum", pa.float64()),
    *typed(pa.bool_(), "reset", "gap", "covers_gap", "before_subscription"),
)

POINTS: Final = _joined(SENT_POINTS, _CHANGE)
"""SENT_POINTS compared with the point before in their series; see `fleet.silver.deltas` for what each mark means.

`delta` is what a sum, or the `count` of a distribution, grew by; `delta_sum` what the `sum` of a distribution grew by.
All six are null for a gauge.
"""

SERIES: Final = _joined(
    _INSTANCE,
    schema_of(
        ("series", pa.int64()),
        *typed(pa.string(), "metric_name", "metric_type", "temporality", "origin", "unit"),
        ("attributes", TEXT_MAP),
        ("occurrence", pa.int32()),
        ("received_at", TIME),
        ("push_id", pa.string()),
        ("point_index", pa.int32()),
        ("start_time_unix_nano", pa.int64()),
        ("time_unix_nano", pa.int64()),
        ("amount", pa.float64()),
        ("amount_sum", pa.float64()),
        ("buckets", pa.list_(pa.float64())),
        ("bounds", pa.list_(pa.float64())),
    ),
)
"""Last received point of each series, remembered between two runs; no gauges.

Unique by INSTANCE and `series`, a hash of metric, type, origin, unit, attributes and occurrence; null in rows of an
earlier form, which a run gives one. `amount` is the running amount of the values or counts, `amount_sum` of the sums,
null where it is not known; `buckets` is that of a histogram's buckets, between `bounds`.
"""

_DECODED_POINT: Final = [
    pa.field(field.name, pa.list_(field.type)) if field.name == "distribution" else field for field in _POINT
]

DECODED: Final = _joined(_POINT_PUSH, _DECODED_POINT, _ORIGIN, _REASON, _PAYLOAD)
"""The columns of SENT_POINTS that are read from payloads, and the rows set aside, in one frame, so that one pass over
the payloads gives and counts both. `distribution` is a list of one or none, which costs a number nothing."""

REJECTS: Final = _joined(
    schema_of(("push_id", pa.string()), ("received_at", TIME)),
    _INSTANCE,
    schema_of(("client_id", pa.string())),
    *(_ORIGIN, _REASON, _PAYLOAD, _DATE),
)
"""One row a push that was set aside, with where it lies (as in BRONZE), why, and the bytes that it brought.

`date` is null where the time of receipt is not known.
"""

CLIENTS: Final = _joined(
    _INSTANCE,
    _SOFTWARE,
    _DIALECT,
    _ADDRESS,
    SENDER,
    _ROLE,
    schema_of(
        ("sender_seen_at", TIME),
        ("sender_push_id", pa.string()),
        ("push_interval_ms", pa.int32()),
        *_SEEN,
        ("last_push_id", pa.string()),
        ("terminated", pa.bool_()),
        ("state", pa.string()),
    ),
)
"""One row a client instance, with what its latest push said.

The labels are of the latest push that has any, `sender_push_id`; `role` is told by all its pushes
(`silver.clients.merged`). `state` is `ended` after a terminating push; when nothing came for three intervals and a
minute at least, `gone` for a kind of client that may end without a terminating push (`dialects.says_when_it_ends`) and
`silent` for the others; else `live`.
"""

ACTIVITY: Final = _joined(
    _DATE,
    _INSTANCE,
    _SOFTWARE,
    _ADDRESS,
    schema_of(
        ("push_interval_ms", pa.int32()),
        ("terminated", pa.bool_()),
        *typed(pa.string(), "group_id", "role"),
        ("receiver_node_ids", pa.list_(pa.int32())),
    ),
    _TOTALS,
)
"""One row a client instance and day of receipt: what INVENTORY adds up, so that it need not read every push again."""

INVENTORY: Final = _joined(
    _INSTANCE,
    _SOFTWARE,
    _ADDRESS,
    schema_of(
        ("receiver_node_ids", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        *_TOTALS,
        ("terminated", pa.bool_()),
        *typed(pa.string(), "group_id", "role"),
        ("push_interval_ms", pa.int32()),
        ("state", pa.string()),
    ),
)
"""One row a client instance. `state` as in CLIENTS; null when it was not asked for."""

VERSIONS: Final = schema_of(
    *typed(pa.string(), "cluster_id", "client_software_name", "client_software_version", "dialect"),
    *typed(pa.int64(), "instances", "clients", "live", "silent", "gone", "ended"),
    *_SEEN,
)
"""One row a cluster and version of a client's software; `clients` counts distinct client ids."""

LATENCY_OVERALL: Final = _joined(
    _INSTANCE,
    _SOFTWARE,
    _ROLE,
    _LINK,
    _LATENCY,
    schema_of(
        *typed(pa.float64(), "poll_idle_ratio_avg", "time_between_poll_avg_ms", "time_between_poll_max_ms"),
        ("waits_for_poll", pa.bool_()),
    ),
)
"""One row a client instance, role (`producer`, `consumer`, `admin`) and broker link, over the whole time.

The three about `poll()` are the consumer's, the same in all its rows; null where it did not send them.
`waits_for_poll`: see `fleet.gold.latency.overall`.
"""

_WINDOW: Final = _joined(_DATE, schema_of(("window_start", TIME), ("window_s", pa.int32())))
_WINDOWED: Final = _joined(_WINDOW, _INSTANCE, _SOFTWARE, _DIALECT)
_MEANING: Final = schema_of(("unit", pa.string()), ("meaning", pa.string()))
_UNKNOWN: Final = schema_of(("unknown", pa.list_(pa.string())))

LATENCY: Final = _joined(
    _WINDOWED,
    schema_of(*typed(pa.string(), "role", "metric")),
    _LINK,
    _LATENCY,
    _MEANING,
    schema_of(("bootstrap", pa.bool_())),
)
"""One row a client instance, metric, broker link and window of receipt; `node_id` is null for a metric that is not by
broker, and -1 for a bootstrap or logical link, which `bootstrap` marks. `metric` is the metric's name without `.avg`
and `.max`.
"""

THROTTLING: Final = _joined(
    _WINDOWED,
    schema_of(
        ("request", pa.string()),
        ("metric", pa.string()),
        ("throttle_avg_ms", pa.float64()),
        ("throttle_max_ms", pa.float64()),
        ("samples", pa.int64()),
        ("throttled", pa.int64()),
    ),
    _MEANING,
)
"""One row a client instance, request (`produce`, `fetch`) and window: how long brokers had it wait, by their answers.

`samples` counts pushes with a maximum, `throttled` those of them with one above 0. A client without a row does not send
the metric or was not asked for it: nothing is known of its throttling.
"""

PRODUCERS: Final = _joined(
    _WINDOWED,
    schema_of(
        ("pushes", pa.int64()),
        *typed(pa.float64(), "records_sent", "bytes_sent", "requests", "record_errors", "record_retries"),
        ("record_error_pushes", pa.int64()),
        *typed(pa.float64(), "batch_size_avg_bytes", "batch_size_max_bytes", "batches_split"),
        *typed(pa.float64(), "records_per_request_avg", "record_size_avg_bytes", "compression_rate_avg"),
        *typed(pa.float64(), "record_queue_time_avg_ms", "record_queue_time_max_ms"),
        *typed(pa.float64(), "request_latency_avg_ms", "request_latency_max_ms", "requests_in_flight_max"),
        *typed(pa.float64(), "produce_throttle_avg_ms", "produce_throttle_max_ms"),
        *typed(pa.float64(), "buffer_wait_ratio_avg", "buffer_available_min_bytes", "buffer_exhausted_records"),
    ),
    _GAPS,
    _UNKNOWN,
)
"""One row a producer instance and window; see `fleet.measures.catalogue` for the metric behind each column.

Nulls, `unknown`, `gap` and `covers_gap` as in REBALANCES: what a library does not send is unknown, never fine.
"""

_CONSUMER: Final = _joined(_WINDOWED, _MEMBER, schema_of(("pushes", pa.int64())))

REBALANCES: Final = _joined(
    _CONSUMER,
    schema_of(
        *typed(pa.float64(), "rebalances", "rebalance_rate_per_hour", "failed_rebalances"),
        *typed(pa.float64(), "failed_rebalance_rate_per_hour", "rebalance_latency_avg_ms"),
        *typed(pa.float64(), "rebalance_latency_max_ms", "rebalance_latency_total_ms", "last_rebalance_seconds_ago"),
        ("assigned_partitions", pa.float64()),
    ),
    _GAPS,
    _UNKNOWN,
)
"""One row a consumer instance and window; see `fleet.measures.catalogue` for the metric behind each column.

A null says that nothing came, or nothing was recorded; `unknown` names the columns that this client's library never
sends. `gap` says that a push is missing or the first delta is, so that sums may be low; `covers_gap` that a push is
missing whose growth the next total holds, so that part of a sum may belong to an earlier window.
"""

CONSUMERS: Final = _joined(
    _CONSUMER,
    schema_of(
        *typed(pa.float64(), "lag_records", "lag_max_records", "lag_partition_max_records", "records_consumed"),
        *typed(pa.float64(), "bytes_consumed", "poll_idle_ratio_avg", "last_poll_seconds_ago"),
        *typed(pa.float64(), "commit_latency_avg_ms", "commit_latency_max_ms", "fetch_latency_avg_ms"),
        *typed(pa.float64(), "fetch_latency_max_ms", "assigned_partitions"),
    ),
    _GAPS,
    _UNKNOWN,
)
"""One row a consumer instance and window; see `fleet.measures.catalogue` for the metric behind each column.

Nulls, `unknown`, `gap` and `covers_gap` as in REBALANCES: what a library does not send is unknown, never fine.
"""

GROUPS: Final = _joined(
    _WINDOW,
    schema_of(
        ("cluster_id", pa.string()),
        ("group_id", pa.string()),
        ("members", pa.int64()),
        ("lag_records", pa.float64()),
        ("lag_partitions", pa.int64()),
        *typed(pa.float64(), "assigned_partitions", "records_consumed", "rebalances"),
    ),
)
"""One row a consumer group and window: its members that pushed, and sums over them.

`lag_records` counts each of `lag_partitions` once. `assigned_partitions` adds up what each member had last,
`records_consumed` and `rebalances` what their totals grew by. Null where no member sends it.
"""

GROUP_OFFSETS: Final = schema_of(
    ("date", pa.date32()),
    ("sampled_at", TIME),
    *typed(pa.string(), "cluster_id", "group_id", "state", "member_id", "client_id", "host", "topic"),
    ("partition", pa.int32()),
    ("committed_offset", pa.int64()),
    ("end_offset", pa.int64()),
    ("error", pa.string()),
)
"""One row a sample of a partition of a consumer group, of a member without partitions, or of what could not be sampled,
as `fleetgauge offsets` writes them (docs/deliver/group-offsets.md)."""

TRAFFIC: Final = schema_of(
    ("date", pa.date32()),
    ("window_start", TIME),
    ("window_ms", pa.int64()),
    ("cluster_id", pa.string()),
    ("node_id", pa.int32()),
    *typed(pa.string(), "principal", "client_id", "group_id"),
    ("api_key", pa.int32()),
    ("api", pa.string()),
    ("api_version", pa.int32()),
    *typed(pa.int64(), "requests", "request_bytes", "response_bytes"),
    *typed(pa.float64(), "gateway_time_ms", "broker_time_ms", "broker_time_max_ms"),
    *typed(pa.int64(), "throttled_requests", "throttle_time_ms", "group_joins", "batches", "records", "record_bytes"),
    ("compressions", pa.map_(pa.string(), pa.int64())),
    ("errors", pa.map_(pa.int32(), pa.int64())),
)
"""One row a client, API and group that sent requests through a gateway in an interval, as the gateway writes them
(docs/start/gateway.md)."""

METRICS: Final = _joined(
    schema_of(("metric_name", pa.string()), ("metric_type", pa.string())),
    _MEANING,
    schema_of(
        ("is_standard", pa.bool_()),
        ("is_required", pa.bool_()),
        ("roles", pa.list_(pa.string())),
        ("clients", pa.list_(pa.string())),
    ),
)
"""One row a metric that clients are known to send (`telemetry.catalogue.standard_metrics`)."""


def conform(frame: "DataFrame", schema: Schema) -> "DataFrame":
    """`frame` with exactly the columns of `schema`, in its order and types.

    Spark fills a missing nullable column with NULL without a word, so missing ones are named first.

    Raises:
        SchemaError: columns are missing.
    """
    from fleetgauge.fleet.spark_schema import spark_schema

    missing = [name for name in schema.names if name not in frame.columns]
    if missing:
        raise SchemaError(f"columns are missing: {', '.join(missing)}")
    types = {field.name: field.dataType for field in frame.schema.fields}
    wanted = spark_schema(schema)
    if all(types[field.name] == field.dataType for field in wanted.fields):
        return frame.select(*schema.names)  # `to` would take every map apart and put it together again
    return frame.to(wanted)
