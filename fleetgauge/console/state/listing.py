"""Client data that only a node has, requested at its control socket for at most 1/50 of the time."""

import threading
from pathlib import Path
from typing import Final

from fleetgauge.base.clock import Time
from fleetgauge.node.status.node_socket import NotRunningError, ask
from fleetgauge.telemetry.instances.inventory import ClientRow

_EVERY_MS: Final = 5_000
_REST: Final = 49
"""Rest after a listing, as a multiple of its duration."""


class NodeListing:
    """Lists a node's clients in a thread of its own.

    Args:
        path: the node's control socket.
        clients_max: most rows that are kept.
        time: the clocks.

    Attributes:
        problem: why there is no listing now, in one sentence; None where there is one.
    """

    def __init__(self, path: Path, clients_max: int, time: Time) -> None:
        self._path = path
        self._clients_max = clients_max
        self._time = time
        self._lock = threading.Lock()
        self._listing: tuple[list[ClientRow], int] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="console-node", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread with the listing under way."""
        self._stopping.set()

    def take(self) -> tuple[list[ClientRow], int] | None:
        """A new listing and the time of its request [us]; None if there is none since the last call."""
        with self._lock:
            listing, self._listing = self._listing, None
        return listing

    def _run(self) -> None:
        while True:
            began_ms = self._time.hi_res_clock_ms()
            self._list()
            took_ms = self._time.hi_res_clock_ms() - began_ms
            if self._stopping.wait(max(_EVERY_MS, _REST * took_ms) / 1_000):
                return

    def _list(self) -> None:
        at_us = self._time.microseconds()
        rows: list[ClientRow] = []
        try:
            for answer in ask(self._path, {"ask": "clients"}):
                if self._stopping.is_set():
                    return
                rows += (ClientRow._make(row) for row in answer.get("rows", ()))
                del rows[self._clients_max :]
        except (NotRunningError, ValueError, TypeError) as error:
            self.problem = f"States, errors and subscriptions of the node are not available: {error}."
            return
        self.problem = None
        with self._lock:
            self._listing = rows, at_us
