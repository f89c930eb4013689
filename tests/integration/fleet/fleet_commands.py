"""`fleet` commands in one session of their own: a JSON list of arguments a line on stdin, an answer a line on stdout.

An answer is `{"exit_code": ..., "stdout": ..., "stderr": ...}`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.fleet.killed_runs import QUICK_JVM, QUICK_SPARK
from typer.testing import CliRunner


class FleetCommands:
    """The process that answers."""

    def __init__(self, *, options: tuple[str, ...] = ("--master", "local[2]")) -> None:
        self._options = (*options, *QUICK_SPARK)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "integration.fleet.fleet_commands"],
            env={**os.environ, **QUICK_JVM, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()

    def ask(self, command: str, *arguments: str | Path) -> dict[str, Any]:
        """What a command answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps([command, *map(str, arguments), *self._options])
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def _answer_all() -> None:
    from fleetgauge.cli.fleet.app import app

    for line in sys.stdin:
        result = CliRunner().invoke(app, json.loads(line))
        answer = {"exit_code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _answer_all()
