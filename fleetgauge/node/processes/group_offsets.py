"""The sampler of consumer groups in the exporter process: a thread of its own, whose faults delay no delivery."""

from typing import TYPE_CHECKING, Any

import structlog

from fleetgauge.base.clock import Time
from fleetgauge.base.errors import FleetgaugeError
from fleetgauge.exporters.group_offsets.settings import OffsetsSettings
from fleetgauge.node.processes.beside_delivery import BesideDelivery

if TYPE_CHECKING:
    from fleetgauge.exporters.group_offsets.run import OffsetsRun

log = structlog.get_logger(__name__)


class GroupOffsets(BesideDelivery):
    """Runs the sampler.

    Args:
        settings: of the sampler.
        time: the clocks.
    """

    def __init__(self, settings: OffsetsSettings, time: Time) -> None:
        super().__init__("group-offsets")
        self._settings = settings
        self._time = time
        self._run: OffsetsRun | None = None

    def request_stop(self) -> None:
        """Ends the round under way."""
        super().request_stop()
        if self._run is not None:
            self._run.stop()

    def status(self) -> dict[str, Any]:
        """See `OffsetsRun.status`; `problem` is why it does not run."""
        return {"problem": self._problem, **({} if self._run is None else self._run.status())}

    def _work(self) -> None:
        from fleetgauge.exporters.group_offsets.run import OffsetsRun  # needs confluent-kafka and pyarrow

        self._run = OffsetsRun(self._settings, self._time)
        self._problem = None
        self._run.run()

    def _log_failure(self, error: Exception) -> None:
        if isinstance(error, FleetgaugeError):
            log.error("group_offsets.failed", error=str(error))
        else:
            log.exception("group_offsets.failed")
