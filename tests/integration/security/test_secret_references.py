"""Secrets by reference on a running node: taken from files, read again on SIGHUP, and in no line that it writes."""

import signal
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.clients.raw_sasl import NONE, SASL_AUTHENTICATION_FAILED, log_in
from support.payloads.payloads import metrics_data
from support.programs.node import Node, credential_lines
from support.waiting import wait_for

pytestmark = pytest.mark.integration

SECRET = "Zq7-not-to-be-shown"  # what the tests look for


def credential(password: str) -> str:
    return credential_lines("alice", password, "--mechanism", "scram-sha-256").split('"')[3]


def code_of(node: Node, password: str) -> int:
    with RawClient(node.port) as client:
        return log_in(client, "alice", password)


def until_written(node: Node, part: str) -> None:
    wait_for(node.output, f"{part!r} in the log", until=lambda output: part in output)


def test_a_sighup_reads_the_files_of_references_again_and_is_refused_whole_without_them(tmp_path: Path) -> None:
    users = tmp_path / "alice"
    users.write_text(credential("first") + "\n")
    config = f"""
listener.security.protocol.map = "EXTERNAL:SASL_PLAINTEXT"
sasl.enabled.mechanisms = "PLAIN"
[exporters.console]
type = "console"
[sasl.users.alice]
scram-sha-256 = "${{file:{users}}}"
"""
    with Node(tmp_path, "listeners=EXTERNAL://127.0.0.1:0", config=config) as node:
        assert code_of(node, "first") == NONE
        users.write_text(credential("second") + "\n")
        node.reread(config)
        assert code_of(node, "first") == SASL_AUTHENTICATION_FAILED
        assert code_of(node, "second") == NONE
        users.unlink()
        node.config_file.write_text(config + '[client-metrics.other]\nmetrics = "*"\n')
        assert node.process is not None
        node.process.send_signal(signal.SIGHUP)
        until_written(node, "the configuration was rejected")
        assert f"sasl.users.alice.scram-sha-256 ({node.config_file}): ${{file:{users}}}: there is no" in node.output()
        assert code_of(node, "second") == NONE
        assert node.status()["telemetry"]["subscriptions"] == ["default"]


def test_an_exporter_that_repeats_its_token_in_errors_does_not_write_it_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    (tmp_path / "token").write_text(SECRET)
    config = f"""
[exporters.mine]
type = "support.programs.exporter_types:fails"
token = "${{file:{tmp_path}/token}}"
"""
    with Node(tmp_path, config=config) as node, RawClient(node.port) as client:
        assert client.push(client.get(), metrics_data()).error_code == NONE
        until_written(node, "the destination does not know [hidden]")
        assert SECRET not in node.output()
