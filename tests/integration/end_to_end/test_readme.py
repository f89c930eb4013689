"""README.md's commands and files as they stand there, in an environment that has nothing else."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from support.brokers.broker_pipeline import DATA_TOPIC, create_topic
from support.brokers.kafka_broker import MISSING, KafkaBroker
from support.brokers.kafka_jars import bridge_jar, kafka_jars
from support.built import BUILD_WITHIN_S, ROOT
from support.fleet.landing import landed
from support.http import get_url
from support.ports import free_ports
from support.receivers.otlp_receivers import GrpcReceiver
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
    pytest.mark.timeout(1_800),
]

VERSION = "4.3.1"
TRY = "Try it"
REPORTER = "Register a metrics reporter"
COLLECTOR = "Export to an OpenTelemetry Collector"
SPARK = "Analyse client metrics in Spark"
PRODUCTION = "Production"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NOT_COPIED = (".*", "build", "dist", "fleetgauge-data", "target", "tests", "__pycache__")


def blocks(heading: str, language: str) -> list[str]:
    """The blocks of one language in a section of README."""
    section = (ROOT / "README.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [block for found, block in _BLOCK.findall(section) if found == language]


def commands(block: str) -> Iterator[str]:
    """The commands of a block without comments; a backslash or an open quotation continues one on the next line."""
    text = ""
    for line in block.replace("\\\n", " ").splitlines():
        text += line.partition("  #")[0].rstrip()
        if text.count('"') % 2 == 0:
            yield text
            text = ""
        else:
            text += "\n"


def only(heading: str, beginning: str) -> str:
    """The command of a section that begins so."""
    (found,) = [each for block in blocks(heading, "") for each in commands(block) if each.startswith(beginning)]
    return found


class Operator:
    """A checkout in which README's commands run, with the addresses of this machine in place of README's.

    Attributes:
        console: address of the page.
        page: address of the page for Prometheus.
    """

    def __init__(self, directory: Path) -> None:
        self.checkout = directory / "checkout"
        self.receiver = GrpcReceiver()
        console, page = free_ports(2)
        self.console, self.page = f"http://127.0.0.1:{console}", f"http://127.0.0.1:{page}"
        shutil.copytree(ROOT, self.checkout, ignore=shutil.ignore_patterns(*_NOT_COPIED))
        (block,) = blocks(REPORTER, "properties")
        properties = dict(line.split("=", 1) for line in block.split())
        assert properties.pop("fleetgauge.topic.replication.factor") == "3"  # there is one broker here
        self.broker = KafkaBroker(directory / "kafka", VERSION, jars=[bridge_jar()], properties=properties)
        environment, tools = directory / "environment", directory / "tools"
        tools.mkdir()
        script = tools / "kafka-client-metrics.sh"
        tool = "org.apache.kafka.tools.ClientMetricsCommand"
        script.write_text(f'#!/bin/sh\nexec java -Xmx128m -cp "{kafka_jars(VERSION)}/*" {tool} "$@"\n')
        script.chmod(0o755)
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True, timeout=BUILD_WITHIN_S)
        ours = ("PYTHON", "VIRTUAL_ENV", "FLEETGAUGE")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        self.environment = kept | {
            "PATH": f"{environment / 'bin'}:{tools}:{os.environ['PATH']}",
            "FLEETGAUGE_HTTP_LISTENERS": self.console,  # another process of this machine may have the default
        }
        self.run(only(TRY, "pip install"), BUILD_WITHIN_S, FLEETGAUGE_COMPILE="0")  # compiling takes minutes

    def fill_in(self) -> None:
        """Names this machine's addresses in the example, as it says."""
        file = self.checkout / "examples" / "production.toml"
        text = file.read_text()
        for given, own in (
            ("127.0.0.1:9092", self.broker.bootstrap),
            ("127.0.0.1:4317", f"127.0.0.1:{self.receiver.port}"),
            ("127.0.0.1:9464", self.page.removeprefix("http://")),
        ):
            assert given in text
            text = text.replace(given, own)
        file.write_text(text)

    def run(self, command: str, within_s: float = PATIENCE_S, **variables: str) -> None:
        """Runs a command in the checkout; it has to succeed."""
        command = command.replace("broker:9092", self.broker.bootstrap)
        done = subprocess.run(
            command, shell=True, cwd=self.checkout, env=self.environment | variables, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=within_s, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-8_000:]}"

    def start(self, command: str, cwd: Path, **variables: str) -> "subprocess.Popen[bytes]":
        """Starts a command that serves; its output goes to `log_of(cwd)`."""
        log = log_of(cwd)
        follow(log)
        with log.open("wb") as output:
            return subprocess.Popen(
                ["sh", "-c", f"exec env {command}"],
                cwd=cwd,
                env=self.environment | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )


def log_of(directory: Path) -> Path:
    """The output of what was started in a directory."""
    return directory / "output.log"


