"""The HTTP process: `python -m fleetgauge.processes.http_process`, started by `http_supervisor`.

A process and not a thread: a request for twenty thousand clients would have the listener wait for Python's lock, for
milliseconds each time. It reads one line of JSON from standard input (the descriptors of its sockets, and the path of
the node's control socket), leaves signals to its parent, and ends when standard input does.
"""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any, Final

import structlog
from starlette.applications import Starlette
from starlette.routing import Route

from exporters.http.connection import HttpSettings
from exporters.http.server import HttpServer
from fleetgauge.admin.routes import EXCEPTION_HANDLERS, Routes
from fleetgauge.logs import configure_logging
from fleetgauge.processes.parent_pipe import ignore_signals

_NICENESS: Final = 10
"""Clients wait for the listener: where cores are short, it runs first."""
_FINISH_S: Final = 1.0


def main() -> None:
    """Runs the process until its parent closes the pipe."""
    ignore_signals()
    line = sys.stdin.buffer.readline()
    if line:
        job = json.loads(line)
        configure_logging(job["level"], job["format"])
        structlog.contextvars.bind_contextvars(process="http")
        os.nice(_NICENESS)
        asyncio.run(_run(job))


async def _run(job: dict[str, Any]) -> None:
    sockets = [socket.socket(fileno=number) for number in job["sockets"]]
    routes = Routes(Path(job["node"]))
    app = Starlette(routes=[*routes.routes(), Route("/", routes.index)], exception_handlers=EXCEPTION_HANDLERS)
    server = HttpServer(sockets, app, HttpSettings())
    await server.start()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)  # nothing but its end comes behind the first line
    await ended.wait()
    loop.remove_reader(sys.stdin.fileno())
    await server.stop(_FINISH_S)


if __name__ == "__main__":
    main()
