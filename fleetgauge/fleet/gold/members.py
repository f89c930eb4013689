"""Gold: rebalances, consumers and groups: what members of consumer groups have of measures, by window."""

from functools import cache

from fleetgauge.fleet.gold.sql import (
    KEY,
    WINDOWED,
    Query,
    exact_sum,
    latest,
    listed,
    measures_of,
    over_windows,
    unknown,
)
from fleetgauge.fleet.schemas import CONSUMERS, GROUPS, REBALANCES


@cache
def rebalances() -> Query:
    """WINDOWS -> REBALANCES: one row per consumer instance and window that has any of the metrics.

    `rebalances`, `failed_rebalances` and `rebalance_latency_total_ms` are what the totals grew by; a delta that reaches
    back before the subscription is left out, and `gap` says so. The others are the client's own gauges: rates and
    `last_rebalance_seconds_ago` as the latest push that has them.

    >>> columns = "received_at metric_name value delta gap before_subscription dialect client_instance_id"
    >>> total, assigned = (f"org.apache.kafka.consumer.coordinator.{name}" for name in
    ...     ("rebalance.total", "assigned.partitions"))
    >>> points = rows(POINTS, columns, ("12:00:00", total, 9.0, 9.0, False, True, "java", "one"),
    ...     ("12:01:00", total, 2.0, 2.0, False, False, "java", "one"),
    ...     ("12:01:00", assigned, 4.0, None, None, None, "franz-go", "two"))
    >>> found = answer(rebalances(), aggregate(points, 300))
    >>> show(found, "client_instance_id pushes rebalances assigned_partitions gap")
    client_instance_id  pushes  rebalances  assigned_partitions  gap
    one                 2       2           -                    yes
    two                 1       -           4                    no
    """
    measures = measures_of(REBALANCES)
    return over_windows(
        REBALANCES,
        f"""
        SELECT {WINDOWED}, group_id, group_member_id, rebalance_pushes AS pushes, {listed(measures)},
          rebalance_gap AS gap, rebalance_covers_gap AS covers_gap,
          {unknown(measures, "share-consumer", "consumer")} AS unknown
        FROM clients
        WHERE rebalance_pushes > 0
        """,
    )


@cache
def consumers() -> Query:
    """WINDOWS -> CONSUMERS: one row per consumer instance and window that has any of the metrics.

    `lag_records` is the sum over all partitions in the latest push that has a word on them, null once the consumer has
    none; `lag_max_records` is the largest such sum of a push, `lag_partition_max_records` the largest lag of one
    partition. `records_consumed` and `bytes_consumed` are what the totals grew by, without deltas that reach back
    before the subscription. Only Java sends a lag: of other clients it is null and in `unknown`.

    >>> columns = "client_instance_id dialect received_at metric_name topic partition value twin"
    >>> consumer = "org.apache.kafka.consumer"
    >>> lag, idle = f"{consumer}.fetch.manager.records.lag", f"{consumer}.poll.idle.ratio.avg"
    >>> points = rows(POINTS, columns, ("one", "java", "12:00:00", lag, "a.b", 0, 100.0, False),
    ...     ("one", "java", "12:00:00", lag, "a_b", 0, 100.0, True),
    ...     ("one", "java", "12:00:00", lag, "a.b", 1, 20.0, False),
    ...     ("one", "java", "12:01:00", lag, "a.b", 0, 70.0, False),
    ...     ("two", "librdkafka", "12:00:00", idle, None, None, 0.9, False))
    >>> found = answer(consumers(), aggregate(points, 300))
    >>> show(found, "client_instance_id lag_records lag_max_records lag_partition_max_records poll_idle_ratio_avg")
    client_instance_id  lag_records  lag_max_records  lag_partition_max_records  poll_idle_ratio_avg
    one                 70           120              100                        -
    two                 -            -                -                          0.9
    """
    measures = measures_of(CONSUMERS)
    return over_windows(
        CONSUMERS,
        f"""
        SELECT {WINDOWED}, group_id, group_member_id, consumer_pushes AS pushes, {listed(measures)},
          consumer_gap AS gap, consumer_covers_gap AS covers_gap,
          {unknown(measures, "share-consumer", "consumer")} AS unknown
        FROM clients LEFT JOIN (
          SELECT {listed(KEY)}, {exact_sum("of_partition.lag")} AS lag_records
          FROM (SELECT {listed(KEY)}, explode(lag_partitions) AS of_partition FROM clients) partitions
          GROUP BY {listed(KEY)}
        ) lags USING ({listed(KEY)})
        WHERE consumer_pushes > 0
        """,
    )


@cache
def groups() -> Query:
    """WINDOWS -> GROUPS: one row per consumer group and window, of the members that are known.

    Each partition counts once, as the latest push of the member that reported it last has it: of one that moved within
    the window two members may. Consumers before 4.0 write dots of topics as underscores, which tells no two topics
    apart here.

    >>> columns = "client_instance_id received_at metric_name topic partition value group_id"
    >>> lag = "org.apache.kafka.consumer.fetch.manager.records.lag"
    >>> points = rows(POINTS, columns, ("one", "12:00:00", lag, "a", 0, 5000.0, "billing"),
    ...     ("one", "12:00:00", lag, "a", 1, 20.0, "billing"), ("two", "12:01:00", lag, "a", 0, 70.0, "billing"))
    >>> show(answer(groups(), aggregate(points, 300)), "group_id window_start members lag_records lag_partitions")
    group_id  window_start  members  lag_records  lag_partitions
    billing   12:00:00      2        90           2
    """
    totals = ("assigned_partitions", "records_consumed", "rebalances")
    group = "date, window_start, window_s, cluster_id, group_id"
    return over_windows(
        GROUPS,
        f"""
        WITH members AS (SELECT * FROM clients WHERE group_id IS NOT NULL AND pushes > 0),
        partitions AS (
          SELECT {group}, {latest("of_partition.lag", "lag_at", "lag_push_id", "of_partition.lag")} AS lag
          FROM (SELECT {group}, lag_at, lag_push_id, explode(lag_partitions) AS of_partition FROM members) reported
          GROUP BY {group}, replace(of_partition.topic, '.', '_'), of_partition.partition
        ),
        lags AS (
          SELECT {group}, {exact_sum("lag")} AS lag_records, count(*) AS lag_partitions
          FROM partitions GROUP BY {group}
        ),
        sums AS (
          SELECT {group}, count(*) AS members, {listed(f"{exact_sum(name)} AS {name}" for name in totals)}
          FROM members GROUP BY {group}
        )
        SELECT {group}, members, lag_records, coalesce(lag_partitions, 0) AS lag_partitions, {listed(totals)}
        FROM sums LEFT JOIN lags USING ({group})
        """,
    )
