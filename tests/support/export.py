"""`fleetgauge export` as an operator runs it: a process of its own that reads the push log's topic."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

WITHIN_S = 120.0


class Export:
    """One `fleetgauge export`. Its output goes to `<directory>/export-<number>.log`."""

    def __init__(self, directory: Path, config: Path, *overrides: str, number: int = 0) -> None:
        self.data = directory / "export-data"
        self.number = number
        self.log = directory / f"export-{number}.log"
        arguments = [part for override in (f"log.dirs={self.data}", *overrides) for part in ("--override", override)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fleetgauge", "export", "--config", str(config), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def status(self) -> dict[str, Any]:
        """What it says of itself; raises ValueError while it says nothing."""
        from fleetgauge.admin.node_socket import NotRunningError, read_status
        from fleetgauge.data_dir import DataDirectory

        try:
            return read_status(DataDirectory(self.data).export_socket(self.number))
        except NotRunningError as error:
            raise ValueError(str(error)) from error

    def exporter(self, name: str) -> dict[str, Any]:
        """What it says of one exporter."""
        state: dict[str, Any] = self.status()["exporter_process"]["exporters"].get(name)
        if not state:
            raise ValueError(f"nothing is known of {name} yet")
        return state

    def wait_for(self, name: str, condition: Callable[[dict[str, Any]], bool], *, within_s: float = WITHIN_S) -> None:
        """Polls the status of exporter `name` until `condition` is true of it."""
        deadline = time.monotonic() + within_s
        state: dict[str, Any] = {}
        while time.monotonic() < deadline:
            with contextlib.suppress(ValueError):
                state = self.exporter(name)
                if condition(state):
                    return
            time.sleep(0.1)
        raise AssertionError(f"waited in vain: {json.dumps(state, indent=1)}\n{self.output()}")

    def kill_exporter(self) -> None:
        """SIGKILL to the process that delivers."""
        os.kill(int(self.status()["exporter_process"]["pid"]), signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL to both processes, as when the machine goes."""
        pid = int(self.status()["exporter_process"]["pid"])
        self.process.kill()
        os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, within_s: float = 120.0) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def output(self) -> str:
        """What it printed and logged so far."""
        return self.log.read_text(errors="replace")
