"""Gold: consumers, whether they keep up: lag, how busy their applications are, how long commits and fetches take."""

from typing import Final

from pyspark.sql import DataFrame

from fleet.gold.measures import Measure, by_window
from fleet.gold.windows import DEFAULT_WINDOW_S
from fleet.schemas import CONSUMERS, conform
from telemetry.catalogue.standard_metrics import telemetry_name

_FETCH: Final = ("consumer-fetch-manager-metrics", "consumer-share-fetch-manager-metrics")
_POLL: Final = ("consumer-metrics", "consumer-share-metrics")


def _named(name: str, *groups: str) -> tuple[str, ...]:
    """Share consumers have some under a name of their own."""
    return tuple(telemetry_name(group, name) for group in groups)


_LAG: Final = _named("records-lag", _FETCH[0])

MEASURES: Final = (
    Measure(column="lag_records", metrics=_LAG, over_pushes="last", by_partition="sum"),
    Measure(column="lag_max_records", metrics=_LAG, over_pushes="max", by_partition="sum"),
    Measure(
        column="lag_partition_max_records",
        metrics=(*_LAG, *_named("records-lag-max", _FETCH[0])),
        over_pushes="max",
        by_partition="max",
    ),
    Measure(column="records_consumed", metrics=_named("records-consumed-total", *_FETCH), over_pushes="growth"),
    Measure(column="bytes_consumed", metrics=_named("bytes-consumed-total", *_FETCH), over_pushes="growth"),
    Measure(
        column="poll_idle_ratio_avg",
        metrics=_named("poll-idle-ratio-avg", *_POLL),
        over_pushes="avg",
        zero_may_be_nothing=True,
    ),
    Measure(column="last_poll_seconds_ago", metrics=_named("last-poll-seconds-ago", *_POLL), over_pushes="last"),
    Measure(
        column="commit_latency_avg_ms",
        metrics=_named("commit-latency-avg", "consumer-coordinator-metrics"),
        over_pushes="avg",
        zero_may_be_nothing=True,
    ),
    Measure(
        column="commit_latency_max_ms",
        metrics=_named("commit-latency-max", "consumer-coordinator-metrics"),
        over_pushes="max",
        zero_may_be_nothing=True,
    ),
    Measure(
        column="fetch_latency_avg_ms",
        metrics=_named("fetch-latency-avg", *_FETCH),
        over_pushes="avg",
        zero_may_be_nothing=True,
    ),
    Measure(
        column="fetch_latency_max_ms",
        metrics=_named("fetch-latency-max", *_FETCH),
        over_pushes="max",
        zero_may_be_nothing=True,
    ),
    Measure(
        column="assigned_partitions",
        metrics=_named("assigned-partitions", "consumer-coordinator-metrics"),
        over_pushes="last",
    ),
)


def consumers(points: DataFrame, window_s: int = DEFAULT_WINDOW_S) -> DataFrame:
    """POINTS -> CONSUMERS: one row a consumer instance and window that has any of the metrics.

    `lag_records` is the sum over all partitions in the latest push, `lag_max_records` the largest such sum of a push,
    `lag_partition_max_records` the largest lag of one partition. `records_consumed` and `bytes_consumed` are what the
    totals grew by, without deltas that reach back before the subscription. Only Java sends a lag: of other clients it
    is null and in `unknown`.

    >>> columns = "client_instance_id dialect received_at metric_name topic partition value twin"
    >>> consumer = "org.apache.kafka.consumer"
    >>> lag, idle = f"{consumer}.fetch.manager.records.lag", f"{consumer}.poll.idle.ratio.avg"
    >>> points = table(spark, POINTS, columns, ("one", "java", "12:00:00", lag, "a.b", 0, 100.0, False),
    ...     ("one", "java", "12:00:00", lag, "a_b", 0, 100.0, True),
    ...     ("one", "java", "12:00:00", lag, "a.b", 1, 20.0, False),
    ...     ("one", "java", "12:01:00", lag, "a.b", 0, 70.0, False),
    ...     ("two", "librdkafka", "12:00:00", idle, None, None, 0.9, False))
    >>> found = consumers(points)
    >>> show(found, "client_instance_id lag_records lag_max_records lag_partition_max_records poll_idle_ratio_avg")
    client_instance_id  lag_records  lag_max_records  lag_partition_max_records  poll_idle_ratio_avg
    one                 70           120              100                        -
    two                 -            -                -                          0.9
    >>> show(found.selectExpr("client_instance_id", "array_contains(unknown, 'lag_records') as lag_is_unknown"),
    ...     "client_instance_id lag_is_unknown")
    client_instance_id  lag_is_unknown
    one                 no
    two                 yes
    """
    return conform(by_window(points, MEASURES, window_s), CONSUMERS)
