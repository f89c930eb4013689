"""How much of every quota is used: one list over all kinds of quotas, for who shows it."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from base.arguments import check_types
from quotas.connection_quota_config import UNLIMITED
from quotas.connection_rates import METRICS_GROUP
from quotas.kafka_metric import KafkaMetric
from quotas.metric_config import UNBOUNDED
from quotas.metrics import Metrics
from quotas.quota import Quota
from quotas.stats.token_bucket import TokenBucket

CONNECTION_CREATION: Final = "ConnectionCreation"
"""The kind of quota of the metrics in Kafka's group `socket-server-metrics`."""

_NO_LIMITS: Final = frozenset({0.0, float(UNLIMITED), float(UNBOUNDED)})

MAX_MEASURED: Final = 1_000
"""Metrics that are measured for one list: to measure takes some microseconds, on the loop."""


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """What those who share a quota use of it.

    Attributes:
        kind: `Request`, `TelemetryByte` and so on, as the quota's group of metrics.
        tags: who they are: `user` and `client-id`, a callback's own tags, `ip`, `listener`, or nothing for the broker.
        used: as it is measured now, in the unit of the limit; of a token bucket the tokens that are spent.
        limit: in force now; of a token bucket its burst.
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
        """Who they are, in one text.

        >>> QuotaUsage("Request", {"user": "alice", "client-id": ""}, 1.0, 2.0).entity
        'user=alice'
        """
        return ",".join(f"{tag}={value}" for tag, value in self.tags.items() if value) or "broker"


def usages(metrics: Metrics, now_ms: int, most: int) -> tuple[list[QuotaUsage], int]:
    """The usage of every quota with a limit, those nearest to it or furthest beyond first.

    Args:
        metrics: the registry of the quota managers.
        now_ms: monotonic time [ms].
        most: how many are listed.

    Returns:
        The list, and how many were left out: beyond `most`, or not measured since there are more than `MAX_MEASURED`.
    """
    check_types(metrics=(metrics, Metrics))
    limited = list(_limited(metrics))
    measured = [_usage(metric, quota, now_ms) for metric, quota in limited[:MAX_MEASURED]]
    found = heapq.nlargest(most, measured, key=lambda each: each.utilization)
    return found, len(limited) - len(found)


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
