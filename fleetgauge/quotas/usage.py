"""Usage of every quota with a limit, for status pages and metrics."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.quotas.connections.connection_quota_config import UNLIMITED
from fleetgauge.quotas.connections.connection_rates import METRICS_GROUP
from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric
from fleetgauge.quotas.metrics.metric_config import UNBOUNDED
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.stats.token_bucket import TokenBucket

CONNECTION_CREATION: Final = "ConnectionCreation"
"""Kind of the quotas whose metrics are in Kafka's group `socket-server-metrics`."""

_NO_LIMITS: Final = frozenset({0.0, float(UNLIMITED), float(UNBOUNDED)})

MAX_MEASURED: Final = 1_000
"""Metrics measured per list: each measurement takes some microseconds on the loop."""


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """Usage of one quota by the clients that share it.

    Attributes:
        kind: metric group of the quota: `Request`, `TelemetryByte` and so on.
        tags: of the entity: `user` and `client-id`, a callback's own tags, `ip`, `listener`, or empty for the broker.
        used: measured now, in the unit of the limit; for a token bucket the spent tokens.
        limit: in force now; for a token bucket its burst.
    """

    kind: str
    tags: Mapping[str, str]
    used: float
    limit: float

    @property
    def utilization(self) -> float:
        """Used over limit: 1 at the limit."""
        return self.used / self.limit

    @property
    def entity(self) -> str:
        """The entity as one string.

        >>> QuotaUsage("Request", {"user": "alice", "client-id": ""}, 1.0, 2.0).entity
        'user=alice'
        """
        return entity_name(self.tags)


def entity_name(tags: Mapping[str, str]) -> str:
    """The tags of an entity as one string; `broker` without any."""
    return ",".join(f"{tag}={value}" for tag, value in tags.items() if value) or "broker"


def usages(metrics: Metrics, now_ms: int, most: int) -> tuple[list[QuotaUsage], int]:
    """Returns the usage of every quota with a limit, highest utilization first.

    Args:
        metrics: the registry of the quota managers.
        now_ms: monotonic time [ms].
        most: maximum length of the list.

    Returns:
        The list, and the number left out: beyond `most`, or not measured because of `MAX_MEASURED`.
    """
    check_types(metrics=(metrics, Metrics))
    limited = list(_limited(metrics))
    measured = [_usage(metric, quota, now_ms) for metric, quota in limited[:MAX_MEASURED]]
    largest = heapq.nlargest(most, measured, key=lambda each: each.utilization)
    return largest, len(limited) - len(largest)


def _limited(metrics: Metrics) -> Iterator[tuple[KafkaMetric, Quota]]:
    for metric in metrics.metrics().values():
        quota = metric.config.quota
        if quota is not None and metric.measure is not None and quota.bound not in _NO_LIMITS:
            yield metric, quota


def _usage(metric: KafkaMetric, quota: Quota, now_ms: int) -> QuotaUsage:
    name = metric.metric_name
    kind = CONNECTION_CREATION if name.group == METRICS_GROUP else name.group
    limit, used = quota.bound, metric.measurable_value(now_ms)
    if isinstance(metric.provider, TokenBucket):
        limit = metric.provider.burst(metric.config)
        used = limit - used
    return QuotaUsage(kind, name.tags, used, limit)
