"""Points of every kind that has a temporality, and a destination that keeps what a conversion sends it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData
from support.payloads.client_series import CUMULATIVE, SECOND_NANO, attributes, clock_at

from fleetgauge.exporters.exporter import Delivered, Outcome
from fleetgauge.exporters.otlp.conversion import Conversion
from fleetgauge.telemetry.push_record import PushRecord


def histogram(
    counts: Sequence[int],
    *,
    bounds: Sequence[float] = (1.0, 10.0),
    total: float | None = None,
    temporality: AggregationTemporality.ValueType,
    start: float = 0,
    at: float = 0,
    **labels: Any,
) -> Metric:
    """A histogram of one data point."""
    metric = Metric(name="latency")
    metric.histogram.aggregation_temporality = temporality
    point = metric.histogram.data_points.add(bucket_counts=counts, explicit_bounds=bounds, count=sum(counts))
    if total is not None:
        point.sum = total
    return _timed(metric, point, start, at, labels)


def exponential(
    counts: Sequence[int],
    *,
    offset: int = 0,
    scale: int = 2,
    zeros: int = 0,
    temporality: AggregationTemporality.ValueType,
    start: float = 0,
    at: float = 0,
) -> Metric:
    """An exponential histogram of one data point."""
    metric = Metric(name="size")
    metric.exponential_histogram.aggregation_temporality = temporality
    point = metric.exponential_histogram.data_points.add(scale=scale, zero_count=zeros, count=sum(counts) + zeros)
    point.positive.offset = offset
    point.positive.bucket_counts.extend(counts)
    return _timed(metric, point, start, at, {})


def up_down(value: int, *, temporality: AggregationTemporality.ValueType, start: float = 0, at: float = 0) -> Metric:
    """A sum of integers that may fall."""
    metric = Metric(name="connections")
    metric.sum.aggregation_temporality = temporality
    return _timed(metric, metric.sum.data_points.add(as_int=value), start, at, {})


def _timed(metric: Metric, point: Any, start: float, at: float, labels: dict[str, Any]) -> Metric:
    point.start_time_unix_nano, point.time_unix_nano = int(start * SECOND_NANO), int(at * SECOND_NANO)
    attributes(point, labels)
    return metric


class Destination:
    """Answers with `outcomes`, one after the other, and then with Delivered; keeps what it got, delivered or not."""

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.attempts: list[tuple[bytes, ...]] = []
        self.delivered: list[bytes] = []

    def send(self, records: Sequence[PushRecord]) -> Outcome:
        payloads = tuple(record.metrics for record in records)
        self.attempts.append(payloads)
        outcome = self.outcomes.pop(0) if self.outcomes else Delivered()
        if isinstance(outcome, Delivered):
            self.delivered += payloads
        return outcome


def conversion_to(temporality: str, state_file: Path | None = None) -> Conversion:
    """A started conversion."""
    conversion = Conversion(temporality, state_file, clock_at(1_000_000))
    conversion.start()
    return conversion


def data_of(metric: Metric) -> Any:
    """The metric's member that has data."""
    return getattr(metric, metric.WhichOneof("data") or "gauge")


def points_of(payloads: Iterable[bytes]) -> Iterator[tuple[Metric, Any]]:
    """Every data point of payloads, with its metric."""
    for payload in payloads:
        for resource_metrics in MetricsData.FromString(payload).resource_metrics:
            for scope_metrics in resource_metrics.scope_metrics:
                for metric in scope_metrics.metrics:
                    yield from ((metric, point) for point in data_of(metric).data_points)


def numbers(payloads: Iterable[bytes]) -> list[tuple[float, float, float]]:
    """Value (of a sum), start and time of every point, times in seconds."""
    return [
        (
            getattr(point, point.WhichOneof("value")),
            point.start_time_unix_nano / SECOND_NANO,
            point.time_unix_nano / SECOND_NANO,
        )
        for _, point in points_of(payloads)
    ]


def is_cumulative(payloads: Iterable[bytes]) -> bool:
    """True if every metric is."""
    found = [data_of(metric).aggregation_temporality for metric, _ in points_of(payloads)]
    return set(found) == {CUMULATIVE}
