"""A real Prometheus that scrapes a node and its page of client series by https, with basic_auth and with a token."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from support.certificates import Authority
from support.ports import free_port
from support.programs.node import Node
from support.receivers.prometheus_server import MISSING, PrometheusServer
from support.waiting import PATIENCE_S, wait_for

pytestmark = [pytest.mark.integration, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

PASSWORD, TOKEN = "a password, with ünicode", "0123456789abcdef0123456789abcdef"


def run(*arguments: str, text: str = "", **environment: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetgauge", *arguments],
        input=text,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def credentials(*arguments: str, secret: str) -> str:
    """The lines that the command prints."""
    done = run("credentials", *arguments, text=f"{secret}\n")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_prometheus_logs_in_at_both_ports_by_password_and_by_token(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    server = authority.issue("server", "/CN=localhost")
    users = tmp_path / "users.toml"
    users.write_text(
        credentials("--http", "read", "prometheus", secret=PASSWORD)
        + credentials("--http", "read", "--token", "agent", secret=TOKEN)
    )
    page = free_port()
    config = (
        '"http.listeners" = "https://127.0.0.1:0"\n'
        f'"http.users.file" = "{users}"\n"http.ssl.keystore.location" = "{server.keystore}"\n'
        f'[exporters.page]\ntype = "prometheus"\nlisten = "https://127.0.0.1:{page}"\n'
    )
    tls = f"scheme: https, tls_config: {{ca_file: '{authority.certificate}', server_name: localhost}}"
    by_password = f"{tls}, basic_auth: {{username: prometheus, password: '{PASSWORD}'}}"
    by_token = f"{tls}, authorization: {{credentials: '{TOKEN}'}}"
    wrong = f"{tls}, authorization: {{credentials: '{TOKEN}x'}}"
    listen = ("http.listeners=https://127.0.0.1:0",)
    with Node(_made(tmp_path / "node"), *listen, config=config) as node:
        port = urlsplit(node.status()["http"]["listeners"][0]).port
        wanted = {
            "password": (port, by_password),
            "page-token": (page, by_token),
            "page-password": (page, by_password),
            "wrong": (port, wrong),
            "none": (port, tls),
        }
        jobs = [
            f"{{job_name: {name}, static_configs: [{{targets: ['127.0.0.1:{target}']}}], {scrape}}}"
            for name, (target, scrape) in wanted.items()
        ]
        clients = ("clients", "--url", f"https://localhost:{port}", "--format", "json")
        assert "FLEETGAUGE_TOKEN_FILE" in run(*clients, SSL_CERT_FILE=authority.certificate).stderr
        (tmp_path / "agent.token").write_text(TOKEN)
        known: dict[str, Any] = {
            "SSL_CERT_FILE": authority.certificate,
            "FLEETGAUGE_TOKEN_FILE": tmp_path / "agent.token",
        }
        assert run(*clients, **known).returncode == 0
        with PrometheusServer(tmp_path, "", jobs=jobs) as prometheus:
            prometheus.wait_for("count(up)", len(jobs))
            prometheus.wait_for('up{job=~"password|page-.*"}', 1)
            prometheus.wait_for('up{job=~"wrong|none"}', 0)
            prometheus.wait_for('fleetgauge_ready{job="password"}', 1)
            prometheus.wait_for('fleetgauge_prometheus_clients{job="page-token"}', 0)
            [(labels, failures)] = prometheus.wait_for("fleetgauge_http_failed_authentications_total")
            assert (labels["reason"], failures >= 1) == ("unknown_token", True)
            [(labels, expires)] = prometheus.wait_for("fleetgauge_certificate_expiry_timestamp_seconds - time()")
            wait_for(
                lambda: logins(node.data / "audit.log"),
                "the log-ins in the audit log",
                until=lambda found: (
                    found
                    == {
                        ("login.succeeded", "User:prometheus", None),
                        ("login.succeeded", "User:agent", None),
                        ("login.failed", "User:ANONYMOUS", "unknown_token"),
                    }
                ),
            )
            assert (labels["use"], 29 * 86_400 < expires < 31 * 86_400) == ("http", True)


def logins(audit: Path) -> set[tuple[str, str, str | None]]:
    """Event, principal and reason of each at the HTTP port."""
    lines = [json.loads(line) for line in audit.read_bytes().splitlines()]
    return {(each["event"], each["principal"], each.get("reason")) for each in lines if each.get("api") == "HTTP"}


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
