"""The listener process's side of the HTTP port: binds its sockets, and keeps the process running that serves them.

The sockets belong to this process: a port that is taken is known at the start, and while the other process is
restarted, connections wait in the backlog.
"""

import asyncio
import importlib.util
import socket
from pathlib import Path
from typing import Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import ConfigError
from fleetgauge.base.module_command import module_command
from fleetgauge.http.access import check_access
from fleetgauge.node.config import Endpoint, ServiceConfig
from fleetgauge.node.config.console import console_job, operator_token
from fleetgauge.node.config.listeners import HTTPS
from fleetgauge.node.processes.child_process import ChildProcess
from fleetgauge.node.processes.job_line import to_line

log = structlog.get_logger(__name__)

_KEY: Final = "http.listeners"
_WITH_CONSOLE: Final = "fleetgauge.console.process"
_NEEDED: Final = "prometheus_client"
_BACKLOG: Final = 64
_STOP_WITHIN_MS: Final = 2_000
_AGAIN_S: Final = 1.0
_LONGEST_AGAIN_S: Final = 60.0


class HttpPort(ChildProcess):
    """The HTTP port of a node.

    Where `http.listeners` is not configured, a default address that cannot be served (the extra is missing, or another
    node has the port) is logged, and the node serves its clients all the same; a port is tried again until it is free.

    Args:
        config: the checked configuration.
        node_socket: the control socket of the node, or of the export.
        form: `serve` or `export`.
        time: the clocks.

    Attributes:
        addresses: where it listens, for example `http://127.0.0.1:9465`.
        off: why it is not served, in one sentence; empty where it is.
    """

    def __init__(self, config: ServiceConfig, node_socket: Path, form: str, time: Time) -> None:
        self._config = config
        self._node_socket = node_socket
        self._form = form
        self._sockets: list[socket.socket] = []
        self.addresses: tuple[str, ...] = ()
        self.off = ""
        self._later: asyncio.Task[None] | None = None
        module = _WITH_CONSOLE if config.console_enabled else "fleetgauge.node.processes.http_process"
        super().__init__("http", module_command(module), time)

    def __str__(self) -> str:
        return ", ".join(self.addresses) or f"off: {self.off}"

    def status(self) -> dict[str, Any]:
        """Plain values for `fleetgauge status`."""
        return {"listeners": list(self.addresses), "off": self.off, "pid": self.pid, "restarts": self.restarts}

    def bind(self) -> None:
        """Binds the sockets.

        Raises:
            ConfigError: `http.listeners` is configured, and cannot be served; or the file of users or tokens, or a
                certificate, cannot be used.
        """
        check_access(self._config.http_access(operator_token(self._config)))
        if self._config.console_enabled:
            console_job(self._config, self._form)
        try:
            self._bind()
        except ConfigError as error:
            self._close_sockets()
            if "http_listeners" in self._config.model_fields_set:
                raise
            self.off = error.problem
            log.warning("http.not_served", error=error.problem)

    async def start(self) -> None:
        """Starts the process, now or once a taken port is free, and supervises it."""
        if self._sockets:
            self._pass_fds = [each.fileno() for each in self._sockets]
            await super().start()
        elif self._config.http_listeners and importlib.util.find_spec(_NEEDED) is not None:
            self._later = asyncio.create_task(self._bind_later())

    async def _bind_later(self) -> None:
        delay_s = _AGAIN_S
        while not self._sockets:
            await self._pause(delay_s)
            if self._stop_requested.is_set():
                return
            delay_s = min(2 * delay_s, _LONGEST_AGAIN_S)
            try:
                self._bind()
                await self.start()
            except (ConfigError, OSError) as error:
                self._close_sockets()
                self.addresses, self.off = (), getattr(error, "problem", str(error))
        self.off = ""
        log.info("http.served", listeners=self.addresses)

    async def stop(self, within_ms: int = _STOP_WITHIN_MS) -> None:
        """Stops the process and closes the sockets."""
        self._stop_requested.set()
        if self._later is not None:
            await self._later
        await super().stop(within_ms)
        self._close_sockets()

    def _job(self) -> bytes:
        job = {
            "sockets": [
                (number, each.listener_name == HTTPS)
                for number, each in zip(self._pass_fds, self._config.http_listeners, strict=True)
            ],
            "access": self._config.http_access(operator_token(self._config)),
            "node": self._node_socket,
            "level": self._config.logging_level,
            "format": self._config.logging_format,
            "secrets": self._config.secrets(("push.log.kafka.client",)),
            "audit": self._config.audit_settings(),
            "console": console_job(self._config, self._form) if self._config.console_enabled else None,
        }
        return to_line(job)

    def _request_stop(self) -> None:
        """The end of its standard input ends the HTTP process."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()

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
            self._sockets.append(bound_socket(endpoint))
        ports = [each.getsockname()[1] for each in self._sockets]
        self.addresses = tuple(
            str(Endpoint(endpoint.listener_name, endpoint.host, port))
            for endpoint, port in zip(endpoints, ports, strict=True)
        )

    def _close_sockets(self) -> None:
        for each in self._sockets:
            each.close()
        self._sockets.clear()


def bound_socket(endpoint: Endpoint) -> socket.socket:
    """A listening socket.

    Raises:
        ConfigError: the address cannot be bound.
    """
    try:
        if not endpoint.host and socket.has_dualstack_ipv6():
            return socket.create_server(
                ("", endpoint.port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
            )
        addresses = socket.getaddrinfo(endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM)
        return socket.create_server(addresses[0][4][:2], family=addresses[0][0], backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            _KEY, f"{endpoint} cannot be bound: {reason}; use another address, or leave http.listeners empty"
        ) from error
