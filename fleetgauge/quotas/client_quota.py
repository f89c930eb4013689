"""Quotas on what clients send and fetch: sensors by entity, throttle times, limits that change at run time."""

import logging
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Final

from fleetgauge.base.arguments import check_types
from fleetgauge.base.clock import Time
from fleetgauge.base.principal import KafkaPrincipal
from fleetgauge.quotas.callback import ClientQuotaCallback
from fleetgauge.quotas.default_quota_callback import (
    CLIENT_ID_TAG,
    CUSTOM_QUOTAS,
    NO_QUOTAS,
    USER_TAG,
    DefaultQuotaCallback,
)
from fleetgauge.quotas.entity import ConfigEntity, KafkaQuotaEntity, sanitize
from fleetgauge.quotas.limits import checked_client_quota
from fleetgauge.quotas.metrics.metric_config import (
    INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS,
    NUM_QUOTA_SAMPLES_DEFAULT,
    QUOTA_WINDOW_SIZE_SECONDS_DEFAULT,
    UNBOUNDED,
    MetricConfig,
)
from fleetgauge.quotas.metrics.metric_name import MetricName
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.metrics.sensor import QuotaViolationError, Sensor
from fleetgauge.quotas.metrics.stats.cumulative import CumulativeSum
from fleetgauge.quotas.metrics.stats.rate import Rate
from fleetgauge.quotas.metrics.stats.sampled_stat import Avg
from fleetgauge.quotas.metrics.throttle_time import throttle_time
from fleetgauge.quotas.metrics.utilization import add_quota_utilization
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.session import Session
from fleetgauge.quotas.throttled_channel import ThrottleCallback, ThrottledChannelReaper

MAX_REMEMBERED_CLIENTS: Final = 16_384
"""Clients whose sensors are cached; when the cache is full it is cleared."""

MAX_REMEMBERED_LIMITS: Final = 1_024
"""Limits whose configs are cached: a callback may return other limits all the time."""

