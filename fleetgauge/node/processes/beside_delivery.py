"""Work of the exporter process beside delivery: in a thread of its own, whose faults delay no delivery."""

import threading
from abc import ABC, abstractmethod
from typing import Any, Final

from fleetgauge.base.errors import FleetgaugeError

_AGAIN_S: Final = 60.0
_JOIN_S: Final = 2.0


class BesideDelivery(ABC):
    """Runs `_work`; after a failure it starts again in a minute.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._keep_working, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def request_stop(self) -> None:
        """Ends what is under way, and the wait for the next time."""
        self._stopped.set()

    def join(self) -> None:
        """Waits a moment until what is under way has ended."""
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """Plain values for the status of the process; `problem` is why it does not work, or None."""

    @abstractmethod
    def _work(self) -> None:
        """Works until a stop is requested, in the thread."""

    @abstractmethod
    def _log_failure(self, error: Exception) -> None:
        """Logs why `_work` failed; called before `_problem` is replaced."""

    def _keep_working(self) -> None:
        while not self._stopped.is_set():
            try:
                self._work()
            except Exception as error:  # noqa: BLE001  # delivery must go on, whatever a client library raises
                self._log_failure(error)
                is_ours = isinstance(error, FleetgaugeError)
                self._problem = str(error) if is_ours else f"{type(error).__name__}: {error}"
            self._stopped.wait(_AGAIN_S)
