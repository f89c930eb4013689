"""`fleetgauge console`: the console without a node or export beside it, until SIGTERM or SIGINT."""

import asyncio
import importlib.util
import signal
import socket
from typing import Annotated, Final

import typer
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.cli.options import ConfigOptions
from fleetgauge.http.access import Access, check_access
from fleetgauge.http.errors import Json
from fleetgauge.http.server import HttpServer
from fleetgauge.node.config import ConfigError, Endpoint, ServiceConfig
from fleetgauge.node.config.console import console_job, operator_token
from fleetgauge.node.config.listeners import HTTPS
from fleetgauge.node.logs import configure_logging
from fleetgauge.node.processes.http_supervisor import bound_socket

_FINISH_S: Final = 1.0
_NEEDED: Final = ("numpy", "prometheus_client")
"""Modules that the extra installs."""
_INDEX: Final = {"endpoints": {"/healthz": "200 while the process answers", "/openapi.json": "the API of the console"}}


def console(
    options: ConfigOptions,
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server", help="host:port,... of the cluster with the topic; sets push.log.type=kafka."
        ),
    ] = None,
) -> None:
    """Serve the console alone: a page that shows the clients of a push log or topic, their measures and verdicts.

    It reads the push log in log.dirs, or with push.log.type=kafka all partitions of the topic, and changes nothing
    there: it joins no consumer group. fleetgauge serve and export serve the same page themselves, at http.listeners.

    It listens at http.listeners; without that key at http://127.0.0.1:9465, or at a free port if that one is taken.
    """
    for name in _NEEDED:
        if importlib.util.find_spec(name) is None:
            raise FleetgaugeError(f"the console needs {name}: pip install 'fleetgauge[console]'")
    topic = ("push.log.type=kafka", f"push.log.kafka.bootstrap.servers={bootstrap_server}")
    read = options.read(*(() if bootstrap_server is None else topic))
    configure_logging(read.logging_level, read.logging_format, read.secrets(("push.log.kafka.client",)))
    job = console_job(read, "console")
    check_access(read.http_access(operator_token(read)))
    if not read.http_listeners:
        raise ConfigError("http.listeners", "is empty, and the page needs an address")
    if read.push_log == "sqlite" and not read.log_dirs.is_dir():
        raise ConfigError(
            "log.dirs",
            f"there is no data directory {read.log_dirs.absolute()}; name one, or a topic with --bootstrap-server",
        )
    asyncio.run(_serve(read, job))


async def _serve(config: ServiceConfig, job: dict[str, object]) -> None:
    from fleetgauge.console.process import site  # needs the extra

    sockets = _bound(config)
    served = site(job, None, [Route("/healthz", _healthz)], _INDEX)
    access = Access(config.http_access(operator_token(config)))
    secure = [each.listener_name == HTTPS for each in config.http_listeners]
    server = HttpServer(list(zip(sockets, secure, strict=True)), served.app, served.settings, access)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await server.start()
    urls = [
        str(Endpoint(each.listener_name, each.host, bound.getsockname()[1]))
        for each, bound in zip(config.http_listeners, sockets, strict=True)
    ]
    typer.echo(f"The console is at {', '.join(urls)} ({_what(config)}); Ctrl-C stops it.")
    await stop.wait()
    await server.stop(_FINISH_S)
    served.close()


async def _healthz(_: Request) -> Response:
    return Json({"status": "ok"})


def _bound(config: ServiceConfig) -> list[socket.socket]:
    try:
        return [bound_socket(each) for each in config.http_listeners]
    except ConfigError:
        if "http_listeners" in config.model_fields_set:
            raise
        return [bound_socket(Endpoint(each.listener_name, each.host, 0)) for each in config.http_listeners]


def _what(config: ServiceConfig) -> str:
    if config.push_log == "kafka":
        return f"topic {config.push_log_kafka_topic} at {','.join(config.push_log_kafka_bootstrap_servers)}"
    return f"push log in {config.log_dirs}"
