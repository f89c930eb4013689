"""Gold: latency, how long each broker takes to answer each client, as the clients see it."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.schemas import LATENCY, POINTS, conform

_ROLES: Final = ("producer", "consumer")
_METRICS: Final = {
    f"org.apache.kafka.{role}.node.request.latency.{statistic}": (role, statistic)
    for role in _ROLES
    for statistic in ("avg", "max")
}
METRIC_NAMES: Final = frozenset(_METRICS)
"""The standard metrics (KIP-714) that `latency` reads; points of other metrics need not be decoded for it."""


def latency(points: DataFrame) -> DataFrame:
    """POINTS -> LATENCY: request latency [ms], one row a client instance, role and broker link.

    `latency_avg_ms` is the mean of the averages that the client reported, `samples` their number, `latency_max_ms`
    the largest maximum. Null, infinite and zero values are left out: librdkafka sends 0 where nothing was recorded.
    Links of one identity (librdkafka has several of -1) are one row; a link without a latency has none.
    """
    kinds = F.create_map(*(F.lit(text) for name, kind in _METRICS.items() for text in (name, kind[1])))
    roles = F.create_map(*(F.lit(text) for name, kind in _METRICS.items() for text in (name, kind[0])))
    recorded = (F.col("value") > 0) & (F.col("value") < F.lit(float("inf")))
    reported = (
        conform(points, POINTS)
        .where(F.col("metric_name").isin(sorted(METRIC_NAMES)) & recorded & F.col("node_id").isNotNull())
        .withColumn("role", roles[F.col("metric_name")])
        .withColumn("statistic", kinds[F.col("metric_name")])
    )
    average = F.when(F.col("statistic") == "avg", F.col("value"))
    grouped = reported.groupBy("client_instance_id", "role", "node_id", "coordinator")
    return conform(
        grouped.agg(
            *(
                F.max_by(name, F.struct("received_at", "push_id")).alias(name)
                for name in ("client_id", "client_software_name", "client_software_version")
            ),
            F.avg(average).alias("latency_avg_ms"),
            F.max(F.when(F.col("statistic") == "max", F.col("value"))).alias("latency_max_ms"),
            F.count(average).alias("samples"),
        ),
        LATENCY,
    )
