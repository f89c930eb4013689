"""The quotas of a node: quota managers, configured limits, and their status."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ConfigError, InvalidConfigError
from fleetgauge.base.redaction import hide
from fleetgauge.cluster.quotas.limits import Entity, Limits, by_entity, keys_of, read_limits
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.listener.request_quota import RequestQuota
from fleetgauge.quotas import USER_AND_CLIENT_QUOTA_KEYS, QuotaConfig
from fleetgauge.quotas.callback import CLIENT_QUOTA_CALLBACK_CLASS_CONFIG, Cluster
from fleetgauge.quotas.client_quota import ClientQuotaManager
from fleetgauge.quotas.connections.connection_quotas import ConnectionQuotas
from fleetgauge.quotas.drivers.asyncio_reaper import AsyncioReaper
from fleetgauge.quotas.entity import ClientIdEntity, IpEntity, KafkaQuotaEntity
from fleetgauge.quotas.identities import Identities
from fleetgauge.quotas.managers import QuotaManagers
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.quotas.metrics.quota import Quota
from fleetgauge.quotas.quota_type import QuotaType
from fleetgauge.quotas.usage import usages
from fleetgauge.telemetry.subscriptions.interval_scaling import TelemetryIntervalScaling
from fleetgauge.wire.api_table import ApiTable

log = structlog.get_logger(__name__)

_Changes = defaultdict[str, dict[KafkaQuotaEntity, Quota | None]]
_NOT_SERVED: Final = ("producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate")
"""Quotas on requests that the listener does not serve; a gateway passes them."""

_TELEMETRY_KEYS: Final = ("telemetry_byte_rate", "telemetry_push_rate")
_OF_TELEMETRY: Final = (str(QuotaType.TELEMETRY_BYTE), str(QuotaType.TELEMETRY_PUSH))

MAX_SHOWN: Final = 100
"""Maximum number of entities in the status; those nearest to their limits are listed."""


class NodeQuotas:
    """All quotas of a node. To be used on the listener's loop.

    Args:
        config: the limits, and the windows in which usage is sampled.
        callback_configs: configuration of the `client.quota.callback.class`.
        metrics: registry for sensors and metrics.
        connections: connection quotas, for `connection_creation_rate` of addresses.
        table: the served APIs.
        time: the clocks.

    Attributes:
        managers: of Kafka's quotas, for the traffic of a gateway, too.
        identities: maps requests to quota entities.
        request: the REQUEST quota of the listener.
        pace: interval scaling by the telemetry quotas (docs/decisions/012-telemetry-quotas-scale-the-interval.md).

    Raises:
        ConfigError: `client.quota.callback.class` cannot be used, or refuses a limit.
    """

    def __init__(
        self,
        config: ServiceConfig,
        callback_configs: Mapping[str, object],
        metrics: Metrics,
        connections: ConnectionQuotas,
        table: ApiTable,
        time: Time,
    ) -> None:
        self._metrics = metrics
        self._connections = connections
        self._time = time
        self._passes_records = bool(config.gateway_broker)
        sampling = _sampling(config)
        try:
            self.managers = QuotaManagers.instantiate(sampling, metrics, time, callback_configs)
        except InvalidConfigError as error:
            problem = hide(str(error), config.client_quota_callback_config.values())
            raise ConfigError(CLIENT_QUOTA_CALLBACK_CLASS_CONFIG, problem) from error
        callback = self.managers.client_quota_callback
        payloads = ClientQuotaManager(sampling.client, metrics, QuotaType.TELEMETRY_BYTE, time, callback)
        pushes = ClientQuotaManager(sampling.client, metrics, QuotaType.TELEMETRY_PUSH, time, callback)
        self._by_key: dict[str, ClientQuotaManager] = {
            "telemetry_byte_rate": payloads,
            "telemetry_push_rate": pushes,
            **{
                key.name: self.managers.client_quota_manager(key.quota_type)
                for key in USER_AND_CLIENT_QUOTA_KEYS.values()
                if key.quota_type is not None
            },
        }
        self.identities = Identities()
        self.request = RequestQuota(self.managers.request, self.identities, table, time)
        self.pace = TelemetryIntervalScaling(pushes, payloads, self.identities)
        self._limits: dict[Entity, Mapping[str, float]] = {}
        self._workers = config.workers
        self._callback_class = config.client_quota_callback_class
        self.managers.start_reapers(AsyncioReaper)
        self.install(by_entity(read_limits(config.quotas)))

    def install(self, limits: Limits) -> None:
        """Puts all limits of some entities in force in place of their earlier ones; recorded usage is kept and counts
        under the new limits.

        Args:
            limits: of the whole node; each of several workers enforces its share. Those of other entities stay.

        Raises:
            ConfigError: the callback refuses a limit; the previous limits are restored.
        """
        former = {entity: self._limits.get(entity, {}) for entity in limits}
        wanted = {
            entity: {key: share(entity, key, limit, self._workers) for key, limit in values.items()}
            for entity, values in limits.items()
        }
        try:
            self._install(wanted)
        except Exception as error:
            self._install(former)
            raise ConfigError("quotas", f"{self._callback_class} refuses them: {error}") from error

    def _install(self, wanted: Mapping[Entity, Mapping[str, float]]) -> None:
        former = {entity: self._limits.get(entity, {}) for entity in wanted}
        # Noted before any is set: what fails half-way is put back by the same comparison.
        self._limits.update(wanted)
        for entity, values in wanted.items():
            self._name(entity, bool(values) - bool(former[entity]))
        changes: _Changes = defaultdict(dict)
        for entity, values in wanted.items():
            for key in {**former[entity], **values}:
                if former[entity].get(key) != values.get(key):
                    self._set(changes, entity, key, values.get(key))
        for key, quotas in changes.items():
            self._by_key[key].update_quotas(quotas)
        for entity, values in wanted.items():
            if not values:
                del self._limits[entity]
        self.request.quotas_changed()
        self.pace.quotas_changed()

    def _name(self, entity: Entity, change: int) -> None:
        """Counts an entity with limits, or one that has them no longer, in `identities`."""
        if change and isinstance(entity, KafkaQuotaEntity) and isinstance(entity.client_id_entity, ClientIdEntity):
            self.identities.name(entity.client_id_entity.client_id, change)

    def _set(self, changes: _Changes, entity: Entity, key: str, value: float | None) -> None:
        """Adds a limit to those that the managers are to set; that of an address is in force at once."""
        if not isinstance(entity, KafkaQuotaEntity):
            address = entity.name if isinstance(entity, IpEntity) else None
            self._connections.update_ip_connection_rate_quota(address, None if value is None else int(value))
            return
        changes[key][entity] = None if value is None else Quota.upper_bound(value)
        if key in _NOT_SERVED and value is not None and not self._passes_records:
            log.warning(
                "quotas.key_without_effect", message="the listener serves no such requests", key=key, entity=str(entity)
            )

    def cluster_changed(self, cluster: Cluster) -> None:
        """Passes changed partitions and leaders to the callback; limits that this changes are in force at once."""
        if self.managers.update_cluster_metadata(cluster):
            for key in _TELEMETRY_KEYS:
                self._by_key[key].update_quota_metric_configs()
            self.pace.quotas_changed()

    def status(self) -> dict[str, Any]:
        """Returns usage and limits of entities by quota type, as plain values."""
        used, left_out = usages(self._metrics, self._time.hi_res_clock_ms(), MAX_SHOWN)
        by_kind: dict[str, dict[str, Any]] = {}
        for each in used:
            shown = {"tags": dict(each.tags), "used": each.used, "limit": each.limit}
            if each.kind == str(QuotaType.REQUEST):
                shown["throttled_clients"] = self.request.held[each.entity]
            elif each.kind in _OF_TELEMETRY:
                shown["throttled_clients"] = self.pace.slowed_by(each.kind, each.tags)
            by_kind.setdefault(each.kind, {})[each.entity] = shown
        return {
            "channels_held": len(self.managers.request.reaper.delay_queue),
            "requests_throttled": self.request.throttled,
            "requests_of_others": self.identities.shared,
            "exempt_request_time": self._exempt_time(),
            "usage": by_kind,
            "usage_left_out": left_out,
        }

    def _exempt_time(self) -> float:
        """Loop time exempt from quotas [percent]; 0 while no request quota is set."""
        return self.managers.request.exempt_sensor.metrics[0].measurable_value()


def share(entity: Entity, key: str, limit: float, workers: int) -> float:
    """Returns a worker's share of a limit, whole numbers rounded up; that of an address is not divided."""
    if not isinstance(entity, KafkaQuotaEntity):
        return limit
    return float(math.ceil(limit / workers)) if keys_of(entity)[key].integral else limit / workers


def _sampling(config: ServiceConfig) -> QuotaConfig:
    return QuotaConfig(
        quota_window_num=config.quota_window_num,
        quota_window_size_seconds=config.quota_window_size_seconds,
        controller_quota_window_num=config.controller_quota_window_num,
        controller_quota_window_size_seconds=config.controller_quota_window_size_seconds,
        client_quota_callback_class=config.client_quota_callback_class or None,
    )
