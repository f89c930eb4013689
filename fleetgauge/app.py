"""Composition of the listener process: which parts a node is made of, and in which order they start and stop.

The order of a stop: no new connections, pending responses sent, the push log committed, the exporters flushed.
"""

import asyncio
import math
import os
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from base.clock import SystemTime, Time
from fleetgauge.admin.node_inventory import NodeInventory
from fleetgauge.admin.node_socket import NodeSocket, Status
from fleetgauge.config import Endpoint, ServiceConfig
from fleetgauge.config.security import ListenerKeys
from fleetgauge.data_dir import DataDirectory
from fleetgauge.listener.apis.cluster import ClusterApis
from fleetgauge.listener.apis.subscriptions import SubscriptionsHandler
from fleetgauge.listener.connection_limits import NodeConnectionLimits
from fleetgauge.listener.dispatcher import RequestDispatcher
from fleetgauge.listener.misdirected_clients import MisdirectedClients
from fleetgauge.listener.node_quotas import NodeQuotas
from fleetgauge.listener.push import PushHandler
from fleetgauge.listener.push_log_appender import open_push_log
from fleetgauge.listener.reporters import Reporters
from fleetgauge.machine import first_kept_descriptor
from fleetgauge.off_loop import OffLoop
from fleetgauge.processes.exporter_job import Job
from fleetgauge.processes.exporter_supervisor import ExporterSupervisor
from fleetgauge.processes.http_supervisor import HttpPort
from fleetgauge.processes.workers.predecessors import wait_for_workers
from quotas.metrics import Metrics
from telemetry.catalogue.known_clients import guard_rules
from telemetry.codecs import CompressionType
from telemetry.instances.sender_bounds import SenderLimits
from telemetry.manager import ClientMetricsManager, ClientMetricsSettings
from telemetry.push_record import PushIds
from telemetry.subscriptions.client_guard import GuardRule
from wire.api_table import ApiTable
from wire.listener import Listener, ListenerSettings
from wire.listener_security import ListenerSecurity
from wire.request_buffers import RequestBuffers
from wire.unread_responses import UnreadResponses

log = structlog.get_logger(__name__)

_HOUSEKEEPING_S = 1.0
EXAMINE_WITHIN_S = 4.0
"""How long a SIGHUP's certificates may take to be read, and its addresses to be looked up [s]."""
NOT_FOR_PLUGINS = {
    *("sasl_users", "listener_name", "ssl_keystore_key", "ssl_key_password"),
    *("exporters", "push_log_kafka_client", "client_quota_callback_config", "referenced_secrets"),
}
"""What holds secrets of others."""
CHANGEABLE = {
    *("client_metrics", "client_guard", "logging_level", "listener_name", "sasl_users"),
    *("max_connections_per_ip", "max_connections_per_ip_overrides", "quotas", "referenced_secrets"),
    *ListenerKeys.model_fields,
}
"""What a SIGHUP takes over; a listener's certificates, rules and limits hold for connections to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a SIGHUP changes, read and found good, so that taking it over cannot fail half-way."""

    config: ServiceConfig
    guard_rules: tuple[GuardRule, ...]
    securities: Mapping[str, ListenerSecurity]
    overrides: dict[str, int] | None

    @classmethod
    def of(cls, config: ServiceConfig, overrides: dict[str, int] | None = None) -> "Changes":
        """Reads the certificates that `config` names.

        Args:
            config: as it was read.
            overrides: connections by address, where they changed (`NodeConnectionLimits.look_up`).

        Raises:
            ConfigError: certificates or keys cannot be used.
        """
        return cls(
            config=config,
            guard_rules=guard_rules(config.client_guard),
            securities=config.security_keys().build(),
            overrides=overrides,
        )


