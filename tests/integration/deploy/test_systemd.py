"""The units of systemd: what systemd itself says of them, and that Fleetgauge runs under what they forbid."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from support.built import ROOT
from support.clients.raw_client import RawClient
from support.http import get
from support.payloads.payloads import metrics_data
from support.programs.node import Node
from support.waiting import wait_for
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from fleetgauge.cli import app as fleetgauge
from fleetgauge.cli.fleet.app import app as fleet

UNITS = ROOT / "deploy" / "systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
EXPOSURE = 1.4
"""The rating that docs/operate/run-it.md names; 10 is a unit without any hardening."""

needs_systemd = pytest.mark.skipif(
    not shutil.which("systemd-analyze"), reason="needs systemd-analyze: apt-get install --no-install-recommends systemd"
)

_FORBIDDING = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
PR_SET_NO_NEW_PRIVS, PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 38, 65, 1
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
if libc.prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0:
    sys.exit(f"PR_SET_MDWE is refused: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system with our units, systemd's own, and the programs that are named."""
    root = tmp_path_factory.mktemp("system")
    shutil.copytree("/usr/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
    (root / "lib").symlink_to("usr/lib")
    shutil.copytree(UNITS, root / "etc/systemd/system")
    for program in ("opt/fleetgauge/bin/fleetgauge", "bin/kill"):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).write_text("#!/bin/sh\n")
        (root / program).chmod(0o755)
    return root


def instance(unit: str) -> str:
    """A unit that can be started: one of a template."""
    return unit.replace("@.", "@broker1.")


def analyze(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["systemd-analyze", f"--root={root}", "--no-pager", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_systemd
def test_systemd_takes_every_unit_without_a_word(system: Path) -> None:
    assert analyze(system, "verify", *map(instance, SERVICES), "fleetgauge-fleet.timer") == ""


@needs_systemd
def test_a_key_that_systemd_does_not_know_would_be_told(system: Path) -> None:
    """Or else the test above could not fail."""
    wrong = system / "etc/systemd/system/wrong.service"
    wrong.write_text("[Service]\nExecStart=/bin/kill\nProtectEverything=yes\n")
    try:
        assert "ProtectEverything" in analyze(system, "verify", "wrong.service")
    finally:
        wrong.unlink()


@needs_systemd
@pytest.mark.parametrize("unit", SERVICES)
def test_every_unit_is_as_little_exposed_as_documented(unit: str, system: Path) -> None:
    rated = re.search(
        r"Overall exposure level for \S+: ([\d.]+)", analyze(system, "--offline=true", "security", instance(unit))
    )
    assert rated is not None
    assert float(rated[1]) <= EXPOSURE
    assert f"rates that {EXPOSURE}" in (ROOT / "docs/operate/run-it.md").read_text()


@needs_systemd
@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user: needs root")
def test_the_user_and_its_directories_are_made(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    for program, line, made in (
        ("systemd-sysusers", UNITS / "sysusers.conf", "etc/passwd"),
        ("systemd-tmpfiles", UNITS / "tmpfiles.conf", "var/lib/fleetgauge"),
    ):
        create = ["--create"] if program == "systemd-tmpfiles" else []
        words = [program, f"--root={tmp_path}", *create, str(line)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / made).exists()
    assert "fleetgauge:x:10001:10001" in (tmp_path / "etc/passwd").read_text()
    assert (tmp_path / "var/lib/fleetgauge").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("unit", SERVICES)
def test_every_command_of_a_unit_is_taken(unit: str) -> None:
    lines = re.findall(r"^ExecStart=/opt/fleetgauge/bin/fleetgauge (.+)$", (UNITS / unit).read_text(), re.MULTILINE)
    assert lines
    for line in lines:
        command, words = get_command(fleetgauge), shlex.split(line)
        if words[0] == "fleet":
            command, words = get_command(fleet), words[1:]
        assert isinstance(command, TyperGroup)
        name, chosen, rest = command.resolve_command(Context(command), words)
        assert chosen is not None
        chosen.make_context(name, rest)


def test_a_node_with_all_destinations_runs_without_writable_code(tmp_path: Path) -> None:
    """MemoryDenyWriteExecute and NoNewPrivileges, by the kernel's own switches; Arrow, gRPC, numpy run under them."""
    refused = subprocess.run([sys.executable, "-c", _FORBIDDING, "true"], capture_output=True, text=True, check=False)
    if refused.returncode:
        pytest.skip(refused.stderr.strip())
    config = f"""
[exporters.landing]
type = "landing"
path = "{tmp_path / "landing"}"
linger.ms = 100
[exporters.page]
type = "prometheus"
listen = "127.0.0.1:0"
[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:1"
"""
    forbidding = (sys.executable, "-c", _FORBIDDING)
    with Node(tmp_path, "http.listeners=http://127.0.0.1:0", config=config, before=forbidding) as node:
        node.wait_for(
            lambda s: s["exporter_process"]["exporters"].keys() == {"landing", "page", "collector"},
            what="a status of every exporter",
        )
        with RawClient(node.port) as client:
            assert client.push(client.get(), metrics_data()).error_code == 0
        wait_for(lambda: list((tmp_path / "landing").rglob("*.parquet")), "a file in the landing zone")
        for path in ("/readyz", "/api/clients"):
            wait_for(partial(get, node, path), f"{path} to be served", until=lambda answer: answer.status == 200)
