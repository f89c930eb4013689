"""A node as an operator runs it: `fleetgauge serve` as its own process, on a port of the system's choice."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

READY_WITHIN_S = 180.0
PATIENCE = ("push.log.min.free.bytes=0", "shutdown.timeout.ms=60000", "http.listeners=")
"""Tests run on small, busy machines: a stop may take its time, and a full disk or the HTTP port are other tests'
subjects."""


class Node:
    """One `fleetgauge serve`; may be stopped and started again on the same data directory.

    Its output goes to `<directory>/serve.log`, which a failing test prints. `modules` is where its packages lie,
    if they are others than this test run's; `before` are words before its command, `command` is another
    one in place of `serve`. `port` is where it listens first: one of `support.ports` where it is started there again.
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
        self._overrides = ("log.dirs=" + str(self.data), *PATIENCE, *overrides)
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
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, f"the node ended: {self.output()}"
            with contextlib.suppress(subprocess.CalledProcessError, ValueError):
                status = self.status()
                if status["node"]["pid"] == self.process.pid:
                    self.port = int(status["node"]["listeners"][0].rsplit(":", 1)[1])
                    return
            time.sleep(0.05)
        raise AssertionError(f"the node was not ready in time: {self.output()}")

    def status(self) -> dict[str, Any]:
        """What the running node says of itself, read from its socket in this process."""
        from fleetgauge.admin.node_socket import NotRunningError, read_status
        from fleetgauge.data_dir import DataDirectory

        try:
            return read_status(DataDirectory(self.data).node_socket)
        except NotRunningError as error:
            raise ValueError(str(error)) from error

    def port_of(self, listener: str) -> int:
        """The port that a listener of that name got."""
        found = dict(entry.split("://") for entry in self.status()["node"]["listeners"])
        return int(found[listener].rsplit(":", 1)[1])

    def wait_for(self, condition: Any, *, within_s: float = 120.0, what: str = "") -> dict[str, Any]:
        """Polls the status until `condition(status)` is true; what it lacks, an exporter for instance, may come yet."""
        deadline = time.monotonic() + within_s
        status: dict[str, Any] = {}
        while time.monotonic() < deadline:
            with contextlib.suppress(ValueError, KeyError):
                status = self.status()
                if condition(status):
                    return status
            time.sleep(0.05)
        raise AssertionError(f"waited in vain for {what or condition}: {json.dumps(status, indent=1)}\n{self.output()}")

    def exporter_pid(self) -> int:
        """Process id of the running exporter process."""
        return int(self.wait_for(lambda s: s["exporter_process"]["pid"] is not None)["exporter_process"]["pid"])

    def reread(self, config: str, *, within_s: float = 90.0) -> None:
        """Has the running node take another configuration over, and waits until it has."""
        assert self.process is not None
        rereads = self.log.read_text().count("config.reread")
        self.config_file.write_text(config)
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + within_s
        while self.log.read_text().count("config.reread") == rereads:
            assert time.monotonic() < deadline, f"the node does not reread its file: {self.output()}"
            time.sleep(0.05)

    def audited(self, *, within_s: float = 60.0, **wanted: Any) -> list[dict[str, Any]]:
        """The lines of the audit log with these values; waits for the first, and returns none after `within_s`."""
        deadline = time.monotonic() + within_s
        while True:
            lines = [json.loads(line) for line in (self.data / "audit.log").read_bytes().splitlines()]
            found = [line for line in lines if wanted.items() <= line.items()]
            if found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def stop(self, within_s: float = 90.0) -> int:
        """SIGTERM, and the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def kill_exporter(self) -> int:
        """SIGKILL to the exporter process; returns its id."""
        pid = self.exporter_pid()
        os.kill(pid, signal.SIGKILL)
        return pid

    def output(self) -> str:
        """What the node printed and logged so far."""
        return self.log.read_text(errors="replace")[-8000:]


def run_cli(*arguments: str, check: bool = True, timeout_s: float = 240.0) -> subprocess.CompletedProcess[str]:
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
        timeout=180,
        check=True,
    ).stdout
