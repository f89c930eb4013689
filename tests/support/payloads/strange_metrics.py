"""Metrics as no client of ours sends them, and any other may: every kind of OTLP, with names and units that clash."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_DELTA as DELTA,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_UNSPECIFIED as UNSPECIFIED,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from support.payloads.client_series import LATENCY, REQUESTS, attributes, counter, gauge

NAMES: Final = (
    "app.readbytes", "app.read.bytes", "bytes", "app.hitratio", "app.size", "app.size.total", "app_size_bucket",
    "app.size.sum", "app.size.count", "app.size.created", "app.size_milliseconds", "9", "_total", "ä.ö", "a\nb} 1",
    "fleetgauge_client", "fleetgauge.prometheus.series", REQUESTS, LATENCY,
)  # fmt: skip
"""One within another's suffixes, Kafka's own, the page's own, and such as hold nothing that a name may hold."""
UNITS: Final = ("", "1", "ms", "By", "bytes", "By/s", "{requests}", "%", "total", "/", "_", "s\n# EOF", "ä")
VALUES: Final = (0.0, 1.0, 7.5, -3.0, -0.0, 1e308, 5e-324, math.inf, -math.inf, math.nan)
LABELS: Final = ("", "plain", 'a"b\\c\n} 9 # HELP', "a\0b", "a\r\x0b\x1b\u2028\u0085\ufeffb")


def _sum(temporality: AggregationTemporality.ValueType, *, is_monotonic: bool) -> Callable[[str, float], Metric]:
    def make(name: str, value: float) -> Metric:
        metric = counter(value, name=name, temporality=temporality)
        metric.sum.is_monotonic = is_monotonic
        return metric

    return make


def _histogram(
    temporality: AggregationTemporality.ValueType, bounds: Sequence[float]
) -> Callable[[str, float], Metric]:
    def make(name: str, value: float) -> Metric:
        metric = Metric(name=name)
        metric.histogram.aggregation_temporality = temporality
        counts = list(range(len(bounds) + 1))
        point = metric.histogram.data_points.add(count=sum(counts), bucket_counts=counts, explicit_bounds=bounds)
        if value != 1:  # which is the one without a sum
            point.sum = value
        return metric

    return make


def _exponential(name: str, value: float) -> Metric:
    metric = Metric(name=name)
    metric.exponential_histogram.aggregation_temporality = DELTA
    point = metric.exponential_histogram.data_points.add(scale=2, zero_count=1, count=7, sum=value)
    point.positive.bucket_counts.extend([1, 2])
    point.negative.bucket_counts.append(3)
    return metric


def _summary(name: str, value: float) -> Metric:
    metric = Metric(name=name)
    point = metric.summary.data_points.add(count=3, sum=value)
    for quantile in (-1.0, 0.0, 0.5, 1.0, math.nan):
        point.quantile_values.add(quantile=quantile, value=value)
    return metric


KINDS: Final[dict[str, Callable[[str, float], Metric]]] = {
    "gauge": lambda name, value: gauge(value, name=name),
    "counter": _sum(DELTA, is_monotonic=True),
    "cumulative counter": _sum(CUMULATIVE, is_monotonic=True),
    "sum that may fall": _sum(DELTA, is_monotonic=False),
    "sum of unknown temporality": _sum(UNSPECIFIED, is_monotonic=True),
    "histogram": _histogram(DELTA, [0.5, 10]),
    "histogram below 0": _histogram(DELTA, [-10, -0.5, 3]),
    "cumulative histogram": _histogram(CUMULATIVE, [0.5, 10]),
    "histogram of many buckets": _histogram(DELTA, [float(bound) for bound in range(-2, 48)]),
    "exponential histogram": _exponential,
    "summary": _summary,
}


def strange_metric(kind: str, name: str, unit: str, value: float, label: str) -> Metric:
    """A metric of one data point, which has one attribute if the label is not empty; its description is the label."""
    metric = KINDS[kind](name, value)
    metric.unit, metric.description = unit, label
    data: Any = getattr(metric, metric.WhichOneof("data") or "")
    data.data_points[0].start_time_unix_nano = 1_760_000_000_123_456_789 if label else 0
    attributes(data.data_points[0], {"topic": label} if label else {})
    return metric
