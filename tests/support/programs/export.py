"""`fleetgauge export` as an operator runs it: a process of its own that reads the push log's topic."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from support.waiting import PATIENCE_S, follow, unfollow, wait_for


class Export:
    """One `fleetgauge export`. Its output goes to `<directory>/export-<number>.log`."""

    def __init__(
        self, directory: Path, config: Path, *overrides: str, number: int = 0, python: Path = Path(sys.executable)
    ) -> None:
        self.data = directory / "export-data"
        self.number = number
        self.log = directory / f"export-{number}.log"
        arguments = [part for override in (f"log.dirs={self.data}", *overrides) for part in ("--override", override)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(python), "-P", "-m", "fleetgauge", "export", "--config", str(config), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        follow(self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        unfollow(self.log)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    def status(self) -> dict[str, Any]:
        """What it says of itself; raises ValueError while it says nothing."""
        from fleetgauge.node.data_dir import DataDirectory
        from fleetgauge.node.status.node_socket import NotRunningError, read_status

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

    def wait_for(self, name: str, condition: Callable[[dict[str, Any]], object], what: str) -> dict[str, Any]:
        """The status of exporter `name`, once `condition` is true of it."""

        def state() -> dict[str, Any]:
            assert self.process.poll() is None, f"the export ended: {self.output()[-4_000:]}"
            return self.exporter(name)

        return wait_for(state, what, until=condition, ignoring=(ValueError, KeyError))

    def kill_exporter(self) -> None:
        """SIGKILL to the process that delivers."""
        os.kill(int(self.status()["exporter_process"]["pid"]), signal.SIGKILL)

    def kill(self) -> None:
        """SIGKILL to both processes, as when the machine goes."""
        pid = int(self.status()["exporter_process"]["pid"])
        self.process.kill()
        os.kill(pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        unfollow(self.log)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE_S)
        unfollow(self.log)
        return code

    def output(self) -> str:
        """What it printed and logged so far."""
        return self.log.read_text(errors="replace")
