"""A real Prometheus Alertmanager on loopback, built once with Go from its pinned release.

`PYTHONPATH=tests python -m support.receivers.alertmanager` builds it.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from support.brokers.kafka_broker import with_the_test_run
from support.built import BUILD_WITHIN_S, built
from support.ports import free_ports
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

VERSION = "v0.27.0"
_MODULE = "github.com/prometheus/alertmanager/cmd/alertmanager"


def missing_tools() -> str:
    """Why there is no Alertmanager here; empty if there can be one."""
    return "" if shutil.which("go") else "a real Alertmanager is built with Go, which is not installed"


def alertmanager_program() -> Path:
    """The program; fetched and built the first time, which takes a minute or two."""

    def install(target: Path) -> None:
        environment = {**os.environ, "GOFLAGS": "-buildvcs=false", "GOWORK": "off", "GOBIN": str(target)}
        command = ["go", "install", "-trimpath", "-ldflags=-s -w", f"{_MODULE}@{VERSION}"]
        subprocess.run(command, env=environment, check=True, timeout=BUILD_WITHIN_S)

    return built(f"alertmanager-{VERSION}", install, VERSION) / "alertmanager"


class Alertmanager:
    """Runs in a directory, on a port of its own, and notifies nobody."""

    def __init__(self, directory: Path) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        self.log = directory / "alertmanager.log"
        config = directory / "alertmanager.yml"
        config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *with_the_test_run(),
                    str(alertmanager_program()),
                    f"--config.file={config}",
                    f"--storage.path={directory / 'alertmanager'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                    "--cluster.listen-address=",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        follow(self.log)

    def __enter__(self) -> Self:
        try:
            wait_for(self._is_ready, "an Alertmanager that is ready", ignoring=(OSError,))
        except BaseException:
            self.__exit__()
            raise
        return self

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with urlopen(f"{self.url}/-/ready", timeout=PATIENCE_S):
            return True

    def __exit__(self, *_: object) -> None:
        unfollow(self.log)
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def active(self) -> list[dict[str, Any]]:
        """The alerts that it takes for open, by its own API."""
        with urlopen(f"{self.url}/api/v2/alerts?active=true", timeout=PATIENCE_S) as response:
            found: list[dict[str, Any]] = json.load(response)
        return found


if __name__ == "__main__":
    print(alertmanager_program())
