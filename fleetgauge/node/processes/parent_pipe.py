"""A child process's side of the pipes to its parent; see `child_process` for the parent's."""

import json
import os
import signal
import sys
from contextlib import suppress
from typing import Any


def ignore_signals() -> None:
    """Leaves signals to the parent: a terminal sends them to the whole process group."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


class Reports:
    """Sends reports to the parent, one JSON object a line.

    Takes standard output for itself alone: what a plugin prints goes to standard error, where the log goes.
    """

    def __init__(self) -> None:
        sys.stdout.flush()
        self._out = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(self, report: dict[str, Any]) -> None:
        """Sends one report; does nothing if the parent has ended, which standard input shows, too."""
        with suppress(OSError):
            self._out.write(json.dumps(report) + "\n")
            self._out.flush()
