"""A process imports what it uses: module sets of the processes of a node, and of each type of exporter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

_SERVE = """
import json, os, signal, sys, threading, time
from fleetgauge.cli import app

def report_when_listening():
    while not os.path.exists(sys.argv[1] + "/data/node.sock"):
        time.sleep(0.01)
    time.sleep(0.5)
    with open(sys.argv[1] + "/modules.json", "w") as out:
        json.dump(sorted(sys.modules), out)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=report_when_listening, daemon=True).start()
app(["serve", "--config", sys.argv[1] + "/node.toml"])
"""
_CONFIG = """
listeners = "PLAINTEXT://127.0.0.1:0"
"http.listeners" = ""
"push.log.min.free.bytes" = 0
"log.dirs" = "{directory}/data"
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
import fleetgauge.processes.exporter_process
from exporters.registry import build_exporter
exporter = build_exporter("x", json.loads(sys.argv[1]))
exporter.start()
exporter.close()
print(json.dumps(sorted(sys.modules)))
"""
_OF_DELIVERY = {"grpc", "numpy", "pyarrow", "urllib3"}
_OF_THE_LISTENER = {"kio", "pydantic", "uvloop", "wire.listener", "fleetgauge.config.model", "fleetgauge.app"}
_UNUSED = {"confluent_kafka", "fleet", "opentelemetry.sdk", "pygments", "rich"}


def modules_after(script: str, *arguments: str) -> set[str]:
    """What is imported when a script has run, which prints it as its last line."""
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True, timeout=300
    )
    return set(json.loads(ran.stdout.splitlines()[-1]))


def test_a_listener_that_has_exporters_imports_nothing_that_only_they_need(tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text(_CONFIG.format(directory=tmp_path))
    subprocess.run([sys.executable, "-c", _SERVE, str(tmp_path)], check=True, timeout=300)
    imported = set(json.loads((tmp_path / "modules.json").read_text()))
    assert "wire.listener" in imported
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
    imported = modules_after("import json, sys, fleetgauge.processes.http_process; print(json.dumps([*sys.modules]))")
    assert not imported & (_OF_DELIVERY | _OF_THE_LISTENER | _UNUSED | {"google.protobuf", "exporters.registry"})
