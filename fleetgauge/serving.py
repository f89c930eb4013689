"""The life of the listener process: from the checked configuration to the stop that a signal requests."""

import asyncio
import signal
import threading
from collections.abc import Callable
from importlib.metadata import version
from typing import Final

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
from fleetgauge.processes.node_process import NodeProcess
from fleetgauge.processes.workers.node import WorkersNode
from fleetgauge.state_store import StateStore
from push_log.log import PushLogError
from telemetry.subscriptions.overrides import ClientMetricsResources
from terminal.text import printable

log = structlog.get_logger(__name__)

_READ_WITHIN_S: Final = 10.0
"""How long a SIGHUP's file may take to be read and checked; clients are served meanwhile [s]."""
_OLD_CONFIG: Final = "the configuration was refused, and the old one stays in force"


def serve_until_stopped(reader: ConfigReader) -> None:
    """Runs a node until SIGTERM or SIGINT; SIGHUP reads the configuration again.

    Args:
        reader: reads the configuration.

    Raises:
        FleetgaugeError: the configuration cannot be used, or a part does not start.
    """
    hangup = prepare_process()
    config = reader.read()
    start_logging(config, reader)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(config, reader, hangup))


async def _serve(config: ServiceConfig, reader: ConfigReader, hangup: threading.Event) -> None:
    _warn_of_unread_logs(config)
    _warn_of_subscriptions(config)
    node = FleetgaugeNode(config) if config.workers == 1 else WorkersNode(config)
    await run_until_stopped(node, config, reader, hangup, lambda: _summary(node, config))


def prepare_process() -> threading.Event:
    """Keeps files private, raises the limit of open files, and catches SIGHUP, whose default would end the process.

    Returns:
        Set by a SIGHUP that comes before the node can take it.
    """
    keep_files_private()
    hangup = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: hangup.set())
    raise_open_files()
    return hangup


def start_logging(config: ServiceConfig, reader: ConfigReader) -> None:
    """Logs as `config` has it from now on, and that other users may read secrets, if so."""
    configure_logging(config.logging_level, config.logging_format, config.secrets())
    reader.warn_of_exposed_secrets()


async def run_until_stopped(
    node: NodeProcess,
    config: ServiceConfig,
    reader: ConfigReader,
    hangup: threading.Event,
    summary: Callable[[], str],
) -> None:
    """Runs a node until SIGTERM or SIGINT.

    Args:
        node: not started yet.
        config: its configuration.
        reader: reads the configuration again at each SIGHUP.
        hangup: set if one came before the node could take it.
        summary: what is printed for the operator when the node has started.

    Raises:
        FleetgaugeError: a part does not start.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await node.start()
    collect_seldom()
    reread = asyncio.Event()
    rereading = loop.create_task(_keep_rereading(node, reader, reread))
    loop.add_signal_handler(signal.SIGHUP, reread.set)
    if hangup.is_set():
        reread.set()
    typer.echo(summary())
    await stop.wait()
    log.info("node.stopping", within_ms=config.shutdown_timeout_ms)
    rereading.cancel()
    await node.stop()


def _warn_of_unread_logs(config: ServiceConfig) -> None:
    try:
        waiting = unread_logs(config)
    except PushLogError as error:
        log.warning(
            "push_log.not_read", message="an embedded push log is not read while push.log is kafka", error=str(error)
        )
        return
    for path, pushes in waiting.items():
        log.warning(
            "push_log.not_read",
            message="pushes wait in an embedded push log, which is not read while push.log is kafka: start once more "
            "with push.log=sqlite until fleetgauge exporters shows no lag, or remove the directory",
            pushes=pushes,
            directory=str(path),
        )


def _warn_of_subscriptions(config: ServiceConfig) -> None:
    for name, properties in config.client_metrics.items():
        if not properties.get("metrics", "").strip(" ,"):
            log.warning(
                "subscription.no_metrics",
                message='this subscription requests no metrics; set metrics = "*", or prefixes, in its table',
                table=f"[client-metrics.{name}]",
            )


async def _keep_rereading(node: NodeProcess, reader: ConfigReader, requested: asyncio.Event) -> None:
    """Takes over one new configuration after the other; signals that come meanwhile count as one more."""
    reading = OffLoop("reading the configuration", _READ_WITHIN_S)
    while True:
        await requested.wait()
        requested.clear()
        try:
            config = await reading.run(reader.read)
            await node.reconfigure(config)
        except FleetgaugeError as error:
            log.error("config.refused", message=_OLD_CONFIG, error=str(error))
        except Exception:
            log.exception("config.not_applied", message=_OLD_CONFIG)
        else:
            _warn_of_subscriptions(config)
            start_logging(config, reader)


def _summary(node: FleetgaugeNode | WorkersNode, config: ServiceConfig) -> str:
    """Where a node that has just started listens, logs and delivers, line by line."""
    lines = [f"Fleetgauge {version('fleetgauge')}, node {config.node_id} of cluster {node.identity.cluster_id}"]
    for bound in node.identity.bound:
        host, port = node.identity.advertised(bound.endpoint.listener_name)
        listens = f"{bound.endpoint.listener_name}://{bound.endpoint.host}:{bound.port}"
        lines.append(f"  listening     {listens} (clients are sent to {host}:{port})")
    lines.append("  takes         client telemetry, no records: applications connect to your Kafka brokers")
    if config.workers > 1:
        lines.append(f"  workers       {config.workers} processes share the listeners")
    lines.append(f"  http          {node.http}")
    for name, keys in _subscriptions(config).items():
        shown = ", ".join(f"{key}={value}" for key, value in keys.items())
        lines.append(printable(f"  subscription  {name}: {shown}"))
    served = ", ".join(sorted(config.admin_listener_names())) or "no listener (admin.listeners)"
    lines.append(f"  admin tools   kafka-client-metrics.sh and kafka-configs.sh may change subscriptions on {served}")
    lines.append(f"  push log      {_push_log(config)}")
    lines.extend(exporter_lines(config))
    lines.append(f"  look at it    fleetgauge status --log-dirs {config.log_dirs}")
    return "\n".join(lines)


def _subscriptions(config: ServiceConfig) -> dict[str, dict[str, str]]:
    """What is in force: the configuration's, and tools' changes over them."""
    changes = StateStore(DataDirectory(config.log_dirs).state).read()
    return ClientMetricsResources(
        configured=config.client_metrics, changes=changes, max_resources=config.client_metrics_resources_max
    ).effective()


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
