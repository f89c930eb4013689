"""The parts of a listener process, built once before it listens."""

import asyncio
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from fleetgauge.base.clock import Time
from fleetgauge.cluster.quotas.limits import by_entity, read_limits
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.push_logs import state_topic_settings
from fleetgauge.node.config.security import read_users
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.listener.apis.acls import AclApis
from fleetgauge.node.listener.apis.admin import AdminApis
from fleetgauge.node.listener.apis.broker_configs import BrokerConfigs
from fleetgauge.node.listener.apis.client_quotas import ClientQuotaApis
from fleetgauge.node.listener.apis.configs import ConfigApis
from fleetgauge.node.listener.apis.scram import ScramApis
from fleetgauge.node.listener.apis.subscriptions import SubscriptionsHandler
from fleetgauge.node.listener.connection_limits import NodeConnectionLimits
from fleetgauge.node.listener.misdirected_clients import MisdirectedClients
from fleetgauge.node.listener.node_quotas import NodeQuotas
from fleetgauge.node.listener.push import PushHandler
from fleetgauge.node.listener.reporters import Reporters
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.node.state.client_metrics import ClientMetrics
from fleetgauge.node.state.client_quotas import ClientQuotas
from fleetgauge.node.state.node_state import NodeState, Store
from fleetgauge.node.state.scram_users import NodeUsers
from fleetgauge.node.state.store import StateStore
from fleetgauge.node.state.topic import StateTopic, of_copy
from fleetgauge.push_log.log import PushAppender
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.instances.sender_bounds import SenderLimits
from fleetgauge.telemetry.manager import ClientMetricsManager
from fleetgauge.telemetry.push_record import PushIds
from fleetgauge.telemetry.settings import ClientMetricsSettings
from fleetgauge.telemetry.subscriptions.known_clients import guard_rules
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.listener import Listener
from fleetgauge.wire.sasl.credentials import CredentialStore

NOT_FOR_PLUGINS = {
    *("sasl_users", "listener_name", "ssl_keystore_key", "ssl_key_password"),
    *(
        "exporters",
        "push_log_kafka_client",
        "gateway_sasl_password",
        "client_quota_callback_config",
        "referenced_secrets",
    ),
}
"""Fields with secrets, which metric reporters and quota callbacks do not see."""


class AdminParts:
    """State that admin tools change: the node's state, the objects that apply it, and the APIs.

    Args:
        config: the checked configuration.
        store: keeps the state.
        manager: applies subscriptions.
        quotas: applies limits.
        listeners: those that use the users and the authorization.
        time: the clocks.
    """

    def __init__(
        self,
        config: ServiceConfig,
        store: Store,
        manager: ClientMetricsManager,
        quotas: NodeQuotas,
        listeners: Sequence[Listener],
        time: Time,
    ) -> None:
        self._listeners = listeners
        self.state = NodeState(store, time)
        self.authorization = Authorization(config.authorization_settings(), time)
        self.authorization.on_change = self._forget_decisions
        self.client_metrics = ClientMetrics(
            manager.subscriptions, config.client_metrics, config.client_metrics_resources_max
        )
        limits = by_entity(read_limits(config.quotas))
        self.client_quotas = ClientQuotas(limits, quotas.install, workers=config.workers)
        self.users = NodeUsers(read_users(config.sasl_users), self._install_users)
        for kind in (self.authorization, self.client_metrics, self.client_quotas, self.users):
            self.state.add(kind)
        self._brokers = BrokerConfigs(config)
        served = (
            ConfigApis(self.client_metrics, self._brokers),
            ClientQuotaApis(self.client_quotas),
            ScramApis(self.users),
            AclApis(self.authorization),
        )
        self.apis = AdminApis(
            self.state, served, self.authorization, config.admin_listener_names(), quotas.request, time
        )

    def configure(self, config: ServiceConfig) -> None:
        """Takes over a configuration that was read again; tools' changes stay over it.

        Raises:
            ConfigError: a quota callback refuses its limits; nothing was changed.
        """
        # First, since a custom callback may refuse.
        self.client_quotas.configure(by_entity(read_limits(config.quotas)))
        self.client_metrics.configure(config.client_metrics, config.client_metrics_resources_max)
        self.authorization.configure(config.authorization_settings())
        self.apis.listeners = config.admin_listener_names()
        self._brokers.config = config
        self.users.configure(read_users(config.sasl_users))

    def _forget_decisions(self) -> None:
        for listener in self._listeners:
            listener.forget_usual_pushes()

    def _install_users(self, store: CredentialStore) -> None:
        for listener in self._listeners:
            listener.security = listener.security.with_users(store)


