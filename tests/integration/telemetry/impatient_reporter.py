"""A reporter that sends its node a SIGHUP while that starts."""

import os
import signal
from collections.abc import Mapping

from fleetgauge.telemetry.plugin import MetricsReporter


class Impatient(MetricsReporter):
    """Nothing else."""

    def configure(self, configs: Mapping[str, object]) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
