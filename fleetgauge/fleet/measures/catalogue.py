"""The table of measures: each line is one column of the wide rows, with the metrics that it is computed from and the
function.

A metric is named as Kafka does: its group and its name. The group says what a data point is of: those of nodes make
the rows of broker links, `producer-topic-metrics` those of topics, all others the row of the client.
"""

from dataclasses import dataclass
from itertools import chain
from typing import Final, Literal

from fleetgauge.telemetry.catalogue.standard_metrics import telemetry_name

Over = Literal["avg", "max", "min", "last", "growth", "samples", "positive"]

_PRODUCER: Final = "producer-metrics"
_CONSUMER: Final = "consumer-metrics"
_COORDINATOR: Final = "consumer-coordinator-metrics"
_CLIENTS: Final = (_PRODUCER, _CONSUMER, "admin-client-metrics")
_COORDINATORS: Final = (_COORDINATOR, "consumer-share-coordinator-metrics")
_FETCH: Final = ("consumer-fetch-manager-metrics", "consumer-share-fetch-manager-metrics")
_POLL: Final = (_CONSUMER, "consumer-share-metrics")
_TOPIC: Final = "producer-topic-metrics"

ROLES_OF_NODES: Final = {
    "producer-node-metrics": "producer",
    "consumer-node-metrics": "consumer",
    "admin-client-node-metrics": "admin",
}
"""The groups of metrics by broker link, and the role of the client that has them."""

