"""Silver: rejects, the pushes that were set aside, where they lie, and why."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import REJECTS, conform


def rejects(decoded: DataFrame) -> DataFrame:
    """DECODED or COUNTED -> REJECTS."""
    return conform(decoded.where(F.col("reason").isNotNull()).select(*REJECTS.names), REJECTS)
