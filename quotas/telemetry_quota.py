"""Quotas on the metrics that clients push (KIP-714): Fleetgauge's own, in Kafka's engine. They throttle no channel.

What follows from them stands in `telemetry.push_pace`.
"""

from collections.abc import Mapping

from quotas.callback import ClientQuotaCallback
from quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from quotas.clock import Time
from quotas.metric_name import MetricName
from quotas.metrics import Metrics
from quotas.quota_type import QuotaType


class TelemetryByteQuotaManager(ClientQuotaManager):
    """Payload bytes as received, a second; the metric is `byte-rate` in the group `TelemetryByte`."""

    def __init__(
        self,
        config: ClientQuotaManagerConfig,
        metrics: Metrics,
        time: Time,
        client_quota_callback: ClientQuotaCallback | None = None,
    ) -> None:
        super().__init__(config, metrics, QuotaType.TELEMETRY_BYTE, time, client_quota_callback)


class TelemetryPushQuotaManager(ClientQuotaManager):
    """Pushes a second; the metric is `push-rate` in the group `TelemetryPush`."""

    def __init__(
        self,
        config: ClientQuotaManagerConfig,
        metrics: Metrics,
        time: Time,
        client_quota_callback: ClientQuotaCallback | None = None,
    ) -> None:
        super().__init__(config, metrics, QuotaType.TELEMETRY_PUSH, time, client_quota_callback)

    def client_quota_metric_name(self, metric_tags: Mapping[str, str]) -> MetricName:
        """See `ClientQuotaManager.client_quota_metric_name`."""
        return self._metrics.metric_name(
            "push-rate", str(self.quota_type), "Tracking push-rate per user/client-id", metric_tags
        )
