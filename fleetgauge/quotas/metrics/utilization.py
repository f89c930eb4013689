"""The metric `quota-utilization`, for alerts before clients are throttled (KIP-1373)."""

import math
from typing import Final

from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED, MetricConfig
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.sensor import Sensor
from fleetgauge.quotas.metrics.stats.stat import Gauge
from fleetgauge.quotas.metrics.stats.token_bucket import TokenBucket

QUOTA_UTILIZATION: Final = "quota-utilization"
"""Name of the metric; group and tags are those of the metric under the quota."""


def quota_utilization(usage: KafkaMetric) -> Gauge:
    """Returns a gauge of usage over limit [percent] of a metric under a quota: above 100 is over the quota. Not capped.

    15 MB/s under a limit of 10 MB/s are 150. NaN without a limit, or with one that is not above zero. The limit in
    force is read from the metric's config, without a call to a callback.

    For a token bucket it is the spent share of the burst: 100 is an empty bucket, above 100 is debt.
    With a burst of 500, -60 tokens are 112. KIP-1373 excludes token buckets, for which a rate over the refill rate
    is meaningless.
    """

    def measure(config: MetricConfig, now_ms: int) -> float:
        in_force = usage.config
        quota = in_force.quota
        if quota is None or not 0 < quota.bound < UNBOUNDED:
            return math.nan
        value = usage.measurable_value(now_ms)
        bucket = usage.provider
        if isinstance(bucket, TokenBucket):
            burst = bucket.burst(in_force)
            return (burst - value) / burst * 100
        return value / quota.bound * 100

    return measure


def add_quota_utilization(metrics: Metrics, sensor: Sensor, usage_name: MetricName) -> None:
    """Adds `quota-utilization` to `sensor`, with the group and tags of its metric under the quota."""
    usage = metrics.metric(usage_name)
    if usage is not None:
        name = metrics.metric_name(
            QUOTA_UTILIZATION, usage_name.group, "Percentage of the quota that is used", usage_name.tags
        )
        sensor.add_gauge(name, quota_utilization(usage))
