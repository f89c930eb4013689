"""Gold: inventory, who is in the fleet."""

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import INSTANCE, INVENTORY, PUSHES, conform
from fleet.silver.clients import state

_LATEST = (
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
    "push_interval_ms",
)


def inventory(pushes: DataFrame, now: datetime | None = None) -> DataFrame:
    """PUSHES -> INVENTORY: one row a client instance, which is a principal and an instance id.

    Client id, software, address, port and interval are those of its latest push, since clients change connections; the
    group is that of its latest push that names one. `terminated` says that its latest push was a terminating one: the
    client closed in order. `state` is judged at `now` as in CLIENTS, and null without.

    >>> columns = "client_instance_id client_id received_at points heartbeat terminating"
    >>> pushes = table(spark, PUSHES, columns, ("one", "billing", "12:00:00", 110, False, False),
    ...     ("one", "billing", "12:01:00", 0, True, True), ("two", "audit", "12:01:00", 10, False, False))
    >>> show(inventory(pushes), "client_instance_id client_id pushes heartbeats points last_seen terminated")
    client_instance_id  client_id  pushes  heartbeats  points  last_seen  terminated
    one                 billing    2       1           110     12:01:00   yes
    two                 audit      1       0           10      12:01:00   no
    """
    grouped = conform(pushes, PUSHES).groupBy(*INSTANCE)
    counted = grouped.agg(
        *(_latest(name).alias(name) for name in _LATEST),
        F.sort_array(F.collect_set("receiver_node_id")).alias("receiver_node_ids"),
        F.count(F.lit(1)).alias("pushes"),
        F.count_if("heartbeat").alias("heartbeats"),
        F.sum("points").alias("points"),
        F.min("received_at").alias("first_seen"),
        F.max("received_at").alias("last_seen"),
        _latest("terminating").alias("terminated"),
        F.max_by("group_id", F.when(F.col("group_id").isNotNull(), _order())).alias("group_id"),
    )
    return conform(counted.withColumn("state", F.lit(None) if now is None else state(now)), INVENTORY)


def _latest(name: str) -> Column:
    return F.max_by(name, _order())


def _order() -> Column:
    return F.struct("received_at", "push_id")
