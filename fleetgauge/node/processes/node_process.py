"""The life cycle that `fleetgauge serve` (with one or several workers) and `fleetgauge export` share.

Each is a service (listeners, workers, or nothing of its own) with an exporter process, an HTTP port and a control
socket.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.cluster.subscriptions.allowed import Properties
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.exporter_supervisor import ExporterSupervisor
from fleetgauge.node.processes.http_supervisor import HttpPort
from fleetgauge.node.status.node_socket import ControlSocket

log = structlog.get_logger(__name__)


class NodeProcess(ABC):
    """A process that serves, and supervises the exporter process and the HTTP process beside it.

    Args:
        config: the checked configuration.
        time: the clocks.

    Attributes:
        http: the HTTP port.
        form: the command that runs it.
    """

    form: ClassVar = "serve"

    def __init__(self, config: ServiceConfig, time: Time) -> None:
        self._config = config
        self._time = time
        self._data = DataDirectory(config.log_dirs)
        self._is_stopping = False

    async def start(self) -> None:
        """Starts every part; on return the node serves.

        Raises:
            FleetgaugeError: a part cannot start; what had started is stopped again.
        """
        self._data.create()
        job = await self._prepare()
        self._exporters = ExporterSupervisor(job, self._time, self._in_force)
        self.http = HttpPort(self._config, job.node_socket, self.form, self._time)
        control = self._control = self._control_socket(job)
        try:
            self.http.bind()
            await self._start_service()
            await control.start()
            await self._exporters.start()
            await self.http.start()
        except BaseException:
            await self._stop_all(0)
            raise

    async def stop(self, within_ms: int | None = None) -> None:
        """Stops in order within `shutdown.timeout.ms`, or `within_ms`: the service, the exporters, then the rest."""
        self._is_stopping = True
        await self._stop_all(self._config.shutdown_timeout_ms if within_ms is None else within_ms)
        log.info("node.stopped", undelivered=self._exporters.lags())

    @abstractmethod
    async def reconfigure(self, config: ServiceConfig) -> None:
        """Takes over what may change while running, and logs the other keys that differ: they need a restart.

        Raises:
            FleetgaugeError: it cannot be used; nothing was changed.
        """

    def _in_force(self) -> Properties | None:
        """The subscriptions that this node gives its clients; None where brokers do, or for the moment."""
        return None

    @abstractmethod
    async def _prepare(self) -> Job:
        """Claims the data directory and makes the parts of the service; returns the exporter process's job."""

    @abstractmethod
    def _control_socket(self, job: Job) -> ControlSocket:
        """The control socket, not started yet."""

    async def _start_service(self) -> None:  # noqa: B027  an export has none of its own
        """Starts what was prepared."""

    async def _stop_service(self, deadline_ms: int) -> None:  # noqa: B027  as above
        """Stops it by `deadline_ms` (monotonic), so far as it was started."""

    @abstractmethod
    def _close(self) -> None:
        """Closes what the status needs to the end, and releases the data directory."""

    async def _stop_all(self, within_ms: int) -> None:
        deadline_ms = self._time.hi_res_clock_ms() + within_ms
        await self._stop_service(deadline_ms)
        await self._exporters.stop(self._left_ms(deadline_ms))
        await self.http.stop()
        await self._control.stop()
        self._close()

    def _left_ms(self, deadline_ms: int) -> int:
        return max(0, deadline_ms - self._time.hi_res_clock_ms())
