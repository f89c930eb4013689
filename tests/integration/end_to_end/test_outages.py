"""A full disk, a collector that is away, and reporters that misbehave: clients are safe, and nothing is lost."""

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.clients.raw_client import RawClient
from support.fleet.landing import landed
from support.payloads.payloads import metrics_data
from support.ports import free_port
from support.programs.node import Node
from support.receivers.receiver import OtlpReceiver
from support.receivers.webhook import Webhook
from support.small_disk import small_disk
from support.waiting import PATIENCE_S

from fleetgauge.telemetry import format_instance_id

pytestmark = pytest.mark.integration

THROTTLING_QUOTA_EXCEEDED = 89
EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(name="disk")
def _disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", 8 << 20) as path:
        yield path


def test_on_a_full_disk_pushes_are_throttled_and_service_resumes_when_there_is_room(tmp_path: Path, disk: Path) -> None:
    landing = tmp_path / "landing"
    config = f'[exporters.landing]\ntype = "landing"\npath = "{landing}"\nlinger.ms = 200\n'
    node = Node(tmp_path, f"log.dirs={disk}/data", config=config)
    node.data = disk / "data"
    payload = metrics_data(2_000)  # 200 kB: some forty fill the disk
    acknowledged = 0
    with node, RawClient(node.port) as client:
        filler = disk / "filler"
        free = shutil.disk_usage(disk).free
        filler.write_bytes(bytes(max(0, free - 2 * 1024 * 1024)))
        codes = [client.push(client.get(uuid.uuid4()), payload).error_code for _ in range(40)]
        acknowledged += codes.count(0)
        assert set(codes) == {0, THROTTLING_QUOTA_EXCEEDED}
        assert codes[-1] == THROTTLING_QUOTA_EXCEEDED, "the disk should be full by now"
        refused = client.get(uuid.uuid4())
        assert client.push(refused, payload).error_code == THROTTLING_QUOTA_EXCEEDED
        answers = node.status()["telemetry"]["push_answers"]
        assert answers["THROTTLING_QUOTA_EXCEEDED: PushLogFullError"] == codes.count(THROTTLING_QUOTA_EXCEEDED) + 1
        assert node.output().count("push_log.write_failed") == 1, "the reason is logged once a minute"
        filler.unlink()
        again = client.push(refused, payload)
        assert again.error_code == 0, "the refused push gave back its turn, and there is room"
        acknowledged += 1
        assert node.stop() == 0, node.output()
    assert len(landed(landing)) == acknowledged


def test_while_one_destination_is_away_and_one_hangs_the_log_keeps_everything_and_the_landing_zone_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.syspath_prepend(str(EXAMPLES))
    pushed: list[uuid.UUID] = []
    port = free_port()
    with Webhook() as stuck:
        stuck.hangs = True
        config = f"""
[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:{port}"
[exporters.stuck]
type = "webhook_exporter:webhook_exporter"
url = "{stuck.url}"
linger.ms = 50
timeout.ms = 600000
[exporters.landing]
type = "landing"
path = "{tmp_path / "landing"}"
linger.ms = 200
"""
        with Node(tmp_path, config=config) as node:

            def push() -> None:
                with RawClient(node.port) as client:
                    for _ in range(25):
                        subscription = client.get(uuid.uuid4())
                        assert client.push(subscription, metrics_data()).error_code == 0
                        pushed.append(subscription.client_instance_id)

            push()
            node.wait_for(lambda _: stuck.hanging == 1, what="an export that gets no answer")
            push()
            state = node.wait_for(
                lambda s: (
                    s["exporter_process"]["exporters"]["landing"]["delivered_records"] == 50
                    and s["exporter_process"]["exporters"]["collector"]["retried"]
                    and s["exporter_process"]["exporters"]["collector"]["lag_records"] == 50
                    and s["exporter_process"]["exporters"]["stuck"]["lag_records"] == 50
                ),
                what="the landing zone to go on, and the collector to be missed",
            )["exporter_process"]["exporters"]
            assert (stuck.hanging, state["stuck"]["delivered_records"], state["stuck"]["retried"]) == (1, 0, {})
            stuck.hangs = False
            stuck.stop()
            stuck.start()
            receiver = OtlpReceiver(port)
            node.wait_for(
                lambda s: all(each["lag_records"] == 0 for each in s["exporter_process"]["exporters"].values()),
                what="the backlogs to drain",
            )
            assert node.stop() == 0
    assert {client["labels"]["client_id"] for client in receiver.finish().values()} == {"raw"}
    assert len(landed(tmp_path / "landing")) == len(pushed) == len(stuck.received) == 50


