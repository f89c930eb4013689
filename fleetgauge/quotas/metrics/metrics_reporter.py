"""The interface of a registry's reporters."""

from collections.abc import Sequence
from typing import Protocol

from fleetgauge.quotas.metrics.kafka_metric import KafkaMetric


class MetricsReporter(Protocol):
    """The part of Kafka's `MetricsReporter` that a registry calls, with its lock held."""

    def init(self, metrics: Sequence[KafkaMetric]) -> None:
        """The reporter was added; `metrics` exist already."""

    def metric_change(self, metric: KafkaMetric) -> None:
        """A metric was added."""

    def metric_removal(self, metric: KafkaMetric) -> None:
        """A metric was removed."""

    def close(self) -> None:
        """The reporter was removed, or the registry closed."""
