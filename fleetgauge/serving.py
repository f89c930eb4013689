"""The life of the listener process: from the checked configuration to the end that a signal asks for."""

import asyncio
import signal
import threading
from collections.abc import Callable
from importlib.metadata import version

import structlog
import typer
import uvloop

from exporters.options import without_credentials
from exporters.push_log.log import PushLogError
from fleetgauge.app import FleetgaugeNode
from fleetgauge.config import ServiceConfig
from fleetgauge.config.push_logs import unread_logs
from fleetgauge.data_dir import DataDirectory
from fleetgauge.garbage import collect_seldom
from fleetgauge.logs import configure_logging
from fleetgauge.machine import raise_open_files
from fleetgauge.workers.node import WorkersNode
from wire.errors import FleetgaugeError

log = structlog.get_logger(__name__)

Node = FleetgaugeNode | WorkersNode


def serve_until_stopped(read: Callable[[], ServiceConfig]) -> None:
    """Runs a node until SIGTERM or SIGINT; SIGHUP reads the configuration again.

    Args:
        read: gives the configuration as it stands now.

    Raises:
        FleetgaugeError: the configuration cannot be used, or a part does not start.
    """
    # Until the node can take a SIGHUP, it is kept: its default would end the process.
    came_early = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: came_early.set())
    raise_open_files()
    first = read()
    configure_logging(first.logging_level, first.logging_format)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(first, read, came_early))


async def _run(config: ServiceConfig, read: Callable[[], ServiceConfig], came_early: threading.Event) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _warn_of_unread_logs(config)
    node = FleetgaugeNode(config) if config.workers == 1 else WorkersNode(config)
    await node.start()
    collect_seldom()
    rereading: set[asyncio.Task[None]] = set()

    def reread() -> None:
        task = loop.create_task(_reread(node, read))
        rereading.add(task)
        task.add_done_callback(rereading.discard)

    loop.add_signal_handler(signal.SIGHUP, reread)
    if came_early.is_set():
        reread()
    typer.echo(where_everything_is(node, config))
    await stop.wait()
    log.info("stopping", within_ms=config.shutdown_timeout_ms)
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
            "push.log=embedded until fleetgauge exporters shows no lag, or remove the directory",
            pushes=pushes,
            directory=str(path),
        )


async def _reread(node: Node, read: Callable[[], ServiceConfig]) -> None:
    try:
        config = read()
        await node.reconfigure(config)
    except FleetgaugeError as error:
        log.error("the configuration was refused, and the old one stays in force", problem=str(error))
        return
    configure_logging(config.logging_level, config.logging_format)


def where_everything_is(node: Node, config: ServiceConfig) -> str:
    """What an operator wants to know of a node that has just started, line by line."""
    lines = [f"Fleetgauge {version('fleetgauge')}, node {config.node_id} of cluster {node.cluster_id}"]
    for bound in node.bound:
        host, port = node.advertised(bound.endpoint.listener_name)
        listens = f"{bound.endpoint.listener_name}://{bound.endpoint.host}:{bound.port}"
        lines.append(f"  listening     {listens} (clients are sent to {host}:{port})")
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
