"""SIGHUP with files that are none, or that would take everything away: clients are served, and the old one holds."""

import os
import signal
import uuid
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.payloads.payloads import metrics_data
from support.programs.export import Export
from support.programs.node import Node
from support.waiting import wait_for

pytestmark = pytest.mark.integration

CONFIG = """
[client-metrics.all]
metrics = "*"
interval.ms = 100
[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:{port}"
"""

NO_COLLECTOR = "shutdown.timeout.ms=5000"
"""What it did not take would be waited for at the stop."""


def hang_up(node: Node, text: str, *, says: str) -> str:
    """Has the node read another file, and waits until its log has these words once more."""
    assert node.process is not None
    before = node.log.read_text().count(says)
    node.config_file.write_text(text)
    node.process.send_signal(signal.SIGHUP)
    wait_for(lambda: node.log.read_text().count(says), f"{says!r} in the log", until=lambda count: count > before)
    return node.output()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_file_that_never_ends_to_open_stalls_no_push_and_no_stop(tmp_path: Path, workers: int) -> None:
    with Node(tmp_path, f"workers={workers}", NO_COLLECTOR, config=CONFIG.format(port=1)) as node:
        assert node.process is not None
        node.config_file.unlink()
        os.mkfifo(node.config_file)
        with RawClient(node.port) as client:
            for _ in range(3):
                node.process.send_signal(signal.SIGHUP)
                subscription = client.get(uuid.uuid4())
                assert client.push(subscription, metrics_data()).error_code == 0
                assert node.status()["node"]["pid"] == node.process.pid
        assert node.stop() == 0, node.output()


def test_certificates_that_never_end_to_open_stall_no_push(tmp_path: Path) -> None:
    with Node(tmp_path, NO_COLLECTOR, config=CONFIG.format(port=1)) as node:
        assert node.process is not None
        os.mkfifo(tmp_path / "trust.pem")
        overridden = f'"listener.name.plaintext.ssl.truststore.location" = "{tmp_path / "trust.pem"}"\n'
        node.config_file.write_text(overridden + CONFIG.format(port=1))
        with RawClient(node.port) as client:
            for _ in range(3):
                node.process.send_signal(signal.SIGHUP)
                assert client.push(client.get(uuid.uuid4()), metrics_data()).error_code == 0
        assert node.stop() == 0, node.output()


def test_what_no_configuration_may_become_is_refused_in_a_sentence_and_the_old_one_holds(tmp_path: Path) -> None:
    refused = "the configuration was rejected; the old one stays in force"
    with Node(tmp_path, config=CONFIG.format(port=1)) as node:
        assert "is empty, which would remove every subscription" in hang_up(node, "", says=refused)
        assert "nested too deeply" in hang_up(node, "a = " + "[" * 100_000, says=refused)
        assert "larger than 4 MiB" in hang_up(node, "#" * (5 << 20), says=refused)
        assert "Traceback" not in node.log.read_text()
        assert node.status()["telemetry"]["subscriptions"] == ["all"]
        said = hang_up(node, CONFIG.format(port=2), says="config.reread")
        assert "these keys changed in the file, and need a restart" in said
        assert "exporters.collector.endpoint" in said
        assert "exporters.collector.type" not in said


def test_a_file_with_secrets_that_others_may_read_is_warned_of_at_the_start_and_after(tmp_path: Path) -> None:
    secret = 'headers = "authorization=hunter2"\n'
    (tmp_path / "fleetgauge.toml").touch(mode=0o644)
    with Node(tmp_path, config=CONFIG.format(port=1) + secret) as node:
        warning = f"chmod 0600 {node.config_file}"
        wait_for(lambda: warning in node.log.read_text(), "the warning at the start")
        assert "exporters.collector.headers" in node.log.read_text()
        hang_up(node, CONFIG.format(port=1) + secret, says=warning)
        assert "hunter2" not in node.log.read_text()


def test_an_export_names_the_keys_that_a_sighup_does_not_take_over(tmp_path: Path) -> None:
    """No broker is there: it tries on meanwhile."""
    file = tmp_path / "export.toml"
    file.write_text(EXPORT.format(endpoint="http://127.0.0.1:1"))
    with Export(tmp_path, file, "http.listeners=") as export:
        wait_for(lambda: "look at it" in export.log.read_text(), "the start")
        file.write_text(EXPORT.format(endpoint="http://127.0.0.1:2"))
        export.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "exporters.collector.endpoint" in export.log.read_text(), "the key that needs a restart")
        assert export.process.poll() is None


EXPORT = """
push.log.type = "kafka"
push.log.kafka.bootstrap.servers = "127.0.0.1:1"
[exporters.collector]
type = "otlp"
endpoint = "{endpoint}"
"""
