"""Reads OTLP's messages as protobuf's classes have them, for all readers that are not compiled.

What the values mean is defined in docs/reference/points.md, and what sets series apart in `series`.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from fleetgauge.telemetry.catalogue.dialects import text_of
from fleetgauge.telemetry.otlp.series import NO_RECORDED_VALUE, SERVICE_KEYS, are_buckets, origin_of

Texts = tuple[tuple[str, str | None], ...]
"""Attributes as text: key and value of each."""


class MetricMessage(NamedTuple):
    """A metric that has data.

    Attributes:
        metric: the `Metric`.
        kind: the member that has its data: `gauge`, `sum`, `histogram`, `exponential_histogram` or `summary`.
        data: that member.
        origin: see `origin_of`.
    """

    metric: Any
    kind: str
    data: Any
    origin: Texts


def metrics_of(message: Any) -> Iterator[MetricMessage]:
    """Yields the metrics of a `MetricsData` that have data, in order."""
    for resource_metrics in message.resource_metrics:
        services: Texts = ()
        if resource_metrics.HasField("resource"):  # of a Java client, which has one a metric, nothing is in it
            attributes = resource_metrics.resource.attributes
            services = tuple([(each.key, text_of(each.value)) for each in attributes if each.key in SERVICE_KEYS])
        for scope_metrics in resource_metrics.scope_metrics:
            origin: Texts = ()
            if services or scope_metrics.HasField("scope"):
                origin = _origin(scope_metrics.scope.name, scope_metrics.scope.version, services)
            for metric in scope_metrics.metrics:
                kind = metric.WhichOneof("data")
                if kind is not None:
                    yield MetricMessage(metric, kind, getattr(metric, kind), origin)


@lru_cache(1_024)
def _origin(scope_name: str, scope_version: str, services: Texts) -> Texts:
    return tuple(origin_of(scope_name, scope_version, dict(services)).items())


def has_no_value(point: Any) -> bool:
    """True if a data point has the flag "no recorded value"."""
    return bool(point.flags & NO_RECORDED_VALUE)


def number_of(point: Any) -> float | None:
    """The value of a point of a gauge or sum, an int if it was sent as one; None if it has none."""
    member = point.WhichOneof("value")
    return None if member is None or point.flags & NO_RECORDED_VALUE else getattr(point, member)


def buckets_of(point: Any) -> tuple[tuple[int, ...], tuple[float, ...]] | None:
    """Counts and bounds of a histogram's buckets; None if they do not match. Without buckets all is in one."""
    counts, bounds = tuple(point.bucket_counts) or (point.count,), tuple(point.explicit_bounds)
    return (counts, bounds) if are_buckets(counts, bounds) else None


def total_of(point: Any) -> float:
    """The sum of a histogram's values; NaN if it is not known."""
    return float(point.sum) if point.HasField("sum") and math.isfinite(point.sum) else math.nan
