"""The demo's question to Spark: the points of each client, through the data source over the landing zone."""

from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812  # as Spark's own documentation abbreviates it

from fleetgauge.fleet.spark.session import SessionSettings, start_session
from fleetgauge.spark import register

ASKED = 'spark.read.format("fleetgauge").option("kind", "points").load(landing).groupBy("client_id").count()'


def points_by_client(landing: Path) -> dict[str, int]:
    """Number of points by client id.

    Raises:
        FleetError: Spark does not start, or cannot read the zone.
    """
    spark = start_session(SessionSettings(master="local[2]", log_level="OFF"))
    try:
        register(spark)
        points = spark.read.format("fleetgauge").option("kind", "points").load(str(landing))
        rows = points.groupBy("client_id").agg(F.count("*").alias("points")).collect()
        return {row.client_id: row.points for row in rows}
    finally:
        spark.stop()
