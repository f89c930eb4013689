"""Quotas on the time that a client's requests take of the broker's threads (KIP-124)."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from base.clock import Time
from quotas.callback import ClientQuotaCallback
from quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from quotas.metric_name import MetricName
from quotas.metrics import Metrics
from quotas.quota_type import QuotaType
from quotas.sensor import QuotaViolationError, Sensor
from quotas.session import Session
from quotas.stats.rate import Rate
from quotas.throttle_time import bounded_throttle_time

NANOS_TO_PERCENTAGE_PER_SECOND: Final = 100.0 / 1_000_000_000

EXEMPT_SENSOR_NAME: Final = f"exempt-{QuotaType.REQUEST}"


def nanos_to_percentage(nanos: float) -> float:
    """Time on a thread [ns] as a share of one thread's second [percent]: 10 ms are 1.

    >>> nanos_to_percentage(10_000_000)
    1.0
    """
    return nanos * NANOS_TO_PERCENTAGE_PER_SECOND


class TimedRequest(Protocol):
    """What the manager needs of a request (Kafka's `RequestChannel.Request`).

    Attributes:
        session: who sent it.
        client_id: as its header has it, empty for none.
        request_thread_time_nanos: how long it was worked on [ns]: time on a thread, not time of waiting.
        record_network_thread_time: set by the manager; to be called with the time that sending the response took [ns].
    """

    session: Session
    client_id: str
    request_thread_time_nanos: int
    record_network_thread_time: Callable[[int], None] | None


class ClientRequestQuotaManager(ClientQuotaManager):
    """Kafka's `ClientRequestQuotaManager`: a limit of n is n percent of one thread, over all threads together.

    A client with a limit of 1 may take 10 ms of each second. Values are recorded as percentages of a second; the
    metric is `request-time`. No delay is longer than one window, so that a pause of the whole broker, or one huge
    request, does not keep a client out for minutes. What is exempt from quotas (SaslHandshake, authorised cluster
    actions) is recorded in `exempt-request-time`, by a sensor that never expires.

    Args:
        config: how usage is sampled.
        metrics: where sensors and metrics are registered.
        time: read where a method is given no time.
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

    def maybe_record_request_and_get_throttle_time_ms(self, request: TimedRequest, now_ms: int | None = None) -> int:
        """Records a request's time and says how long its client is to be held [ms]; 0 if no quota is set.

        The time that sending takes is recorded later, by the callback that the request is given, and counts when the
        next request is checked: who sends cannot throttle (KIP-124). Kafka overloads `maybeRecordAndGetThrottleTimeMs`.
        """
        if not self.quotas_enabled:
            return 0
        session, client_id = request.session, request.client_id

        def record_network_thread_time(nanos: int) -> None:
            self.record_no_throttle(session, client_id, nanos_to_percentage(nanos))

        request.record_network_thread_time = record_network_thread_time
        used = nanos_to_percentage(request.request_thread_time_nanos)
        return self.record_and_get_throttle_time_ms(session, client_id, used, now_ms)

    def maybe_record_exempt(self, request: TimedRequest, now_ms: int | None = None) -> None:
        """Records the time of a request that no quota applies to, its sending included; nothing if no quota is set."""
        if not self.quotas_enabled:
            return

        def record_network_thread_time(nanos: int) -> None:
            self.exempt_sensor.record(nanos_to_percentage(nanos))

        request.record_network_thread_time = record_network_thread_time
        self.exempt_sensor.record(nanos_to_percentage(request.request_thread_time_nanos), now_ms)

    def throttle_time(self, error: QuotaViolationError, now_ms: int) -> int:
        """See `ClientQuotaManager.throttle_time`; one window at most."""
        return bounded_throttle_time(error, self._max_throttle_time_ms, now_ms)

    def client_quota_metric_name(self, metric_tags: Mapping[str, str]) -> MetricName:
        """See `ClientQuotaManager.client_quota_metric_name`."""
        return self._metrics.metric_name(
            "request-time", str(self.quota_type), "Tracking request-time per user/client-id", metric_tags
        )
