"""Idle connections held by a process of their own: open files are limited by process."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Self

from support.clients.abuse import connections
from support.waiting import PATIENCE_S

TESTS = Path(__file__).parents[2]


class Crowd:
    """Opens so many connections to a port on loopback, and closes them at the end of the block."""

    def __init__(self, port: int, count: int) -> None:
        self._command = [sys.executable, "-m", "integration.abuse.crowd", str(port), str(count)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(TESTS)}
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=PATIENCE_S)

    def is_there(self) -> bool:
        """True while every connection is held."""
        return self._process.poll() is None


def main(port: int, count: int) -> None:
    """The process: holds the connections until its input ends."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with connections(port, count):
        sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
