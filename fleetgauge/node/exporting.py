"""The life of `fleetgauge export`: the exporters alone, reading the topic, until a signal stops it.

The exporters run in a process of their own, as under `fleetgauge serve`, which is restarted when it dies, and so does
the HTTP port.
"""

import asyncio
import os
from importlib.metadata import version
from typing import Any, Final

import structlog

from fleetgauge.base.clock import SystemTime, Time
from fleetgauge.base.errors import ConfigError
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.reader import ConfigReader
from fleetgauge.node.lifetime import exporter_lines, prepare_process, run_until_stopped, start_logging
from fleetgauge.node.processes.exporter_job import Job
from fleetgauge.node.processes.node_process import NodeProcess
from fleetgauge.node.reconfiguration import log_reread
from fleetgauge.node.status.node_socket import RelaySocket, Status

log = structlog.get_logger(__name__)

_PROGRESS_EVERY_S: Final = 60.0
_CHANGEABLE: Final = frozenset({"logging_level"})
"""Keys that a SIGHUP can change."""
_SILENT_MS: Final = 10_000
"""The exporter process reports once a second; after a longer silence this process is not ready [ms]."""


def export_until_stopped(reader: ConfigReader) -> None:
    """Runs the exporters until SIGTERM or SIGINT.

    Args:
        reader: reads the configuration, at the start and at each SIGHUP.

    Raises:
        FleetgaugeError: there is nothing to export or no topic to read, or a part does not start.
    """
    config = reader.read()
    if config.push_log != "kafka":
        raise ConfigError(
            "push.log.type",
            f"is {config.push_log}, but fleetgauge export reads a Kafka topic: set push.log.type=kafka; a log in the "
            "data directory is exported by fleetgauge serve itself",
        )
    if not config.exporters:
        raise ConfigError("exporters", "there is no table [exporters.<name>]: there is nothing to export to")
    hangup = prepare_process()
    start_logging(config, reader)
    node = ExportNode(config, SystemTime())
    asyncio.run(run_until_stopped(node, config, reader, hangup, node.summary))


class ExportNode(NodeProcess):
    """The exporter process, its HTTP port, and the socket that answers for both.

    Args:
        config: the checked configuration.
        time: the clocks.
    """

    form = "export"

    def __init__(self, config: ServiceConfig, time: Time) -> None:
        super().__init__(config, time)
        self._started_at_ms = time.milliseconds()
        self._progress: asyncio.Task[None] | None = None

    async def reconfigure(self, config: ServiceConfig) -> None:
        """Logs the keys that differ: all but the log level need a restart."""
        log_reread(self._config, config, _CHANGEABLE)

    def status(self) -> Status:
        """The answer to `fleetgauge status`; plain values that JSON can hold."""
        return {
            "export": {
                "pid": os.getpid(),
                "number": self._number,
                "started_at_ms": self._started_at_ms,
                "log_dirs": str(self._config.log_dirs.absolute()),
                "not_ready": self._not_ready(),
            },
            "http": self.http.status(),
            "clients": self._exporters.status.get("clients", {}),
            "push_log": self._exporters.status.get("push_log", {}),
            "exporter_process": self._exporters.summary(),
        }

    def summary(self) -> str:
        """Where exporters that have just started read and deliver, line by line."""
        config = self._config
        servers = ",".join(config.push_log_kafka_bootstrap_servers)
        lines = [
            f"Fleetgauge {version('fleetgauge')}, exporters alone",
            f"  push log      topic {config.push_log_kafka_topic} at {servers}",
            *exporter_lines(config),
            f"  groups        {config.push_log_kafka_group_prefix}-<exporter>",
            f"  http          {self.http}",
            f"  look at it    fleetgauge status --log-dirs {config.log_dirs}",
        ]
        return "\n".join(lines)

    def _not_ready(self) -> list[str]:
        """Why the topic is not read, one sentence each; empty while it is. An unreachable destination is no reason."""
        if self._is_stopping:
            return ["the process is stopping"]
        process = self._exporters.summary()
        if process["pid"] is None:
            return ["the exporter process is not running"]
        if not self._exporters.has_reported:
            return ["the exporter process has not reported yet"]
        if process["status_age_ms"] > _SILENT_MS:
            return [f"the exporter process has not reported for {process['status_age_ms'] / 1000:.0f} s"]
        problem = self._exporters.status["push_log"].get("problem")
        return [] if problem is None else [problem]

    async def _prepare(self) -> Job:
        self._number, self._lock = self._data.claim_export_number()
        return Job.of_export(self._config, self._number)

    def _control_socket(self, job: Job) -> RelaySocket:
        assert job.clients is not None
        self._clients_socket = job.clients.socket
        away = "the exporter process, which has the clients, does not respond: see fleetgauge status"
        return RelaySocket(job.node_socket, self.status, self._clients_socket, away)

    async def _start_service(self) -> None:
        self._progress = asyncio.create_task(self._log_progress())

    async def _stop_service(self, deadline_ms: int) -> None:
        if self._progress is not None:
            self._progress.cancel()

    def _close(self) -> None:
        self._clients_socket.unlink(missing_ok=True)  # the process that made it may have been killed
        self._lock.close()

    async def _log_progress(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_EVERY_S)
            exporters: dict[str, Any] = self._exporters.status.get("exporters", {})
            shown = ("state", "delivered_records", "lag_records")
            log.info("export.progress", **{name: {k: each[k] for k in shown} for name, each in exporters.items()})
