"""Gold: latency by window, how long brokers take to answer each client, as the clients see it.

A Java consumer without a network thread of its own (group.protocol=classic) reads responses in `poll()` alone: its
latencies hold the time that its application is elsewhere meanwhile, and say little of the broker.
"""

from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F  # noqa: N812

from fleet.gold.clients import identity_columns, latest_identity
from fleet.gold.metrics import described
from fleet.gold.recorded import recorded
from fleet.gold.windows import DEFAULT_WINDOW_S, with_window
from fleet.schemas import INSTANCE, LATENCY, SENT_POINTS, conform
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


def _reported(points: DataFrame, roles: dict[str, str]) -> DataFrame:
    """The points of these metrics where something was recorded, with their `role`."""
    role = F.create_map(*(F.lit(text) for pair in roles.items() for text in pair))[F.col("metric_name")]
    ours = conform(points, SENT_POINTS).where(F.col("metric_name").isin(sorted(roles)))
    return ours.where(recorded(F.col("value")).isNotNull()).withColumn("role", role)


def _aggregated(grouped: GroupedData) -> DataFrame:
    average = _of("avg")
    return grouped.agg(
        latest_identity(),
        F.avg(average).alias("latency_avg_ms"),
        F.max(_of("max")).alias("latency_max_ms"),
        F.count(average).alias("samples"),
    ).select("*", *identity_columns())


def _of(statistic: str) -> Column:
    return F.when(F.col("metric_name").endswith(f".{statistic}"), F.col("value"))
