"""Started in a directory with modules of the same names as Fleetgauge's: none of its processes imports them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

from fleetgauge.base.module_command import module_command
from fleetgauge.cluster.errors import ResourceError
from fleetgauge.cluster.quotas.limits import entity_of
from fleetgauge.cluster.quotas.usage import usage
from fleetgauge.demo.processes import OtlpReceiver
from fleetgauge.node.data_dir import DataDirectory
from fleetgauge.node.status.node_socket import NotRunningError, read_status

pytestmark = pytest.mark.integration

FOREIGN = ("base", "telemetry", "wire", "quotas", "exporters", "fleetgauge", "fleet", "terminal", "json", "structlog")


@pytest.fixture(name="foreign")
def _foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory, which is the working directory of the test."""
    for name in FOREIGN:
        package = tmp_path / "foreign" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise SystemExit('a foreign module was imported')\n")
    monkeypatch.chdir(tmp_path / "foreign")
    return tmp_path / "foreign"


@pytest.mark.parametrize(
    "module",
    ["fleetgauge.node.processes.exporter_process", "fleetgauge.node.processes.http_process", "fleetgauge.node.worker"],
)
@pytest.mark.usefixtures("foreign")
def test_a_child_process_imports_none_of_them(module: str) -> None:
    ran = subprocess.run(
        module_command(module), input=b"no job\n", capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert f"{module.replace('.', '/')}.py".encode() in ran.stderr  # it got as far as its job
    assert b"foreign module" not in ran.stderr


@pytest.mark.usefixtures("foreign")
def test_neither_does_what_the_demo_and_the_usage_of_quotas_start(tmp_path: Path) -> None:
    receiver = OtlpReceiver()
    assert receiver.finish()["exports"] == 0
    limits = {(entity_of({"user": "alice"}), "producer_byte_rate"): 1e6}
    with pytest.raises(ResourceError) as refused:
        usage(limits, str(tmp_path / "no tables"), "1h")
    assert "foreign module" not in str(refused.value)
    assert "no tables" in str(refused.value)


def test_a_node_serves_there_and_takes_reporters_by_pythonpath(foreign: Path, tmp_path: Path) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "own_exporter.py").write_text("from fleetgauge.exporters.console import console_exporter as made\n")
    (plugins / "own_reporter.py").write_text(
        "from fleetgauge.telemetry import MetricsReporter\nclass Own(MetricsReporter): ...\n"
    )
    config = tmp_path / "fleetgauge.toml"
    config.write_text(
        f"""
listeners = "PLAINTEXT://127.0.0.1:0"
"http.listeners" = "http://127.0.0.1:0"
"log.dirs" = "{tmp_path / "data"}"
"push.log.min.free.bytes" = 0
"metric.reporters" = "own_reporter:Own"
[exporters.out]
type = "own_exporter:made"
"""
    )
    script = Path(sys.executable).with_name("fleetgauge")
    log = tmp_path / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [script, "serve", "--config", config],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONPATH": str(plugins)},
        )
    try:
        follow(log)

        def is_whole() -> bool:
            assert process.poll() is None, log.read_text()
            return _is_whole(tmp_path / "data")

        wait_for(is_whole, "a node with all its processes")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        unfollow(log)
    assert "foreign module" not in log.read_text()
    assert foreign.is_dir()


def _is_whole(data: Path) -> bool:
    """True if the node runs, and its exporter process has reported."""
    try:
        status = read_status(DataDirectory(data).node_socket)
    except NotRunningError:
        return False
    return "out" in status["exporter_process"]["exporters"]
