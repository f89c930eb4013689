"""The wheel with compiled modules: it can be built, and a node made of it does what one in plain Python does."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from support.node import Node
from support.raw_client import ZSTD, RawClient
from zstandard import ZstdCompressor

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler"),
]
ROOT = Path(__file__).parents[3]
CONFIG = '[client-metrics.all]\nmetrics = "*"\ninterval.ms = 100\n'


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("compiled")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory / "dist")],
        cwd=ROOT,
        env={**os.environ, "FLEETGAUGE_COMPILE": "1"},
        check=True,
        timeout=1_800,
    )
    (wheel,) = (directory / "dist").glob("*.whl")
    assert not wheel.name.endswith("none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "installed")
    return directory / "installed"


def test_every_module_that_is_named_is_compiled_and_loaded(installed: Path) -> None:
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    modules = [path.removesuffix(".py").replace("/", ".") for path in named["hooks"]["custom"]["modules"]]
    script = "import importlib, sys; print([importlib.import_module(name).__file__ for name in sys.argv[1:]])"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", script, *modules],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.count(str(installed)) == ran.stdout.count(".so'") == len(modules)


def test_the_compiled_quota_engine_passes_its_own_tests(installed: Path) -> None:
    """All but those that put something in the place of a class's parts."""
    paths = [str(ROOT / "tests" / kind / "quotas") for kind in ("unit", "property")]
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not replaces", *paths],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_800,
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert " passed" in ran.stdout


def test_compiled_modules_do_what_the_golden_cases_say(installed: Path) -> None:
    paths = [str(ROOT / "tests" / path) for path in ("golden", "property/test_ways_of_a_push.py")]
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1_800,
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert " passed" in ran.stdout


def test_a_node_of_compiled_modules_answers_refuses_and_logs_as_ever(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(installed))
    monkeypatch.setenv("PYTHONSAFEPATH", "1")  # or the working directory would come first
    payload = (ROOT / "tests" / "fuzz" / "recorded").rglob("*.otlp")
    metrics = next((path.read_bytes() for path in payload), b"")
    with Node(tmp_path, config=CONFIG) as node:
        with RawClient(node.port) as client:
            subscription = client.get()
            assert client.push(subscription, ZstdCompressor().compress(metrics), compression_type=ZSTD).error_code == 0
            assert client.push(subscription, b"", subscription_id=subscription.subscription_id + 1).error_code == 89
            assert client.push(subscription, b"not OTLP", terminating=True).error_code == 87
            assert client.push(subscription, b"", subscription_id=1, terminating=True).error_code == 117
        with RawClient(node.port) as client:
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionError):
                client.receive_frame()
        status = node.wait_for(lambda s: s["push_log"].get("logged") == 1, what="the accepted push in the log")
        assert status["connections"][0]["closed"]["frame_too_large"] == 1
        assert node.stop() == 0
