"""Composition of the listener process: the parts of a node, and the order in which they start and stop.

The order of a stop: no new connections, pending responses sent, the push log committed, the exporters flushed.
"""

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import fields

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.cluster.quotas.limits import by_entity, read_limits
from fleetgauge.cluster.subscriptions.allowed import Properties
from fleetgauge.node import audit
from fleetgauge.node.config import Endpoint, ServiceConfig
from fleetgauge.node.config.push_logs import state_topic_settings
from fleetgauge.node.config.security import read_users
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.listener.apis.acls import AclApis
from fleetgauge.node.listener.apis.admin import AdminApis
from fleetgauge.node.listener.apis.broker_configs import BrokerConfigs
from fleetgauge.node.listener.apis.client_quotas import ClientQuotaApis
from fleetgauge.node.listener.apis.cluster import ClusterApis
from fleetgauge.node.listener.apis.configs import ConfigApis
from fleetgauge.node.listener.apis.scram import ScramApis
from fleetgauge.node.listener.apis.subscriptions import SubscriptionsHandler
from fleetgauge.node.listener.connection_limits import NodeConnectionLimits
from fleetgauge.node.listener.dispatcher import RequestDispatcher
from fleetgauge.node.listener.misdirected_clients import MisdirectedClients
from fleetgauge.node.listener.node_quotas import NodeQuotas
from fleetgauge.node.listener.push import PushHandler
from fleetgauge.node.listener.push_log_appender import open_push_log
from fleetgauge.node.listener.reporters import Reporters
from fleetgauge.node.machine import first_kept_descriptor
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.node_identity import NodeIdentity
from fleetgauge.node.processes.node_process import NodeProcess
from fleetgauge.node.reconfiguration import Changes, changeable_fields, examiner, log_reread
from fleetgauge.node.state.authorization import Authorization
from fleetgauge.node.state.client_metrics import ClientMetrics
from fleetgauge.node.state.client_quotas import ClientQuotas
from fleetgauge.node.state.node_state import NodeState, Store
from fleetgauge.node.state.scram_users import NodeUsers
from fleetgauge.node.state.store import StateStore
from fleetgauge.node.state.topic import StateTopic, of_copy
from fleetgauge.node.status.node_inventory import NodeInventory
from fleetgauge.node.status.node_socket import NodeSocket, Status
from fleetgauge.quotas.metrics.metrics import Metrics
from fleetgauge.telemetry.codecs import CompressionType
from fleetgauge.telemetry.instances.sender_bounds import SenderLimits
from fleetgauge.telemetry.manager import ClientMetricsManager, ClientMetricsSettings
from fleetgauge.telemetry.push_record import PushIds
from fleetgauge.telemetry.subscriptions.known_clients import guard_rules
from fleetgauge.wire.api_table import ApiTable
from fleetgauge.wire.listener import Listener, ListenerSettings
from fleetgauge.wire.new_channel import MakeChannel, make_channel
from fleetgauge.wire.request_buffers import RequestBuffers
from fleetgauge.wire.sasl.credentials import CredentialStore
from fleetgauge.wire.unread_responses import UnreadResponses

_HOUSEKEEPING_S = 1.0
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
"""Fields with secrets that are no business of a metric reporter or a quota callback."""


