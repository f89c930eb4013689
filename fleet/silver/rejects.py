"""Silver: rejects, the pushes that were set aside, where they lie, why, and what they brought."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import REJECTS, conform


def rejects(decoded: DataFrame) -> DataFrame:
    """DECODED or COUNTED -> REJECTS."""
    bad = decoded.where(F.col("reason").isNotNull())
    return conform(bad.withColumn("date", F.to_date("received_at")), REJECTS)
