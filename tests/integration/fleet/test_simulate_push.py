"""A simulated fleet played through the Kafka protocol: to a node of ours, to a real broker, and to what is neither."""

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.brokers.kafka_broker import KafkaBroker
from support.brokers.kafka_jars import bridge_jar
from support.ports import free_port
from support.programs.node import Node
from support.waiting import PATIENCE_S
from typer.testing import CliRunner, Result

from fleetgauge.cli.fleet.app import app

pytestmark = pytest.mark.integration

LANDING = '[exporters.landing]\ntype = "landing"\npath = "{path}"\nlinger.ms = 300\n'
SPEED = 120


def subscription(interval_ms: int) -> str:
    return f'[client-metrics.all]\nmetrics = "*"\ninterval.ms = {interval_ms}\n'


def play(port: int, *options: object) -> Result:
    command = ["simulate", "--push", f"127.0.0.1:{port}", "--seed", "3", "--hours", "0.1", *map(str, options)]
    return CliRunner().invoke(app, command)


def counts(result: Result) -> tuple[int, int]:
    """Pushes, and those that were accepted."""
    found = re.search(r"^([\d,]+) pushes in .*: ([\d,]+) accepted", result.stderr, re.MULTILINE)
    assert found is not None, result.output
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def landed(directory: Path) -> list[dict[str, Any]]:
    return [row for path in directory.rglob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]


def wait_for_a_push(node: Node) -> None:
    node.wait_for(lambda status: status["telemetry"]["push_answers"].get("NONE", 0) > 0, what="an accepted push")


def test_a_node_accepts_what_clients_push_and_logs_it(tmp_path: Path) -> None:
    zone, out = tmp_path / "zone", tmp_path / "out"
    config = subscription(500) + LANDING.format(path=zone)
    with Node(tmp_path, config=config) as node:
        before = datetime.now(UTC)
        asked = ("--clients", 40, "--speed", SPEED, "--connections", 12)
        done = play(node.port, out, *asked, "--with", "crash-loop@orders:1m..5m")
        assert done.exit_code == 0, done.output
        pushes, accepted = counts(done)
        assert pushes == accepted > 40, done.output
        assert node.stop() == 0
    rows = landed(zone)
    assert len(rows) == accepted
    assert {row["client_id"] for row in rows} >= {"orders", "billing", "checkout"}
    assert {row["client_software_name"] for row in rows} >= {"apache-kafka-java", "kgo"}
    assert {row["push_interval_ms"] for row in rows} == {500}
    assert len({row["client_source_port"] for row in rows}) <= 12
    (truth,) = json.loads((out / "truth.json").read_text())
    begin, end = (datetime.fromisoformat(truth[name]) for name in ("from", "to"))
    assert end - begin == timedelta(minutes=4) / SPEED
    assert before < begin < datetime.now(UTC)
    assert not (out / "landing").exists()


def test_what_is_refused_is_counted_by_its_code(tmp_path: Path) -> None:
    with Node(tmp_path, "telemetry.max.bytes=1000", config=subscription(500)) as node:
        done = play(node.port, "--clients", 60, "--speed", SPEED)
    assert done.exit_code == 0, done.output
    pushes, accepted = counts(done)
    assert 0 < accepted < pushes
    assert f"refused: {pushes - accepted:,} TELEMETRY_TOO_LARGE" in done.stderr


def test_a_node_that_is_killed_is_counted_as_no_answer(tmp_path: Path) -> None:
    with Node(tmp_path, config=subscription(500)) as node:

        def kill() -> None:
            wait_for_a_push(node)
            node.kill()

        killer = threading.Thread(target=kill)
        killer.start()
        done = play(node.port, "--hours", 0.2, "--clients", 20, "--speed", SPEED)
        killer.join()
    pushes, accepted = counts(done)
    assert 0 < accepted < pushes
    assert f"refused: {pushes - accepted:,} no answer" in done.stderr


def test_ctrl_c_ends_it_with_one_line(tmp_path: Path) -> None:
    with Node(tmp_path, config=subscription(500)) as node:
        command = [sys.executable, "-m", "fleetgauge", "fleet", "simulate", "--push", f"127.0.0.1:{node.port}"]
        process = subprocess.Popen(
            [*command, "--clients", "20", "--speed", "60"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        wait_for_a_push(node)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    (line,) = error.splitlines()
    assert re.fullmatch(r"interrupted after [\d,]+ pushes in .*: [\d,]+ accepted, none refused\.", line)


@pytest.mark.parametrize(
    ("options", "config", "says"),
    [
        (("--speed", 3600), subscription(60_000), "give its subscription interval.ms = 83 or less, or a lower --speed"),
        (
            (),
            '[client-metrics.other]\nmetrics = "*"\nmatch = "client_id=other"\n',
            "asks the client billing for no metrics: subscribe to them, in Fleetgauge by [client-metrics.all]",
        ),
    ],
)
def test_a_node_that_the_fleet_cannot_push_to_is_told_in_a_sentence(
    options: tuple[Any, ...], config: str, says: str, tmp_path: Path
) -> None:
    with Node(tmp_path, config=config) as node:
        done = play(node.port, "--clients", 20, *options)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: 127.0.0.1:{node.port} ")
    assert says in line


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A peer that says this to whatever it is asked, and ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "ended the connection: is it a PLAINTEXT listener?"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "answers in no form of Kafka's protocol: is it a PLAINTEXT listener?"),
        (b"\0\0\0\5\0\0\0\7\0", "answers other requests than were sent"),
    ],
)
def test_what_speaks_another_protocol_is_told_in_a_sentence(answer: bytes, says: str) -> None:
    with answering(answer) as port:
        done = play(port, "--clients", 20)
    assert (done.exit_code, done.stderr) == (1, f"Error: 127.0.0.1:{port} {says}\n")


def test_a_port_that_nobody_listens_at_is_told_in_a_sentence() -> None:
    port = free_port()
    done = play(port, "--clients", 20)
    assert (done.exit_code, done.stderr) == (1, f"Error: 127.0.0.1:{port} cannot be reached: Connection refused\n")


@pytest.mark.skipif(shutil.which("mvn") is None, reason="Maven is needed to get Apache Kafka and build the plugin")
def test_a_broker_takes_it_with_the_plugin_and_says_so_without(tmp_path: Path) -> None:
    reporters = "org.apache.kafka.common.metrics.JmxReporter,io.github.fleetgauge.bridge.FleetgaugeExporterReporter"
    plugin = {"metric.reporters": reporters, "fleetgauge.topic.partitions": "1"}
    with KafkaBroker(tmp_path / "kafka", "4.3.1", jars=[bridge_jar()], properties=plugin) as broker:
        broker.subscribe(interval_ms=500)
        done = play(broker.port, "--clients", 30, "--speed", SPEED)
    assert done.exit_code == 0, done.output
    pushes, accepted = counts(done)
    assert pushes == accepted > 30, done.output
    with KafkaBroker(tmp_path / "bare", "4.3.1") as broker:
        bare = play(broker.port, "--clients", 20)
    assert (bare.exit_code, "takes no client telemetry (APIs 71 and 72)" in bare.stderr) == (1, True)
