"""How much of its quota someone uses: the metric by which one is warned before anybody is throttled."""

import math
from typing import Final

from quotas.kafka_metric import KafkaMetric
from quotas.metric_config import UNBOUNDED, MetricConfig
from quotas.metric_name import MetricName
from quotas.metrics import Metrics
from quotas.sensor import Sensor
from quotas.stats.stat import Gauge
from quotas.stats.token_bucket import TokenBucket

QUOTA_UTILIZATION: Final = "quota-utilization"
"""The metric's name, beside the one that is under the quota and with its tags (KIP-1373)."""


def quota_utilization(usage: KafkaMetric) -> Gauge:
    """Usage over limit [percent] of a metric that is under a quota: above 100 is over the quota. Not capped.

    15 MB/s under a limit of 10 MB/s are 150. NaN where there is no limit, or one that is not above zero. The limit is
    the one in force, from the metric's config; no callback is asked.

    Of a token bucket it is the share of the burst that is spent: 100 is an empty bucket, and what is above 100 is owed.
    With a burst of 500, -60 tokens are 112. KIP-1373 leaves token buckets out, since a rate over the refill rate says
    nothing about them.
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
    """Adds `quota-utilization` to `sensor`: beside its metric that is under the quota, with the same group and tags."""
    usage = metrics.metric(usage_name)
    if usage is not None:
        name = metrics.metric_name(
            QUOTA_UTILIZATION, usage_name.group, "Percentage of the quota that is used", usage_name.tags
        )
        sensor.add_gauge(name, quota_utilization(usage))
