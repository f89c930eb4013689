"""A worker: `python -m fleetgauge.processes.workers.process`, one of several listener processes of a node.

It is a node without exporters and without an HTTP port, in a directory of its own below the data directory. Commands
come as lines of JSON on standard input, `Job` first; it answers with lines of JSON on standard output. It leaves
signals to its parent. The end of the pipe says that the parent is gone: it answers what it has read, and ends.
"""

import asyncio
import json
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, Final

import structlog
import uvloop
from pydantic import BaseModel

from base.errors import FleetgaugeError
from fleetgauge.app import EXAMINE_WITHIN_S, Changes, FleetgaugeNode
from fleetgauge.config import ServiceConfig
from fleetgauge.garbage import collect_seldom
from fleetgauge.logs import configure_logging, flush_logs
from fleetgauge.off_loop import OffLoop
from fleetgauge.processes.child_output import own_output
from fleetgauge.processes.workers.predecessors import FINISH_MS

log = structlog.get_logger(__name__)

LINE_LIMIT: Final = 64 << 20
"""Of one command; a configuration may hold thousands of users and subscriptions [B]."""


class Job(BaseModel):
    """What a worker is.

    Attributes:
        number: which of the node's workers, from 1.
        config: its configuration, as `fleetgauge.processes.workers.shares` makes it.
    """

    number: int
    config: ServiceConfig


def main() -> None:
    """Runs the process; exit code 0 after a stop, 1 where it cannot do its job."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_run(_Say(own_output())))
    flush_logs()
    sys.exit(code)


async def _run(say: "_Say") -> int:
    commands = asyncio.StreamReader(limit=LINE_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    line = await commands.readline()
    if not line:
        return 0
    job = Job.model_validate_json(line)
    configure_logging(job.config.logging_level, job.config.logging_format, job.config.secrets())
    structlog.contextvars.bind_contextvars(worker=job.number)
    node = FleetgaugeNode(job.config)
    early: list[bytes] = []
    try:
        await node.start(lambda: _until_all_listen(commands, early, say))
    except FleetgaugeError as error:
        say({"problem": str(error)})
        return 1
    collect_seldom()
    say({"ready": True})
    await node.stop(await _obey(node, commands, early, say))
    return 0


async def _until_all_listen(commands: asyncio.StreamReader, early: list[bytes], say: "_Say") -> None:
    """Waits for the word to listen, which all workers get at the same time: the first one would otherwise get all the
    clients that wait for the node's return. What comes before it is left to `_obey`.

    Raises:
        FleetgaugeError: it is to stop, or the parent is gone.
    """
    say({"prepared": True})
    while True:
        line = await commands.readline()
        command = json.loads(line) if line.endswith(b"\n") else {"stop": 0}  # the end of the pipe: the parent is gone
        if "stop" in command:
            raise FleetgaugeError("it was stopped before it could listen")
        if "listen" in command:
            return
        early.append(line)


async def _obey(node: FleetgaugeNode, commands: asyncio.StreamReader, early: list[bytes], say: "_Say") -> int:
    """Does what the parent says, what came `early` first, until it says to stop, or is gone.

    Returns:
        How long the stop may take [ms].
    """
    offered: dict[int, tuple[ServiceConfig, Changes]] = {}
    examining = OffLoop("examining the configuration", EXAMINE_WITHIN_S)
    while True:
        try:
            line = early.pop(0) if early else await commands.readline()
        except OSError:
            line = b""
        if not line.endswith(b"\n"):
            return FINISH_MS
        command: dict[str, Any] = json.loads(line)
        if "stop" in command:
            return int(command["stop"])
        if "offer" in command:
            number = int(command["offer"])
            say({"offer": number, "problem": await _examined(examining, node, number, command["config"], offered)})
        elif (taken := offered.pop(command.get("take", 0), None)) is not None:
            config, changes = taken
            try:
                node.take_over(changes)
            except FleetgaugeError as error:
                log.error("the configuration was refused, and the old one stays in force", problem=str(error))
            else:
                configure_logging(config.logging_level, config.logging_format, config.secrets())


async def _examined(
    examining: OffLoop,
    node: FleetgaugeNode,
    number: int,
    values: dict[str, Any],
    offered: dict[int, tuple[ServiceConfig, Changes]],
) -> str:
    """See `examine`; away from the loop, where pushes wait."""
    try:
        return await examining.run(lambda: examine(node.examine, number, values, offered))
    except FleetgaugeError as error:
        return str(error)


def examine(
    read: Callable[[ServiceConfig], Changes],
    number: int,
    values: dict[str, Any],
    offered: dict[int, tuple[ServiceConfig, Changes]],
) -> str:
    """Keeps a configuration that may be taken over; what is wrong with it in one sentence, or nothing."""
    offered.clear()
    try:
        config = ServiceConfig.model_validate(values)
        offered[number] = (config, read(config))
    except (FleetgaugeError, ValueError) as error:
        return str(error)
    return ""


class _Say:
    """Tells the parent something."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out

    def __call__(self, words: dict[str, Any]) -> None:
        with suppress(OSError):  # the parent is gone: standard input says so too
            self._out.write(json.dumps(words) + "\n")
            self._out.flush()


if __name__ == "__main__":
    main()
