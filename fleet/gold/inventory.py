"""Gold: inventory, who is in the fleet."""

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import ACTIVITY, INSTANCE, INVENTORY, PUSHES, conform
from fleet.silver.clients import state
from fleet.silver.dialect import role_of_all

_LATEST = (
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
    "push_interval_ms",
)


def inventory(pushes: DataFrame, now: datetime | None = None) -> DataFrame:
    """PUSHES -> INVENTORY: one row a client instance.

    Client id, software, address, port and interval are those of its latest push, since clients change connections; the
    group is that of its latest push that names one, the role as in CLIENTS. `terminated` says that its latest push was
    a terminating one: the client closed in order. `state` is judged at `now` as in CLIENTS, and null without.

    >>> columns = "client_instance_id client_id received_at points heartbeat terminating"
    >>> pushes = table(spark, PUSHES, columns, ("one", "billing", "12:00:00", 110, False, False),
    ...     ("one", "billing", "12:01:00", 0, True, True), ("two", "audit", "12:01:00", 10, False, False))
    >>> show(inventory(pushes), "client_instance_id client_id pushes heartbeats points last_seen terminated")
    client_instance_id  client_id  pushes  heartbeats  points  last_seen  terminated
    one                 billing    2       1           110     12:01:00   yes
    two                 audit      1       0           10      12:01:00   no
    """
    return total(by_day(pushes), now)


def by_day(pushes: DataFrame) -> DataFrame:
    """PUSHES -> ACTIVITY: the inventory of each day.

    >>> columns = "client_instance_id received_at points heartbeat terminating"
    >>> pushes = table(spark, PUSHES, columns, ("one", "12:00:00", 110, False, False),
    ...     ("one", "12:01:00", 0, True, True))
    >>> show(by_day(pushes), "date client_instance_id pushes heartbeats points terminated")
    date        client_instance_id  pushes  heartbeats  points  terminated
    2026-03-01  one                 2       1           110     yes
    """
    grouped = conform(pushes, PUSHES).groupBy("date", *INSTANCE)
    order = F.struct("received_at", "push_id")
    counted = grouped.agg(
        F.max_by(F.struct(*_LATEST, F.col("terminating").alias("terminated")), order).alias("latest"),
        F.max_by("group_id", F.when(F.col("group_id").isNotNull(), order)).alias("group_id"),
        role_of_all().alias("role"),
        F.sort_array(F.collect_set("receiver_node_id")).alias("receiver_node_ids"),
        F.count(F.lit(1)).alias("pushes"),
        F.count_if("heartbeat").alias("heartbeats"),
        F.sum("points").alias("points"),
        F.min("received_at").alias("first_seen"),
        F.max("received_at").alias("last_seen"),
    )
    return conform(counted.select("*", "latest.*"), ACTIVITY)


def total(activity: DataFrame, now: datetime | None = None) -> DataFrame:
    """ACTIVITY -> INVENTORY; see `inventory`."""
    counted = (
        conform(activity, ACTIVITY)
        .groupBy(*INSTANCE)
        .agg(
            F.max_by(F.struct(*_LATEST, "terminated"), "date").alias("latest"),
            F.max_by("group_id", F.when(F.col("group_id").isNotNull(), F.col("date"))).alias("group_id"),
            role_of_all().alias("role"),
            F.sort_array(F.array_compact(F.array_distinct(F.flatten(F.collect_list("receiver_node_ids"))))).alias(
                "receiver_node_ids"
            ),
            *(F.sum(name).alias(name) for name in ("pushes", "heartbeats", "points")),
            F.min("first_seen").alias("first_seen"),
            F.max("last_seen").alias("last_seen"),
        )
    )
    counted = counted.select("*", "latest.*")
    return conform(counted.withColumn("state", F.lit(None) if now is None else state(now)), INVENTORY)