def stop(process: "subprocess.Popen[bytes]", directory: Path) -> None:
    """Stops what was started in a directory; it has to end with 0."""
    process.send_signal(signal.SIGTERM)
    code = process.wait(PATIENCE_S)
    unfollow(log_of(directory))
    assert code == 0, log_of(directory).read_text()


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    made = Operator(tmp_path_factory.mktemp("readme"))
    try:
        with made.broker:
            yield made
    finally:
        made.receiver.stop()


@contextmanager
def serving(operator: Operator, heading: str, directory: Path) -> Iterator[None]:
    """Runs the `fleetgauge serve` of a section, beside the files of that section, while README's client pushes."""
    for language in ("python", "toml"):
        for block in blocks(heading, language):
            name = block.partition("\n")[0].removeprefix("# ")
            (directory / name).write_text(block.replace("127.0.0.1:4317", f"127.0.0.1:{operator.receiver.port}"))
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    (line,) = [each for block in blocks(heading, "") for each in commands(block) if "fleetgauge serve" in each]
    node = operator.start(line, directory, FLEETGAUGE_LISTENERS=f"PLAINTEXT://{address}", FLEETGAUGE_HTTP_LISTENERS="")
    try:
        wait_for(log_of(directory).read_text, "the node to serve", until=lambda text: "listening" in text)
        operator.run(only(TRY, "python -c").replace("127.0.0.1:9092", address))
        yield
    finally:
        stop(node, directory)


def test_the_python_reporter_receives_the_push_of_the_client(operator: Operator, tmp_path: Path) -> None:
    with serving(operator, REPORTER, tmp_path):
        wait_for(log_of(tmp_path).read_text, "a push", until=lambda text: re.search(r"^trial \d+ bytes$", text, re.M))


def test_a_collector_receives_the_push_with_its_client(operator: Operator, tmp_path: Path) -> None:
    with serving(operator, COLLECTOR, tmp_path):
        wait_for(lambda: any(b"trial" in request for request in operator.receiver.requests), "the push", until=bool)


def test_spark_reads_the_points_of_the_push(operator: Operator, tmp_path: Path) -> None:
    with serving(operator, SPARK, tmp_path):
        wait_for(lambda: landed(tmp_path / "fleetgauge-data" / "landing"), "a file", until=bool)
        # README's extra `spark` brings the PySpark that this interpreter has.
        done = subprocess.run(
            [sys.executable, "points.py"],
            cwd=tmp_path, env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"\|trial +\|org\.apache\.kafka\.producer\.", done.stdout)


def test_plugin_and_export_lead_to_a_fleet_that_is_shown_and_judged(operator: Operator) -> None:
    operator.run(only(REPORTER, "kafka-client-metrics.sh"))
    operator.fill_in()
    create_topic(operator.broker.bootstrap)
    operator.run(only(PRODUCTION, "fleetgauge doctor"))
    export = operator.start(only(PRODUCTION, "fleetgauge export"), operator.checkout)
    settings = {"bootstrap.servers": operator.broker.bootstrap, "log_level": 3}
    producer = Producer({**settings, "client.id": "orders-1"})
    consumer = Consumer({**settings, "client.id": "billing-1", "group.id": "billing"})
    consumer.subscribe([DATA_TOPIC])
    names = {"orders-1", "billing-1"}
    try:

        def overview() -> dict[str, Any]:
            producer.produce(DATA_TOPIC, b"value")
            producer.poll(0)
            consumer.poll(0.05)
            assert export.poll() is None, log_of(operator.checkout).read_text()
            found: dict[str, Any] = get_url(operator.console, "/api/overview").json()
            return found

        unready = (OSError, ValueError, KeyError)
        wait_for(overview, "the page", until=lambda found: "clients" in found, ignoring=unready)
        wait_for(overview, "both clients on the page", until=lambda found: found["clients"]["total"] == len(names))
        found = wait_for(overview, "verdicts", until=lambda found: found["verdicts"]["not_judged"] is None)
        assert found["measures"] is True
        rows = get_url(operator.console, "/api/clients").json()["clients"]
        assert {row["client_id"] for row in rows} == names
        assert any(row["measures"]["request_latency_avg_ms"] is not None for row in rows)
        (subscription,) = get_url(operator.console, "/api/subscriptions").json()["subscriptions"]
        assert (subscription["name"], subscription["clients"]) == ("everything", 2)
        zone = operator.checkout / "fleetgauge-data" / "landing"
        wait_for(lambda: {each["client_id"] for each in landed(zone)}, "both clients landed", until=names.issubset)
        page = get_url(operator.page, "/metrics").body.decode()
        assert set(re.findall(r'application="([^"]*)"', page)) == {"orders", "billing"}
        wait_for(lambda: list(operator.receiver.requests), "pushes at the collector")
        wait_for(lambda: list(zone.rglob("offsets-*.parquet")), "samples of the groups")
    finally:
        stop(export, operator.checkout)
        consumer.close()
