"""Quotas on partitions created and deleted (KIP-599): a token bucket, checked before anything is changed.

For library users: `fleetgauge serve` has no such requests, and creates the manager only so that its limits can be set.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ThrottlingQuotaExceededError
from fleetgauge.quotas.callback import ClientQuotaCallback
from fleetgauge.quotas.client_quota import ClientQuotaManager, ClientQuotaManagerConfig
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.metrics.stats.rate import Rate
from fleetgauge.quotas.metrics.stats.token_bucket import TokenBucket
from fleetgauge.quotas.metrics.throttle_time import token_bucket_throttle_time
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.session import Session

DELETE_TOPICS_STRICT_SINCE_VERSION: Final = 5
CREATE_TOPICS_STRICT_SINCE_VERSION: Final = 6
CREATE_PARTITIONS_STRICT_SINCE_VERSION: Final = 3


class MutationQuotaExceededError(ThrottlingQuotaExceededError):
    """A strict quota is exhausted: the request must not change anything.

    Attributes:
        throttle_time_ms: when to try again [ms from now].
    """

    def __init__(self, throttle_time_ms: int) -> None:
        super().__init__(throttle_time_ms)
        self.throttle_time_ms = throttle_time_ms

    def __str__(self) -> str:
        return f"The quota of partition mutations is exhausted: try again in {self.throttle_time_ms} ms."


class RequestHeader(Protocol):
    """The fields of a request's header that the manager reads. A client id of None counts as empty."""

    @property
    def api_version(self) -> int:
        """The version that the client speaks."""

    @property
    def client_id(self) -> str | None:
        """Client id as sent."""


class ControllerMutationQuota:
    """Quota of one request. This class itself is that of a request without a quota: unbounded."""

    __slots__ = ()

    @property
    def is_exceeded(self) -> bool:
        """True if the request was refused: its response carries the error for the remaining partitions."""
        return False

    def record(self, permits: float, now_ms: int | None = None) -> None:
        """Takes `permits` partitions, created or deleted; before they are.

        Raises:
            MutationQuotaExceededError: the quota is strict and exhausted; nothing was taken.
        """

    def throttle_time(self, now_ms: int | None = None) -> int:
        """Returns the remaining throttle time [ms] at `now_ms`."""
        return 0


UNBOUNDED_CONTROLLER_MUTATION_QUOTA: Final = ControllerMutationQuota()


class AbstractControllerMutationQuota(ControllerMutationQuota):
    """Keeps the throttle time of a record and its time: a request may wait long for its response.

    A throttle time of 12,000 ms is 7,000 ms when read 5,000 ms later.

    Args:
        time: the monotonic clock for calls without `now_ms`.
        quota_sensor: of the clients that share the quota.
    """

    __slots__ = ("_last_recorded_time_ms", "_last_throttle_time_ms", "_quota_sensor", "_time")

    def __init__(self, time: Time, quota_sensor: Sensor) -> None:
        self._time = time
        self._quota_sensor = quota_sensor
        self._last_throttle_time_ms = 0
        self._last_recorded_time_ms = 0

    def throttle_time(self, now_ms: int | None = None) -> int:
        """See `ControllerMutationQuota.throttle_time`."""
        if self._last_throttle_time_ms == 0:
            return 0
        return max(self._last_throttle_time_ms - (self._now(now_ms) - self._last_recorded_time_ms), 0)

    def _now(self, now_ms: int | None) -> int:
        return self._time.hi_res_clock_ms() if now_ms is None else now_ms

    def _update_throttle_time(self, error: QuotaViolationError, now_ms: int) -> None:
        self._last_throttle_time_ms = token_bucket_throttle_time(error)
        self._last_recorded_time_ms = now_ms


class StrictControllerMutationQuota(AbstractControllerMutationQuota):
    """Refuses everything while the bucket is below zero, and anything, however large, while it is not.

    With a limit of 5 and a burst of 500, 560 partitions are let through by a full bucket; the next one is refused for
    12,000 ms.
    """

    __slots__ = ()

    @property
    def is_exceeded(self) -> bool:
        """See `ControllerMutationQuota.is_exceeded`."""
        return self._last_throttle_time_ms > 0

    def record(self, permits: float, now_ms: int | None = None) -> None:
        """See `ControllerMutationQuota.record`."""
        at_ms = self._now(now_ms)
        try:
            self._quota_sensor.check_and_record(permits, at_ms)
        except QuotaViolationError as error:
            self._update_throttle_time(error, at_ms)
            raise MutationQuotaExceededError(self._last_throttle_time_ms) from error


