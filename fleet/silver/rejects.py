"""Silver: rejects, the pushes that were set aside, where they lie, why, and what they brought."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import REJECTS, conform


def rejects(decoded: DataFrame) -> DataFrame:
    """DECODED or COUNTED -> REJECTS.

    >>> columns = "received_at source_file source_row payload reason"
    >>> counted = table(spark, COUNTED, columns, ("12:00:00", None, None, None, None),
    ...     ("12:01:00", "part-0.parquet", 17, bytearray(b"?"), "malformed OTLP MetricsData"))
    >>> show(rejects(counted), "date source_file source_row payload reason")
    date        source_file     source_row  payload          reason
    2026-03-01  part-0.parquet  17          bytearray(b'?')  malformed OTLP MetricsData
    """
    bad = decoded.where(F.col("reason").isNotNull())
    return conform(bad.withColumn("date", F.to_date("received_at")), REJECTS)
