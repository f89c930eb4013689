"""Gold: latency, how long brokers take to answer each client, as the clients see it.

A Java consumer without a network thread of its own (group.protocol=classic) reads responses in `poll()` alone: its
latencies hold the time that its application is elsewhere meanwhile, and say little of the broker.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, GroupedData, Window
from pyspark.sql import functions as F  # noqa: N812

from fleet.gold.clients import identity_columns, latest_identity
from fleet.gold.metrics import described
from fleet.gold.recorded import recorded
from fleet.gold.windows import DEFAULT_WINDOW_S, with_window
from fleet.schemas import INSTANCE, LATENCY, LATENCY_OVERALL, SENT_POINTS, conform
from telemetry.catalogue.standard_metrics import telemetry_name


class _Time(NamedTuple):
    """A time that clients measure; Kafka's names (JMX), to which `-avg` and `-max` belong."""

    role: str
    group: str
    name: str


_BY_NODE: Final = (
    _Time("producer", "producer-node-metrics", "request-latency"),
    _Time("consumer", "consumer-node-metrics", "request-latency"),
)
_TIMES: Final = (
    *_BY_NODE,
    _Time("admin", "admin-client-node-metrics", "request-latency"),
    _Time("producer", "producer-metrics", "request-latency"),
    _Time("producer", "producer-metrics", "record-queue-time"),
    _Time("consumer", "consumer-fetch-manager-metrics", "fetch-latency"),
    _Time("consumer", "consumer-coordinator-metrics", "commit-latency"),
    _Time("share-consumer", "consumer-share-fetch-manager-metrics", "fetch-latency"),
)


def _roles(times: tuple[_Time, ...]) -> dict[str, str]:
    """By telemetry name."""
    return {
        telemetry_name(time.group, f"{time.name}-{statistic}"): time.role
        for time in times
        for statistic in ("avg", "max")
    }


_ALL: Final = _roles(_TIMES)
_OVERALL: Final = _roles(_BY_NODE)

_IDLE, _BETWEEN_AVG, _BETWEEN_MAX, _NETWORK_THREAD = _POLL = tuple(
    telemetry_name("consumer-metrics", name)
    for name in (
        "poll-idle-ratio-avg", "time-between-poll-avg", "time-between-poll-max", "time-between-network-thread-poll-avg",
    )
)  # fmt: skip

_POLL_COLUMNS: Final = (
    "poll_idle_ratio_avg",
    "time_between_poll_avg_ms",
    "time_between_poll_max_ms",
    "network_thread_ms",
)

METRIC_NAMES: Final = frozenset((*_OVERALL, *_POLL))
"""The metrics that `overall` reads; points of others need not be decoded for it."""

_LONG_MS: Final = 100
"""Shorter absences from `poll()` are not judged: Kafka measures the idle ratio in whole milliseconds [ms]."""

_LARGEST_PART: Final = 0.5
"""Of a latency, which the absence from `poll()` has to be able to explain at least."""


def latency(points: DataFrame, window_s: int = DEFAULT_WINDOW_S) -> DataFrame:
    """POINTS or SENT_POINTS -> LATENCY: [ms], one row a client instance, metric, broker link and window.

    `latency_avg_ms` is the mean of the averages that the client reported, `samples` their number, `latency_max_ms`
    the largest maximum. Where nothing was recorded there is no row. Links of one identity (librdkafka has several of
    -1) are one row.

    >>> columns = "received_at metric_name node_id coordinator value"
    >>> node = "org.apache.kafka.producer.node.request.latency"
    >>> points = table(spark, SENT_POINTS, columns, ("12:00:00", f"{node}.avg", 1, False, 3.0),
    ...     ("12:01:00", f"{node}.avg", 1, False, 5.0), ("12:01:00", f"{node}.max", 1, False, 40.0),
    ...     ("12:06:00", f"{node}.avg", 1, False, None))
    >>> show(latency(points), "window_start role node_id latency_avg_ms latency_max_ms samples unit")
    window_start  role      node_id  latency_avg_ms  latency_max_ms  samples  unit
    12:00:00      producer  1        4               40              2        ms
    """
    name = F.col("metric_name")
    rows = with_window(_reported(points, _ALL), window_s).withColumn("metric", F.left(name, F.length(name) - 4))
    found = _aggregated(rows.groupBy(*INSTANCE, "window_start", "role", "metric", "node_id", "coordinator"))
    texts = described(F.concat("metric", F.lit(".avg")), _ALL)
    return conform(
        found.withColumns({"window_s": F.lit(window_s), "date": F.to_date("window_start"), **texts}), LATENCY
    )


