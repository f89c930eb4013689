"""The life of a process that operators start: prepared, logging, running until a signal stops it, reread at SIGHUP.

See `node.serving` and `node.exporting` for what runs.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Final

import structlog
import typer

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.machine import raise_open_files
from fleetgauge.base.redaction import without_credentials
from fleetgauge.node import audit
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.config.reader import ConfigReader
from fleetgauge.node.logs import configure_logging, log_unraisable_errors
from fleetgauge.node.off_loop import OffLoop
from fleetgauge.node.private_files import keep_files_private
from fleetgauge.node.processes.garbage import collect_seldom
from fleetgauge.node.processes.node_process import NodeProcess

log = structlog.get_logger(__name__)

_READ_WITHIN_S: Final = 10.0
"""Time limit to read and check the file after a SIGHUP; clients are served meanwhile [s]."""
_OLD_CONFIG: Final = "the configuration was rejected; the old one stays in force"


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
    """Logs as `config` has it from now on, and that other users may read secrets, if so; opens the audit log."""
    configure_logging(config.logging_level, config.logging_format, config.secrets())
    log_unraisable_errors()
    audit.configure(config.audit_settings(), config.secrets())
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


def warn_of_subscriptions(config: ServiceConfig) -> None:
    """Logs which subscriptions of the configuration request nothing."""
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
            warn_of_subscriptions(config)
            start_logging(config, reader)


def exporter_lines(config: ServiceConfig) -> list[str]:
    """A line for each exporter: its name, its type, and where it delivers."""
    lines = []
    for name, keys in config.exporters.items():
        target = without_credentials(str(keys.get("endpoint") or keys.get("path") or keys.get("topic") or ""))
        lines.append(f"  exporter      {name}: {keys.get('type', '')} {target}".rstrip())
    return lines or ["  exporter      none in this process: fleetgauge export delivers from the topic"]
