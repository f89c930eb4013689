"""The life of a worker: `python -m fleetgauge.node.worker`, one of several listener processes of a node.

It is a node without exporters and without an HTTP port, in a directory of its own below the data directory. Commands
come as lines of JSON on standard input, `Job` first; it reports as lines of JSON on standard output. It leaves
signals to its parent. When standard input ends, the parent has ended: the worker answers what it has read, and ends.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import structlog
import uvloop
from pydantic import BaseModel

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.node import audit
from fleetgauge.node.app import FleetgaugeNode
from fleetgauge.node.config import ServiceConfig
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.logs import configure_logging, flush_logs, log_unraisable_errors
from fleetgauge.node.node_class import node_class
from fleetgauge.node.processes.garbage import collect_seldom
from fleetgauge.node.processes.parent_pipe import Reports, ignore_signals
from fleetgauge.node.reconfiguration import Changes, examiner

log = structlog.get_logger(__name__)

_COMMAND_LIMIT: Final = 64 << 20
"""Longest command; a configuration may hold thousands of users and subscriptions [B]."""
_ORPHAN_FINISH_MS: Final = 5_000
"""Time limit for a worker without a parent to answer the requests that it has read [ms]."""


class Job(BaseModel):
    """The first command.

    Attributes:
        number: which of the node's workers, from 1.
        config: its configuration, as `node.processes.workers.shares` makes it.
    """

    number: int
    config: ServiceConfig


Offers = dict[int, tuple[ServiceConfig, Changes]]
"""The configuration that was examined and may be applied, by the number of its offer."""


def main() -> None:
    """Runs the process; exit code 0 after a stop, 1 where it cannot do its job."""
    ignore_signals()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_run(Reports()))
    flush_logs()
    sys.exit(code)


async def _run(reports: Reports) -> int:
    commands = asyncio.StreamReader(limit=_COMMAND_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    line = await commands.readline()
    if not line:
        return 0
    job = Job.model_validate_json(line)
    configure_logging(job.config.logging_level, job.config.logging_format, job.config.secrets())
    log_unraisable_errors()
    audit.configure(job.config.audit_settings(), job.config.secrets())
    structlog.contextvars.bind_contextvars(worker=job.number)
    early: list[bytes] = []
    node = node_class(job.config)(
        job.config,
        node_data=DataDirectory(job.config.log_dirs).node_of_worker,
        before_listening=lambda: _until_all_listen(commands, early, reports),
    )
    try:
        await node.start()
    except FleetgaugeError as error:
        reports.send({"problem": str(error)})
        return 1
    collect_seldom()
    reports.send({"ready": True})
    await node.stop(await _obey(node, commands, early, reports))
    return 0


async def _until_all_listen(commands: asyncio.StreamReader, early: list[bytes], reports: Reports) -> None:
    """Waits for the command to listen, which all workers get at the same time: the first one would otherwise get all
    the clients that wait for the node's return. What comes before it is left to `_obey`.

    Raises:
        FleetgaugeError: it is to stop, or the parent has ended.
    """
    reports.send({"prepared": True})
    while True:
        line = await commands.readline()
        command = json.loads(line) if line.endswith(b"\n") else {"stop": 0}  # the pipe has ended, and so the parent
        if "stop" in command:
            raise FleetgaugeError("it was stopped before it could listen")
        if "listen" in command:
            return
        early.append(line)


async def _obey(node: FleetgaugeNode, commands: asyncio.StreamReader, early: list[bytes], reports: Reports) -> int:
    """Executes the parent's commands, `early` ones first, until it requests a stop, or has ended.

    Returns:
        How long the stop may take [ms].
    """
    offered: Offers = {}
    off_loop = examiner()
    while True:
        try:
            line = early.pop(0) if early else await commands.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            return _ORPHAN_FINISH_MS
        command: dict[str, Any] = json.loads(line)
        if "stop" in command:
            return int(command["stop"])
        if "offer" in command:
            number = int(command["offer"])
            try:
                problem = await off_loop.run(partial(examine, node.examine, number, command["config"], offered))
            except FleetgaugeError as error:
                problem = str(error)
            reports.send({"offer": number, "problem": problem})
        elif (taken := offered.pop(command.get("take", 0), None)) is not None:
            _apply(node, *taken)


def examine(read: Callable[[ServiceConfig], Changes], number: int, values: dict[str, Any], offered: Offers) -> str:
    """Keeps a configuration that may be applied; returns what is wrong with it in one sentence, or an empty text."""
    offered.clear()
    try:
        config = ServiceConfig.model_validate(values)
        offered[number] = (config, read(config))
    except (FleetgaugeError, ValueError) as error:
        return str(error)
    return ""


def _apply(node: FleetgaugeNode, config: ServiceConfig, changes: Changes) -> None:
    try:
        node.apply(changes)
    except FleetgaugeError as error:
        log.error(
            "config.refused", message="the configuration was rejected; the old one stays in force", error=str(error)
        )
    else:
        configure_logging(config.logging_level, config.logging_format, config.secrets())
        audit.configure(config.audit_settings(), config.secrets())


if __name__ == "__main__":
    main()
