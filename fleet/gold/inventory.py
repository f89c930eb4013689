"""Gold: inventory, who is in the fleet."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import INVENTORY, PUSHES, conform

_LATEST = (
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def inventory(pushes: DataFrame) -> DataFrame:
    """PUSHES -> INVENTORY: one row a client instance, which is a principal and an instance id.

    Client id, software, address and port are those of its latest push, since clients change connections.
    `terminated` says that its latest push was a terminating one: the client closed in order.
    """
    grouped = conform(pushes, PUSHES).groupBy("principal", "client_instance_id")
    return conform(
        grouped.agg(
            *(_latest(name).alias(name) for name in _LATEST),
            F.sort_array(F.collect_set("receiver_node_id")).alias("receiver_node_ids"),
            F.count(F.lit(1)).alias("pushes"),
            F.count_if("heartbeat").alias("heartbeats"),
            F.sum("points").alias("points"),
            F.min("received_at").alias("first_seen"),
            F.max("received_at").alias("last_seen"),
            _latest("terminating").alias("terminated"),
        ),
        INVENTORY,
    )


def _latest(name: str) -> Column:
    return F.max_by(name, F.struct("received_at", "push_id"))
