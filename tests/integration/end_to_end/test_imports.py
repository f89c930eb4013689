"""A process imports what it uses: module sets of the processes of a node, and of each type of exporter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs.node import Node
from support.waiting import PATIENCE_S

pytestmark = pytest.mark.integration

_AT_THE_END = """
import atexit, json, os, sys

def write_modules():
    with open(os.environ["MODULES"] + f"/{os.getpid()}.json", "w") as out:
        json.dump(sorted(sys.modules), out)

atexit.register(write_modules)
"""
"""A `sitecustomize`: each process writes what it has imported to a file of its own."""
_CONFIG = """
[exporters.otlp]
type = "otlp"
endpoint = "http://127.0.0.1:9"
[exporters.otlp_over_http]
type = "otlp"
protocol = "http/protobuf"
endpoint = "http://127.0.0.1:9"
[exporters.landing]
type = "landing"
"""
_EXPORTER = """
import json, sys
import fleetgauge.node.processes.exporter_process
from fleetgauge.exporters.registry import build_exporter
exporter = build_exporter("x", json.loads(sys.argv[1]))
exporter.start()
exporter.close()
print(json.dumps(sorted(sys.modules)))
"""
_OF_DELIVERY = {"grpc", "numpy", "pyarrow", "urllib3"}
_OF_THE_LISTENER = {
    "kio",
    "pydantic",
    "uvloop",
    "fleetgauge.wire.listener",
    "fleetgauge.node.config.model",
    "fleetgauge.node.app",
}
_UNUSED = {"confluent_kafka", "fleet", "opentelemetry.sdk", "pygments", "rich"}


def modules_after(script: str, *arguments: str) -> set[str]:
    """What is imported when a script has run, which prints it as its last line."""
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_a_listener_that_has_exporters_imports_nothing_that_only_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(_AT_THE_END)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("MODULES", str(tmp_path))
    with Node(tmp_path, config=_CONFIG) as node:
        assert node.process is not None
        node.wait_for(lambda s: len(s["exporter_process"]["exporters"]) == 3, what="the exporters")
        assert node.stop() == 0, node.output()
        imported = set(json.loads((tmp_path / f"{node.process.pid}.json").read_text()))
    assert "fleetgauge.wire.listener" in imported
    assert not imported & (_OF_DELIVERY | _UNUSED | {"prometheus_client"})


@pytest.mark.parametrize(
    ("keys", "needed"),
    [
        ({"type": "otlp", "endpoint": "http://127.0.0.1:9"}, {"grpc"}),
        ({"type": "otlp", "protocol": "http/protobuf", "endpoint": "http://127.0.0.1:9"}, {"urllib3"}),
        ({"type": "landing", "path": "landing"}, set()),  # pyarrow comes with the first batch
        ({"type": "prometheus", "listen": "127.0.0.1:0"}, {"uvicorn"}),
        ({"type": "console"}, set()),
    ],
)
def test_an_exporter_process_imports_what_its_types_of_exporter_need(
    keys: dict[str, str], needed: set[str], tmp_path: Path
) -> None:
    imported = modules_after(_EXPORTER, json.dumps({**keys, **({"path": str(tmp_path)} if "path" in keys else {})}))
    assert needed <= imported
    assert not imported & ((_OF_DELIVERY | _OF_THE_LISTENER | _UNUSED | {"prometheus_client"}) - needed)


def test_the_http_process_imports_neither_listener_nor_exporters() -> None:
    imported = modules_after(
        "import json, sys, fleetgauge.node.processes.http_process; print(json.dumps([*sys.modules]))"
    )
    assert not imported & (
        _OF_DELIVERY | _OF_THE_LISTENER | _UNUSED | {"google.protobuf", "fleetgauge.exporters.registry"}
    )
