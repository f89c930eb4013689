"""A real OTLP gRPC server in a process of its own: the demo's."""

import json
import subprocess
import sys
from typing import Any

from support.waiting import PATIENCE_S


class OtlpReceiver:
    """Listens on `port`, or on one of the system's choice."""

    def __init__(self, port: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fleetgauge.testkit.otlp_receiver", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def finish(self) -> dict[str, dict[str, Any]]:
        """Stops it and returns what came, by client instance id."""
        output, _ = self.process.communicate(timeout=PATIENCE_S)
        return dict(json.loads(output)["clients"])
