"""The quota on pushes of metrics (KIP-714): Fleetgauge's own, in Kafka's engine. It throttles no channel.

That on their bytes is a plain `ClientQuotaManager`. What follows from both: `telemetry.subscriptions.interval_scaling`.
"""

from collections.abc import Mapping

from quotas.client_quota import ClientQuotaManager
from quotas.metric_name import MetricName


class TelemetryPushQuotaManager(ClientQuotaManager):
    """Pushes a second; the metric is `push-rate` in the group `TelemetryPush`."""

    def client_quota_metric_name(self, metric_tags: Mapping[str, str]) -> MetricName:
        """See `ClientQuotaManager.client_quota_metric_name`."""
        return self._metrics.metric_name(
            "push-rate", str(self.quota_type), "Tracking push-rate per user/client-id", metric_tags
        )
