"""The metrics context that a reporter of one's own gets from a running node."""

import json
import os
from pathlib import Path

import pytest
from support.programs.node import Node

pytestmark = pytest.mark.integration

REPORTER = """
import json, pathlib
from fleetgauge.telemetry.plugin import MetricsReporter

class Reporter(MetricsReporter):
    def configure(self, configs):
        self.file = pathlib.Path(configs["log.dirs"]) / "context.json"

    def context_change(self, context):
        self.file.write_text(json.dumps(dict(context.labels)))
"""


def test_it_has_the_operators_labels_beside_the_brokers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labelled.py").write_text(REPORTER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with Node(tmp_path, "metric.reporters=labelled.Reporter", "metrics.context.region=eu", "node.id=7") as node:
        labels = json.loads((node.data / "context.json").read_text())
    assert labels["kafka.cluster.id"]
    assert {key: value for key, value in labels.items() if key != "kafka.cluster.id"} == {
        "_namespace": "kafka.server",
        "kafka.node.id": "7",
        "region": "eu",
    }
