"""Whoever changes the configuration and says so while a node starts is heard, though the file may have been read."""

from pathlib import Path

import pytest
from support.programs.node import Node
from support.waiting import wait_for

pytestmark = pytest.mark.integration


def test_a_sighup_that_comes_while_a_node_starts_is_obeyed_as_soon_as_it_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for the reporter
    with Node(tmp_path, "metric.reporters=integration.telemetry.impatient_reporter.Impatient") as node:
        wait_for(node.log.read_text, "the reread", until=lambda text: "config.reread" in text)
        assert node.stop() == 0
