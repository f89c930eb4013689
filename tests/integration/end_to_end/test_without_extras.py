"""An installation without extras: a command that needs one names it in a sentence; the others work."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]
_HIDING = """
import sys
from importlib.machinery import PathFinder

class Remaining(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {names} else super().find_spec(name, path, target)

sys.meta_path[:] = [Remaining if each is PathFinder else each for each in sys.meta_path]
"""
_MODULES = {"kafka-python": "kafka", "opentelemetry-exporter-otlp-proto-common": "", "opentelemetry-sdk": ""}
"""Modules of distributions whose name is another; empty where it is a part of a package that the service needs."""


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose `sitecustomize` hides all modules that only extras bring."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = {re.split(r"[\[<>=]", each)[0] for names in extras.values() for each in names} - {"fleetgauge"}
    modules = {_MODULES.get(name, name.replace("-", "_")) for name in found} - {""}
    assert {"numpy", "confluent_kafka", "kafka", "deltalake", "pyspark", "jinja2", "prometheus_client"} <= modules
    directory = tmp_path_factory.mktemp("hiding")
    (directory / "sitecustomize.py").write_text(_HIDING.format(names=modules))
    return directory


def run(hiding: Path, command: str, directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "fleetgauge", *command.split()],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": f"{hiding}:{ROOT}"},
        input="secret\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("offsets --bootstrap-server 127.0.0.1:1", "kafka"),
        ("subscriptions list --bootstrap-server 127.0.0.1:1", "kafka"),
        ("export --override push.log.type=kafka --override push.log.kafka.bootstrap.servers=127.0.0.1:1", "kafka"),
        ("console", "console"),
        ("fleet show inventory --source .", "tables"),
        ("fleet run", "tables"),
        ("fleet rules", "tables"),
        ("fleet watch --source . --tables .", "tables"),
    ],
)
def test_a_command_without_its_extra_names_it_in_a_sentence(
    hiding: Path, tmp_path: Path, command: str, extra: str
) -> None:
    done = run(hiding, command, tmp_path)
    assert done.returncode in (1, 2), done.stdout
    assert f"pip install 'fleetgauge[{extra}" in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr


@pytest.mark.parametrize("command", ["config", "credentials alice"])
def test_a_command_that_needs_no_extra_works(hiding: Path, tmp_path: Path, command: str) -> None:
    done = run(hiding, command, tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
