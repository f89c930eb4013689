"""The processes of the demo: a node and an OTLP receiver."""

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.base.module_command import module_command
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.status.node_socket import NotRunningError, read_status

_READY_WITHIN_MS = 30_000
_STOPPED_WITHIN_S = 30.0

SHUTDOWN_TIMEOUT_MS = 60_000
"""The exporters run at a low priority: on a busy machine they may need more than the default for their backlog [ms]."""


class DemoError(FleetgaugeError):
    """A part of the demo failed; the text names it."""


class OtlpReceiver:
    """The gRPC server of `testkit.otlp_receiver`, in a process of its own."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            module_command("fleetgauge.testkit.otlp_receiver"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def finish(self) -> dict[str, Any]:
        """Stops the server; returns the number of exports, and labels and points by client instance id."""
        output, _ = self._process.communicate(timeout=_STOPPED_WITHIN_S)
        summary: dict[str, Any] = json.loads(output)
        return summary

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()


class ServedNode:
    """`fleetgauge serve` in a process of its own; its log goes to a file.

    Args:
        config: the TOML file.
        log_dirs: the data directory that `config` names.
        log_file: takes its output.
        time: the clocks.

    Raises:
        DemoError: it did not come up.
    """

    def __init__(self, config: Path, log_dirs: Path, log_file: Path, time: Time) -> None:
        self._socket = DataDirectory(log_dirs).node_socket
        self._log_file = log_file
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [*module_command("fleetgauge"), "serve", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.bootstrap = self._wait_until_ready(time).removeprefix("PLAINTEXT://")

    def status(self) -> dict[str, Any]:
        """The status of the node."""
        return read_status(self._socket)

    def stop(self) -> None:
        """Sends SIGTERM, and waits until the exporters have delivered all pushes.

        Raises:
            DemoError: its exit code is not 0.
        """
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(SHUTDOWN_TIMEOUT_MS / 1000 + _STOPPED_WITHIN_S)
        if code != 0:
            raise DemoError(f"fleetgauge serve ended with exit code {code}: see {self._log_file}")

    def kill(self) -> None:
        """Kills the process."""
        self._process.kill()

    def _wait_until_ready(self, time: Time) -> str:
        deadline_ms = time.hi_res_clock_ms() + _READY_WITHIN_MS
        pause = threading.Event()
        while time.hi_res_clock_ms() < deadline_ms and self._process.poll() is None:
            try:
                listening: list[str] = read_status(self._socket)["node"]["listeners"]
                return listening[0]
            except NotRunningError:
                pause.wait(0.05)
        self.kill()
        raise DemoError(f"fleetgauge serve did not come up: see {self._log_file}")
