"""A node with several workers: the parent process, which holds the ports, and serves no client itself.

It looks like one node to whoever asks: one status, one inventory, one set of metrics. Clients see one Kafka node.
"""

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog

from base.clock import SystemTime, Time
from base.errors import FleetgaugeError
from fleetgauge.admin.node_socket import Status
from fleetgauge.app import (
    CHANGEABLE,
    EXAMINE_WITHIN_S,
    BoundEndpoint,
    Changes,
    advertised_address,
    say_reread,
    told_of_node,
)
from fleetgauge.config import ServiceConfig
from fleetgauge.data_dir import DataDirectory
from fleetgauge.off_loop import OffLoop
from fleetgauge.processes.exporter_job import Job
from fleetgauge.processes.exporter_supervisor import ExporterSupervisor
from fleetgauge.processes.http_supervisor import HttpPort
from fleetgauge.processes.workers.merge import merged_parts
from fleetgauge.processes.workers.predecessors import wait_for_workers
from fleetgauge.processes.workers.questions import WorkersSocket
from fleetgauge.processes.workers.shares import worker_config
from fleetgauge.processes.workers.supervisor import WorkerSupervisor
from wire.shared_port import reserve_port

log = structlog.get_logger(__name__)

_LOOK_EVERY_S: Final = 1.0
_FIRST_ANSWER_WITHIN_MS: Final = 30_000


