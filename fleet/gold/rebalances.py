"""Gold: rebalances, how often groups rebalance and what it costs their members."""

from typing import Final

from pyspark.sql import DataFrame

from fleet.gold.measures import Measure, by_window
from fleet.gold.windows import DEFAULT_WINDOW_S
from fleet.schemas import REBALANCES, conform
from telemetry.catalogue.standard_metrics import telemetry_name


def _coordinator(name: str) -> tuple[str, ...]:
    return (telemetry_name("consumer-coordinator-metrics", name),)


def _of_either(name: str) -> tuple[str, ...]:
    """Share consumers have it too, under a name of their own."""
    return (*_coordinator(name), telemetry_name("consumer-share-coordinator-metrics", name))


MEASURES: Final = (
    Measure(column="rebalances", metrics=_of_either("rebalance-total"), over_pushes="growth"),
    Measure(column="rebalance_rate_per_hour", metrics=_of_either("rebalance-rate-per-hour"), over_pushes="last"),
    Measure(column="failed_rebalances", metrics=_coordinator("failed-rebalance-total"), over_pushes="growth"),
    Measure(
        column="failed_rebalance_rate_per_hour",
        metrics=_coordinator("failed-rebalance-rate-per-hour"),
        over_pushes="last",
    ),
    Measure(
        column="rebalance_latency_avg_ms",
        metrics=_coordinator("rebalance-latency-avg"),
        over_pushes="avg",
        zero_may_be_nothing=True,
    ),
    Measure(
        column="rebalance_latency_max_ms",
        metrics=_coordinator("rebalance-latency-max"),
        over_pushes="max",
        zero_may_be_nothing=True,
    ),
    Measure(column="rebalance_latency_total_ms", metrics=_coordinator("rebalance-latency-total"), over_pushes="growth"),
    Measure(
        column="last_rebalance_seconds_ago", metrics=_coordinator("last-rebalance-seconds-ago"), over_pushes="last"
    ),
    Measure(column="assigned_partitions", metrics=_coordinator("assigned-partitions"), over_pushes="last"),
)


def rebalances(points: DataFrame, window_s: int = DEFAULT_WINDOW_S) -> DataFrame:
    """POINTS -> REBALANCES: one row a consumer instance and window that has any of the metrics.

    `rebalances`, `failed_rebalances` and `rebalance_latency_total_ms` are what the totals grew by; a delta that reaches
    back before the subscription is left out, and `gap` says so. The others are the client's own gauges: rates and
    `last_rebalance_seconds_ago` as the latest push has them.

    >>> columns = "received_at metric_name value delta gap before_subscription dialect client_instance_id"
    >>> total, assigned = (f"org.apache.kafka.consumer.coordinator.{name}" for name in
    ...     ("rebalance.total", "assigned.partitions"))
    >>> points = table(spark, POINTS, columns, ("12:00:00", total, 9.0, 9.0, False, True, "java", "one"),
    ...     ("12:01:00", total, 2.0, 2.0, False, False, "java", "one"),
    ...     ("12:01:00", assigned, 4.0, None, None, None, "franz-go", "two"))
    >>> show(rebalances(points), "client_instance_id pushes rebalances assigned_partitions gap")
    client_instance_id  pushes  rebalances  assigned_partitions  gap
    one                 2       2           -                    yes
    two                 1       -           4                    no
    """
    return conform(by_window(points, MEASURES, window_s), REBALANCES)