class PermissiveControllerMutationQuota(AbstractControllerMutationQuota):
    """Admits everything, and throttles once the bucket is exhausted: for clients that do not know the error."""

    __slots__ = ()

    def record(self, permits: float, now_ms: int | None = None) -> None:
        """See `ControllerMutationQuota.record`; never raises."""
        at_ms = self._now(now_ms)
        try:
            self._quota_sensor.record(permits, at_ms, True)
        except QuotaViolationError as error:
            self._update_throttle_time(error, at_ms)


class ControllerMutationQuotaManager(ClientQuotaManager):
    """Kafka's `ControllerMutationQuotaManager`: admits bursts, and limits the average.

    The limit is a number of partitions a second; the bucket holds as much as `num_quota_samples` windows bring. Metrics
    in the group `ControllerMutation`: `tokens` (below 0: over the quota), `mutation-rate` (its name in Kafka's brokers)
    and the same as `rate` (its name in KIP-599), `quota-utilization`, `throttle-time`.

    Args:
        config: of `controller.quota.window.num` and `controller.quota.window.size.seconds`.
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
        super().__init__(config, metrics, QuotaType.CONTROLLER_MUTATION, time, client_quota_callback)

    def new_quota_for(
        self, session: Session, header: RequestHeader, strict_since_version: int
    ) -> ControllerMutationQuota:
        """Returns the quota of a request: strict from that version on, since older clients do not know the error.

        Args:
            session: of the connection that sent the request.
            header: its version and client id.
            strict_since_version: one of the `..._STRICT_SINCE_VERSION`.
        """
        if not hasattr(header, "api_version"):
            raise TypeError(f"header must be a request's header, not {header!r}")
        is_strict = header.api_version >= strict_since_version
        new_quota_for = self.new_strict_quota_for if is_strict else self.new_permissive_quota_for
        return new_quota_for(session, header.client_id or "")

    def new_strict_quota_for(self, session: Session, client_id: str) -> ControllerMutationQuota:
        """Returns a quota that refuses; an unbounded one if none is set."""
        return self._quota_for(StrictControllerMutationQuota, session, client_id)

    def new_permissive_quota_for(self, session: Session, client_id: str) -> ControllerMutationQuota:
        """Returns a quota that throttles only; an unbounded one if none is set."""
        return self._quota_for(PermissiveControllerMutationQuota, session, client_id)

    def _quota_for(
        self, kind: Callable[[Time, Sensor], ControllerMutationQuota], session: Session, client_id: str
    ) -> ControllerMutationQuota:
        if not self.quotas_enabled:
            return UNBOUNDED_CONTROLLER_MUTATION_QUOTA
        return kind(self._time, self.get_or_create_quota_sensors(session, client_id).quota_sensor)

    def record_and_get_throttle_time_ms(
        self, session: Session, client_id: str, value: float, now_ms: int | None = None
    ) -> int:
        """Records mutations unless the quota is exhausted; then nothing is recorded, and the wait [ms] is returned."""
        at_ms = self._time.hi_res_clock_ms() if now_ms is None else now_ms
        sensor = self.get_or_create_quota_sensors(session, client_id).quota_sensor
        try:
            sensor.check_and_record(value, at_ms)
        except QuotaViolationError as error:
            return self.throttle_time(error, at_ms)
        return 0

    def throttle_time(self, error: QuotaViolationError, now_ms: int) -> int:
        """Returns the time [ms] until the bucket is back at zero."""
        return token_bucket_throttle_time(error)

    def _register_quota_metrics(self, metric_tags: Mapping[str, str], sensor: Sensor) -> None:
        tokens = self.client_quota_metric_name(metric_tags)
        sensor.add(tokens, TokenBucket(), self._metric_config(self._limit(metric_tags)))
        in_kafka, in_the_kip = (
            self._metrics.metric_name(
                name, str(self.quota_type), "Tracking mutation-rate per user/client-id", metric_tags
            )
            for name in ("mutation-rate", "rate")
        )
        rate = Rate()
        sensor.add(in_kafka, rate)
        sensor.add_gauge(in_the_kip, rate.measure)