def overall(points: DataFrame) -> DataFrame:
    """POINTS or SENT_POINTS -> LATENCY_OVERALL: the same by broker link alone, over all the points at once.

    `waits_for_poll` is true for links of a Java consumer that was away from `poll()` for 100 ms or more each time on
    average, which explains half of the latency or more: with 1,500 ms between two polls and an idle ratio of 0.05 it
    was away for 1,425 ms, and a latency of up to 2,850 ms may be its own doing. Null where the consumer sends neither.

    >>> columns = "client_instance_id dialect received_at metric_name node_id coordinator value"
    >>> consumer = "org.apache.kafka.consumer"
    >>> latency, idle, between = (f"{consumer}.{name}.avg" for name in ("node.request.latency", "poll.idle.ratio",
    ...     "time.between.poll"))
    >>> points = table(spark, SENT_POINTS, columns, ("one", "java", "12:00:00", latency, 1, False, 900.0),
    ...     ("one", "java", "12:00:00", idle, None, None, 0.05),
    ...     ("one", "java", "12:00:00", between, None, None, 1500.0),
    ...     ("two", "java", "12:00:00", latency, 1, False, 900.0),
    ...     ("two", "java", "12:00:00", idle, None, None, 0.99),
    ...     ("two", "java", "12:00:00", between, None, None, 1500.0))
    >>> show(overall(points), "client_instance_id latency_avg_ms time_between_poll_avg_ms waits_for_poll")
    client_instance_id  latency_avg_ms  time_between_poll_avg_ms  waits_for_poll
    one                 900             1500                      yes
    two                 900             1500                      no
    """
    rows = _reported(points, {**_OVERALL, **dict.fromkeys(_POLL, "consumer")})
    # Points of poll() have no node: a row of their own a consumer, from which its links take them. One pass for both.
    links = _aggregated(rows.groupBy(*INSTANCE, "role", "node_id", "coordinator"), *map(_poll_value, _POLL))
    client = Window.partitionBy(*INSTANCE, "role")
    found = links.withColumns({name: F.max(name).over(client) for name in _POLL_COLUMNS})
    away_ms = F.col("time_between_poll_avg_ms") * (1 - F.col("poll_idle_ratio_avg"))
    explains = away_ms >= F.greatest(F.lit(_LONG_MS), F.col("latency_avg_ms") * _LARGEST_PART)
    reads_in_poll = (F.col("role") == "consumer") & (F.col("dialect") == "java") & F.col("network_thread_ms").isNull()
    found = found.where(F.col("node_id").isNotNull()).withColumn("waits_for_poll", reads_in_poll & explains)
    return conform(found, LATENCY_OVERALL)


def _poll_value(name: str) -> Column:
    value = F.when(F.col("metric_name") == name, F.col("value"))
    statistic = F.max if name == _BETWEEN_MAX else F.avg
    return statistic(value).alias(dict(zip(_POLL, _POLL_COLUMNS, strict=True))[name])


def _reported(points: DataFrame, roles: dict[str, str]) -> DataFrame:
    """The points of these metrics where something was recorded, with their `role`."""
    role = F.create_map(*(F.lit(text) for pair in roles.items() for text in pair))[F.col("metric_name")]
    ours = conform(points, SENT_POINTS).where(F.col("metric_name").isin(sorted(roles)))
    return ours.where(recorded(F.col("value")).isNotNull()).withColumn("role", role)


def _aggregated(grouped: GroupedData, *others: Column) -> DataFrame:
    average = _of("avg")
    return grouped.agg(
        latest_identity(),
        F.avg(average).alias("latency_avg_ms"),
        F.max(_of("max")).alias("latency_max_ms"),
        F.count(average).alias("samples"),
        *others,
    ).select("*", *identity_columns())


def _of(statistic: str) -> Column:
    return F.when(F.col("metric_name").endswith(f".{statistic}"), F.col("value"))
