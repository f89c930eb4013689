"""Gold: throttling, how long brokers had each client wait for its quota, as their answers said."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from fleet.gold.clients import identity_columns, latest_identity
from fleet.gold.metrics import described
from fleet.gold.windows import DEFAULT_WINDOW_S, with_window
from fleet.schemas import INSTANCE, SENT_POINTS, THROTTLING, conform
from telemetry.catalogue.standard_metrics import telemetry_name

_TIMES: Final = (
    ("produce", "producer-metrics", "produce-throttle-time"),
    ("fetch", "consumer-fetch-manager-metrics", "fetch-throttle-time"),
    ("fetch", "consumer-share-fetch-manager-metrics", "fetch-throttle-time"),
)
"""By kind of request: Kafka's names (JMX), to which `-avg` and `-max` belong. A broker's answer says one time for all
quotas that it ran into, so the REQUEST quota's is in these too; clients measure no other requests' throttling.
"""

_REQUESTS: Final = {
    telemetry_name(group, f"{name}-{statistic}"): request
    for request, group, name in _TIMES
    for statistic in ("avg", "max")
}


def throttling(points: DataFrame, window_s: int = DEFAULT_WINDOW_S) -> DataFrame:
    """POINTS or SENT_POINTS -> THROTTLING: [ms], one row a client instance, kind of request and window.

    `throttle_avg_ms` is the mean of the averages that the client reported, `throttle_max_ms` the largest maximum; both
    null with no `samples` where it asked and nothing was recorded. 0 is what a broker said, or what librdkafka says
    when none answered: not throttled either way. A client that does not send the metric has no row.

    >>> columns = "client_instance_id received_at metric_name value"
    >>> produce = "org.apache.kafka.producer.produce.throttle.time"
    >>> points = table(spark, SENT_POINTS, columns, ("one", "12:00:00", f"{produce}.max", 0.0),
    ...     ("one", "12:01:00", f"{produce}.avg", 120.0), ("one", "12:01:00", f"{produce}.max", 900.0),
    ...     ("two", "12:01:00", f"{produce}.max", None))
    >>> show(throttling(points), "client_instance_id request throttle_avg_ms throttle_max_ms samples throttled")
    client_instance_id  request  throttle_avg_ms  throttle_max_ms  samples  throttled
    one                 produce  120              900              2        1
    two                 produce  -                -                0        0
    """
    name = F.col("metric_name")
    request = F.create_map(*(F.lit(text) for pair in _REQUESTS.items() for text in pair))[name]
    ours = conform(points, SENT_POINTS).where(name.isin(sorted(_REQUESTS)))
    rows = with_window(ours, window_s).withColumns({"request": request, "metric": F.left(name, F.length(name) - 4)})
    measured = F.when((F.col("value") >= 0) & (F.col("value") < F.lit(float("inf"))), F.col("value"))
    largest = F.when(name.endswith(".max"), measured)
    found = rows.groupBy(*INSTANCE, "window_start", "request", "metric").agg(
        latest_identity(),
        F.avg(F.when(name.endswith(".avg"), measured)).alias("throttle_avg_ms"),
        F.max(largest).alias("throttle_max_ms"),
        F.count(largest).alias("samples"),
        F.count_if(largest > 0).alias("throttled"),
    )
    texts = described(F.concat("metric", F.lit(".avg")), _REQUESTS)
    windowed = found.select("*", *identity_columns()).withColumns(
        {"window_s": F.lit(window_s), "date": F.to_date("window_start"), **texts}
    )
    return conform(windowed, THROTTLING)
