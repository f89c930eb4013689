"""Gold: metrics, what clients are known to send: the standard-metrics table as a table, and joined to others."""

from collections.abc import Iterable, Mapping
from functools import cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import METRICS
from telemetry.standard_metrics import KnownMetric, known_metrics


def metrics(spark: SparkSession) -> DataFrame:
    """METRICS: some hundreds of rows, to be joined to POINTS by `metric_name`."""
    rows = [
        (
            metric.name,
            metric.type,
            metric.unit,
            metric.meaning,
            metric.is_standard,
            metric.is_required,
            list(metric.roles),
            list(metric.clients),
        )
        for metric in known_metrics()
    ]
    return spark.createDataFrame(rows, METRICS)


def described(metric_name: Column, names: Iterable[str]) -> dict[str, Column]:
    """`unit` and `meaning` of rows about few metrics: a join with METRICS that the plan holds as a constant.

    Args:
        metric_name: of a row.
        names: all that may come.
    """
    known = metrics_by_name()
    columns = {}
    for column in ("unit", "meaning"):
        texts = (F.lit(text) for name in sorted(names) for text in (name, getattr(known[name], column)))
        columns[column] = F.create_map(*texts)[metric_name]
    return columns


@cache
def metrics_by_name() -> Mapping[str, KnownMetric]:
    """The table by telemetry name."""
    return {metric.name: metric for metric in known_metrics()}
