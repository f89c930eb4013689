"""Gold: metrics, what clients are known to send: the standard-metrics table as a table, and joined to others."""

from collections.abc import Iterable, Mapping
from functools import cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from fleet.local_rows import local_rows
from fleet.schemas import METRICS
from telemetry.catalogue.standard_metrics import KnownMetric, known_metrics


def metrics(spark: SparkSession) -> DataFrame:
    """The standard-metrics table -> METRICS: some hundreds of rows, to be joined to POINTS by `metric_name`.

    >>> known = metrics(spark).where("metric_name like '%consumer.coordinator.rebalance.total'")
    >>> show(known, "metric_type unit meaning clients")
    metric_type  unit  meaning                                             clients
    sum          1     rebalances that the consumer took part in, counted  java
    """
    rows = [
        {
            "metric_name": metric.name,
            "metric_type": metric.type,
            "unit": metric.unit,
            "meaning": metric.meaning,
            "is_standard": metric.is_standard,
            "is_required": metric.is_required,
            "roles": list(metric.roles),
            "clients": list(metric.clients),
        }
        for metric in known_metrics()
    ]
    return local_rows(spark, rows, METRICS)


def described(metric_name: Column, names: Iterable[str]) -> dict[str, Column]:
    """`unit` and `meaning` of rows about few metrics: a join with METRICS that the plan holds as a constant.

    The meaning is that of what is measured, since a row has several statistics of it.

    Args:
        metric_name: of one of them.
        names: all that may come.
    """
    known = metrics_by_name()
    columns = {}
    for column, attribute in (("unit", "unit"), ("meaning", "quantity")):
        texts = (F.lit(text) for name in sorted(names) for text in (name, getattr(known[name], attribute)))
        columns[column] = F.create_map(*texts)[metric_name]
    return columns


@cache
def metrics_by_name() -> Mapping[str, KnownMetric]:
    """The table by telemetry name."""
    return {metric.name: metric for metric in known_metrics()}