class FleetgaugeNode(NodeProcess):
    """A node with one listener process: listeners, manager, push log; or one worker of a node with several, whose
    configuration names no exporter and no HTTP port.

    Args:
        config: the checked configuration.
        time: the clocks.
        push_ids: generates the ids of push records; by default with a writer number of this process.
        new_instance_id: generates ids for clients that have none.
        node_data: the data directory of the whole node, whose workers share its state; by default that of `config`.
        before_listening: awaited when all is ready but the listeners; if it raises, the start fails.
    """

    def __init__(
        self,
        config: ServiceConfig,
        time: Time | None = None,
        *,
        push_ids: PushIds | None = None,
        new_instance_id: Callable[[], uuid.UUID] = uuid.uuid4,
        node_data: DataDirectory | None = None,
        before_listening: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(config, time or SystemTime())
        self._push_ids = push_ids or PushIds()
        self._new_instance_id = new_instance_id
        self._node_data = node_data or self._data
        self._before_listening = before_listening
        self._listeners: list[Listener] = []
        self._housekeeping: asyncio.Task[None] | None = None
        self._examiner = examiner()
        self.identity = NodeIdentity(config, self._time)

    @property
    def bound(self) -> tuple[Endpoint, ...]:
        """The listeners that are bound."""
        return self.identity.bound

    async def reconfigure(self, config: ServiceConfig) -> None:
        """Takes over subscriptions, client guard, quotas, and of each listener its certificates (read again), rules
        and limits, for the connections to come, and users, whose open sessions end if they are removed or changed.

        The log level is the caller's. Other keys that differ are logged: they need a restart.

        Raises:
            ConfigError: certificates or keys cannot be used, or a quota callback refuses; nothing was changed.
        """
        self.apply(await self._examiner.run(lambda: self.examine(config)))
        log_reread(self._config, config, changeable_fields(self._config, config))

    def examine(self, config: ServiceConfig) -> Changes:
        """Reads and checks what `apply` needs of `config`; changes nothing. May block: not for the loop.

        Raises:
            ConfigError: as `reconfigure` says.
        """
        return Changes.of(config, self._connection_limits.look_up(config))

    def apply(self, changes: Changes) -> None:
        """Applies what `examine` returned; see `reconfigure`.

        Raises:
            ConfigError: a quota callback refuses its limits; nothing was changed.
        """
        config = changes.config
        # First, since a custom callback may refuse.
        self._client_quotas.configure(by_entity(read_limits(config.quotas)))
        self._client_metrics.configure(config.client_metrics, config.client_metrics_resources_max)
        self._authorization.configure(config.authorization_settings())
        self._admin.listeners = config.admin_listener_names()
        self._brokers.config = config
        self._connection_limits.reconfigure(changes.config, changes.overrides)
        self._users.configure(read_users(config.sasl_users))
        for listener in self._listeners:
            security = changes.securities.get(listener.name)
            # A listener's protocol stays until a restart, as its address does.
            if security is not None and security.protocol is listener.security.protocol:
                listener.security = security.with_users(self._users.store)
        self._manager.replace_guard_rules(changes.guard_rules)

    def status(self) -> Status:
        """The answer to `fleetgauge status`; plain values that JSON can hold."""
        state = self._state.status()
        degraded = {"degraded": [f"the state: {self._state.problem}"]} if self._state.problem else {}
        return {
            "node": {**self.identity.status(), "not_ready": self._not_ready(), **degraded},
            **({"state": state} if state else {}),
            "http": self.http.status(),
            "connections": [listener.counters() for listener in self._listeners],
            "connection_limits": self._connection_limits.status(),
            "misdirected_clients": self._misdirected.status(),
            "authorization": {"denials": dict(self._authorization.denials)},
            "audit_log": audit.counters(),
            "quotas": self._quotas.status(),
            "telemetry": {
                "subscriptions": list(self._manager.list_client_metrics_resources()),
                "subscription_properties": self._client_metrics.effective(),
                "unmatched_prefixes": self._manager.unmatched_prefixes(),
                "client_guard": self._manager.guard_counters(),
                "get_answers": dict(self._subscriptions.answers),
                "push_answers": dict(self._pushes.answers),
                "admin_answers": dict(self._admin.answers),
                "refusals": self._manager.refusals(),
                "malformed": self._manager.malformed(),
                "counters": self._manager.counters(),
                "plugin_timeouts": self._pushes.plugin_timeouts,
                "plugin_errors": self._manager.plugin_errors(),
                "client_metrics": {
                    name: None if math.isnan(value) else value for name, value in self._manager.client_metrics().items()
                },
            },
            "push_log": {**self._push_log.counters(), **self._exporters.status.get("push_log", {})},
            "exporter_process": self._exporters.summary(),
        }

    def _not_ready(self) -> list[str]:
        """Why clients are not served as they should be, one sentence each; empty while they are."""
        if self._is_stopping:
            return ["the node is stopping"]
        reasons = []
        if len(self.identity.bound) < len(self._config.listeners):
            reasons.append("the listeners are not bound yet")
        if (problem := self._push_log.problem) is not None:
            reasons.append(f"the push log takes no pushes: {problem}")
        return reasons

    def _forget_decisions(self) -> None:
        for listener in self._listeners:
            listener.forget_usual_pushes()

    def _in_force(self) -> Properties:
        return self._client_metrics.effective()

    async def _prepare(self) -> Job:
        config, loop = self._config, asyncio.get_running_loop()
        await self.identity.claim(self._data)
        self._metrics = Metrics(time=self._time)
        self._connection_limits = NodeConnectionLimits(config, self._metrics, self._time, loop)
        self._table = ApiTable()
        for_plugins = config.model_dump(by_alias=True, mode="json", exclude=NOT_FOR_PLUGINS)
        self._quotas = NodeQuotas(
            config,
            {**for_plugins, **config.client_quota_callback_config},
            self._metrics,
            self._connection_limits.quotas,
            self._table,
            self._time,
        )
        self._reporters = Reporters(
            config.metric_reporters,
            self._metrics,
            for_plugins,
            node_id=config.node_id,
            cluster_id=self.identity.cluster_id,
            labels=config.metrics_context,
            time=self._time,
        )
        self._manager = self._make_manager()
        self._push_log = await open_push_log(config, self._time)
        self._state = NodeState(await self._open_store(), self._time)
        self._authorization = Authorization(config.authorization_settings(), self._time)
        self._state.add(self._authorization)
        self._authorization.on_change = self._forget_decisions
        self._subscriptions = SubscriptionsHandler(self._manager, self._authorization, self._time)
        self._pushes = PushHandler(
            self._manager,
            self._push_log,
            self._authorization,
            self._time,
            self._quotas.request,
            plugin_export_timeout_ms=config.plugin_export_timeout_ms,
        )
        self._client_metrics = ClientMetrics(self._manager, config.client_metrics, config.client_metrics_resources_max)
        self._client_quotas = ClientQuotas(
            by_entity(read_limits(config.quotas)), self._quotas.install, workers=config.workers
        )
        self._users = NodeUsers(read_users(config.sasl_users), self._install_users)
        for kind in (self._client_metrics, self._client_quotas, self._users):
            self._state.add(kind)
        self._brokers = BrokerConfigs(config)
        self._admin = AdminApis(
            self._state,
            (
                ConfigApis(self._client_metrics, self._brokers),
                ClientQuotaApis(self._client_quotas),
                ScramApis(self._users),
                AclApis(self._authorization),
            ),
            self._authorization,
            config.admin_listener_names(),
            self._quotas.request,
            self._time,
        )
        self._misdirected = MisdirectedClients(self._time)
        return Job.of_node(config)

    async def _open_store(self) -> Store:
        data, config = self._node_data, self._config
        if config.state_store == "sqlite":
            return StateStore(data.state)
        former = of_copy(StateStore(data.state).read())[0] if data.state.exists() else {}  # it may have been a copy
        topic = StateTopic(state_topic_settings(config), StateStore(data.state_copy), self._time, former)
        await asyncio.get_running_loop().run_in_executor(None, topic.start)
        return topic

    def _control_socket(self, job: Job) -> NodeSocket:
        inventory = NodeInventory(self._manager, self._time, self._misdirected.has_asked)
        return NodeSocket(job.node_socket, self.status, inventory, self._time)

    def _make_manager(self) -> ClientMetricsManager:
        config = self._config
        return ClientMetricsManager(
            ClientMetricsSettings(
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
            ),
            node_id=config.node_id,
            cluster_id=self.identity.cluster_id,
            metrics=self._metrics,
            push_ids=self._push_ids,
            new_instance_id=self._new_instance_id,
            plugin=self._reporters.plugin,
            guard_rules=guard_rules(config.client_guard),
            pace=self._quotas.pace,
        )

    async def _start_service(self) -> None:
        if self._before_listening is not None:
            await self._before_listening()
        await self._start_listeners()
        self._state.start()
        self._housekeeping = asyncio.create_task(self._expire())

    async def _stop_service(self, deadline_ms: int) -> None:
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._housekeeping
        self._quotas.wake_all()
        await asyncio.gather(*(listener.stop(self._left_ms(deadline_ms)) for listener in self._listeners))
        await self._pushes.close()
        await self._admin.close(self._left_ms(deadline_ms))
        await self._state.stop()
        await self._push_log.close()
        self._manager.close()

    def _close(self) -> None:
        self._quotas.close()
        self._reporters.close()
        self.identity.release()

    async def _start_listeners(self) -> None:
        identity = self.identity
        cluster = ClusterApis(
            self._config.node_id, identity.cluster_id, identity.advertised, self._authorization, self._misdirected
        )
        handler = RequestDispatcher(
            self._table,
            cluster,
            self._subscriptions,
            self._pushes,
            self._admin,
            self._manager,
            self._misdirected,
            self._quotas.request,
            self._time,
        )
        configured = self._config.model_dump(include={each.name for each in fields(ListenerSettings)})
        settings = ListenerSettings(**configured, max_client_descriptors=first_kept_descriptor())
        requests = RequestBuffers(settings.queued_max_request_bytes, settings.request_receive_timeout_ms)
        unread = UnreadResponses(settings.queued_max_response_bytes)
        securities = self._config.security_keys().build()
        for endpoint in self._config.listeners:
            listener = Listener(
                name=endpoint.listener_name,
                host=endpoint.host,
                port=endpoint.port,
                handler=handler,
                settings=settings,
                time=self._time,
                api_table=self._table,
                security=securities[endpoint.listener_name].with_users(self._users.store),
                reuse_port=self._config.workers > 1,
                limits=self._connection_limits,
                requests=requests,
                unread=unread,
                new_channel=self._new_channel(endpoint.listener_name),
            )
            self._connection_limits.on_excess(endpoint.listener_name, listener.close_excess)
            await listener.start()
            self._listeners.append(listener)
            identity.add_listener(endpoint, listener.port)

    def _new_channel(self, listener_name: str) -> MakeChannel:
        """Returns what makes the connections of a listener."""
        return make_channel

    def _install_users(self, store: CredentialStore) -> None:
        for listener in self._listeners:
            listener.security = listener.security.with_users(store)

    async def _expire(self) -> None:
        """Expires instances and sensors once a second."""
        while True:
            await asyncio.sleep(_HOUSEKEEPING_S)
            now_ms = self._time.hi_res_clock_ms()
            self._manager.expire(now_ms)
            self._metrics.remove_expired_sensors(now_ms)
