"""The parent process of a node with several workers: it holds the ports, and serves no client itself.

To operators it is one node: one status, one inventory, one set of metrics. To clients it is one Kafka node.
"""

import asyncio
import socket
from collections.abc import Coroutine
from typing import Any, Final

from fleetgauge.base.clock import SystemTime
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cluster.subscriptions.allowed import Properties
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.node_identity import NodeIdentity
from fleetgauge.node.processes.node_process import NodeProcess
from fleetgauge.node.processes.workers.merge import merged_parts
from fleetgauge.node.processes.workers.questions import WorkersSocket
from fleetgauge.node.processes.workers.shares import worker_config
from fleetgauge.node.processes.workers.supervisor import WorkerSupervisor
from fleetgauge.node.reconfiguration import Changes, changeable_fields, examiner, log_reread
from fleetgauge.node.status.node_socket import Status
from fleetgauge.node.tasks import end_task
from fleetgauge.wire.shared_port import reserve_port

_QUERY_EVERY_S: Final = 1.0
_FIRST_ANSWER_WITHIN_MS: Final = 30_000


class WorkersNode(NodeProcess):
    """One node of `workers` listener processes.

    Args:
        config: the checked configuration.
    """

    def __init__(self, config: ServiceConfig) -> None:
        super().__init__(config, SystemTime())
        self._reserved: list[socket.socket] = []
        self._workers: list[WorkerSupervisor] = []
        self._query: asyncio.Task[None] | None = None
        self._queries: asyncio.Task[None] | None = None
        self._rereading = asyncio.Lock()
        self._offers = 0
        self._examiner = examiner()
        self.identity = NodeIdentity(config, self._time)

    async def reconfigure(self, config: ServiceConfig) -> None:
        """Makes all workers take over the keys that may change at run time, or none: see `FleetgaugeNode.reconfigure`.

        Each examines the configuration first. A worker that is being started is given what was decided.

        Raises:
            FleetgaugeError: it cannot be used, here or in a worker; nothing was changed.
        """
        async with self._rereading:
            await self._examiner.run(lambda: Changes.of(config))
            self._offers += 1
            shares = {worker: self._share(config, worker.number) for worker in self._workers}
            problems = await asyncio.gather(*(worker.offer(self._offers, each) for worker, each in shares.items()))
            if refusals := [problem for problem in problems if problem]:
                raise FleetgaugeError(f"no worker has accepted it: {refusals[0]}")
            for worker, each in shares.items():
                worker.take(self._offers, each)
            log_reread(self._config, config, changeable_fields(self._config, config))

    async def status(self) -> Status:
        """The answer to `fleetgauge status`: as `FleetgaugeNode.status`, and of each worker."""
        await self._query_workers()
        parts = merged_parts(self._statuses())
        return {
            "node": {**self.identity.status(), **self._readiness()},
            "workers": [worker.status() for worker in self._workers],
            "http": self.http.status(),
            **parts,
            "push_log": {**parts["push_log"], **self._exporters.status.get("push_log", {})},
            "exporter_process": self._exporters.summary(),
        }

    def _readiness(self) -> dict[str, list[str]]:
        """The node is ready while one worker takes pushes; the problems of the others are listed as `degraded`, so
        that a load balancer keeps the node.
        """
        if self._is_stopping:
            return {"not_ready": ["the node is stopping"], "degraded": []}
        reasons = [worker.reasons() for worker in self._workers]
        all_reasons = [reason for each in reasons for reason in each]
        degraded = list(dict.fromkeys(each for worker in self._workers for each in worker.degraded()))
        if all(reasons):
            return {"not_ready": all_reasons, "degraded": degraded}
        return {"not_ready": [], "degraded": [*all_reasons, *degraded]}

    def _in_force(self) -> Properties | None:
        return next((each.last["telemetry"]["subscription_properties"] for each in self._workers if each.last), None)

    async def _prepare(self) -> Job:
        await self.identity.claim(self._data)
        return Job.of_node(self._config)

    def _control_socket(self, job: Job) -> WorkersSocket:
        return WorkersSocket(job.node_socket, self.status, self._workers)

    async def _start_service(self) -> None:
        """Prepares all workers before any listens, so that waiting clients are distributed evenly."""
        for endpoint in self._config.listeners:
            reserved = reserve_port(endpoint.listener_name, endpoint.host, endpoint.port)
            self._reserved.append(reserved)
            self.identity.add_listener(endpoint, reserved.getsockname()[1])
        self._workers.extend(self._make_worker(number) for number in range(1, self._config.workers + 1))
        await _all([worker.prepare() for worker in self._workers])
        await _all([worker.listen() for worker in self._workers])
        deadline_ms = self._time.hi_res_clock_ms() + _FIRST_ANSWER_WITHIN_MS
        while not self._statuses():  # a merged status needs at least one
            if self._time.hi_res_clock_ms() > deadline_ms:
                raise FleetgaugeError("no worker responds to its parent: check whether the machine is overloaded")
            await self._query_workers()
        self._queries = asyncio.create_task(self._keep_querying())

    async def _stop_service(self, deadline_ms: int) -> None:
        await end_task(self._queries)
        await asyncio.gather(*(worker.stop(self._left_ms(deadline_ms)) for worker in self._workers))
        for each in self._reserved:
            each.close()

    def _close(self) -> None:
        self.identity.release()

    def _make_worker(self, number: int) -> WorkerSupervisor:
        config = self._share(self._config, number)
        DataDirectory(config.log_dirs).create()
        return WorkerSupervisor(number, config, self._time)

    def _share(self, config: ServiceConfig, number: int) -> ServiceConfig:
        """A worker's part of `config`: addresses, directory and limits stay those of the start."""
        changeable = changeable_fields(self._config, config)
        in_force = self._config.model_copy(update={name: getattr(config, name) for name in changeable})
        ports = {bound.listener_name: bound.port for bound in self.identity.bound}
        return worker_config(in_force, number, cluster_id=self.identity.cluster_id, ports=ports)

    def _statuses(self) -> list[Status]:
        """The latest status of each worker that runs, then the counts of those that ended."""
        running = [worker.last for worker in self._workers]
        ended = [worker.ended for worker in self._workers]
        return [status for status in (*running, *ended) if status is not None]

    async def _keep_querying(self) -> None:
        while True:
            await self._query_workers()
            await asyncio.sleep(_QUERY_EVERY_S)

    async def _query_workers(self) -> None:
        """Queries the status of all workers; callers that come while that is under way share the answer."""
        if self._query is None or self._query.done():
            self._query = asyncio.create_task(_all([worker.query() for worker in self._workers]))
        await asyncio.shield(self._query)


async def _all(waiting: list[Coroutine[Any, Any, None]]) -> None:
    """Waits for all, and raises the first exception among their outcomes."""
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