_METRIC_NAMES: Final = {
    QuotaType.REQUEST: "request-time",
    QuotaType.CONTROLLER_MUTATION: "tokens",
    QuotaType.TELEMETRY_PUSH: "push-rate",
}
"""Metric under the quota, by type; `byte-rate` for all others."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotaManagerConfig:
    """Sampling of usage, with Kafka's defaults: 10 whole windows and the current one.

    Attributes:
        num_quota_samples: windows retained, the current one included.
        quota_window_size_seconds: width of one window [s].

    Raises:
        TypeError: one of them is no whole number.
        ValueError: one of them is below 1.
    """

    num_quota_samples: int = NUM_QUOTA_SAMPLES_DEFAULT
    quota_window_size_seconds: int = QUOTA_WINDOW_SIZE_SECONDS_DEFAULT

    def __post_init__(self) -> None:
        check_types(
            num_quota_samples=(self.num_quota_samples, int),
            quota_window_size_seconds=(self.quota_window_size_seconds, int),
        )
        if min(self.num_quota_samples, self.quota_window_size_seconds) < 1:
            raise ValueError("a client quota needs at least one sample of at least one second")


@dataclass(frozen=True, slots=True)
class ClientSensors:
    """The two sensors of the clients that share a quota (Kafka's `ClientSensors`).

    Attributes:
        metric_tags: identify the clients that share them.
        quota_sensor: records their usage and checks it.
        throttle_time_sensor: records every throttle time [ms].
    """

    metric_tags: Mapping[str, str]
    quota_sensor: Sensor
    throttle_time_sensor: Sensor


class ClientQuotaManager:
    """Kafka's `ClientQuotaManager`: usage and limits of one quota type, by user, client id and both.

    Safe for threads. It opens no socket and starts no thread or loop: `reaper` holds the channels that are throttled,
    and one of `quotas.drivers` (or any caller of `reaper.reap`) unmutes them.

    Clients that share an entity share one sensor, named `Produce-<user>:<client-id>`, with the metrics `byte-rate` and
    `quota-utilization` in the group `Produce`, and a second one, `ProduceThrottleTime-...`, with `throttle-time`, the
    average throttle time [ms]. `queue-size` counts the muted channels.

    Args:
        config: how usage is sampled.
        metrics: where sensors and metrics are registered.
        quota_type: PRODUCE or FETCH; subclasses bring the others.
        time: the monotonic clock for calls without `now_ms`.
        client_quota_callback: instead of the quotas that `update_quota` sets (KIP-257).
    """

    def __init__(
        self,
        config: ClientQuotaManagerConfig,
        metrics: Metrics,
        quota_type: QuotaType,
        time: Time,
        client_quota_callback: ClientQuotaCallback | None = None,
    ) -> None:
        check_types(
            config=(config, ClientQuotaManagerConfig),
            metrics=(metrics, Metrics),
            quota_type=(quota_type, QuotaType),
            time=(time, "hi_res_clock_ms"),
        )
        self.config: Final = config
        self.quota_type: Final = quota_type
        self.client_quota_type: Final = quota_type.to_client_quota_type()
        self._metrics = metrics
        self._time = time
        default = DefaultQuotaCallback()
        self._default = default if client_quota_callback is None else None
        self._callback: ClientQuotaCallback = client_quota_callback or default
        # Held while sensors are made and while limits change: else a sensor could be made with a limit that has just
        # been replaced, and keep it for good.
        self._lock = threading.RLock()
        self._remembered: dict[tuple[str, str], ClientSensors] = {}
        self._configs: dict[float, MetricConfig] = {}
        self._remembered_since = metrics.sensor_removals
        delay_queue_sensor = metrics.sensor(f"{quota_type}-delayQueue")
        queue_size = metrics.metric_name("queue-size", str(quota_type), "Tracks the size of the delay queue")
        delay_queue_sensor.add(queue_size, CumulativeSum())
        self.reaper: Final = ThrottledChannelReaper(f"ThrottledChannelReaper-{quota_type}", delay_queue_sensor.record)

    @property
    def quota_types_enabled(self) -> int:
        """The levels that have quotas, as a sum of the constants of `default_quota_callback`."""
        return CUSTOM_QUOTAS if self._default is None else self._default.quota_types_enabled

    @property
    def quotas_enabled(self) -> bool:
        """False if no quota is set at all, so that nothing needs to be recorded."""
        return self._default is None or self._default.quota_types_enabled != NO_QUOTAS

    def maybe_record_and_get_throttle_time_ms(
        self, session: Session, client_id: str, value: float, now_ms: int | None = None
    ) -> int:
        """`record_and_get_throttle_time_ms` if any quota is set; else 0, and nothing is recorded."""
        if self._default is not None and self._default.quota_types_enabled == NO_QUOTAS:
            return 0
        return self.record_and_get_throttle_time_ms(session, client_id, value, now_ms)

    def record_and_get_throttle_time_ms(
        self, session: Session, client_id: str, value: float, now_ms: int | None = None
    ) -> int:
        """Records usage, and returns how long to throttle the client [ms] until its rate is back at the limit.

        Args:
            session: of the connection that sent the request.
            client_id: from the request's header, empty for none.
            value: usage in the unit of the quota (bytes).
            now_ms: monotonic time [ms], by default now.

        Returns:
            0 within the limit. Above it (O - T) / T * W, for a rate O, a limit T and windows that span W: the rest of
            10 s at 12 MB/s under a limit of 10 MB/s are 2,000.
        """
        at_ms = self._time.hi_res_clock_ms() if now_ms is None else now_ms
        sensors = None
        if self._remembered_since == self._metrics.sensor_removals:  # `get_or_create_quota_sensors`, without the call
            try:
                sensors = self._remembered.get((session.sanitized_user, client_id))
            except AttributeError:
                check_types(session=(session, Session))
                raise
        sensor = (sensors or self.get_or_create_quota_sensors(session, client_id)).quota_sensor
        try:
            sensor.record(value, at_ms, True)
        except QuotaViolationError as error:
            throttle_time_ms = self.throttle_time(error, at_ms)
            _logger.debug("quota violated for sensor %s: delay of %d ms", sensor.name, throttle_time_ms)
            return throttle_time_ms
        return 0

    def record_no_throttle(self, session: Session, client_id: str, value: float, now_ms: int | None = None) -> None:
        """Records without checking: the value counts when the client's next request is checked."""
        self.get_or_create_quota_sensors(session, client_id).quota_sensor.record(value, now_ms, False)

    def unrecord_quota_sensor(self, session: Session, client_id: str, value: float, now_ms: int | None = None) -> None:
        """Takes a record back; `now_ms` must be the time of the record. For a fetch whose response turns out empty."""
        self.get_or_create_quota_sensors(session, client_id).quota_sensor.record(-value, now_ms, False)

    def max_value_in_quota_window(self, session: Session, client_id: str) -> float:
        """Returns the largest value that is certain not to be throttled; the largest float without a limit.

        With 5 bytes/s and 11 samples of 1 s: 5 * 10 * 1 = 50. Used to size a fetch response.
        """
        if not self.quotas_enabled:
            return sys.float_info.max
        tags = self.get_or_create_quota_sensors(session, client_id).metric_tags
        limit = self._callback.quota_limit(self.client_quota_type, tags)
        if limit is None:
            return sys.float_info.max
        return limit * (self.config.num_quota_samples - 1) * self.config.quota_window_size_seconds

    def throttle(
        self,
        client_id: str,
        session: Session,
        throttle_callback: ThrottleCallback,
        throttle_time_ms: int,
        now_ms: int | None = None,
    ) -> None:
        """Mutes a client's channel now; the reaper unmutes it once, after `throttle_time_ms` [ms].

        Nothing happens for a time of 0. Of two quotas that a request violates, the one with the longer time throttles.
        """
        if throttle_time_ms <= 0:
            return
        at_ms = self._time.hi_res_clock_ms() if now_ms is None else now_ms
        sensors = self.get_or_create_quota_sensors(session, client_id)
        sensors.throttle_time_sensor.record(throttle_time_ms, at_ms)
        self.reaper.throttle(throttle_callback, throttle_time_ms, at_ms)

    def quota(self, user: str | KafkaPrincipal, client_id: str) -> Quota:
        """Returns the limit in force for a user (name or principal) and a client id; `UNBOUNDED` without a limit."""
        check_types(user=(user, (str, KafkaPrincipal)))
        principal = KafkaPrincipal("User", user) if isinstance(user, str) else user
        with self._lock:
            tags = self._callback.quota_metric_tags(self.client_quota_type, principal, client_id)
            return Quota.upper_bound(self._limit(tags))

    def update_quota(
        self,
        user_entity: ConfigEntity | None,
        client_entity: ConfigEntity | None,
        quota: Quota | None,
    ) -> None:
        """Sets, changes or (None) removes a limit. What was used so far is kept, and counts under the new limit.

        Args:
            user_entity: the user, or all by default; None for a quota on client ids alone.
            client_entity: the client id, or all by default; None for a quota on users alone.
            quota: the limit, an upper bound.

        Raises:
            InvalidConfigError: the limit is not above 0.
            TypeError: the limit is not a `Quota`, or a user or client id is not an entity, for example a string.
            ValueError: neither a user nor a client id is given.
        """
        self.update_quotas({KafkaQuotaEntity(user_entity, client_entity): quota})

    def update_quotas(self, quotas: Mapping[KafkaQuotaEntity, Quota | None]) -> None:
        """`update_quota` for several entities at once, which looks at the existing metrics once.

        Raises:
            InvalidConfigError, TypeError: as `update_quota`, or a key is no `KafkaQuotaEntity`; no quota has changed.
        """
        check_types(quotas=(quotas, Mapping))
        for entity, quota in quotas.items():
            check_types(entity=(entity, KafkaQuotaEntity))
            if quota is not None:
                checked_client_quota(self.quota_type, quota)
        with self._lock:
            try:
                for entity, quota in quotas.items():
                    self._set(entity, quota)
            finally:  # a callback of one's own may raise: the metrics have the limits that it has
                self._remembered = {}  # a client may match another level now
                self._update_configs(None if any(entity.has_default for entity in quotas) else quotas)

    def _set(self, entity: KafkaQuotaEntity, quota: Quota | None) -> None:
        if quota is None:
            _logger.info("removing the %s quota of %s", self.quota_type, entity)
            self._callback.remove_quota(self.client_quota_type, entity)
        else:
            _logger.info("changing the %s quota of %s to %s", self.quota_type, entity, quota.bound)
            self._callback.update_quota(self.client_quota_type, entity, quota.bound)

    def update_quota_metric_configs(self, updated_entity: KafkaQuotaEntity | None = None) -> None:
        """Updates the limits of the existing metrics; measured usage is kept.

        An `updated_entity` without a default concerns one metric, that with its tags; a callback of one's own may have
        other tags, and then all metrics are looked at.
        """
        check_types(updated_entity=(updated_entity, (KafkaQuotaEntity, NoneType)))
        with self._lock:
            self._update_configs(None if updated_entity is None else [updated_entity])

    def get_or_create_quota_sensors(self, session: Session, client_id: str) -> ClientSensors:
        """Returns the sensors for a client's quota; created at the first request that shares it."""
        if self._remembered_since == self._metrics.sensor_removals:
            try:
                remembered = self._remembered.get((session.sanitized_user, client_id))
            except AttributeError:
                check_types(session=(session, Session))
                raise
            if remembered is not None:
                return remembered
        check_types(session=(session, Session))
        default = self._default
        if default is None:
            return self._sensors_by_callback(session, client_id)
        with self._lock:
            return self._sensors_by_level(default, session, client_id)

    def quota_sensor_name(self, metric_tags: Mapping[str, str]) -> str:
        """Name of the sensor of the clients that share the quota with these tags.

        Raises:
            TypeError: the tags are no mapping.
        """
        if not isinstance(metric_tags, Mapping):
            raise TypeError(f"metric tags are a mapping of names to values, not {metric_tags!r}")
        return self._sensor_names(metric_tags)[0]

    def client_quota_metric_name(self, metric_tags: Mapping[str, str]) -> MetricName:
        """Name of the metric that is under the quota."""
        name = _METRIC_NAMES.get(self.quota_type, "byte-rate")
        tracked = "remaining tokens in the token bucket" if name == "tokens" else name
        return self._metrics.metric_name(
            name, str(self.quota_type), f"Tracking {tracked} per user/client-id", metric_tags
        )

    def throttle_time(self, error: QuotaViolationError, now_ms: int) -> int:
        """Returns the time [ms] until the quota is met again if nothing more is recorded."""
        return throttle_time(error, now_ms)

    def initiate_shutdown(self) -> None:
        """Makes every muted channel due and wakes the driver."""
        self.reaper.initiate_shutdown()

    def shutdown(self, now_ms: int | None = None) -> None:
        """Unmutes every muted channel; from now on `throttle` mutes and unmutes at once."""
        self.initiate_shutdown()
        self.reaper.reap(self._time.hi_res_clock_ms() if now_ms is None else now_ms)

    def _register_quota_metrics(self, metric_tags: Mapping[str, str], sensor: Sensor) -> None:
        """Adds the metric under the quota first: a sensor with metrics is one that checks."""
        name = self.client_quota_metric_name(metric_tags)
        sensor.add(name, Rate(), self._metric_config(self._limit(metric_tags)))

    def _sensors_by_level(self, default: DefaultQuotaCallback, session: Session, client_id: str) -> ClientSensors:
        """Under the lock: finds the matching level, gets or creates its sensors, and caches them."""
        removals = self._metrics.sensor_removals  # before looking, so that a removal meanwhile is noticed later
        if removals != self._remembered_since or len(self._remembered) >= MAX_REMEMBERED_CLIENTS:
            self._remembered = {}
            self._remembered_since = removals
        sensors = self._sensors_of(default.metric_tags(session.sanitized_user, client_id))
        self._remembered[(session.sanitized_user, client_id)] = sensors
        return sensors

    def _sensors_by_callback(self, session: Session, client_id: str) -> ClientSensors:
        """Calls the callback, which may return other tags each time. Locks only to create sensors and change limits, so
        that a slow call for one client does not block the others.
        """
        tags = self._callback.quota_metric_tags(self.client_quota_type, session.principal, client_id)
        quota_sensor, throttle_time_sensor = map(self._metrics.get_sensor, self._sensor_names(tags))
        if quota_sensor and throttle_time_sensor and quota_sensor.has_metrics and throttle_time_sensor.has_metrics:
            sensors = ClientSensors(tags, quota_sensor, throttle_time_sensor)
        else:
            with self._lock:
                sensors = self._sensors_of(tags)
        if self._callback.quota_reset_required(self.client_quota_type):
            self.update_quota_metric_configs()
        return sensors

    def _sensors_of(self, tags: Mapping[str, str]) -> ClientSensors:
        quota_sensor, throttle_time_sensor = map(self._get_or_create_sensor, self._sensor_names(tags))
        if not quota_sensor.has_metrics:
            self._register_quota_metrics(tags, quota_sensor)
            add_quota_utilization(self._metrics, quota_sensor, self.client_quota_metric_name(tags))
        if not throttle_time_sensor.has_metrics:
            name = self._metrics.metric_name(
                "throttle-time", str(self.quota_type), "Tracking average throttle-time per user/client-id", tags
            )
            throttle_time_sensor.add(name, Avg())
        return ClientSensors(tags, quota_sensor, throttle_time_sensor)

    def _sensor_names(self, tags: Mapping[str, str]) -> tuple[str, str]:
        suffix = _sensor_suffix(tags)
        return f"{self.quota_type}-{suffix}", f"{self.quota_type}ThrottleTime-{suffix}"

    def _get_or_create_sensor(self, name: str) -> Sensor:
        return self._metrics.sensor(
            name, inactive_sensor_expiration_time_seconds=INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS
        )

    def _update_configs(self, entities: Iterable[KafkaQuotaEntity] | None) -> None:
        """Under the lock: `update_quota_metric_configs` for several entities; None for all."""
        if entities is None or self._default is None:
            mine = self.client_quota_metric_name({})
            names = [name for name in self._metrics.metrics() if (name.name, name.group) == (mine.name, mine.group)]
        else:
            tags = [{USER_TAG: entity.sanitized_user, CLIENT_ID_TAG: entity.client_id} for entity in entities]
            names = [self.client_quota_metric_name(each) for each in tags]
        for name in names:
            metric = self._metrics.metric(name)
            if metric is None or metric.config.quota is None:
                continue
            limit = self._limit(name.tags)
            if metric.config.quota.bound != limit:
                metric.config = self._metric_config(limit)

    def _limit(self, metric_tags: Mapping[str, str]) -> float:
        limit = self._callback.quota_limit(self.client_quota_type, metric_tags)
        return float(UNBOUNDED) if limit is None else limit

    def _metric_config(self, limit: float) -> MetricConfig:
        """Under the lock: the config shared by all metrics with this limit. A config for each client would miss the CPU
        cache with every record.
        """
        config = self._configs.get(limit)
        if config is None:
            config = MetricConfig(
                samples=self.config.num_quota_samples,
                time_window_ms=self.config.quota_window_size_seconds * 1_000,
                quota=Quota.upper_bound(limit),
            )
            if len(self._configs) >= MAX_REMEMBERED_LIMITS:
                self._configs.clear()
            self._configs[limit] = config
        return config


def _sensor_suffix(tags: Mapping[str, str]) -> str:
    """Unique suffix of the sensor names for these tags.

    Kafka joins the values by `:`. That is unambiguous for a sanitised user and a client id; of other tags Kafka would
    take `{"team": "a:b", "app": "c"}` and `{"team": "a", "app": "b:c"}` for the same, here the keys are included.
    """
    if tuple(tags) == (USER_TAG, CLIENT_ID_TAG) and ":" not in tags[USER_TAG]:
        return ":".join(tags.values())
    return ":".join(f"{sanitize(key)}={sanitize(value)}" for key, value in sorted(tags.items()))