def say_reread(old: ServiceConfig, new: ServiceConfig, taken_over: Collection[str] = CHANGEABLE) -> None:
    """Logs that a configuration was reread, and names the keys that differ and need a restart.

    Args:
        old: before.
        new: as it was reread.
        taken_over: fields of the configuration that need none.
    """
    changed = [
        key
        for name, field in ServiceConfig.model_fields.items()
        if name not in taken_over
        for key in _differences(field.alias or name, getattr(old, name), getattr(new, name))
    ]
    if changed:
        log.warning("these keys changed in the file, and need a restart", keys=changed)
    log.info("configuration reread", subscriptions=sorted(new.client_metrics))


def _differences(key: str, old: object, new: object) -> list[str]:
    """The keys that differ, of tables each by itself.

    >>> _differences("exporters", {"a": {"type": "otlp", "endpoint": "x"}}, {"a": {"type": "otlp", "endpoint": "y"}})
    ['exporters.a.endpoint']
    """
    if old == new:
        return []
    if not isinstance(old, dict) or not isinstance(new, dict):
        return [key]
    inner = sorted(old.keys() | new.keys())
    return [each for name in inner for each in _differences(f"{key}.{name}", old.get(name), new.get(name))]


@dataclass(frozen=True, slots=True)
class BoundEndpoint:
    """A listener as it came up: what was asked for and the port that it got."""

    endpoint: Endpoint
    port: int


def advertised_address(
    config: ServiceConfig, bound_endpoints: Iterable[BoundEndpoint], listener_name: str
) -> tuple[str, int]:
    """Host and port that clients of a listener are told to connect to."""
    for endpoint in config.advertised_listeners:
        if endpoint.listener_name == listener_name:
            return endpoint.host, endpoint.port
    for bound in bound_endpoints:
        if bound.endpoint.listener_name == listener_name:
            return bound.endpoint.host, bound.port
    raise LookupError(listener_name)


def told_of_node(
    config: ServiceConfig, cluster_id: str, started_at_ms: int, bound_endpoints: Iterable[BoundEndpoint]
) -> dict[str, Any]:
    """What a status says of who and where a node is."""
    return {
        "pid": os.getpid(),
        "node_id": config.node_id,
        "cluster_id": cluster_id,
        "started_at_ms": started_at_ms,
        "listeners": [f"{b.endpoint.listener_name}://{b.endpoint.host}:{b.port}" for b in bound_endpoints],
        "log_dirs": str(config.log_dirs.absolute()),
    }


