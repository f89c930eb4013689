"""Composition of the listener process: the parts of a node, and the order in which they start and stop.

The order of a stop: no new connections, pending responses sent, the push log committed, the exporters flushed.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import fields

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.machine import first_kept_descriptor
from fleetgauge.cluster.subscriptions.allowed import Properties
from fleetgauge.node import audit
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.listener.apis.cluster import ClusterApis
from fleetgauge.node.listener.dispatcher import RequestDispatcher
from fleetgauge.node.listener.parts import NodeParts, open_store
from fleetgauge.node.listener.push_log_appender import open_push_log
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.node_identity import NodeIdentity
from fleetgauge.node.processes.node_process import NodeProcess
from fleetgauge.node.reconfiguration import Changes, changeable_fields, examiner, log_reread
from fleetgauge.node.status.node_inventory import NodeInventory
from fleetgauge.node.status.node_socket import NodeSocket, Status
from fleetgauge.node.tasks import end_task
from fleetgauge.telemetry.push_record import PushIds
from fleetgauge.wire.channels.secure_channel import make_channel
from fleetgauge.wire.context.accepted import MakeChannel
from fleetgauge.wire.context.request_buffers import RequestBuffers
from fleetgauge.wire.context.unread_responses import UnreadResponses
from fleetgauge.wire.listener import Listener, ListenerSettings

_HOUSEKEEPING_S = 1.0


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

    _parts: NodeParts  # set once by `_prepare`, before anything uses it

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
        self._housekeeping: asyncio.Task[None] | None = None
        self._examiner = examiner()
        self.identity = NodeIdentity(config, self._time)

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
        return Changes.of(config, self._parts.connection_limits.look_up(config))

    def apply(self, changes: Changes) -> None:
        """Applies what `examine` returned; see `reconfigure`.

        Raises:
            ConfigError: a quota callback refuses its limits; nothing was changed.
        """
        parts = self._parts
        parts.admin.configure(changes.config)
        parts.connection_limits.reconfigure(changes.config, changes.overrides)
        for listener in parts.listeners:
            security = changes.securities.get(listener.name)
            # A listener's protocol stays until a restart, as its address does.
            if security is not None and security.protocol is listener.security.protocol:
                listener.security = security.with_users(parts.admin.users.store)
        parts.manager.replace_guard_rules(changes.guard_rules)

    def status(self) -> Status:
        """The answer to `fleetgauge status`; plain values that JSON can hold."""
        parts, admin = self._parts, self._parts.admin
        state = admin.state.status()
        degraded = {"degraded": [f"the state: {admin.state.problem}"]} if admin.state.problem else {}
        return {
            "node": {**self.identity.status(), "not_ready": self._not_ready(), **degraded},
            **({"state": state} if state else {}),
            "http": self.http.status(),
            "connections": [listener.counters() for listener in parts.listeners],
            "connection_limits": parts.connection_limits.status(),
            "misdirected_clients": parts.misdirected.status(),
            "authorization": {"denials": dict(admin.authorization.denials)},
            "audit_log": audit.counters(),
            "quotas": parts.quotas.status(),
            "telemetry": parts.telemetry_status(),
            "push_log": {**parts.push_log.counters(), **self._exporters.status.get("push_log", {})},
            "exporter_process": self._exporters.summary(),
        }

    def _not_ready(self) -> list[str]:
        """Why clients are not served as they should be, one sentence each; empty while they are."""
        if self._is_stopping:
            return ["the node is stopping"]
        reasons = []
        if len(self.identity.bound) < len(self._config.listeners):
            reasons.append("the listeners are not bound yet")
        if (problem := self._parts.push_log.problem) is not None:
            reasons.append(f"the push log does not accept pushes: {problem}")
        return reasons

    def _in_force(self) -> Properties:
        return self._parts.admin.client_metrics.effective()

    async def _prepare(self) -> Job:
        config, time = self._config, self._time
        await self.identity.claim(self._data)
        async with AsyncExitStack() as opened:
            opened.callback(self.identity.release)
            push_log = await open_push_log(config, time)
            opened.push_async_callback(push_log.close)
            store = await open_store(config, self._node_data, time)
            self._parts = NodeParts(
                config, self.identity.cluster_id, push_log, store, time, self._push_ids, self._new_instance_id
            )
            opened.pop_all()
        return Job.of_node(config)

    def _control_socket(self, job: Job) -> NodeSocket:
        inventory = NodeInventory(self._parts.manager.instances, self._time, self._parts.misdirected.has_asked)
        return NodeSocket(job.node_socket, self.status, inventory, self._time)

    async def _start_service(self) -> None:
        if self._before_listening is not None:
            await self._before_listening()
        await self._start_listeners()
        self._parts.admin.state.start()
        self._housekeeping = asyncio.create_task(self._expire())

    async def _stop_service(self, deadline_ms: int) -> None:
        parts = self._parts
        await end_task(self._housekeeping)
        parts.quotas.managers.stop_reapers()  # unmutes all throttled channels
        await asyncio.gather(*(listener.stop(self._left_ms(deadline_ms)) for listener in parts.listeners))
        await parts.pushes.close()
        await parts.admin.apis.close(self._left_ms(deadline_ms))
        await parts.admin.state.stop()
        await parts.push_log.close()
        parts.manager.close()

    def _close(self) -> None:
        parts = self._parts
        parts.quotas.managers.shutdown()
        parts.reporters.close()
        self.identity.release()

    async def _start_listeners(self) -> None:
        parts, identity = self._parts, self.identity
        cluster = ClusterApis(
            self._config.node_id, identity.cluster_id, identity.advertised, parts.admin.authorization, parts.misdirected
        )
        handler = RequestDispatcher(
            parts.table,
            cluster,
            parts.subscriptions,
            parts.pushes,
            parts.admin.apis,
            parts.manager.instances,
            parts.misdirected,
            parts.quotas.request,
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
                api_table=parts.table,
                security=securities[endpoint.listener_name].with_users(parts.admin.users.store),
                reuse_port=self._config.workers > 1,
                limits=parts.connection_limits,
                requests=requests,
                unread=unread,
                new_channel=self._new_channel(endpoint.listener_name),
            )
            parts.connection_limits.on_excess(endpoint.listener_name, listener.close_excess)
            await listener.start()
            parts.listeners.append(listener)
            identity.add_listener(endpoint, listener.port)

    def _new_channel(self, listener_name: str) -> MakeChannel:
        """Returns what makes the connections of a listener."""
        return make_channel

    async def _expire(self) -> None:
        """Expires instances and sensors once a second."""
        parts = self._parts
        while True:
            await asyncio.sleep(_HOUSEKEEPING_S)
            now_ms = self._time.hi_res_clock_ms()
            parts.manager.instances.expire(now_ms)
            parts.metrics.remove_expired_sensors(now_ms)
