"""Silver: clients, who they are, and whether they are still there."""

from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import CLIENTS, PUSHES, conform
from fleet.silver.intervals import silent_after_us

_INSTANCE: Final = ("principal", "client_instance_id")
_OF_RESOURCE: Final = ("client_rack", "group_id", "group_instance_id", "group_member_id", "transactional_id")
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


def clients(pushes: DataFrame, previous: DataFrame | None, now: datetime) -> DataFrame:
    """PUSHES, and the CLIENTS of earlier runs -> CLIENTS.

    Minima, maxima and what came last alone: pushes that were seen before change nothing, however often they come. What
    is counted is in `gold.inventory`.

    Args:
        pushes: of one run.
        previous: all clients that were known before.
        now: the time that `state` is judged at, with its time zone; for tables that come out the same whenever a run is
            repeated, the time up to which pushes were read.
    """
    seen = conform(pushes, PUSHES).select(
        *(name for name in PUSHES.names if name in CLIENTS.names),
        F.col("received_at").alias("first_seen"),
        F.col("received_at").alias("last_seen"),
        F.col("push_id").alias("last_push_id"),
        F.col("terminating").alias("terminated"),
    )
    if previous is not None:
        seen = seen.unionByName(conform(previous, CLIENTS).drop("state"))
    says_more = F.coalesce(*_OF_RESOURCE).isNotNull()
    grouped = seen.groupBy(*_INSTANCE).agg(
        F.max(F.struct(*_OF_LAST)).alias("last"),
        F.max(F.when(says_more, F.struct("last_seen", "last_push_id", *_OF_RESOURCE))).alias("resource"),
        F.min("first_seen").alias("first_seen"),
    )
    known = grouped.select(
        *_INSTANCE, "first_seen", "last.*", *(F.col(f"resource.{name}").alias(name) for name in _OF_RESOURCE)
    )
    return conform(known.withColumn("state", state(now)), CLIENTS)


def state(now: datetime) -> Column:
    """`ended`, `silent` or `live`, of rows with `terminated`, `last_seen` and `push_interval_ms`."""
    quiet_us = F.unix_micros(F.lit(now)) - F.unix_micros("last_seen")
    return F.when(F.col("terminated"), "ended").when(quiet_us > silent_after_us(), "silent").otherwise("live")
