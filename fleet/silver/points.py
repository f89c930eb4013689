"""Silver: points, one row a data point, decoded from the payloads on the executors."""

from collections.abc import Collection
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from fleet.decode.stage import CountPoints, DecodePoints, PackPushes, Unpack
from fleet.decode.tally import RejectTally
from fleet.schemas import CHECKED, COUNTED, DECODED, PACKED, SENT_POINTS, conform
from fleet.silver.dialect import dialect


def decode(
    checked: DataFrame, metric_names: Collection[str] | None = None, tally: RejectTally | None = None
) -> DataFrame:
    """CHECKED -> DECODED: the data points of the good rows, and the rows set aside with their reason.

    A malformed payload joins those set aside. With `metric_names` only the points of these metrics are made.
    `tally` counts what is set aside.
    """
    stage = DecodePoints(None if metric_names is None else frozenset(metric_names), tally)
    return conform(conform(checked, CHECKED).mapInArrow(stage, DECODED), DECODED)


def count(checked: DataFrame, tally: RejectTally | None = None) -> DataFrame:
    """CHECKED -> COUNTED: pushes with the number of their data points instead of their payload."""
    return conform(conform(checked, CHECKED).mapInArrow(CountPoints(tally), COUNTED), COUNTED)


def pack(checked: DataFrame) -> DataFrame:
    """CHECKED -> PACKED: `decode` and `count` at once, for frames that are kept."""
    return conform(checked, CHECKED).mapInArrow(PackPushes(), PACKED)


def unpack(
    packed: DataFrame, column: Literal["counted", "gauges", "others"], names: Collection[str] | None = None
) -> DataFrame:
    """PACKED -> what is in one of its columns: COUNTED with the rows set aside, or DECODED without; of that the columns
    with these `names`, or all.
    """
    schema = COUNTED if column == "counted" else DECODED
    wanted = T.StructType([field for field in schema if names is None or field.name in names])
    return packed.select(column).mapInArrow(Unpack(tuple(wanted.names)), wanted)


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
