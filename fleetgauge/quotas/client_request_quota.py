"""Quotas on the time that a client's requests take of the broker's threads (KIP-124)."""

from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.quotas.callback import ClientQuotaCallback
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.metrics.stats.rate import Rate
from fleetgauge.quotas.metrics.throttle_time import bounded_throttle_time
from fleetgauge.quotas.quota_type import QuotaType

NANOS_TO_PERCENTAGE_PER_SECOND: Final = 100.0 / 1_000_000_000

EXEMPT_SENSOR_NAME: Final = f"exempt-{QuotaType.REQUEST}"


def nanos_to_percentage(nanos: float) -> float:
    """Converts time on a thread [ns] to a share of one thread's second [percent]: 10 ms are 1.

    >>> nanos_to_percentage(10_000_000)
    1.0
    """
    return nanos * NANOS_TO_PERCENTAGE_PER_SECOND


class ClientRequestQuotaManager(ClientQuotaManager):
    """Kafka's `ClientRequestQuotaManager`: a limit of n is n percent of one thread, over all threads together.

    A client with a limit of 1 may take 10 ms of each second. Values are recorded as percentages of a second; the
    metric is `request-time`. No delay is longer than one window, so that a pause of the whole broker, or one huge
    request, does not throttle a client for minutes. What is exempt from quotas (SaslHandshake, authorised cluster
    actions) is recorded in `exempt-request-time`, by a sensor that never expires.

    Args:
        config: how usage is sampled.
        metrics: where sensors and metrics are registered.
        time: the monotonic clock for calls without `now_ms`.
        client_quota_callback: instead of the quotas that `update_quota` sets.
    """

    def __init__(
        self,
        config: ClientQuotaManagerConfig,
        metrics: Metrics,
        time: Time,
        client_quota_callback: ClientQuotaCallback | None = None,
    ) -> None:
        super().__init__(config, metrics, QuotaType.REQUEST, time, client_quota_callback)
        self._max_throttle_time_ms = config.quota_window_size_seconds * 1_000
        self.exempt_sensor: Final[Sensor] = metrics.sensor(EXEMPT_SENSOR_NAME)
        exempt_metric_name = metrics.metric_name(
            "exempt-request-time", str(QuotaType.REQUEST), "Tracking exempt-request-time utilization percentage"
        )
        self.exempt_sensor.add(exempt_metric_name, Rate())

    def throttle_time(self, error: QuotaViolationError, now_ms: int) -> int:
        """See `ClientQuotaManager.throttle_time`; one window at most."""
        return bounded_throttle_time(error, self._max_throttle_time_ms, now_ms)
