"""Silver: clients, who they are, and whether they are still there."""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.dialects import CONSUMERS, JAVA
from fleet.schemas import CLIENTS, INSTANCE, PUSHES, SENDER, conform
from fleet.silver.dialect import dialect, role_of_all
from fleet.silver.intervals import silent_after_us

_OF_LAST: Final = (
    "last_seen",
    "last_push_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "dialect",
    "client_source_address",
    "client_source_port",
    "push_interval_ms",
    "terminated",
)

_OF_SENDER: Final = ("sender_seen_at", "sender_push_id", *SENDER.names)


def clients(pushes: DataFrame, previous: DataFrame | None, now: datetime) -> DataFrame:
    """PUSHES, and the CLIENTS of earlier runs -> CLIENTS.

    Minima, maxima and what came last alone: pushes that were seen before change nothing, however often they come. What
    is counted is in `gold.inventory`.

    Args:
        pushes: of one run.
        previous: all clients that were known before.
        now: the time that `state` is judged at, with its time zone; for tables that come out the same whenever a run is
            repeated, the time up to which pushes were read.

    >>> from datetime import UTC
    >>> columns = "client_instance_id client_id received_at group_id role terminating"
    >>> one = table(spark, PUSHES, columns, ("one", "billing", "12:00:00", "invoices", "consumer", False),
    ...     ("two", "audit", "12:01:00", "auditors", "consumer", False),
    ...     ("four", "shop", "12:01:00", None, "producer", False))
    >>> two = table(spark, PUSHES, columns, ("one", "billing", "12:09:00", None, None, False),
    ...     ("three", "orders", "12:05:00", None, None, True))
    >>> known = clients(one, None, datetime(2026, 3, 1, 12, 2, tzinfo=UTC))
    >>> known = clients(two, known, datetime(2026, 3, 1, 12, 10, tzinfo=UTC))
    >>> show(known, "client_instance_id client_id group_id role first_seen last_seen state")
    client_instance_id  client_id  group_id  role      first_seen  last_seen  state
    four                shop       -         producer  12:01:00    12:01:00   gone
    one                 billing    invoices  consumer  12:00:00    12:09:00   live
    three               orders     -         -         12:05:00    12:05:00   ended
    two                 audit      auditors  consumer  12:01:00    12:01:00   silent
    """
    seen = conform(pushes, PUSHES).select(
        *(name for name in PUSHES.names if name in CLIENTS.names),
        F.col("received_at").alias("first_seen"),
        F.col("received_at").alias("last_seen"),
        F.col("push_id").alias("last_push_id"),
        F.col("received_at").alias("sender_seen_at"),
        F.col("push_id").alias("sender_push_id"),
        F.col("terminating").alias("terminated"),
    )
    if previous is not None:
        seen = seen.unionByName(conform(previous, CLIENTS).drop("state"))
    says_more = F.coalesce(*SENDER.names).isNotNull()
    grouped = seen.groupBy(*INSTANCE).agg(
        F.max(F.struct(*_OF_LAST)).alias("last"),
        F.max(F.when(says_more, F.struct(*_OF_SENDER))).alias("sender"),
        role_of_all().alias("role"),
        F.min("first_seen").alias("first_seen"),
    )
    known = grouped.select(*INSTANCE, "role", "first_seen", "last.*", "sender.*")
    return conform(known.withColumn("state", state(now)), CLIENTS)


def state(now: datetime) -> Column:
    """`ended`, `gone`, `silent` or `live`, of rows that have the columns of INVENTORY but for `state`."""
    quiet_us = F.unix_micros(F.lit(now)) - F.unix_micros("last_seen")
    quiet = F.when(_says_when_it_ends(), "silent").otherwise("gone")
    return F.when(F.col("terminated"), "ended").when(quiet_us > silent_after_us(), quiet).otherwise("live")


def _says_when_it_ends() -> Column:
    """`dialects.says_when_it_ends`; never null."""
    is_java = dialect().eqNullSafe(JAVA)
    is_consumer = F.coalesce(F.col("role").isin(*CONSUMERS), F.lit(False)) | F.col("group_id").isNotNull()
    return ~is_java | is_consumer