def test_a_node_that_cannot_write_its_log_serves_and_delivers_all_the_same(tmp_path: Path) -> None:
    port = free_port()
    config = f'[exporters.collector]\ntype = "otlp"\nendpoint = "http://127.0.0.1:{port}"\n'
    without_log = ("sh", "-c", 'exec "$@" 2> /dev/full', "sh")
    with Node(tmp_path, config=config, before=without_log) as node:
        with RawClient(node.port) as client:
            for _ in range(5):
                assert client.push(client.get(uuid.uuid4()), metrics_data()).error_code == 0
        node.wait_for(
            lambda s: s["exporter_process"]["exporters"]["collector"]["retried"], what="the collector to be missed"
        )
        killed = node.kill_exporter()
        node.wait_for(lambda s: s["exporter_process"]["pid"] not in (None, killed), what="another exporter process")
        receiver = OtlpReceiver(port)
        node.wait_for(
            lambda s: s["exporter_process"]["exporters"]["collector"]["delivered_records"] == 5, what="the backlog"
        )
        assert node.stop() == 0
    assert len(receiver.finish()) == 5


def test_reporters_that_raise_and_hang_reach_no_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    reporters = "metric.reporters=support.programs.bad_reporters.Raising,support.programs.bad_reporters.Hanging"
    with Node(tmp_path, reporters, "plugin.export.timeout.ms=50") as node, RawClient(node.port) as client:
        for _ in range(5):
            assert client.push(client.get(uuid.uuid4()), metrics_data()).error_code == 0
        status = node.wait_for(
            lambda s: s["telemetry"]["plugin_errors"].get("Hanging") == 5, what="the hanging ones to be ended"
        )
        assert status["telemetry"]["plugin_timeouts"] >= 5
        assert status["telemetry"]["plugin_errors"]["Raising"] == 5


def test_the_example_reporter_warns_of_a_slow_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.setenv("SLOW_BROKER_LIMIT_MS", "2")
    with Node(tmp_path, "metric.reporters=slow_broker_reporter.SlowBrokerReporter") as node:
        with RawClient(node.port, client_id="patient") as client:
            payload = metrics_data(5, name="org.apache.kafka.producer.node.request.latency.max")
            subscription = client.get()
            assert client.push(subscription, payload).error_code == 0
        assert node.stop() == 0
        warnings = [line for line in node.output().splitlines() if "a client waits long for a broker" in line]
    assert len(warnings) == 3, "nodes 2, 3 and 4 take 2.5, 3.5 and 4.5 ms"
    assert '"client_id": "patient"' in warnings[0]
    assert f'"client_instance_id": "{format_instance_id(subscription.client_instance_id)}"' in warnings[0]
    assert '"broker": "2"' in warnings[0]


def test_a_reporter_that_does_not_load_stops_the_start_with_its_name(tmp_path: Path) -> None:
    refused = subprocess.run(
        [
            *(sys.executable, "-m", "fleetgauge", "serve"),
            *("-o", "metric.reporters=no.such.Reporter"),
            *("-o", f"log.dirs={tmp_path}"),
            *("-o", "listeners=PLAINTEXT://127.0.0.1:0"),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert refused.returncode == 1
    assert "no.such.Reporter" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_first_deployment_example_is_a_valid_configuration() -> None:
    from fleetgauge.node.config import load_config

    config = load_config(EXAMPLES / "first_deployment.toml")
    assert set(config.exporters) == {"collector", "landing"}
    assert set(config.client_metrics) == {"basics", "java-admin"}


def test_the_example_for_production_is_a_valid_configuration() -> None:
    from fleetgauge.node.config import load_config

    config = load_config(EXAMPLES / "production.toml")
    assert (config.push_log, config.push_log_kafka_topic) == ("kafka", "fleetgauge-pushes")
    assert set(config.exporters) == {"collector", "landing", "page"}
    assert config.offsets_bootstrap_servers
