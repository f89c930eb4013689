"""The life of `fleetgauge export`: the exporters alone, reading the topic, until a signal ends it.

The exporters run in a process of their own, as under `fleetgauge serve`: it is started again when it dies. So does the
HTTP port.
"""

import asyncio
import os
import signal
from importlib.metadata import version
from typing import Any

import structlog
import typer

from base.clock import SystemTime, Time
from fleetgauge.admin.node_socket import RelaySocket, Status
from fleetgauge.app import say_reread
from fleetgauge.config import ServiceConfig
from fleetgauge.config.reader import ConfigReader
from fleetgauge.data_dir import DataDirectory
from fleetgauge.errors import ConfigError
from fleetgauge.logs import configure_logging
from fleetgauge.machine import raise_open_files
from fleetgauge.private_files import keep_files_private
from fleetgauge.processes.exporter_job import Job
from fleetgauge.processes.exporter_supervisor import ExporterSupervisor
from fleetgauge.processes.http_supervisor import HttpPort
from fleetgauge.serving import exporter_lines, keep_rereading

log = structlog.get_logger(__name__)

_PROGRESS_EVERY_S = 60.0
_TAKEN_OVER = frozenset({"logging_level"})
"""What a SIGHUP changes."""
_SILENT_MS = 10_000
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
            "push.log",
            f"is {config.push_log}, and fleetgauge export reads a Kafka topic: set push.log=kafka; a log in the data "
            "directory is exported by fleetgauge serve itself",
        )
    if not config.exporters:
        raise ConfigError("exporters", "there is no table [exporters.<name>], and so nothing to export to")
    keep_files_private()
    configure_logging(config.logging_level, config.logging_format, config.secrets())
    reader.warn_of_exposed_secrets()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until it can be obeyed: its default would end the process
    raise_open_files()
    asyncio.run(_run(config, reader))


async def _run(config: ServiceConfig, reader: ConfigReader) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = ExportNode(config, SystemTime())
    await node.start()
    typer.echo(node.where_everything_is())
    progress = asyncio.create_task(_say_progress(node))
    asked = asyncio.Event()
    rereading = asyncio.create_task(keep_rereading(node, reader, asked))
    loop.add_signal_handler(signal.SIGHUP, asked.set)
    await stop.wait()
    rereading.cancel()
    log.info("stopping", within_ms=config.shutdown_timeout_ms)
    progress.cancel()
    await node.stop()


async def _say_progress(node: "ExportNode") -> None:
    while True:
        await asyncio.sleep(_PROGRESS_EVERY_S)
        node.say_progress()


class ExportNode:
    """The exporter process of this node, its HTTP port, and the socket that answers for both.

    Args:
        config: the checked configuration.
        time: the clocks.
    """

    def __init__(self, config: ServiceConfig, time: Time) -> None:
        self._config = config
        self._time = time
        self._data = DataDirectory(config.log_dirs)
        self._started_at_ms = time.milliseconds()
        self._is_stopping = False

    async def start(self) -> None:
        """Starts the exporters.

        Raises:
            FleetgaugeError: the data directory or the HTTP port cannot be used; nothing is left of the start.
        """
        self._data.create()
        self._number, self._lock = self._data.claim_export_number()
        job = Job.of_export(self._config, self._number)
        assert job.node_socket is not None
        assert job.clients is not None
        self._clients_socket = job.clients.socket
        self._exporters = ExporterSupervisor(job, self._time)
        away = "the exporter process, which knows the clients, does not answer now: see fleetgauge status"
        self._questions = RelaySocket(job.node_socket, self.status, self._clients_socket, away)
        self.http = HttpPort(self._config, job.node_socket, self._time)
        try:
            self.http.bind()
            await self._questions.start()
            await self._exporters.start()
            await self.http.start()
        except BaseException:
            await self.http.stop()
            await self._questions.stop()
            await self._exporters.stop(0)
            self._lock.close()
            raise

    async def stop(self) -> None:
        """Has the exporters deliver what they have, within `shutdown.timeout.ms`, and leave their groups."""
        self._is_stopping = True
        await self._exporters.stop(self._config.shutdown_timeout_ms)
        await self.http.stop()
        await self._questions.stop()
        self._clients_socket.unlink(missing_ok=True)  # the process that made it may have been killed
        self._lock.close()
        log.info("stopped", **self._progress())

    async def reconfigure(self, config: ServiceConfig) -> None:
        """Names in the log the keys that differ: but for the log's level, each is taken over at a restart alone."""
        say_reread(self._config, config, _TAKEN_OVER)

    def status(self) -> Status:
        """What this process says of itself to `fleetgauge status`; plain values that JSON can hold."""
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

    def _not_ready(self) -> list[str]:
        """Why the topic is not read, a sentence each; empty while it is. A destination that is away is no reason."""
        if self._is_stopping:
            return ["the process is stopping"]
        process = self._exporters.summary()
        if process["pid"] is None:
            return ["the exporter process does not run"]
        if not self._exporters.has_reported:
            return ["the exporter process has not reported yet"]
        if process["status_age_ms"] > _SILENT_MS:
            return [f"the exporter process has not reported for {process['status_age_ms'] / 1000:.0f} s"]
        problem = self._exporters.status["push_log"].get("problem")
        return [] if problem is None else [problem]

    def say_progress(self) -> None:
        """Logs how far the exporters are."""
        log.info("exporting", **self._progress())

    def where_everything_is(self) -> str:
        """What an operator wants to know of exporters that have just started, line by line."""
        config = self._config
        servers = ",".join(config.push_log_kafka_bootstrap_servers)
        lines = [
            f"Fleetgauge {version('fleetgauge')}, exporters alone",
            f"  push log      topic {config.push_log_kafka_topic} at {servers}",
            *exporter_lines(config),
            f"  groups        {config.push_log_kafka_group_prefix}-<exporter>",
            f"  http          {', '.join(self.http.addresses) or 'off: ' + self.http.off}",
            f"  look at it    fleetgauge status --log-dirs {config.log_dirs}",
        ]
        return "\n".join(lines)

    def _progress(self) -> dict[str, Any]:
        exporters = self._exporters.status.get("exporters", {})
        return {
            name: f"{state['state']}, delivered {state['delivered_records']}, behind {_known(state['lag_records'])}"
            for name, state in exporters.items()
        }


def _known(lag_records: int | None) -> str:
    return "unknown" if lag_records is None else str(lag_records)
