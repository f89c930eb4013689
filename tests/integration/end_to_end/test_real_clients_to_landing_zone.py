"""Real librdkafka clients, a node, a real OTLP receiver in another process, the landing zone."""

import json
import operator
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from support.clients.push_watch import close_after_a_push
from support.clients.raw_client import RawClient
from support.fleet.landing import landed
from support.payloads.payloads import metrics_data
from support.programs.node import Node, run_cli
from support.receivers.receiver import OtlpReceiver
from support.waiting import PATIENCE_S, wait_for

pytestmark = pytest.mark.integration


def test_what_real_clients_push_arrives_at_the_receiver_and_in_the_landing_zone(tmp_path: Path) -> None:
    receiver = OtlpReceiver()
    config = f"""
[client-metrics.everything]
metrics = "*"
interval.ms = 1000
[exporters.collector]
type = "otlp"
endpoint = "http://127.0.0.1:{receiver.port}"
[exporters.landing]
type = "landing"
path = "{tmp_path / "landing"}"
linger.ms = 500
"""
    with Node(tmp_path, config=config) as node:
        common = {"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 3}
        producer = Producer({**common, "client.id": "orders"})
        consumer = Consumer({**common, "client.id": "audit", "group.id": "auditors"})

        def have_pushed(status: dict[str, Any]) -> bool:
            producer.poll(0)
            consumer.poll(0.1)
            return bool(status["telemetry"]["push_answers"].get("NONE", 0) >= 6)

        node.wait_for(have_pushed, what="six pushes")
        close_after_a_push(node.data / "push-log", "orders", producer)
        close_after_a_push(node.data / "push-log", "audit", consumer)
        status = node.wait_for(lambda s: s["telemetry"]["push_answers"].get("NONE", 0) >= 8, what="terminating pushes")
        answers = status["telemetry"]["push_answers"]
        assert set(answers) == {"NONE"}, answers
        assert node.stop() == 0, node.output()
    records = landed(tmp_path / "landing")
    assert len(records) == answers["NONE"], "every acknowledged push landed once"
    by_client: dict[str, list[dict[str, Any]]] = {}
    for record in sorted(records, key=lambda record: str(record["push_id"])):
        by_client.setdefault(str(record["client_id"]), []).append(record)
    assert set(by_client) == {"orders", "audit"}
    clients = receiver.finish()
    for client_id, pushes in by_client.items():
        first = pushes[0]
        assert [push["terminating"] for push in pushes] == [False] * (len(pushes) - 1) + [True]
        assert first["client_software_name"] == "confluent-kafka-python"
        assert first["compression_type"] == "zstd"
        assert MetricsData.FromString(first["metrics"]).resource_metrics
        labels = clients[str(first["client_instance_id"])]["labels"]
        expected = {
            "client_id": client_id,
            "client_instance_id": first["client_instance_id"],
            "client_software_name": first["client_software_name"],
            "client_software_version": first["client_software_version"],
            "client_source_address": "127.0.0.1",
            "client_source_port": str(first["client_source_port"]),
            "principal": "User:ANONYMOUS",
            "node_id": "1",
        }
        assert {key: labels.get(key) for key in expected} == expected


def test_without_configuration_it_says_where_everything_is(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        output = wait_for(node.output, "the words for a first start", until=lambda text: "look at it" in text)
        for part in (f"127.0.0.1:{node.port}", "metrics=*, interval.ms=60000 (built in", "push-log", "landing"):
            assert part in output
        assert (node.data / "meta.properties").exists()


def test_sighup_rereads_subscriptions_and_a_bad_file_is_refused_whole(tmp_path: Path) -> None:
    with Node(tmp_path, config='[client-metrics.a]\nmetrics = "a."\ninterval.ms = 5000\n') as node:
        assert node.process is not None
        with RawClient(node.port) as client:
            first = client.get()
            assert (first.requested_metrics, first.push_interval_ms) == (["a."], 5000)
            node.config_file.write_text('[client-metrics.b]\nmetrics = "b."\ninterval.ms = 7000\n')
            node.process.send_signal(signal.SIGHUP)
            node.wait_for(lambda s: s["telemetry"]["subscriptions"] == ["b"], what="the other subscription")
            assert client.push(first, metrics_data()).error_code == 117
            second = client.get(first.client_instance_id)
            assert (second.requested_metrics, second.push_interval_ms) == (["b."], 7000)
            node.config_file.write_text('[client-metrics.c]\nmetrics = "c."\ninterval.ms = 1\n')
            node.process.send_signal(signal.SIGHUP)
            wait_for(node.output, "the refusal", until=lambda text: "refused" in text and "client-metrics.c" in text)
            assert node.status()["telemetry"]["subscriptions"] == ["b"]
            assert client.push(second, metrics_data()).error_code == 0


def test_sigterm_answers_what_is_pending_and_exits_with_zero(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        port = node.port
        with RawClient(port) as client:
            subscription = client.get()
            assert client.push(subscription, metrics_data()).error_code == 0
            assert node.stop() == 0, node.output()
        with pytest.raises(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
            pass
        assert len(landed(node.data / "landing")) == 1


def test_the_exporter_process_is_started_again_and_ends_with_its_parent(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        first = node.kill_exporter()
        node.wait_for(lambda s: s["exporter_process"]["pid"] not in (None, first), what="a new exporter process")
        second = node.exporter_pid()
        node.kill()
        wait_for(Path(f"/proc/{second}").exists, "the exporter process to end with its parent", until=operator.not_)


def test_a_stop_delivers_the_log_although_the_exporter_process_died_just_before(tmp_path: Path) -> None:
    config = f'[exporters.landing]\ntype = "landing"\npath = "{tmp_path / "landing"}"\nlinger.ms = 60000\n'
    with Node(tmp_path, config=config) as node:
        node.exporter_pid()
        with RawClient(node.port) as client:
            assert client.push(client.get(), metrics_data()).error_code == 0
        node.kill_exporter()
        assert node.stop() == 0, node.output()
    assert len(landed(tmp_path / "landing")) == 1


def test_a_second_node_on_the_same_data_directory_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        again = run_cli("serve", "-o", f"log.dirs={node.data}", "-o", "listeners=PLAINTEXT://127.0.0.1:0", check=False)
        assert again.returncode == 1
        assert "already uses the data directory" in again.stderr
        assert "Traceback" not in again.stderr


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = run_cli(
            "serve", "-o", f"log.dirs={tmp_path}/d", "-o", f"listeners=PLAINTEXT://127.0.0.1:{port}", check=False
        )
    assert refused.returncode == 1
    assert str(port) in refused.stderr
    assert "Traceback" not in refused.stderr


def test_status_and_log_commands_read_a_running_node_and_the_log_a_stopped_one(tmp_path: Path) -> None:
    with Node(tmp_path) as node:
        with RawClient(node.port, client_id="watched") as client:
            client.api_versions()
            assert client.push(client.get(), metrics_data()).error_code == 0
        node.wait_for(lambda s: s["exporter_process"]["exporters"], what="the exporter process to tell its status")
        shown = run_cli("status", "--log-dirs", str(node.data)).stdout
        for part in (f"127.0.0.1:{node.port}", "NONE 1", "landing", "pid"):
            assert part in shown, shown
        as_json = json.loads(run_cli("status", "--log-dirs", str(node.data), "--format", "json").stdout)
        assert as_json["telemetry"]["push_answers"] == {"NONE": 1}
        assert node.stop() == 0
    refused = run_cli("status", "--log-dirs", str(node.data), check=False)
    assert (refused.returncode, "no node answers" in refused.stderr) == (1, True)
    tail = json.loads(run_cli("log", "tail", "--log-dirs", str(node.data), "--format", "json").stdout)
    assert (tail["client_id"], tail["client_software_name"]) == ("watched", "raw-client")
    stats = run_cli("log", "stats", "--log-dirs", str(node.data)).stdout
    assert "landing" in stats
