"""The life of the listener process: from the checked configuration to the end that a signal asks for."""

import asyncio
import signal
import threading
from importlib.metadata import version
from typing import Final, Protocol

import structlog
import typer
import uvloop

from base.errors import FleetgaugeError
from base.redaction import without_credentials
from fleetgauge.app import FleetgaugeNode
from fleetgauge.config import ServiceConfig
from fleetgauge.config.push_logs import unread_logs
from fleetgauge.config.reader import ConfigReader
from fleetgauge.data_dir import DataDirectory
from fleetgauge.garbage import collect_seldom
from fleetgauge.logs import configure_logging
from fleetgauge.machine import raise_open_files
from fleetgauge.off_loop import OffLoop
from fleetgauge.private_files import keep_files_private
from fleetgauge.processes.workers.node import WorkersNode
from push_log.log import PushLogError

log = structlog.get_logger(__name__)

Node = FleetgaugeNode | WorkersNode

_READ_WITHIN_S: Final = 10.0
"""How long a SIGHUP's file may take to be read and checked; clients are served meanwhile [s]."""


def serve_until_stopped(reader: ConfigReader) -> None:
    """Runs a node until SIGTERM or SIGINT; SIGHUP reads the configuration again.

    Args:
        reader: reads the configuration.

    Raises:
        FleetgaugeError: the configuration cannot be used, or a part does not start.
    """
    keep_files_private()
    # Until the node can take a SIGHUP, it is kept: its default would end the process.
    came_early = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: came_early.set())
    raise_open_files()
    first = reader.read()
    configure_logging(first.logging_level, first.logging_format, first.secrets())
    reader.warn_of_exposed_secrets()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(first, reader, came_early))


async def _run(config: ServiceConfig, reader: ConfigReader, came_early: threading.Event) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _warn_of_unread_logs(config)
    _warn_of_subscriptions(config)
    node = FleetgaugeNode(config) if config.workers == 1 else WorkersNode(config)
    await node.start()
    collect_seldom()
    asked = asyncio.Event()
    rereading = loop.create_task(keep_rereading(node, reader, asked))
    loop.add_signal_handler(signal.SIGHUP, asked.set)
    if came_early.is_set():
        asked.set()
    typer.echo(where_everything_is(node, config))
    await stop.wait()
    log.info("stopping", within_ms=config.shutdown_timeout_ms)
    rereading.cancel()
    await node.stop()


def _warn_of_unread_logs(config: ServiceConfig) -> None:
    try:
        waiting = unread_logs(config)
    except PushLogError as error:
        log.warning("there is an embedded push log that is not read while push.log is kafka", problem=str(error))
        return
    for path, pushes in waiting.items():
        log.warning(
            "pushes wait in an embedded push log, which is not read while push.log is kafka: start once more with "
            "push.log=sqlite until fleetgauge exporters shows no lag, or remove the directory",
            pushes=pushes,
            directory=str(path),
        )


def _warn_of_subscriptions(config: ServiceConfig) -> None:
    for name, properties in config.client_metrics.items():
        if not properties.get("metrics", "").strip(" ,"):
            log.warning(
                'this subscription requests no metrics; set metrics = "*", or prefixes, in its table',
                table=f"[client-metrics.{name}]",
            )


class Reconfigurable(Protocol):
    """What runs by a configuration."""

    async def reconfigure(self, config: ServiceConfig) -> None:
        """Takes over what can be, and names in the log what needs a restart."""
        ...


async def keep_rereading(node: Reconfigurable, reader: ConfigReader, asked: asyncio.Event) -> None:
    """Takes one new configuration over after the other; signals that come meanwhile count as one more."""
    reading = OffLoop("reading the configuration", _READ_WITHIN_S)
    while True:
        await asked.wait()
        asked.clear()
        try:
            config = await reading.run(reader.read)
            await node.reconfigure(config)
        except FleetgaugeError as error:
            log.error("the configuration was refused, and the old one stays in force", problem=str(error))
        except Exception:
            log.exception("the configuration could not be taken over, and the old one stays in force")
        else:
            configure_logging(config.logging_level, config.logging_format, config.secrets())
            _warn_of_subscriptions(config)
            reader.warn_of_exposed_secrets()


def where_everything_is(node: Node, config: ServiceConfig) -> str:
    """What an operator wants to know of a node that has just started, line by line."""
    lines = [f"Fleetgauge {version('fleetgauge')}, node {config.node_id} of cluster {node.cluster_id}"]
    for bound in node.bound:
        host, port = node.advertised(bound.endpoint.listener_name)
        listens = f"{bound.endpoint.listener_name}://{bound.endpoint.host}:{bound.port}"
        lines.append(f"  listening     {listens} (clients are sent to {host}:{port})")
    lines.append("  takes         client telemetry, no records: applications connect to your Kafka brokers")
    if config.workers > 1:
        lines.append(f"  workers       {config.workers} processes share the listeners")
    lines.append(f"  http          {', '.join(node.http.addresses) or 'off: ' + node.http.off}")
    for name, keys in config.client_metrics.items():
        shown = ", ".join(f"{key}={value}" for key, value in keys.items())
        lines.append(f"  subscription  {name}: {shown}")
    lines.append(f"  push log      {_push_log(config)}")
    lines.extend(exporter_lines(config))
    lines.append(f"  look at it    fleetgauge status --log-dirs {config.log_dirs}")
    return "\n".join(lines)


def exporter_lines(config: ServiceConfig) -> list[str]:
    """A line for each exporter: its name, its type, and where it delivers."""
    lines = []
    for name, keys in config.exporters.items():
        target = without_credentials(str(keys.get("endpoint") or keys.get("path") or keys.get("topic") or ""))
        lines.append(f"  exporter      {name}: {keys.get('type', '')} {target}".rstrip())
    return lines or ["  exporter      none here: fleetgauge export delivers from the topic"]


def _push_log(config: ServiceConfig) -> str:
    if config.push_log == "kafka":
        return f"topic {config.push_log_kafka_topic} at {','.join(config.push_log_kafka_bootstrap_servers)}"
    data = DataDirectory(config.log_dirs.absolute())
    if config.workers > 1:
        return f"{data.worker(1).push_log} and so on, one for each worker"
    return str(data.push_log)
