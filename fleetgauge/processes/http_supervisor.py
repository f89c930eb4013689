"""The listener process's side of the HTTP port: binds it, and keeps the process running that serves it.

The sockets are this process's: a port that is taken is known at the start, and while the other process is started
again, connections wait in the backlog.
"""

import asyncio
import importlib.util
import json
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import structlog

from base.clock import Time
from fleetgauge.config import Endpoint, ServiceConfig
from fleetgauge.errors import ConfigError
from fleetgauge.processes.restart_delay import RestartDelay

log = structlog.get_logger(__name__)

_KEY: Final = "http.listeners"
_NEEDED: Final = "prometheus_client"
_BACKLOG: Final = 64
_STOP_WITHIN_S: Final = 3.0


class HttpPort:
    """The HTTP port of a node.

    Where `http.listeners` is not configured, what keeps the default address from being served (the extra is missing, or
    another node has the port) is said, and the node serves its clients all the same.

    Args:
        config: the checked configuration.
        node_socket: where the node answers questions.
        time: the clocks.

    Attributes:
        addresses: where it listens, for example `http://127.0.0.1:9465`.
        off: why it is not served, in one sentence; empty where it is.
        restarts: how often the process died and was started again.
    """

    def __init__(self, config: ServiceConfig, node_socket: Path, time: Time) -> None:
        self._config = config
        self._node_socket = node_socket
        self._time = time
        self._is_asked_for = "http_listeners" in config.model_fields_set
        self._sockets: list[socket.socket] = []
        self._process: asyncio.subprocess.Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._stopping = False
        self.addresses: tuple[str, ...] = ()
        self.off = ""
        self.restarts = 0

    def status(self) -> dict[str, Any]:
        """For `fleetgauge status`; plain values."""
        process = self._process
        pid = process.pid if process is not None and process.returncode is None else None
        return {"listeners": list(self.addresses), "off": self.off, "pid": pid, "restarts": self.restarts}

    def bind(self) -> None:
        """Binds the sockets.

        Raises:
            ConfigError: `http.listeners` is configured, and cannot be served.
        """
        try:
            self._bind()
        except ConfigError as error:
            self._close_sockets()
            if self._is_asked_for:
                raise
            self.off = error.problem
            log.warning("the HTTP port is not served", problem=error.problem)

    async def start(self) -> None:
        """Starts the process, if there is anything to serve, and watches over it."""
        if self._sockets:
            await self._spawn()
            self._watch = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        """Ends the process, and lets the port go."""
        self._stopping = True
        process, watch = self._process, self._watch
        if process is not None and process.returncode is None and process.stdin is not None:
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), _STOP_WITHIN_S)
            except TimeoutError:
                process.kill()
        if watch is not None:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch
        self._close_sockets()

    def _bind(self) -> None:
        endpoints = self._config.http_listeners
        if not endpoints:
            self.off = "http.listeners is empty"
            return
        if importlib.util.find_spec(_NEEDED) is None:
            raise ConfigError(
                _KEY, "needs the extra http: pip install 'fleetgauge[http]'; or set http.listeners to an empty text"
            )
        for endpoint in endpoints:
            self._sockets.append(_bound(endpoint))
        ports = [each.getsockname()[1] for each in self._sockets]
        self.addresses = tuple(
            str(Endpoint(endpoint.listener_name, endpoint.host, port))
            for endpoint, port in zip(endpoints, ports, strict=True)
        )

    async def _spawn(self) -> None:
        descriptors = [each.fileno() for each in self._sockets]
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "fleetgauge.processes.http_process",
            stdin=asyncio.subprocess.PIPE,
            pass_fds=descriptors,
        )
        job = {
            "sockets": descriptors,
            "node": str(self._node_socket),
            "level": self._config.logging_level,
            "format": self._config.logging_format,
        }
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # it died meanwhile, which `_keep_running` sees
            self._process.stdin.write(json.dumps(job).encode() + b"\n")

    async def _keep_running(self) -> None:
        delay = RestartDelay()
        while True:
            assert self._process is not None
            started_ms = self._time.hi_res_clock_ms()
            code = await self._process.wait()
            if self._stopping:
                return
            delay_s = delay.next_s(self._time.hi_res_clock_ms() - started_ms)
            self.restarts += 1
            log.error("the HTTP process ended and is started again", exit_code=code, in_s=delay_s)
            await asyncio.sleep(delay_s)
            try:
                await self._spawn()
            except OSError as error:  # no more processes, or no memory: the old one is found ended again
                log.error("the HTTP process cannot be started", problem=str(error))

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def _bound(endpoint: Endpoint) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the address cannot be bound.
    """
    try:
        if not endpoint.host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", endpoint.port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
            )
        found = socket.getaddrinfo(endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM)
        return socket.create_server(found[0][4][:2], family=found[0][0], backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            _KEY, f"{endpoint} cannot be bound: {reason}; name another address, or leave http.listeners empty"
        ) from error
