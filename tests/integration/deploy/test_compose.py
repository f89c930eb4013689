"""The compose file: read as its specification has it, and each service started from it with the real programs.

No image is pulled: addresses and paths of containers are replaced by those of processes on loopback.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose
from confluent_kafka import Producer
from support.brokers.kafka_broker import MISSING as NO_BROKER
from support.brokers.kafka_broker import KafkaBroker
from support.brokers.kafka_jars import bridge_jar
from support.built import ROOT
from support.http import HttpAnswer, get_at
from support.ports import free_port
from support.programs.export import Export
from support.receivers.prometheus_server import MISSING as NO_PROMETHEUS
from support.receivers.prometheus_server import PrometheusServer
from support.waiting import PATIENCE_S, follow, unfollow, wait_for

COMPOSE = ROOT / "deploy" / "compose"
KAFKA = "kafka:19092"
TOOLS = {
    "kafka-client-metrics.sh": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test.sh": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
"""Main classes of the scripts in Kafka's image."""
OF_THE_NETWORK = ("controller.", "listener", "advertised.", "log.dirs", "inter.broker.", "node.id", "process.roles")

TEXT = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (COMPOSE / "compose.yaml").read_text())
"""The file with the defaults of its variables."""
FILE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES = FILE["services"]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """The service kafka, which has the plugin, with all settings but addresses."""
    if NO_BROKER:
        pytest.skip(NO_BROKER)
    lines = (COMPOSE / "kafka/server.properties").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    kept = {key: value for key, value in given.items() if not key.startswith(OF_THE_NETWORK)}
    with KafkaBroker(
        tmp_path_factory.mktemp("kafka"), "4.3.1", properties=kept, jars=[bridge_jar()], heap="384m"
    ) as broker:
        yield broker


def test_the_file_is_one_of_compose() -> None:
    assert set(PyCompose.from_json(json.dumps(FILE)).service_names()) == SERVICES.keys()
    with pytest.raises(ValueError, match="commnd"):
        PyCompose.from_yaml("services: {a: {image: b, commnd: [c]}}")


def test_files_volumes_and_services_that_are_named_exist() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", ())) <= SERVICES.keys()
        for volume in service.get("volumes", ()):
            source, target = volume.split(":")[:2]
            if "/libs/" in target:
                assert (COMPOSE / source).resolve().parent == ROOT / "bridge/target"  # by make bridge
            else:
                assert (COMPOSE / source).exists() if source.startswith(".") else source in FILE["volumes"]
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


def test_grafana_finds_its_data_source_and_the_dashboards() -> None:
    source = yaml.safe_load((COMPOSE / "grafana/datasources.yml").read_text())["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    provider = yaml.safe_load((COMPOSE / "grafana/dashboards.yml").read_text())["providers"][0]
    (mounted,) = (v.split(":")[0] for v in SERVICES["grafana"]["volumes"] if provider["options"]["path"] in v)
    boards = [json.loads(path.read_text()) for path in (COMPOSE / mounted).resolve().glob("*.json")]
    assert len(boards) > 5
    # Each takes the data source as a variable, of the type of ours.
    for board in boards:
        assert {"type": "datasource", "query": source["type"]}.items() <= board["templating"]["list"][0].items()


@pytest.mark.skipif(bool(NO_PROMETHEUS), reason=NO_PROMETHEUS)
def test_a_client_of_kafka_is_in_prometheus_and_on_the_page(kafka: KafkaBroker, tmp_path: Path) -> None:
    """kafka, subscribe, export, console and prometheus, each with its command and configuration."""
    run_tool(kafka, SERVICES["kafka"]["healthcheck"]["test"][1:])
    run_tool(kafka, SERVICES["subscribe"]["command"], {"30000": "1000"})
    page, http, console_port = free_port(), free_port(), free_port()
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "client.id": "orders"})
    with (
        Export(
            tmp_path, configured(kafka, "export", tmp_path, page), f"http.listeners=http://127.0.0.1:{http}"
        ) as export,
        console(configured(kafka, "console", tmp_path, page), tmp_path, console_port),
        PrometheusServer(tmp_path, f"127.0.0.1:{page}", COMPOSE.parent / "helm/fleetgauge/rules/*.yml") as prometheus,
    ):

        def metrics() -> HttpAnswer:
            producer.poll(0.2)
            return get_at("127.0.0.1", page, "/metrics")

        export.wait_for("prometheus", lambda exporter: exporter["state"] == "running", "a page that is served")
        wait_for(
            metrics,
            "the client on the page for Prometheus",
            until=lambda answer: b'client_id="orders"' in answer.body,
            ignoring=(OSError,),
        )
        assert prometheus.wait_for('client:fleetgauge_client_info:application{application="orders"}')
        for port in (http, console_port):
            wait_for(partial(ids, port), "the client on the page", until=lambda known: "orders" in known)
        assert get_at("127.0.0.1", http, "/readyz").status == 200


def test_the_clients_of_the_demo_run(kafka: KafkaBroker) -> None:
    run_tool(kafka, SERVICES["orders"]["command"], {"10000000": "20"})
    run_tool(kafka, SERVICES["billing"]["command"], {"10000000": "20", "600000": "30000"})


def run_tool(kafka: KafkaBroker, command: list[str], changed: dict[str, str] | None = None) -> None:
    """Runs a command of Kafka's image; it fails where the tool does."""
    script, *words = command
    here = (word.replace(KAFKA, kafka.bootstrap) for word in words)
    kafka.tool(TOOLS[Path(script).name], *((changed or {}).get(word, word) for word in here))


def configured(kafka: KafkaBroker, service: str, directory: Path, page: int) -> Path:
    """The configuration that the service mounts and names, with addresses and paths of this machine."""
    (mounted,) = (v for v in SERVICES[service]["volumes"] if v.endswith(".toml:ro"))
    source, target, _ = mounted.split(":")
    assert SERVICES[service]["command"] == [service, "--config", target]
    text = (COMPOSE / source).read_text().replace(KAFKA, kafka.bootstrap)
    file = directory / Path(target).name
    file.write_text(
        text.replace("0.0.0.0:9464", f"127.0.0.1:{page}").replace("/var/lib/fleetgauge", str(directory / service))
    )
    return file


class console:  # noqa: N801  # used as a function
    """`fleetgauge console`, until the block ends."""

    def __init__(self, config: Path, directory: Path, port: int) -> None:
        command = [sys.executable, "-m", "fleetgauge", "console", "--config", str(config)]
        self._log = directory / "console.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--override", f"http.listeners=http://127.0.0.1:{port}"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        follow(self._log)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        unfollow(self._log)
        self.process.kill()
        self.process.wait(PATIENCE_S)


def ids(port: int) -> set[str]:
    """The client ids on a page; none while nothing answers."""
    try:
        return {each["client_id"] for each in get_at("127.0.0.1", port, "/api/clients").json()["clients"]}
    except (OSError, ValueError, KeyError):
        return set()
