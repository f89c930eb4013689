"""The counters of a `ClientMetricsManager` since its start, for `fleetgauge status`."""

from collections import Counter

from fleetgauge.telemetry.instances.client_metrics import ClientMetrics
from fleetgauge.telemetry.instances.known import KnownInstances
from fleetgauge.telemetry.labels import LabelBound
from fleetgauge.telemetry.malformed import MalformedPushes
from fleetgauge.telemetry.refusal import Refusal
from fleetgauge.telemetry.subscriptions.interval_scaling import TelemetryIntervalScaling


class ManagerFigures:
    """Counters of a manager.

    Args:
        client_metrics: Kafka's group `client-metrics`.
        instances: the manager's instances.
        label: bound of their labels.
        pace: interval scaling by telemetry quotas; None for none.

    Attributes:
        refused: number of refused requests by kind.
        malformed: accepted pushes whose payload is not well-formed.
        client_metrics: Kafka's group `client-metrics`.
    """

    def __init__(
        self,
        client_metrics: ClientMetrics,
        instances: KnownInstances,
        label: LabelBound,
        pace: TelemetryIntervalScaling | None,
    ) -> None:
        self.client_metrics = client_metrics
        self._instances = instances
        self._label = label
        self._pace = pace
        self.refused: Counter[Refusal] = Counter()
        self.malformed = MalformedPushes()

    def refusals(self) -> dict[str, dict[str, int]]:
        """Refused requests by error code name, then by reason."""
        counts: dict[str, dict[str, int]] = {}
        for refusal, count in self.refused.items():
            counts.setdefault(refusal.error_code.name, {})[refusal.reason] = count
        return counts

    def counters(self) -> dict[str, int]:
        """Counters of instances and labels."""
        cache, departed, pace = self._instances.cache, self._instances.departed, self._pace
        return {
            "instances": len(cache),
            "instances_evicted": cache.evicted,
            "instances_expired": cache.expired,
            "instances_vanished": departed.vanished,
            "instances_ended": departed.ended,
            "instance_id_clashes": cache.clashes,
            "labels_truncated": self._label.truncated,
            "instances_with_metrics": self.client_metrics.instances,
            "instances_without_metrics": self.client_metrics.left_out,
            "instances_slowed": 0 if pace is None else pace.slowed,
            "interval_changes": 0 if pace is None else pace.changes,
        }
