"""Gold: versions, which client software the fleet runs."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import CLIENTS, VERSIONS, conform


def versions(clients: DataFrame) -> DataFrame:
    """CLIENTS -> VERSIONS: one row a cluster and version of its clients' software, with instances by state.

    >>> columns = "client_instance_id client_id client_software_name client_software_version state"
    >>> clients = table(spark, CLIENTS, columns, ("one", "billing", "apache-kafka-java", "4.4.0", "live"),
    ...     ("two", "billing", "apache-kafka-java", "4.4.0", "gone"), ("three", "audit", "kgo", "v1.22.2", "silent"))
    >>> show(versions(clients), "client_software_name client_software_version instances clients live silent gone")
    client_software_name  client_software_version  instances  clients  live  silent  gone
    apache-kafka-java     4.4.0                    2          1        1     0       1
    kgo                   v1.22.2                  1          1        0     1       0
    """
    grouped = conform(clients, CLIENTS).groupBy(
        "cluster_id", "client_software_name", "client_software_version", "dialect"
    )
    return conform(
        grouped.agg(
            F.count(F.lit(1)).alias("instances"),
            F.count_distinct("client_id").alias("clients"),
            *(F.count_if(F.col("state") == state).alias(state) for state in ("live", "silent", "gone", "ended")),
            F.min("first_seen").alias("first_seen"),
            F.max("last_seen").alias("last_seen"),
        ),
        VERSIONS,
    )
