"""README.md's way into production, command by command as it stands there, in an environment that has nothing else."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
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
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_NOT_COPIED = (".*", "build", "dist", "fleetgauge-data", "target", "tests", "__pycache__")


def section() -> list[tuple[str, str]]:
    """Language and text of each block of README's "In your brokers"."""
    text = (ROOT / "README.md").read_text()
    return _BLOCK.findall(text.partition("\n## In your brokers\n")[2].partition("\n## ")[0])


def commands() -> list[str]:
    """The commands of that section, without their comments."""
    lines = [line for language, block in section() if not language for line in block.splitlines()]
    return [line.partition(" # ")[0].strip() for line in lines]


def only(beginning: str) -> str:
    """README's command that begins so."""
    (found,) = [each for each in commands() if each.startswith(beginning)]
    return found


class Operator:
    """Someone who follows README.md in a checkout: its words, with the addresses of a machine of their own.

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
        properties = dict(
            line.split("=", 1) for language, block in section() if language == "properties" for line in block.split()
        )
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
        self.log = directory / "export.log"

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
        """Runs a command of README, which has to succeed."""
        command = command.replace("broker:9092", self.broker.bootstrap)
        done = subprocess.run(
            command, shell=True, cwd=self.checkout, env=self.environment | variables, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=within_s, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-8_000:]}"

    def start(self, command: str) -> "subprocess.Popen[bytes]":
        """A command of README that goes on."""
        follow(self.log)
        with self.log.open("wb") as log:
            return subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=self.checkout,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


@pytest.fixture(scope="module")
def operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    made = Operator(tmp_path_factory.mktemp("readme"))
    try:
        with made.broker:
            yield made
    finally:
        made.receiver.stop()
        unfollow(made.log)


def test_the_commands_of_the_readme_lead_to_a_fleet_that_is_shown_and_judged(operator: Operator) -> None:
    operator.run(only("kafka-client-metrics.sh"))
    operator.run(only("pip install"), BUILD_WITHIN_S, FLEETGAUGE_COMPILE="0")  # compiling takes minutes
    operator.fill_in()
    create_topic(operator.broker.bootstrap)
    operator.run(only("fleetgauge doctor"))
    export = operator.start(only("fleetgauge export"))
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
            assert export.poll() is None, operator.log.read_text()
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
        export.send_signal(signal.SIGTERM)
        code = export.wait(PATIENCE_S)
        consumer.close()
    assert code == 0, operator.log.read_text()
