"""How much of every quota is used: one list over all kinds of quotas, for who shows it."""

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quotas.connection_quota_config import UNLIMITED
from quotas.connection_rates import METRICS_GROUP
from quotas.kafka_metric import KafkaMetric
from quotas.metric_config import UNBOUNDED
from quotas.metrics import Metrics
from quotas.utilization import utilization_of

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
        used: as it is measured now, in the unit of the limit.
        limit: in force now.
        utilization: used over limit, 1 at the limit; of a token bucket the share of its burst that is spent.
    """

    kind: str
    tags: Mapping[str, str]
    used: float
    limit: float
    utilization: float

    def as_plain(self) -> dict[str, Any]:
        """In values that JSON can hold."""
        return {
            "kind": self.kind,
            "tags": dict(self.tags),
            "used": self.used,
            "limit": self.limit,
            "utilization": self.utilization,
        }


def usages(metrics: Metrics, now_ms: int, most: int) -> tuple[list[QuotaUsage], int]:
    """The usage of every quota with a limit, those nearest to it or furthest beyond first.

    Args:
        metrics: the registry of the quota managers.
        now_ms: monotonic time [ms].
        most: how many are listed.

    Returns:
        The list, and how many were left out: beyond `most`, or not measured since there are more than `MAX_MEASURED`.
    """
    limited = list(_limited(metrics))
    measured = [_usage(metric, now_ms) for metric in limited[:MAX_MEASURED]]
    found = heapq.nlargest(most, measured, key=lambda each: each.utilization)
    return found, len(limited) - len(found)


def _limited(metrics: Metrics) -> Iterator[KafkaMetric]:
    for metric in metrics.metrics().values():
        quota = metric.config.quota
        if quota is not None and metric.measure is not None and quota.bound not in _NO_LIMITS:
            yield metric


def _usage(metric: KafkaMetric, now_ms: int) -> QuotaUsage:
    name, quota = metric.metric_name, metric.config.quota
    assert quota is not None
    utilization = utilization_of(metric, now_ms) / 100
    kind = CONNECTION_CREATION if name.group == METRICS_GROUP else name.group
    return QuotaUsage(kind, name.tags, metric.measurable_value(now_ms), quota.bound, utilization)