_ALL: Final = (*_CLIENTS, *ROLES_OF_NODES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One column of the wide rows.

    Attributes:
        column: its name.
        over: how values become one: those of the pushes of a window for a client, those of all points for a link or
            a topic. `growth` sums deltas, but those that reach back before the subscription; `last` is that of the
            latest push; `samples` counts the pushes that have a value, `positive` those with one above 0.
        metrics: Kafka's groups and names. A push has one value: the largest of its points, or the sum of its deltas.
        by_partition: None reads the points without topic and partition; `sum` and `max` read those of partitions, and
            make one value per push of them.
        by_topic: its points by topic make the rows of topics beside.
        zero_may_be_nothing: a 0 is no measurement, unless Java says it. Java sends NaN where nothing was recorded,
            which is null, and its 0 is a time below 1 ms; librdkafka sends 0, franz-go nothing at all.
        zero_beside: beside a value above 0 of this column, in the same push, a 0 is a measurement, too. librdkafka
            rounds a ratio to millionths: to 0 where an application takes 12 s per record, which it commits.
    """

    column: str
    over: Over
    metrics: tuple[tuple[str, str], ...]
    by_partition: Literal["sum", "max"] | None = None
    by_topic: bool = False
    zero_may_be_nothing: bool = False
    zero_beside: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Telemetry names of the metrics."""
        return tuple(telemetry_name(group, name) for group, name in self.metrics)


def _of(
    column: str,
    over: Over,
    name: str,
    *groups: str,
    zero: bool = True,
    zero_beside: str = "",
    by_topic: bool = False,
    also: tuple[str, str] | None = None,
) -> Measure:
    """A measure of one metric that several groups have; with `zero=False` a 0 may be nothing."""
    metrics = (*((group, name) for group in groups), *([] if also is None else [also]))
    return Measure(
        column=column,
        over=over,
        metrics=metrics,
        by_topic=by_topic,
        zero_may_be_nothing=not zero,
        zero_beside=zero_beside,
    )


_LAG: Final = (_FETCH[0], "records-lag")
_LAG_MAX: Final = (_FETCH[0], "records-lag-max")

MEASURES: Final = (
    # Connections and requests of any client; by broker too.
    _of("connections_created", "growth", "connection-creation-total", *_CLIENTS),
    _of("connection_creation_rate_per_s", "avg", "connection-creation-rate", *_CLIENTS),
    _of("connections_closed", "growth", "connection-close-total", *_CLIENTS),
    _of("connections", "last", "connection-count", *_CLIENTS),
    _of("failed_authentications", "growth", "failed-authentication-total", *_CLIENTS),
    _of("failed_reauthentications", "growth", "failed-reauthentication-total", *_CLIENTS),
    _of("requests", "growth", "request-total", *_ALL),
    _of("request_rate_per_s", "avg", "request-rate", *_ALL),
    _of("request_size_avg_bytes", "avg", "request-size-avg", *_ALL),
    _of("bytes_received", "growth", "incoming-byte-total", *_ALL),
    _of("bytes_sent", "growth", "outgoing-byte-total", *_ALL, also=(_TOPIC, "byte-total")),
    _of("bytes_sent_per_s", "avg", "outgoing-byte-rate", *_ALL),
    _of("request_latency_avg_ms", "avg", "request-latency-avg", _PRODUCER, *ROLES_OF_NODES, zero=False),
    _of("request_latency_max_ms", "max", "request-latency-max", _PRODUCER, *ROLES_OF_NODES, zero=False),
    # Producers.
    _of("requests_in_flight_max", "max", "requests-in-flight", _PRODUCER),
    _of("batch_size_avg_bytes", "avg", "batch-size-avg", _PRODUCER),
    _of("batch_size_max_bytes", "max", "batch-size-max", _PRODUCER),
    _of("batches_split", "growth", "batch-split-total", _PRODUCER),
    _of("records_per_request_avg", "avg", "records-per-request-avg", _PRODUCER),
    _of("record_size_avg_bytes", "avg", "record-size-avg", _PRODUCER),
    _of("compression_rate_avg", "avg", "compression-rate-avg", _PRODUCER, also=(_TOPIC, "compression-rate")),
    _of("record_queue_time_avg_ms", "avg", "record-queue-time-avg", _PRODUCER, zero=False),
    _of("record_queue_time_max_ms", "max", "record-queue-time-max", _PRODUCER, zero=False),
    _of("buffer_wait_ratio_avg", "avg", "bufferpool-wait-ratio", _PRODUCER),
    _of("buffer_wait_ratio_max", "max", "bufferpool-wait-ratio", _PRODUCER),
    _of("buffer_exhausted_records", "growth", "buffer-exhausted-total", _PRODUCER),
    _of("buffer_available_min_bytes", "min", "buffer-available-bytes", _PRODUCER),
    _of("buffer_total_bytes", "last", "buffer-total-bytes", _PRODUCER),
    _of("waiting_threads_max", "max", "waiting-threads", _PRODUCER),
    _of("records_sent", "growth", "record-send-total", _PRODUCER, _TOPIC),
    _of("record_send_rate_per_s", "avg", "record-send-rate", _PRODUCER, _TOPIC),
    _of("record_errors", "growth", "record-error-total", _PRODUCER, _TOPIC),
    _of("record_retries", "growth", "record-retry-total", _PRODUCER, _TOPIC),
    _of("record_error_pushes", "positive", "record-error-rate", _PRODUCER),
    # Throttling by quotas: 0 is what a broker said, or what librdkafka says when none answered.
    _of("produce_throttle_avg_ms", "avg", "produce-throttle-time-avg", _PRODUCER),
    _of("produce_throttle_max_ms", "max", "produce-throttle-time-max", _PRODUCER),
    _of("produce_throttle_samples", "samples", "produce-throttle-time-max", _PRODUCER),
    _of("produce_throttled", "positive", "produce-throttle-time-max", _PRODUCER),
    _of("fetch_throttle_avg_ms", "avg", "fetch-throttle-time-avg", *_FETCH),
    _of("fetch_throttle_max_ms", "max", "fetch-throttle-time-max", *_FETCH),
    _of("fetch_throttle_samples", "samples", "fetch-throttle-time-max", *_FETCH),
    _of("fetch_throttled", "positive", "fetch-throttle-time-max", *_FETCH),
    # Consumers: what they read. `lag_records` has rules of its own: see `fleet.measures.aggregate`.
    Measure(column="lag_max_records", over="max", metrics=(_LAG,), by_partition="sum"),
    Measure(column="lag_partition_max_records", over="max", metrics=(_LAG, _LAG_MAX), by_partition="max"),
    _of("records_consumed", "growth", "records-consumed-total", *_FETCH, by_topic=True),
    _of("bytes_consumed", "growth", "bytes-consumed-total", *_FETCH, by_topic=True),
    _of("fetches", "growth", "fetch-total", *_FETCH),
    _of("fetch_rate_per_s", "avg", "fetch-rate", *_FETCH),
    _of("fetch_size_avg_bytes", "avg", "fetch-size-avg", *_FETCH),
    _of("fetch_size_max_bytes", "max", "fetch-size-max", *_FETCH),
    _of("records_per_fetch_avg", "avg", "records-per-request-avg", *_FETCH),
    _of("fetch_latency_avg_ms", "avg", "fetch-latency-avg", *_FETCH, zero=False),
    _of("fetch_latency_max_ms", "max", "fetch-latency-max", *_FETCH, zero=False),
    # Consumers: how busy their applications are.
    _of("poll_idle_ratio_avg", "avg", "poll-idle-ratio-avg", *_POLL, zero=False, zero_beside="commit_latency_avg_ms"),
    _of("last_poll_seconds_ago", "last", "last-poll-seconds-ago", *_POLL),
    _of("time_between_poll_avg_ms", "avg", "time-between-poll-avg", *_POLL, zero=False),
    _of("time_between_poll_max_ms", "max", "time-between-poll-max", *_POLL, zero=False),
    _of("network_thread_poll_avg_ms", "avg", "time-between-network-thread-poll-avg", *_POLL, zero=False),
    # Consumers: their groups.
    _of("commits", "growth", "commit-total", _COORDINATOR),
    _of("commit_latency_avg_ms", "avg", "commit-latency-avg", _COORDINATOR, zero=False),
    _of("commit_latency_max_ms", "max", "commit-latency-max", _COORDINATOR, zero=False),
    _of("assigned_partitions", "last", "assigned-partitions", _COORDINATOR),
    _of("rebalances", "growth", "rebalance-total", *_COORDINATORS),
    _of("rebalance_rate_per_hour", "last", "rebalance-rate-per-hour", *_COORDINATORS),
    _of("failed_rebalances", "growth", "failed-rebalance-total", _COORDINATOR),
    _of("failed_rebalance_rate_per_hour", "last", "failed-rebalance-rate-per-hour", _COORDINATOR),
    _of("rebalance_latency_avg_ms", "avg", "rebalance-latency-avg", _COORDINATOR, zero=False),
    _of("rebalance_latency_max_ms", "max", "rebalance-latency-max", _COORDINATOR, zero=False),
    _of("rebalance_latency_total_ms", "growth", "rebalance-latency-total", _COORDINATOR),
    _of("last_rebalance_seconds_ago", "last", "last-rebalance-seconds-ago", _COORDINATOR),
    # Of no metric: when a push was received, less the time of its latest point. Above 0 the client's clock is behind.
    Measure(column="clock_skew_min_ms", over="min", metrics=()),
    Measure(column="clock_skew_max_ms", over="max", metrics=()),
)

LAG_RECORDS: Final = "lag_records"
"""Sum over the partitions of the latest push, which rows hold one by one; see `fleet.measures.aggregate`."""
LAG: Final = telemetry_name(*_LAG)
LAG_OF_CLIENT: Final = telemetry_name(*_LAG_MAX)
"""Without a partition, this metric is in every push of a consumer that was asked for lags, even while it has no
partition.
"""
ASSIGNED: Final = "assigned_partitions"

BY_COLUMN: Final = {measure.column: measure for measure in MEASURES}


def _columns(first: str, last: str) -> tuple[str, ...]:
    columns = list(BY_COLUMN)
    return tuple(columns[columns.index(first) : columns.index(last) + 1])


FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "connection": _columns("connections_created", "bytes_sent_per_s"),
    "producer": _columns("requests_in_flight_max", "record_retries"),
    "produce_throttle": _columns("produce_throttle_avg_ms", "produce_throttle_max_ms"),
    "fetch_throttle": _columns("fetch_throttle_avg_ms", "fetch_throttle_max_ms"),
    "consumer": (
        "lag_max_records",
        "lag_partition_max_records",
        "records_consumed",
        "bytes_consumed",
        "poll_idle_ratio_avg",
        "last_poll_seconds_ago",
        "commit_latency_avg_ms",
        "commit_latency_max_ms",
        "fetch_latency_avg_ms",
        "fetch_latency_max_ms",
        "assigned_partitions",
    ),
    "rebalance": _columns("assigned_partitions", "last_rebalance_seconds_ago"),
    "share": (),
}
"""Measures whose metrics come together. For each family a row counts the pushes with any of its metrics. `share` are
all metrics that only share consumers have.
"""

MARKS: Final = ("gap", "covers_gap", "before_subscription")
MARKED: Final = tuple(
    family for family, columns in FAMILIES.items() if any(BY_COLUMN[column].over == "growth" for column in columns)
)
"""Families for which a row counts marked points of sums."""


def family_names(family: str) -> frozenset[str]:
    """Telemetry names of a family's metrics."""
    return frozenset(chain.from_iterable(BY_COLUMN[column].names for column in FAMILIES[family]))
