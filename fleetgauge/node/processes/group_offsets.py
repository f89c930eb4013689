"""The sampler of consumer groups in the exporter process: a thread of its own, whose faults delay no delivery."""

import threading
from typing import TYPE_CHECKING, Any, Final

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.exporters.group_offsets.settings import OffsetsSettings

if TYPE_CHECKING:
    from fleetgauge.exporters.group_offsets.run import OffsetsRun

log = structlog.get_logger(__name__)

_AGAIN_S: Final = 60.0
_JOIN_S: Final = 2.0


class GroupOffsets:
    """Runs the sampler; after a failure it starts again in a minute.

    Args:
        settings: of the sampler.
        time: the clocks.
    """

    def __init__(self, settings: OffsetsSettings, time: Time) -> None:
        self._settings = settings
        self._time = time
        self._stopped = threading.Event()
        self._run: OffsetsRun | None = None
        self._problem: str | None = None
        self._thread = threading.Thread(target=self._keep_running, name="group-offsets", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def request_stop(self) -> None:
        """Ends the round under way."""
        self._stopped.set()
        if self._run is not None:
            self._run.stop()

    def join(self) -> None:
        """Waits a moment until the last samples are written."""
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def status(self) -> dict[str, Any]:
        """See `OffsetsRun.status`; `problem` is why it does not run."""
        return {"problem": self._problem, **({} if self._run is None else self._run.status())}

    def _keep_running(self) -> None:
        while not self._stopped.is_set():
            try:
                from fleetgauge.exporters.group_offsets.run import OffsetsRun  # needs confluent-kafka and pyarrow

                self._run = OffsetsRun(self._settings, self._time)
                self._problem = None
                self._run.run()
            except FleetgaugeError as error:
                self._problem = str(error)
                log.error("group_offsets.failed", error=str(error))
            except Exception as error:  # delivery must go on, whatever a client library raises
                self._problem = f"{type(error).__name__}: {error}"
                log.exception("group_offsets.failed")
            self._stopped.wait(_AGAIN_S)
