"""The HTTP process: `python -m fleetgauge.node.processes.http_process`; with the console it is
`python -m fleetgauge.console.process`, which runs this with more pages.

A process and not a thread: a request for twenty thousand clients would have the listener wait for Python's lock, for
milliseconds each time. It reads one line from standard input (see `job_line`: the descriptors of its sockets, and the
path of the node's control socket), leaves signals to its parent, and ends when standard input does.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from fleetgauge.base.principal import ANONYMOUS, KafkaPrincipal
from fleetgauge.http.access import Access
from fleetgauge.http.connection import HttpSettings
from fleetgauge.http.server import HttpServer
from fleetgauge.node import audit
from fleetgauge.node.logs import configure_logging
from fleetgauge.node.processes.job_line import from_line
from fleetgauge.node.processes.parent_pipe import ignore_signals
from fleetgauge.node.status.routes import EXCEPTION_HANDLERS, OPEN_PATHS, Routes

_NICENESS: Final = 10
"""Clients wait for the listener: where cores are short, it runs first."""
_FINISH_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Pages of an HTTP process.

    Attributes:
        app: makes the responses.
        settings: the bounds.
        close: called at the end.
    """

    app: ASGIApp
    settings: HttpSettings
    close: Callable[[], None] = lambda: None


Job = dict[str, Any]


def main(make_site: Callable[[Job], Site]) -> None:
    """Runs the process until its parent closes the pipe."""
    ignore_signals()
    line = sys.stdin.readline()
    if line:
        job: Job = from_line(line)
        configure_logging(job["level"], job["format"], job["secrets"])
        audit.configure(job["audit"], job["secrets"])
        structlog.contextvars.bind_contextvars(process="http")
        os.nice(_NICENESS)
        asyncio.run(_run(job, make_site))


async def _run(job: Job, make_site: Callable[[Job], Site]) -> None:
    sockets = [(socket.socket(fileno=number), is_secure) for number, is_secure in job["sockets"]]
    access = Access(job["access"], audited)
    site = make_site(job)
    server = HttpServer(sockets, site.app, site.settings, access)
    await server.start()
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)  # nothing but its end comes behind the first line
    await ended.wait()
    loop.remove_reader(sys.stdin.fileno())
    await server.stop(_FINISH_S)
    site.close()


def audited(user: str, address: str, failure: str) -> None:
    """Records a log-in at the HTTP port; `failure` is empty for one that succeeded."""
    principal = KafkaPrincipal("User", user) if user else ANONYMOUS
    if failure:
        audit.record("login.failed", principal, address, api="HTTP", reason=failure)
    else:
        audit.record("login.succeeded", principal, address, api="HTTP")


def node_site(job: Job) -> Site:
    """The node's endpoints alone."""
    routes = Routes(job["node"])
    served = [*routes.routes(), Route("/", routes.index)]
    return Site(
        app=Starlette(routes=served, exception_handlers=EXCEPTION_HANDLERS),
        settings=HttpSettings(open_paths=OPEN_PATHS),
    )


if __name__ == "__main__":
    main(node_site)
