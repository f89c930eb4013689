"""What an application sees of the libraries' log: nothing that it did not ask for, and never a payload."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

_PROGRAM = """
import uuid
from fleetgauge.quotas import Metrics, MockTime
from fleetgauge.telemetry import *

class Reporter(MetricsReporter):
    def client_receiver(self):
        return self
    def export_metrics(self, context, payload):
        raise ValueError(f"cannot read {payload.data!r}")

plugin = ClientTelemetryExporterPlugin()
plugin.add(Reporter())
manager = ClientMetricsManager(
    ClientMetricsSettings(), node_id=1, cluster_id="c", metrics=Metrics(time=MockTime()), push_ids=PushIds(1),
    plugin=plugin,
)
manager.subscriptions.update("s", {"metrics": "org.apache.kafka.produzer."})
plugin.export_metrics(
    None, ClientTelemetryPayload(client_instance_id=uuid.uuid4(), is_terminating=False, data=b"S3CRET"), 1_000
)
"""


def _run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)


def test_a_library_prints_nothing_of_itself() -> None:
    ran = _run(_PROGRAM)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_an_application_that_configures_logging_sees_events_with_fields_and_no_payload() -> None:
    ran = _run("import logging\nlogging.basicConfig(format='%(levelname)s %(name)s %(message)s')" + _PROGRAM)
    assert ran.stdout == ""
    advice, failure = ran.stderr.splitlines()
    assert advice.startswith(
        "WARNING fleetgauge.telemetry.subscriptions.prefix_advice telemetry.unknown_metric_prefix message="
    )
    assert "prefix='org.apache.kafka.produzer.'" in advice
    assert failure.startswith("WARNING fleetgauge.telemetry.plugin.exporter_plugin telemetry.reporter_failed message=")
    assert "reporter='Reporter' errors=1 error='ValueError' raised_in='<string>:" in failure
    assert "S3CRET" not in ran.stderr


@pytest.mark.parametrize("room", ["base", "wire", "quotas", "telemetry", "push_log", "exporters", "gateway"])
def test_no_library_writes_through_structlog_of_itself(room: str) -> None:
    importing = [path for path in (ROOT / "fleetgauge" / room).rglob("*.py") if "import structlog" in path.read_text()]
    assert importing == []