class WorkersNode:
    """One node of `workers` listener processes.

    Args:
        config: the checked configuration.
        time: the clocks.
    """

    def __init__(self, config: ServiceConfig, time: Time | None = None) -> None:
        self._config = config
        self._time = time or SystemTime()
        self._data = DataDirectory(config.log_dirs)
        self._started_at_ms = self._time.milliseconds()
        self._is_stopping = False
        self._reserved: list[socket.socket] = []
        self._workers: list[WorkerSupervisor] = []
        self._looking: asyncio.Task[None] | None = None
        self._look_after: asyncio.Task[None] | None = None
        self._rereading = asyncio.Lock()
        self._offers = 0
        self._examining = OffLoop("examining the configuration", EXAMINE_WITHIN_S)
        self.http = HttpPort(config, self._data.node_socket, self._time)
        self.bound: tuple[BoundEndpoint, ...] = ()

    async def start(self) -> None:
        """Starts every part; on return all workers serve clients.

        Raises:
            FleetgaugeError: a part cannot start; what had started is stopped again.
        """
        self._data.create()
        self._lock = self._data.lock(".lock")
        self.cluster_id = self._data.identity(node_id=self._config.node_id, cluster_id=self._config.cluster_id)
        await wait_for_workers(self._data, self._time)
        self._exporters = ExporterSupervisor(Job.of_node(self._config), self._time)
        self._questions = WorkersSocket(self._data.node_socket, self.status, self._workers)
        try:
            self._reserve_ports()
            self.http.bind()
            self._workers.extend(self._make_worker(number) for number in range(1, self._config.workers + 1))
            await self._start_workers()
            await self._questions.start()
            await self._exporters.start()
            await self.http.start()
        except BaseException:
            await self.http.stop()
            await self._questions.stop()
            await self._stop_workers(0)
            self._release_ports()
            raise
        self._look_after = asyncio.create_task(self._keep_looking())

    async def stop(self) -> None:
        """Stops in order within `shutdown.timeout.ms`: the workers, then the exporters, which have all logs by then."""
        self._is_stopping = True
        deadline_ms = self._time.hi_res_clock_ms() + self._config.shutdown_timeout_ms
        if self._look_after is not None:
            self._look_after.cancel()
            with suppress(asyncio.CancelledError):
                await self._look_after
        await self._stop_workers(self._left(deadline_ms))
        self._release_ports()
        await self._exporters.stop(self._left(deadline_ms))
        await self.http.stop()
        await self._questions.stop()
        self._lock.close()
        exporters = self._exporters.status.get("exporters", {})
        log.info("stopped", undelivered={name: state.get("lag_records", 0) for name, state in exporters.items()})

    async def reconfigure(self, config: ServiceConfig) -> None:
        """Has all workers take over what may change while running, or none: see `FleetgaugeNode.reconfigure`.

        Each examines the configuration first. A worker that is being started is given what was decided.

        Raises:
            FleetgaugeError: it cannot be used, here or in a worker; nothing was changed.
        """
        async with self._rereading:
            await self._examining.run(lambda: Changes.of(config))
            self._offers += 1
            shares = {worker: self._share(config, worker.number) for worker in self._workers}
            problems = await asyncio.gather(*(worker.offer(self._offers, each) for worker, each in shares.items()))
            if found := [problem for problem in problems if problem]:
                raise FleetgaugeError(f"no worker has taken it over: {found[0]}")
            for worker, each in shares.items():
                worker.take(self._offers, each)
            say_reread(self._config, config)

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Host and port that clients of a listener are told to connect to."""
        return advertised_address(self._config, self.bound, listener_name)

    async def status(self) -> Status:
        """What this node says of itself to `fleetgauge status`; as `FleetgaugeNode.status`, and of each worker."""
        await self._look()
        parts = merged_parts(self._counted())
        return {
            "node": {
                **told_of_node(self._config, self.cluster_id, self._started_at_ms, self.bound),
                **self._readiness(),
            },
            "workers": [_told_of(worker) for worker in self._workers],
            "http": self.http.status(),
            **parts,
            "push_log": {**parts["push_log"], **self._exporters.status.get("push_log", {})},
            "exporter_process": self._exporters.summary(),
        }

    def _readiness(self) -> dict[str, list[str]]:
        """As long as one worker takes pushes, the node does: what ails the others is said, and takes no node out of a
        load balancer.
        """
        if self._is_stopping:
            return {"not_ready": ["the node is stopping"], "degraded": []}
        reasons = [worker.reasons() for worker in self._workers]
        found = [reason for each in reasons for reason in each]
        return {"not_ready": found, "degraded": []} if all(reasons) else {"not_ready": [], "degraded": found}

    def _make_worker(self, number: int) -> WorkerSupervisor:
        config = self._share(self._config, number)
        DataDirectory(config.log_dirs).create()
        return WorkerSupervisor(number, config, self._time)

    def _share(self, config: ServiceConfig, number: int) -> ServiceConfig:
        """What a worker gets of `config`: addresses, directory and limits stay those of the start."""
        changed = {name: getattr(config, name) for name in CHANGEABLE}
        in_force = self._config.model_copy(update=changed)
        return worker_config(in_force, number, cluster_id=self.cluster_id, ports=self._ports())

    def _ports(self) -> dict[str, int]:
        return {bound.endpoint.listener_name: bound.port for bound in self.bound}

    def _reserve_ports(self) -> None:
        for endpoint in self._config.listeners:
            reserved = reserve_port(endpoint.listener_name, endpoint.host, endpoint.port)
            self._reserved.append(reserved)
            self.bound = (*self.bound, BoundEndpoint(endpoint, reserved.getsockname()[1]))

    def _release_ports(self) -> None:
        for each in self._reserved:
            each.close()
        self._reserved.clear()

    async def _start_workers(self) -> None:
        """Has all of them prepared before any listens, so that waiting clients are shared out evenly."""
        await _all([worker.prepare() for worker in self._workers])
        await _all([worker.listen() for worker in self._workers])
        deadline_ms = self._time.hi_res_clock_ms() + _FIRST_ANSWER_WITHIN_MS
        while not self._counted():  # a status is made of at least one
            if self._time.hi_res_clock_ms() > deadline_ms:
                raise FleetgaugeError("no worker answers its parent; is the machine overloaded?")
            await self._look()

    def _counted(self) -> list[Status]:
        """What the workers have counted, those that run first."""
        running = [worker.last for worker in self._workers]
        gone = [worker.gone for worker in self._workers]
        return [status for status in (*running, *gone) if status is not None]

    async def _stop_workers(self, within_ms: int) -> None:
        await asyncio.gather(*(worker.stop(within_ms) for worker in self._workers))

    async def _keep_looking(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _look(self) -> None:
        """Asks all workers how they are; who asks while that is under way shares the answer."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_at_all())
        await asyncio.shield(self._looking)

    async def _look_at_all(self) -> None:
        await asyncio.gather(*(worker.look() for worker in self._workers))

    def _left(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._time.hi_res_clock_ms())


async def _all(waiting: list[Coroutine[Any, Any, None]]) -> None:
    """Waits for all, and raises what the first of those raised that did."""
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _told_of(worker: WorkerSupervisor) -> dict[str, Any]:
    """What the status says of one worker."""
    last = worker.last
    return {
        "worker": worker.number,
        "pid": worker.pid,
        "serves": worker.serves,
        "restarts": worker.restarts,
        "connections": sum(each["open"] for each in last["connections"]) if last else 0,
        "instances": last["telemetry"]["counters"]["instances"] if last else 0,
        "logged": last["push_log"]["logged"] if last else 0,
    }
