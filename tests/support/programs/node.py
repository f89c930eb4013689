"""A node as an operator runs it: `fleetgauge serve` as its own process, on a port of the system's choice."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from support.waiting import PATIENCE_S, follow, ticking, unfollow, wait_for

LENIENT = ("push.log.min.free.bytes=0", "shutdown.timeout.ms=60000", "http.listeners=")
"""Tests run on small, busy machines: a stop may take its time, and a full disk or the HTTP port are other tests'
subjects."""


class Node:
    """One `fleetgauge serve`; may be stopped and started again on the same data directory.

    Its output goes to `<directory>/serve.log`, whose end a wait in vain prints while the node should run. `modules` is
    where its packages lie, if they are others than this test run's; `before` are words before its command, `command` is
    another one in place of `serve`. `port` is where it listens first: one of `support.ports` where it is started there
    again.
    """

    def __init__(
        self,
        directory: Path,
        *overrides: str,
        config: str = "",
        modules: Path | None = None,
        before: Sequence[str] = (),
        command: str = "serve",
        port: int = 0,
    ) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "serve.log"
        self.config_file = directory / "fleetgauge.toml"
        self.config_file.write_text(config)
        self._modules = modules
        self._before = tuple(before)
        self._command = command
        self._first_port = port
        self._overrides = ("log.dirs=" + str(self.data), *LENIENT, *overrides)
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        try:
            self.start(self._first_port)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self, port: int = 0) -> None:
        """Starts the node and waits until it serves."""
        overrides = [f"listeners=PLAINTEXT://127.0.0.1:{port}", *self._overrides]
        arguments = [part for override in overrides for part in ("--override", override)]
        command = [sys.executable, "-m", "fleetgauge", self._command, "--config", str(self.config_file)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._before, *command, *arguments],
                cwd=self._modules,
                env=os.environ if self._modules is None else {**os.environ, "PYTHONPATH": str(self._modules)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        follow(self.log)
        status = wait_for(self._status_of_this_start, "the node to serve", until=bool, ignoring=(ValueError,))
        self.port = int(status["node"]["listeners"][0].rsplit(":", 1)[1])

    def _status_of_this_start(self) -> dict[str, Any]:
        """Empty while the socket is that of an earlier start."""
        assert self.process is not None
        assert self.process.poll() is None, f"the node ended: {self.output()}"
        status = self.status()
        return status if status["node"]["pid"] == self.process.pid else {}

    def status(self) -> dict[str, Any]:
        """What the running node says of itself, read from its socket in this process."""
        from fleetgauge.node.data_dir import DataDirectory
        from fleetgauge.node.status.node_socket import NotRunningError, read_status

        try:
            return read_status(DataDirectory(self.data).node_socket)
        except NotRunningError as error:
            raise ValueError(str(error)) from error

    def port_of(self, listener: str) -> int:
        """The port that a listener of that name got."""
        found = dict(entry.split("://") for entry in self.status()["node"]["listeners"])
        return int(found[listener].rsplit(":", 1)[1])

    def wait_for(
        self, condition: Callable[[dict[str, Any]], object], *, within_s: float = 0.0, what: str = "the awaited status"
    ) -> dict[str, Any]:
        """Waits until `condition(status)` is true; what it lacks, an exporter for instance, may come yet.

        Args:
            condition: of the status.
            within_s: how long the node or its clients may take by themselves [s], where that is more than the patience.
            what: what is waited for.
        """
        not_yet = (ValueError, KeyError)
        for _ in ticking(within_s - PATIENCE_S):
            with contextlib.suppress(*not_yet):
                status = self.status()
                if condition(status):
                    return status
        return wait_for(self.status, what or "the awaited status", until=condition, ignoring=not_yet)

    def exporter_pid(self) -> int:
        """Process id of the running exporter process."""
        status = self.wait_for(lambda s: s["exporter_process"]["pid"] is not None, what="an exporter process")
        return int(status["exporter_process"]["pid"])

    def reread(self, config: str) -> None:
        """Has the running node take another configuration over, and waits until it has."""
        assert self.process is not None
        rereads = self._rereads()
        self.config_file.write_text(config)
        self.process.send_signal(signal.SIGHUP)
        wait_for(self._rereads, "the node to reread its configuration", until=lambda count: count > rereads)

    def _rereads(self) -> int:
        return self.log.read_text().count("config.reread")

    def audited(self, **wanted: Any) -> list[dict[str, Any]]:
        """The lines of the audit log with these values; waits for the first."""

        def found() -> list[dict[str, Any]]:
            lines = [json.loads(line) for line in (self.data / "audit.log").read_bytes().splitlines()]
            return [line for line in lines if wanted.items() <= line.items()]

        return wait_for(found, f"a line of the audit log with {wanted}", ignoring=(FileNotFoundError, ValueError))

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Waits for the node's end, and returns the exit code."""
        assert self.process is not None
        wait_for(self.process.poll, "the node to end", until=lambda code: code is not None)
        unfollow(self.log)
        return self.process.wait()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        unfollow(self.log)

    def kill_exporter(self) -> int:
        """SIGKILL to the exporter process; returns its id."""
        pid = self.exporter_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def output(self) -> str:
        """What the node printed and logged so far."""
        return self.log.read_text(errors="replace")[-8000:]


def run_cli(*arguments: str, check: bool = True, timeout_s: float = 2 * PATIENCE_S) -> subprocess.CompletedProcess[str]:
    """Runs one `fleetgauge` command as an operator would."""
    return subprocess.run(
        [sys.executable, "-m", "fleetgauge", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=check,
        env={**os.environ, "COLUMNS": "200"},
    )


def credential_lines(user: str, password: str, *options: str) -> str:
    """The lines of a SASL user that `fleetgauge credentials` prints and an operator pastes into the configuration."""
    return subprocess.run(
        [sys.executable, "-m", "fleetgauge", "credentials", user, *options],
        input=password + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    ).stdout
