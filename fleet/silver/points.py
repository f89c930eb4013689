"""Silver: points, one row a data point, decoded from the payloads on the executors."""

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.decode.stage import CountPoints, DecodePoints
from fleet.decode.tally import RejectTally
from fleet.schemas import CHECKED, COUNTED, DECODED, SENT_POINTS, conform
from fleet.silver.dialect import dialect
from fleet.spark_schema import spark_schema


def decode(
    checked: DataFrame, metric_names: Collection[str] | None = None, tally: RejectTally | None = None
) -> DataFrame:
    """CHECKED -> DECODED: the data points of the good rows, and the rows set aside with their reason.

    A malformed payload joins those set aside. With `metric_names` only the points of these metrics are made.
    `tally` counts what is set aside.
    """
    stage = DecodePoints(None if metric_names is None else frozenset(metric_names), tally)
    return conform(conform(checked, CHECKED).mapInArrow(stage, spark_schema(DECODED)), DECODED)


def count(checked: DataFrame, tally: RejectTally | None = None) -> DataFrame:
    """CHECKED -> COUNTED: pushes with the number of their data points instead of their payload."""
    return conform(conform(checked, CHECKED).mapInArrow(CountPoints(tally), spark_schema(COUNTED)), COUNTED)


def points(decoded: DataFrame) -> DataFrame:
    """DECODED -> SENT_POINTS, not yet compared with one another; `silver.deltas` does that.

    >>> columns = "received_at client_software_name metric_name value reason"
    >>> decoded = table(spark, DECODED, columns, ("12:00:00", "kgo", "request.latency.avg", 3.5, None),
    ...     ("12:00:00", "kgo", None, None, "malformed OTLP MetricsData"))
    >>> show(points(decoded), "date dialect metric_name value")
    date        dialect   metric_name          value
    2026-03-01  franz-go  request.latency.avg  3.5
    """
    good = conform(decoded, DECODED).where(F.col("reason").isNull()).drop("reason")
    columns = {
        "distribution": F.get("distribution", 0),
        "dialect": dialect(F.col("scope_name")),
        "date": F.to_date("received_at"),
    }
    return conform(good.withColumns(columns), SENT_POINTS)