class NodeParts:
    """Parts of a listener process. Its listeners are added once they are bound.

    Args:
        config: the checked configuration.
        cluster_id: id of the node's cluster.
        push_log: stores the accepted pushes.
        store: keeps what admin tools change.
        time: the clocks.
        push_ids: generates the ids of push records.
        new_instance_id: generates ids for clients that have none.

    Raises:
        FleetgaugeError: limits, a quota callback or a reporter cannot be used.
    """

    def __init__(
        self,
        config: ServiceConfig,
        cluster_id: str,
        push_log: PushAppender,
        store: Store,
        time: Time,
        push_ids: PushIds,
        new_instance_id: Callable[[], uuid.UUID],
    ) -> None:
        self.push_log = push_log
        self.listeners: list[Listener] = []
        self.table = ApiTable()
        self.misdirected = MisdirectedClients(time)
        metrics = self.metrics = Metrics(time=time)
        self.connection_limits = NodeConnectionLimits(config, metrics, time, asyncio.get_running_loop())
        configs = config.model_dump(by_alias=True, mode="json", exclude=NOT_FOR_PLUGINS)
        for_callback = {**configs, **config.client_quota_callback_config}
        self.quotas = NodeQuotas(config, for_callback, metrics, self.connection_limits.quotas, self.table, time)
        self.reporters = Reporters(
            config.metric_reporters,
            metrics,
            configs,
            node_id=config.node_id,
            cluster_id=cluster_id,
            labels=config.metrics_context,
            time=time,
        )
        self.manager = ClientMetricsManager(
            manager_settings(config),
            node_id=config.node_id,
            cluster_id=cluster_id,
            metrics=metrics,
            push_ids=push_ids,
            new_instance_id=new_instance_id,
            plugin=self.reporters.plugin,
            guard_rules=guard_rules(config.client_guard),
            pace=self.quotas.pace,
        )
        self.admin = AdminParts(config, store, self.manager, self.quotas, self.listeners, time)
        self.subscriptions = SubscriptionsHandler(self.manager, self.admin.authorization, time)
        self.pushes = PushHandler(
            self.manager,
            push_log,
            self.admin.authorization,
            time,
            self.quotas.request,
            plugin_export_timeout_ms=config.plugin_export_timeout_ms,
        )

    def telemetry_status(self) -> dict[str, Any]:
        """The part of `fleetgauge status` about telemetry."""
        manager, figures = self.manager, self.manager.figures
        return {
            "subscriptions": list(manager.subscriptions.names()),
            "subscription_properties": self.admin.client_metrics.effective(),
            "unmatched_prefixes": manager.subscriptions.advice.unmatched,
            "client_guard": manager.guard.counters(),
            "get_answers": dict(self.subscriptions.answers),
            "push_answers": dict(self.pushes.answers),
            "admin_answers": dict(self.admin.apis.answers),
            "refusals": figures.refusals(),
            "malformed": dict(figures.malformed.counts),
            "counters": figures.counters(),
            "plugin_timeouts": self.pushes.plugin_timeouts,
            "plugin_errors": manager.plugin.errors(),
            "client_metrics": {
                name: None if math.isnan(value) else value for name, value in figures.client_metrics.values().items()
            },
        }


def manager_settings(config: ServiceConfig) -> ClientMetricsSettings:
    """The settings of the manager."""
    return ClientMetricsSettings(
        telemetry_max_bytes=config.telemetry_max_bytes,
        telemetry_max_decompressed_bytes=config.telemetry_max_decompressed_bytes,
        accept_malformed=config.telemetry_malformed == "accept",
        compression_types=tuple(CompressionType[name.upper()] for name in config.telemetry_compression_types),
        cache_max_size=config.client_instances_max,
        instance_metrics_max=config.client_instance_metrics_max,
        sender_limits=SenderLimits(
            bytes_per_ip=config.telemetry_byte_rate_per_ip,
            bytes_per_principal=config.telemetry_byte_rate_per_principal,
            new_instances_per_ip=config.telemetry_new_instance_rate_per_ip,
            new_instances_per_principal=config.telemetry_new_instance_rate_per_principal,
            log_bytes=config.push_log_retention_bytes,
        ),
    )


async def open_store(config: ServiceConfig, data: DataDirectory, time: Time) -> Store:
    """Opens the state of the node with data directory `data`.

    Raises:
        PushLogError: it cannot be read.
    """
    if config.state_store == "sqlite":
        return StateStore(data.state)
    former = of_copy(StateStore(data.state).read())[0] if data.state.exists() else {}  # it may have been a copy
    topic = StateTopic(state_topic_settings(config), StateStore(data.state_copy), time, former)
    await asyncio.get_running_loop().run_in_executor(None, topic.start)
    return topic
