"""Statistics without windows: totals since the start, and the last value."""

from fleetgauge.quotas.metrics.metric_config import MetricConfig


class CumulativeSum:
    """Sum of everything recorded (Kafka's `CumulativeSum`). Recording `-v` takes `v` back."""

    __slots__ = ("_total",)

    def __init__(self, value: float = 0.0) -> None:
        self._total = value

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds `value`."""
        self._total += value

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """Returns the sum."""
        return self._total


class CumulativeCount(CumulativeSum):
    """Number of records, whatever their values (Kafka's `CumulativeCount`)."""

    __slots__ = ()

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Adds 1."""
        self._total += 1.0


class Value:
    """The value recorded last, 0 before any (Kafka's `Value`)."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0.0

    def record(self, config: MetricConfig, value: float, time_ms: int) -> None:
        """Replaces the value."""
        self._value = value

    def measure(self, config: MetricConfig, now_ms: int) -> float:
        """Returns the last value."""
        return self._value