class FleetgaugeNode:
    """One node: listeners, manager, push log and the exporter process beside it; or one worker of a node that has
    several (`fleetgauge.processes.workers`), whose configuration names no exporter and no HTTP port.

    Args:
        config: the checked configuration.
        time: the clocks.
        push_ids: makes the push records' ids; by default with a writer number of this process's own.
        new_instance_id: makes ids for clients that bring none.
    """

    def __init__(
        self,
        config: ServiceConfig,
        time: Time | None = None,
        *,
        push_ids: PushIds | None = None,
        new_instance_id: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._config = config
        self._time = time or SystemTime()
        self._push_ids = push_ids or PushIds()
        self._new_instance_id = new_instance_id
        self._data = DataDirectory(config.log_dirs)
        self._listeners: list[Listener] = []
        self._housekeeping: asyncio.Task[None] | None = None
        self._started_at_ms = self._time.milliseconds()
        self._is_stopping = False
        self._examining = OffLoop("examining the configuration", EXAMINE_WITHIN_S)
        self.http = HttpPort(config, self._data.node_socket, self._time)
        self.bound: tuple[BoundEndpoint, ...] = ()

    async def start(self, before_listening: Callable[[], Awaitable[None]] | None = None) -> None:
        """Starts every part; on return the node serves clients.

        Args:
            before_listening: awaited when all is ready but the listeners; if it raises, nothing is left of the start.

        Raises:
            FleetgaugeError: a part cannot start; what had started is stopped again.
        """
        config = self._config
        self._data.create()
        self._lock = self._data.lock(".lock")
        await wait_for_workers(self._data, self._time)
        self.cluster_id = self._data.identity(node_id=config.node_id, cluster_id=config.cluster_id)
        await self._make_parts(asyncio.get_running_loop())
        try:
            self.http.bind()
            if before_listening is not None:
                await before_listening()
            await self._start_listeners()
            await self._questions.start()
            await self._exporters.start()
            await self.http.start()
        except BaseException:
            await self.http.stop()
            await self._questions.stop()
            await self._stop_listeners(0)
            await self._push_log.close()
            raise
        self._housekeeping = asyncio.create_task(self._keep_house())

    async def stop(self, within_ms: int | None = None) -> None:
        """Stops in order within `shutdown.timeout.ms`, or `within_ms`."""
        self._is_stopping = True
        allowed_ms = self._config.shutdown_timeout_ms if within_ms is None else within_ms
        deadline_ms = self._time.hi_res_clock_ms() + allowed_ms
        if self._housekeeping is not None:
            self._housekeeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._housekeeping
        self._quotas.wake_all()
        await self._stop_listeners(self._left(deadline_ms))
        await self._pushes.close()
        await self._push_log.close()
        self._manager.close()
        await self._exporters.stop(self._left(deadline_ms))
        await self.http.stop()
        await self._questions.stop()
        self._quotas.close()
        self._reporters.close()
        self._lock.close()
        log.info("stopped", undelivered=self._undelivered())

    async def reconfigure(self, config: ServiceConfig) -> None:
        """Takes over what may change while running: subscriptions, client guard, quotas, and of each listener its
        certificates (read anew), rules and limits, for the connections to come, and users, whose open sessions end if
        they are removed or changed. The log level is the caller's.

        Other keys that differ are named in the log, since they need a restart.

        Raises:
            ConfigError: certificates or keys cannot be used, or a quota callback refuses; nothing was changed.
        """
        self.take_over(await self._examining.run(lambda: self.examine(config)))
        say_reread(self._config, config)

    def examine(self, config: ServiceConfig) -> Changes:
        """Reads and checks what `take_over` needs of `config`; changes nothing. May block: not for the loop.

        Raises:
            ConfigError: as `reconfigure` says.
        """
        return Changes.of(config, self._connection_limits.look_up(config))

    def take_over(self, changes: Changes) -> None:
        """Takes over what was found good; see `reconfigure`.

        Raises:
            ConfigError: a quota callback refuses its limits; nothing was changed.
        """
        self._quotas.reconfigure(changes.config)  # first, since a callback of somebody's own may refuse
        self._manager.replace_subscriptions(changes.config.client_metrics)
        self._connection_limits.reconfigure(changes.config, changes.overrides)
        for listener in self._listeners:
            security = changes.securities.get(listener.name)
            # What a listener speaks stays until a restart, as its address does.
            if security is not None and security.protocol is listener.security.protocol:
                listener.security = security
        self._manager.replace_guard_rules(changes.guard_rules)

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Host and port that clients of a listener are told to connect to."""
        return advertised_address(self._config, self.bound, listener_name)

    def status(self) -> Status:
        """What this node says of itself to `fleetgauge status`; plain values that JSON can hold."""
        return {
            "node": {
                **told_of_node(self._config, self.cluster_id, self._started_at_ms, self.bound),
                "not_ready": self._not_ready(),
            },
            "http": self.http.status(),
            "connections": [listener.counters() for listener in self._listeners],
            "connection_limits": self._connection_limits.status(),
            "misdirected_clients": self._misdirected.status(),
            "quotas": self._quotas.status(),
            "telemetry": {
                "subscriptions": list(self._manager.list_client_metrics_resources()),
                "unmatched_prefixes": self._manager.unmatched_prefixes(),
                "client_guard": self._manager.guard_counters(),
                "get_answers": dict(self._subscriptions.answers),
                "push_answers": dict(self._pushes.answers),
                "refusals": self._manager.refusals(),
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
        """Why clients are not served as they should be, a sentence each; empty while they are."""
        if self._is_stopping:
            return ["the node is stopping"]
        reasons = []
        if len(self.bound) < len(self._config.listeners):
            reasons.append("the listeners are not bound yet")
        if (problem := self._push_log.problem) is not None:
            reasons.append(f"the push log takes no pushes: {problem}")
        return reasons

    async def _make_parts(self, loop: asyncio.AbstractEventLoop) -> None:
        """Makes everything that `start` then sets going."""
        config = self._config
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
            cluster_id=self.cluster_id,
            time=self._time,
        )
        self._manager = self._make_manager()
        self._push_log = await open_push_log(config, self._time)
        self._subscriptions = SubscriptionsHandler(self._manager, self._time)
        self._pushes = PushHandler(
            self._manager,
            self._push_log,
            self._time,
            self._quotas.request,
            plugin_export_timeout_ms=config.plugin_export_timeout_ms,
        )
        self._exporters = ExporterSupervisor(Job.of_node(config), self._time)
        self._misdirected = MisdirectedClients(self._time)
        inventory = NodeInventory(self._manager, self._time, self._misdirected.has_asked)
        self._questions = NodeSocket(self._data.node_socket, self.status, inventory, self._time)

    def _make_manager(self) -> ClientMetricsManager:
        config = self._config
        manager = ClientMetricsManager(
            ClientMetricsSettings(
                telemetry_max_bytes=config.telemetry_max_bytes,
                telemetry_max_decompressed_bytes=config.telemetry_max_decompressed_bytes,
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
            cluster_id=self.cluster_id,
            metrics=self._metrics,
            push_ids=self._push_ids,
            new_instance_id=self._new_instance_id,
            plugin=self._reporters.plugin,
            guard_rules=guard_rules(config.client_guard),
            pace=self._quotas.pace,
        )
        manager.replace_subscriptions(config.client_metrics)
        return manager

    async def _start_listeners(self) -> None:
        cluster = ClusterApis(self._config.node_id, self.cluster_id, self.advertised, self._misdirected)
        handler = RequestDispatcher(
            self._table,
            cluster,
            self._subscriptions,
            self._pushes,
            self._manager,
            self._misdirected,
            self._quotas.request,
            self._time,
        )
        settings = ListenerSettings(
            socket_request_max_bytes=self._config.socket_request_max_bytes,
            queued_max_request_bytes=self._config.queued_max_request_bytes,
            queued_max_response_bytes=self._config.queued_max_response_bytes,
            request_receive_timeout_ms=self._config.request_receive_timeout_ms,
            max_client_descriptors=first_kept_descriptor(),
            socket_listen_backlog_size=self._config.socket_listen_backlog_size,
            connections_max_idle_ms=self._config.connections_max_idle_ms,
            max_in_flight_requests=self._config.max_in_flight_requests,
            handshake_timeout_ms=self._config.handshake_timeout_ms,
            max_unfinished_handshakes=self._config.max_unfinished_handshakes,
        )
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
                security=securities[endpoint.listener_name],
                reuse_port=self._config.workers > 1,
                limits=self._connection_limits,
                requests=requests,
                unread=unread,
            )
            self._connection_limits.on_excess(endpoint.listener_name, listener.close_excess)
            await listener.start()
            self._listeners.append(listener)
            self.bound = (*self.bound, BoundEndpoint(endpoint, listener.port))

    async def _stop_listeners(self, deadline_ms: int) -> None:
        await asyncio.gather(*(listener.stop(deadline_ms) for listener in self._listeners))

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(_HOUSEKEEPING_S)
            now_ms = self._time.hi_res_clock_ms()
            self._manager.expire(now_ms)
            self._metrics.remove_expired_sensors(now_ms)

    def _left(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._time.hi_res_clock_ms())

    def _undelivered(self) -> dict[str, int]:
        exporters = self._exporters.status.get("exporters", {})
        return {name: state.get("lag_records", 0) for name, state in exporters.items()}
